//! Proves that rows live as long in the copy as in the original.
//!
//! A row is there while its marker or one of its cells is. Cells tell when they expire; markers do not. But a read may
//! choose its second, so a row whose cells all expire is read at the moments that matter: when its last cell is gone,
//! in the far future, and, if its marker ends in between, in the second of that end and the one before. A row that is
//! gone does not come back later, so these moments say everything.

use std::collections::HashSet;
use std::rc::Rc;

use futures::stream::{self, StreamExt, TryStreamExt};
use futures::try_join;

use super::reader::{Ask, Reader, Selection, Side};
use super::restriction::Restriction;
use super::row::{Key, RowAt};
use super::{Difference, DifferenceKind, VerifyError};

/// The last second of Cassandra 4.1, which counts seconds in a signed int. Nothing expires later there, nor on 5.0 in
/// its compatibility modes.
const FAR: u32 = i32::MAX.cast_unsigned();
/// The last second of 5.0, which counts them in an unsigned int. Earlier versions take it for a second of 1969, in
/// which every row that was there in 2038 is there, too. So only such rows are read at this second, and every version
/// answers correctly.
const FARTHEST: u32 = u32::MAX - 1;

/// Maximum number of concurrent reads of single rows, and of short runs of rows.
const CONCURRENCY: usize = 16;
const PAGE_ROWS: i32 = 2000;
/// If no more than one row in this many is wanted, the rows are read one by one.
const SPARSE: usize = 8;

/// A row whose cells, if it has any, all expire.
#[derive(Debug)]
pub(super) struct Mortal {
    pub(super) key: Key,
    /// Its place among the rows that are checked together.
    pub(super) place: usize,
    /// When its last cell expires; if it has none, when it was read.
    pub(super) until: u32,
}

pub(super) struct Lifetimes<'r, 'a> {
    pub(super) reader: &'r Reader<'a>,
    pub(super) bucket: usize,
}

type Rows<'m> = Vec<&'m Mortal>;

impl Lifetimes<'_, '_> {
    /// Checks rows of one bucket, in clustering order. Returns the first second in which a marker ends that outlives its
    /// row's cells.
    pub(super) async fn check(&self, rows: &[Mortal]) -> Result<Option<u32>, VerifyError> {
        let (far, near) = self.divide(rows.iter().collect(), FAR).await?;
        let (_, late) = self.divide(far, FARTHEST).await?;
        let first = self.check_ends(near, 0, FAR).await?;
        let later = self.check_ends(late, FAR, FARTHEST).await?;
        Ok(first.or(later))
    }

    /// Checks rows that are gone at `end`: whether they end with their cells, and if not, when.
    async fn check_ends(
        &self,
        rows: Rows<'_>,
        start: u32,
        end: u32,
    ) -> Result<Option<u32>, VerifyError> {
        let asked = |row: &Mortal| row.until.max(start);
        let runs: Vec<Rows<'_>> = rows
            .chunk_by(|one, next| asked(one) == asked(next))
            .map(<[&Mortal]>::to_vec)
            .collect();
        let divided = stream::iter(runs).map(|run| async {
            let at = run.first().map_or(end, |row| asked(row));
            Ok::<_, VerifyError>(self.divide(run, at).await?.0)
        });
        let outliving: Vec<Rows<'_>> = divided.buffered(CONCURRENCY).try_collect().await?;
        let outliving = outliving.concat();
        let earliest = outliving.iter().map(|row| asked(row)).min();
        match earliest {
            Some(earliest) => self.check_markers(outliving, earliest, end).await,
            None => Ok(None),
        }
    }

    /// Checks rows that are there at `alive` and gone at `gone`: finds the second in which they end in the copy, and
    /// checks that they end in the same second in the original. Rows that end together are followed together. Returns
    /// the first end.
    async fn check_markers(
        &self,
        rows: Rows<'_>,
        alive: u32,
        gone: u32,
    ) -> Result<Option<u32>, VerifyError> {
        let mut first = None;
        let mut groups = vec![(rows, alive, gone)];
        while let Some((rows, alive, gone)) = groups.pop() {
            if rows.is_empty() {
                continue;
            }
            if gone.saturating_sub(alive) <= 1 {
                let (rows, _) = self.divide(rows, alive).await?;
                self.divide(rows, gone).await?;
                first = Some(first.unwrap_or(gone).min(gone));
                continue;
            }
            let middle = alive.midpoint(gone);
            let there = self
                .visible(Side::Bucket(self.bucket), &rows, middle)
                .await?;
            let (later, sooner) = parted(rows, &there);
            groups.push((later, middle, gone));
            groups.push((sooner, alive, middle));
        }
        Ok(first)
    }

