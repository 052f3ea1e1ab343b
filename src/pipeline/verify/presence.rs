//! Which rows are there at a given second, to a read with a given selection.

use std::collections::HashSet;
use std::rc::Rc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::VerifyError;
use super::reader::{Ask, Reader, Selection, Side};
use super::restriction::Restriction;
use super::row::{Key, RowAt};

/// Maximum number of concurrent reads of single rows.
const CONCURRENCY: usize = 16;
const PAGE_ROWS: i32 = 2000;
/// If no more than one row in this many is wanted, the rows are read one by one.
const SPARSE: usize = 8;

/// A row among those that are checked together.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) key: Key,
    pub(super) place: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Presence<'r, 'a> {
    pub(super) reader: &'r Reader<'a>,
    pub(super) side: Side,
    pub(super) selection: Selection,
    /// Seconds since 1970.
    pub(super) at: u32,
}

impl Presence<'_, '_> {
    /// Whether each of these rows is there. They are in clustering order.
    pub(super) async fn of(&self, rows: &[&Placed]) -> Result<Vec<bool>, VerifyError> {
        let Some(ranges) = self.ranges(rows) else {
            return self.one_by_one(rows).await;
        };
        match self.keys(&ranges).await {
            Ok(found) => Ok(rows.iter().map(|row| found.contains(&row.key)).collect()),
            // There may be too much to read between these rows, while each of them has been read before.
            Err(error) if error.is_about_size() => self.one_by_one(rows).await,
            Err(error) => Err(error),
        }
    }

    pub(super) async fn of_one(&self, key: &Key) -> Result<bool, VerifyError> {
        let (side, selection) = (self.side, self.selection);
        let row = self.reader.row(side, selection, key, self.at).await?;
        Ok(row.is_some())
    }

    /// The reads that find all of these rows and few others; `None` if the rows should be read one by one.
    fn ranges(&self, rows: &[&Placed]) -> Option<Vec<Restriction>> {
        let clustering = &self.reader.schema().clustering;
        let (first, last) = (rows.first()?, rows.last()?);
        let span = last.place.saturating_sub(first.place);
        // Rows between two keys take up to this many reads.
        if rows.len() < 2 * clustering.len() || span / rows.len() >= SPARSE {
            return None;
        }
        Restriction::between(clustering, &first.key, &last.key)
    }

    async fn one_by_one(&self, rows: &[&Placed]) -> Result<Vec<bool>, VerifyError> {
        let keys: Vec<&Key> = rows.iter().map(|row| &row.key).collect();
        let reads = stream::iter(keys).map(|key| self.of_one(key));
        reads.buffered(CONCURRENCY).try_collect().await
    }

    async fn keys(&self, ranges: &[Restriction]) -> Result<HashSet<Key>, VerifyError> {
        let columns = self.reader.schema().clustering.len();
        let mut found = HashSet::new();
        for range in ranges {
            let mut paging_state: Option<Vec<u8>> = None;
            loop {
                let ask = Ask {
                    side: self.side,
                    selection: self.selection,
                    restriction: range,
                    at: self.at,
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
}
