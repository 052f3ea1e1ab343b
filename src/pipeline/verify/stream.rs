//! The rows of one side in clustering order, page by page; a page at a time is all that is kept.

use std::rc::Rc;

use super::reader::{Ask, Reader, Selection, Side};
use super::restriction::Restriction;
use super::row::{Block, Key, RowAt};
use super::{Difference, DifferenceKind, VerifyError, order};
use crate::protocol::Version;
use crate::rewrite::native::{Mark, NativeState, UNLIMITED};

/// Before it is known how large rows are.
const ROWS_FIRST: i32 = 32;
const ROWS_MAX: i32 = 1000;
/// A page grows by this much at most, since the next rows may be larger.
const GROWTH_MAX: i32 = 8;
/// How large a page should be, about.
const PAGE_BYTES: usize = 1 << 20;

pub(super) struct Stream<'r, 'a> {
    reader: &'r Reader<'a>,
    side: Side,
    at: u32,
    block: Option<Rc<Block>>,
    /// The first row of the page that has not been looked at.
    next: usize,
    paging_state: Option<Vec<u8>>,
    page_size: i32,
    current: Option<RowAt>,
    previous: Option<RowAt>,
}

impl<'r, 'a> Stream<'r, 'a> {
    /// From the beginning, or from behind a row. Who reads the original in narrower ranges opens it once for each.
    pub(super) fn open(
        reader: &'r Reader<'a>,
        side: Side,
        at: u32,
        after: Option<&Key>,
    ) -> Result<Self, VerifyError> {
        let columns = reader.schema().clustering.len();
        let paging_state = match after {
            Some(key) => Some(state_after(key, columns).ok_or(VerifyError::Key)?),
            None => None,
        };
        Ok(Self {
            reader,
            side,
            at,
            block: None,
            next: 0,
            paging_state,
            page_size: ROWS_FIRST,
            current: None,
            previous: None,
        })
    }

    /// The next row; stays where it is.
    pub(super) async fn peek(&mut self) -> Result<Option<RowAt>, VerifyError> {
        if self.current.is_none() {
            self.current = self.load().await?;
            self.check_order()?;
        }
        Ok(self.current.clone())
    }

    pub(super) fn advance(&mut self) {
        if self.current.is_some() {
            self.previous = self.current.take();
        }
    }

    async fn load(&mut self) -> Result<Option<RowAt>, VerifyError> {
        loop {
            if let Some(block) = &self.block {
                if let Some(row) = block.row(self.next) {
                    self.next += 1;
                    return Ok(Some(row));
                }
                if self.paging_state.is_none() {
                    return Ok(None);
                }
            }
            self.turn_page().await?;
        }
    }

    async fn turn_page(&mut self) -> Result<(), VerifyError> {
        let ask = Ask {
            side: self.side,
            selection: Selection::Cells,
            restriction: &Restriction::default(),
            at: self.at,
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            bytes: self.block.as_ref().map_or(0, |block| block.byte_count()),
        };
        let block = self.reader.page(ask).await?;
        self.page_size = next_page_size(block.page_size, block.row_count(), block.byte_count());
        self.paging_state = block.paging_state.clone();
        self.next = 0;
        self.block = Some(Rc::new(block));
        Ok(())
    }

    /// Two tables with different orders would otherwise pass, since each row is where it is asked for.
    fn check_order(&self) -> Result<(), VerifyError> {
        let (Some(previous), Some(current)) = (&self.previous, &self.current) else {
            return Ok(());
        };
        let columns = self.reader.schema().clustering.len();
        let read = |row| RowAt::read(row, columns).ok_or(VerifyError::NotUnderstood);
        let (previous, current) = (read(previous)?, read(current)?);
        let found = order(self.reader.schema(), &previous.key, &current.key)?;
        match self.side {
            _ if found.is_lt() => Ok(()),
            Side::Original => Err(VerifyError::Order),
            Side::Bucket(bucket) => Err(VerifyError::Differs(Difference {
                bucket,
                kind: DifferenceKind::Order,
                column: None,
                key: current.owned_key(),
            })),
        }
    }
}

/// Cassandra's own paging state for what follows a row.
fn state_after(key: &Key, columns: usize) -> Option<Vec<u8>> {
    let values: Vec<Option<&[u8]>> = key.iter().map(|value| Some(&**value)).collect();
    let state = NativeState {
        key: Vec::new(),
        mark: Some(Mark::from_values(&values)?),
        remaining: UNLIMITED,
        remaining_in_partition: UNLIMITED,
    };
    state.encode(Version::V5, columns)
}

/// As many rows as make a good page if the next ones are as large as these were.
fn next_page_size(page_size: i32, row_count: usize, byte_count: usize) -> i32 {
    let row_bytes = byte_count / row_count.max(1);
    let fitting = PAGE_BYTES / row_bytes.max(1);
    let most = page_size.saturating_mul(GROWTH_MAX).clamp(1, ROWS_MAX);
    i32::try_from(fitting).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_the_size_of_rows() {
        for (page_size, rows, bytes, expected) in [
            (32, 32, 3200, 256),
            (256, 256, 25_600, 1000),
            (1000, 1000, 100_000, 1000),
            (1000, 1000, 2_000_000, 524),
            (32, 32, 64 << 20, 1),
            (1, 1, 2 << 20, 1),
            (1, 1, 100, 8),
            // Nothing came: the next page says more.
            (32, 0, 20, 256),
            (i32::MAX, 0, 0, 1000),
        ] {
            let found = next_page_size(page_size, rows, bytes);
            assert_eq!(found, expected, "{page_size} {rows} {bytes}");
        }
    }
}
