//! Plans a split: reads the whole partition once, counts its rows and bytes, finds the boundaries of its buckets, and
//! decides whether to split it. A worker records the result; `narrows splits add --dry-run` only prints it.

use std::cmp::Ordering;

pub(super) mod closed;
pub mod strategy;

pub use self::closed::{Closing, Open};

use self::strategy::{EventBucketPartitionSplitStrategy, PartitionSplitStrategy};
use crate::pipeline::fail_point;
use crate::pipeline::original::cells::Row;
use crate::pipeline::original::partition::Partition;
use crate::pipeline::original::requests::Requests;
use crate::pipeline::original::scan::{Position, Scan, ScanError};
use crate::pipeline::run::report::{Halt, Reporting};
use crate::protocol::types::Cursor;
use crate::schema::TableSchema;
use crate::schema::order::compare_clustering;
use crate::watched::WatchedTable;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::state::PreSplitData;

/// Changes whenever older checkpoints can no longer be read; planning then starts over.
const CHECKPOINT_VERSION: u8 = 3;
/// A partition with less than this has other reasons for being slow, or failing now and then.
const SLOW_BYTES_MIN: u64 = 1 << 20;

pub struct Planning<'a> {
    pub requests: &'a Requests,
    pub schema: &'a TableSchema,
    pub partition: &'a Partition,
    pub settings: &'a WatchedTable,
    pub now: i32,
    /// What drew attention to the partition; `None` if an earlier version found it.
    pub found_by: Option<FoundBy>,
    pub closing: Closing,
    /// Whether to read on when the partition turns out to be open, for people who want to see all of it.
    pub reads_on: bool,
}

/// What planning came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// All of the partition was read.
    Whole(Draft),
    /// A cell was found that is too young. The rest was not read.
    Open(Open),
}

/// What is known of a partition after reading it up to a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    position: Position,
    pub strategy: EventBucketPartitionSplitStrategy,
    pub row_count: u64,
    pub byte_count: u64,
    newest_write_micros: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error("{0}")]
    Scan(#[from] ScanError),
    #[error("{0}")]
    Halt(#[from] Halt),
    #[error("{0}")]
    Request(#[from] crate::upstream::pool::PoolError),
}

impl Planning<'_> {
    pub async fn run(
        &self,
        checkpoint: Option<&[u8]>,
        report: &impl Reporting,
    ) -> Result<Planned, StageError> {
        let read = checkpoint.and_then(|bytes| Draft::read(bytes, self.settings));
        let mut draft = read.unwrap_or_else(|| Draft::new(self.settings));
        let position = draft.position.clone();
        let mut scan = Scan::new(
            self.requests,
            self.schema,
            self.partition,
            self.now,
            position,
        );
        // Rows that are appended stand at one end, and a scan begins at the other.
        let last = match draft.row_count {
            0 if !self.reads_on => scan.last_rows().await,
            _ => Vec::new(),
        };
        let newest = last.iter().filter_map(Row::newest_write).max();
        if let Some(open) = newest.and_then(|newest| self.still_open(newest)) {
            return Ok(Planned::Open(open));
        }
        loop {
            let rows = scan.next().await?;
            if rows.is_empty() {
                return Ok(Planned::Whole(draft));
            }
            rows.iter().for_each(|row| draft.add(row));
            let newest = draft.newest_write_micros.filter(|_| !self.reads_on);
            if let Some(open) = newest.and_then(|newest| self.still_open(newest)) {
                return Ok(Planned::Open(open));
            }
            draft.position = scan.position().clone();
            fail_point::reached("plan.page");
            let counted = (draft.row_count, draft.byte_count);
            report.progress(counted, || draft.checkpoint()).await?;
        }
    }
}

/// What to do with a partition that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Split,
    /// It is narrower than what drew attention to it asks for, or has no rows at all.
    NotWide,
    /// It may still be written to.
    Open(Open),
    /// Its rows did not come in the clustering order of the schema.
    Disordered,
}

impl Planning<'_> {
    /// `detected_millis` is when the partition was detected; it stands in for the write time if no row has one.
    pub fn judge(&self, draft: &Draft, detected_millis: i64) -> Verdict {
        let least = bytes_min(self.found_by, self.settings.wide_bytes);
        if draft.row_count == 0 || draft.byte_count < least {
            return Verdict::NotWide;
        }
        let newest = draft.newest_write_micros;
        match self.still_open(newest.unwrap_or(detected_millis.saturating_mul(1000))) {
            Some(open) => Verdict::Open(open),
            None if !draft.is_in_order(self.schema) => Verdict::Disordered,
            None => Verdict::Split,
        }
    }

    fn still_open(&self, newest_micros: i64) -> Option<Open> {
        let newest = newest_micros.div_euclid(1000);
        self.closing.still_open(newest, unix_millis())
    }
}

