//! How long row markers keep rows alive. A marker cannot be read: a read only shows whether its row is there at a given
//! `now_in_seconds`.
//!
//! These reads are at ONE, because they are reads of later seconds: at ALL, read repair would write what has expired by
//! then to other replicas as tombstones. All replicas have the rows, since read repair brought them there when they were
//! read at ALL before. A table without read repair is read at ALL again: not all replicas have the rows, and nothing is
//! written.
//!
//! Only rows whose cells all expire are checked. Any other row has a cell that never expires, and is there with or
//! without a marker.

use std::collections::HashSet;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::pipeline::original::cells::{Row, key_is};
use crate::pipeline::original::partition::{ALL, ONE, Partition};
use crate::pipeline::original::requests::Requests;
use crate::pipeline::original::scan::{ScanError, original};
use crate::protocol::types::{Cursor, Value};
use crate::rewrite::rows::Page;
use crate::schema::TableSchema;
use crate::statement::quoted;
use crate::upstream::pool::SubRead;

/// The last second that every version understands, and the last one of 5.0, which reads it as unsigned. 4.1 takes the
/// latter for a second long ago, when everything is alive; nothing expires that late on 4.1.
const LAST_SECONDS: [u32; 2] = [i32::MAX as u32, u32::MAX - 1];
const PAGE_ROWS: i32 = 5_000;
/// Maximum number of runs to check at a time, where requests may go side by side.
const SIDE_BY_SIDE: usize = 8;
/// Approximate size of a key in a reply.
const KEY_BYTES: usize = 32;

/// The marker that a copy of a row needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// The row lives exactly as long as its cells.
    None,
    /// A marker with this TTL makes the row outlive its cells; 0 means for ever.
    Ttl(i32),
}

pub struct Lifetimes<'a> {
    pub requests: &'a Requests,
    pub schema: &'a TableSchema,
    pub partition: &'a Partition,
    /// The `now_in_seconds` at which the rows were read.
    pub now: i32,
}