    /// Divides rows into those that are there at a moment and those that are not. It is a difference if the two sides
    /// do not agree.
    async fn divide<'m>(
        &self,
        rows: Rows<'m>,
        at: u32,
    ) -> Result<(Rows<'m>, Rows<'m>), VerifyError> {
        let (original, mut copy) = try_join!(
            self.visible(Side::Original, &rows, at),
            self.visible(Side::Bucket(self.bucket), &rows, at),
        )?;
        for ((row, original), copy) in rows.iter().zip(original).zip(&mut copy) {
            if original != *copy {
                *copy = self.settled(row, at).await?;
            }
        }
        Ok(parted(rows, &copy))
    }

    async fn visible(
        &self,
        side: Side,
        rows: &[&Mortal],
        at: u32,
    ) -> Result<Vec<bool>, VerifyError> {
        let Some(ranges) = self.ranges(rows) else {
            return self.visible_one_by_one(side, rows, at).await;
        };
        match self.keys(side, &ranges, at).await {
            Ok(found) => Ok(rows.iter().map(|row| found.contains(&row.key)).collect()),
            // There may be too much to read between these rows, while each of them has been read before.
            Err(error) if error.is_about_size() => self.visible_one_by_one(side, rows, at).await,
            Err(error) => Err(error),
        }
    }

    /// The reads that find all of these rows and few others; `None` if the rows should be read one by one.
    fn ranges(&self, rows: &[&Mortal]) -> Option<Vec<Restriction>> {
        let clustering = &self.reader.schema().clustering;
        let (first, last) = (rows.first()?, rows.last()?);
        let span = last.place.saturating_sub(first.place);
        // Rows between two keys take up to this many reads.
        if rows.len() < 2 * clustering.len() || span / rows.len() >= SPARSE {
            return None;
        }
        Restriction::between(clustering, &first.key, &last.key)
    }

    async fn visible_one_by_one(
        &self,
        side: Side,
        rows: &[&Mortal],
        at: u32,
    ) -> Result<Vec<bool>, VerifyError> {
        let keys: Vec<&Key> = rows.iter().map(|row| &row.key).collect();
        let reads = stream::iter(keys).map(|key| self.is_there(side, key, at));
        reads.buffered(CONCURRENCY).try_collect().await
    }

    async fn is_there(&self, side: Side, key: &Key, at: u32) -> Result<bool, VerifyError> {
        let row = self.reader.row(side, Selection::Keys, key, at).await?;
        Ok(row.is_some())
    }

    async fn keys(
        &self,
        side: Side,
        ranges: &[Restriction],
        at: u32,
    ) -> Result<HashSet<Key>, VerifyError> {
        let columns = self.reader.schema().clustering.len();
        let mut found = HashSet::new();
        for range in ranges {
            let mut paging_state: Option<Vec<u8>> = None;
            loop {
                let ask = Ask {
                    side,
                    selection: Selection::Keys,
                    restriction: range,
                    at,
                    page_size: PAGE_ROWS,
                    paging_state: paging_state.as_deref(),
                    bytes: 0,
                };
                let block = Rc::new(self.reader.page(ask).await?);
                for row in (0..block.row_count()).filter_map(|index| block.row(index)) {
                    let row = RowAt::read(&row, columns).map(|row| row.owned_key());
                    found.insert(row.ok_or(VerifyError::NotUnderstood)?);
                }
                paging_state = block.paging_state.clone();
                if paging_state.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Whether the row is there, once both sides agree. If the moment has passed meanwhile, the row is read at the
    /// present one, because expired cells may be compacted away on one side only.
    async fn settled(&self, row: &Mortal, at: u32) -> Result<bool, VerifyError> {
        let began = tokio::time::Instant::now();
        for wait in self.reader.verification.patience.reread {
            tokio::time::sleep_until(began + wait).await;
            let at = at.max(self.reader.later());
            let (original, copy) = try_join!(
                self.is_there(Side::Original, &row.key, at),
                self.is_there(Side::Bucket(self.bucket), &row.key, at),
            )?;
            if original == copy {
                return Ok(copy);
            }
        }
        Err(VerifyError::Differs(Difference {
            bucket: self.bucket,
            kind: DifferenceKind::Marker,
            column: None,
            key: row.key.clone(),
        }))
    }
}

/// The rows that are there, and those that are not.
fn parted<'m>(rows: Rows<'m>, there: &[bool]) -> (Rows<'m>, Rows<'m>) {
    let (yes, no): (Vec<_>, Vec<_>) = rows.into_iter().zip(there).partition(|(_, there)| **there);
    let rows = |pairs: Vec<(&'m Mortal, &bool)>| pairs.into_iter().map(|(row, _)| row).collect();
    (rows(yes), rows(no))
}