/// The size from which a partition is split, by what drew attention to it.
fn bytes_min(found_by: Option<FoundBy>, wide_bytes: u64) -> u64 {
    use FoundBy::{Failures, Hand, Slow, Timeouts, Tombstones, TooLarge};
    match found_by {
        // Cassandra said itself what is wrong, or a person did.
        Some(Tombstones | TooLarge | Hand) => 0,
        Some(Timeouts | Failures | Slow) => wide_bytes.min(SLOW_BYTES_MIN),
        Some(FoundBy::Size | FoundBy::Warning | FoundBy::Long | FoundBy::Scan) | None => wide_bytes,
    }
}

impl Draft {
    fn new(settings: &WatchedTable) -> Self {
        Self {
            position: Position::default(),
            strategy: EventBucketPartitionSplitStrategy::new(
                settings.target_bytes,
                settings.max_buckets,
            ),
            row_count: 0,
            byte_count: 0,
            newest_write_micros: None,
        }
    }

    /// Of these rows, as if they had been read.
    #[cfg(test)]
    pub(crate) fn of(settings: &WatchedTable, rows: impl Iterator<Item = Row>) -> Self {
        let mut draft = Self::new(settings);
        rows.for_each(|row| draft.add(&row));
        draft
    }

    fn add(&mut self, row: &Row) {
        self.row_count += 1;
        self.byte_count += row.bytes as u64;
        self.newest_write_micros = self.newest_write_micros.max(row.newest_write());
        self.strategy.row(&row.clustering, row.bytes);
    }

    /// Whether every bucket begins after the one before it.
    fn is_in_order(&self, schema: &TableSchema) -> bool {
        let firsts = self.strategy.buckets().iter().skip(1);
        let firsts: Vec<Vec<&[u8]>> = firsts
            .map(|bucket| bucket.first.iter().map(|value| &**value).collect())
            .collect();
        firsts.windows(2).all(|pair| {
            let order = compare_clustering(&schema.clustering, &pair[0], &pair[1]);
            order == Some(Ordering::Less)
        })
    }

    /// Without a checksum: what is written until the guard settles may still change it.
    pub fn data(&self) -> PreSplitData {
        PreSplitData {
            row_count: i64::try_from(self.row_count).unwrap_or(i64::MAX),
            byte_count: i64::try_from(self.byte_count).unwrap_or(i64::MAX),
            checksum: Vec::new(),
            newest_write_micros: self.newest_write_micros,
        }
    }

    fn checkpoint(&self) -> Vec<u8> {
        let mut out = vec![CHECKPOINT_VERSION];
        self.position.write(&mut out);
        out.extend_from_slice(&self.row_count.to_be_bytes());
        out.extend_from_slice(&self.byte_count.to_be_bytes());
        out.extend_from_slice(&self.newest_write_micros.unwrap_or(i64::MIN).to_be_bytes());
        self.strategy.write(&mut out);
        out
    }

    /// `None` if it is incomplete or another version wrote it; the partition is then read from the beginning.
    fn read(bytes: &[u8], settings: &WatchedTable) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        if cursor.byte().ok()? != CHECKPOINT_VERSION {
            return None;
        }
        let position = Position::read(&mut cursor)?;
        let row_count = cursor.long().ok()?.cast_unsigned();
        let byte_count = cursor.long().ok()?.cast_unsigned();
        let newest = Some(cursor.long().ok()?).filter(|micros| *micros != i64::MIN);
        let strategy = EventBucketPartitionSplitStrategy::read(&mut cursor, settings.max_buckets)?;
        Some(Self {
            position,
            strategy,
            row_count,
            byte_count,
            newest_write_micros: newest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::names::TableName;

    #[test]
    fn what_hurts_is_split_whatever_its_size() {
        let wide = 64 << 20;
        for found_by in FoundBy::ALL {
            let least = bytes_min(Some(found_by), wide);
            assert_eq!(least == wide, found_by.is_size(), "{found_by:?}");
            assert!(least == wide || least <= 2 << 20, "{found_by:?}");
        }
        assert_eq!(bytes_min(None, wide), wide);
        assert_eq!(bytes_min(Some(FoundBy::Tombstones), wide), 0);
        assert_eq!(bytes_min(Some(FoundBy::Hand), wide), 0);
        assert_eq!(bytes_min(Some(FoundBy::Slow), 1 << 10), 1 << 10);
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_or_not_at_all() {
        let settings = WatchedTable::new(TableName::new("ks", "t"));
        let mut draft = Draft::new(&settings);
        for number in 0..100_u32 {
            let row = Row {
                clustering: vec![number.to_be_bytes().into()],
                cells: Vec::new(),
                bytes: 1 << 20,
            };
            draft.add(&row);
        }
        let bytes = draft.checkpoint();
        assert_eq!(Draft::read(&bytes, &settings), Some(draft));
        assert_eq!(Draft::read(&[9], &settings), None);
        for length in 0..bytes.len() {
            assert_eq!(Draft::read(&bytes[..length], &settings), None);
        }
    }
}