impl Lifetimes<'_> {
    /// One marker for each row. The rows must be consecutive rows of the partition.
    pub async fn markers(&self, rows: &[Row]) -> Result<Vec<Marker>, ScanError> {
        // Rows that differ only in their last clustering column are adjacent.
        let prefix = self.schema.clustering.len().saturating_sub(1);
        let beside = |one: &Row, other: &Row| {
            one.clustering
                .iter()
                .take(prefix)
                .eq(other.clustering.iter().take(prefix))
        };
        let same =
            |one: &Row, other: &Row| one.cells_ttl() == other.cells_ttl() && beside(one, other);
        let runs: Vec<&[Row]> = rows.chunk_by(same).collect();
        let markers = stream::iter(runs).map(|run| self.markers_of(run));
        let markers: Vec<Vec<Marker>> = markers.buffered(SIDE_BY_SIDE).try_collect().await?;
        Ok(markers.concat())
    }

    /// The markers of a run, whose rows all lose their last cell in the same second. Each read covers the whole run.
    async fn markers_of(&self, run: &[Row]) -> Result<Vec<Marker>, ScanError> {
        let mut markers = vec![Marker::None; run.len()];
        let Some(ttl) = run.first().and_then(Row::cells_ttl) else {
            return Ok(markers);
        };
        let expiry = self.now.unsigned_abs().saturating_add(ttl.unsigned_abs());
        let all: Vec<usize> = (0..run.len()).collect();
        let (mut there, _) = self.divide(run, all, expiry).await?;
        let mut there_at = expiry;
        // Groups of rows that are alive at one second and gone at a later one.
        let mut ending = Vec::new();
        for last in LAST_SECONDS.into_iter().filter(|last| *last > expiry) {
            let (still, gone) = self.divide(run, there, last).await?;
            ending.push((gone, there_at, last));
            (there, there_at) = (still, last);
        }
        for row in there {
            markers[row] = Marker::Ttl(0);
        }
        while let Some((rows, alive, gone)) = ending.pop() {
            if rows.is_empty() {
                continue;
            }
            if gone - alive <= 1 {
                let ttl = gone.saturating_sub(self.now.unsigned_abs());
                let ttl = i32::try_from(ttl).unwrap_or(i32::MAX);
                rows.into_iter()
                    .for_each(|row| markers[row] = Marker::Ttl(ttl));
                continue;
            }
            let middle = alive + (gone - alive) / 2;
            let (later, sooner) = self.divide(run, rows, middle).await?;
            ending.extend([(later, middle, gone), (sooner, alive, middle)]);
        }
        Ok(markers)
    }

    /// Divides rows of a run, given in order, into those that are alive at a second and those that are not.
    async fn divide(
        &self,
        run: &[Row],
        rows: Vec<usize>,
        second: u32,
    ) -> Result<(Vec<usize>, Vec<usize>), ScanError> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let alive = self.alive(&run[*first..=*last], second).await?;
        let is_there = |row: &usize| alive.contains(&run[*row].clustering);
        Ok(rows.into_iter().partition(is_there))
    }

    /// The keys from the first row of a run to its last that are alive at a second.
    async fn alive(&self, run: &[Row], second: u32) -> Result<HashSet<Vec<Box<[u8]>>>, ScanError> {
        let (text, values) = self.range(run);
        let place = (
            self.schema.replication.as_slice(),
            self.partition.key.bytes(),
        );
        let mut alive = HashSet::new();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let request = SubRead {
                values: self
                    .partition
                    .values()
                    .chain(values.iter().copied())
                    .collect(),
                consistency: match self.schema.is_repaired_by_reads {
                    true => ONE,
                    false => ALL,
                },
                page_size: PAGE_ROWS,
                paging_state: state.as_deref(),
                now_in_seconds: Some(second.cast_signed()),
                ..SubRead::default()
            };
            let bytes = run.len() * KEY_BYTES;
            let reply = self.requests.execute(&text, &request, place, bytes).await?;
            let page = Page::read(&reply.body).ok_or(ScanError::Unexpected)?;
            let mut cursor = Cursor::new(page.rows);
            for _ in 0..page.row_count {
                alive.insert(key(&mut cursor, page.column_count).ok_or(ScanError::Unexpected)?);
            }
            state = page.paging_state.map(<[u8]>::to_vec);
            if state.is_none() {
                return Ok(alive);
            }
        }
    }

    /// A statement that reads the keys from the first row of a run to its last, and perhaps a few around them. It fixes
    /// the leading columns that both have in common, and bounds the first column in which they differ, whichever way
    /// that is sorted.
    fn range<'r>(&self, run: &'r [Row]) -> (String, Vec<Value<'r>>) {
        let names: Vec<String> = self
            .schema
            .clustering
            .iter()
            .map(|column| quoted(&column.column.name))
            .collect();
        let mut text = format!(
            "SELECT {} FROM {} WHERE {}",
            names.join(", "),
            original(self.schema),
            key_is(self.schema)
        );
        let mut values = Vec::new();
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return (text, values);
        };
        let columns = self.schema.clustering.iter().zip(&names);
        let bounds = first.clustering.iter().zip(&last.clustering);
        for ((column, name), (from, to)) in columns.zip(bounds) {
            if from == to {
                text.push_str(&format!(" AND {name} = ?"));
                values.push(Value::Bytes(from));
                continue;
            }
            let (low, high) = if column.descending {
                (to, from)
            } else {
                (from, to)
            };
            text.push_str(&format!(" AND {name} >= ? AND {name} <= ?"));
            values.extend([Value::Bytes(low), Value::Bytes(high)]);
            break;
        }
        (text, values)
    }
}

fn key(cursor: &mut Cursor<'_>, columns: usize) -> Option<Vec<Box<[u8]>>> {
    (0..columns)
        .map(|_| Some(cursor.bytes().ok()??.into()))
        .collect()
}
