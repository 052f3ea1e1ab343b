//! The rows of one side in clustering order, page by page. One page is kept, and the next is requested meanwhile.
//!
//! Where the original has more tombstones than a read may scan, it is read in stretches of the first clustering column,
//! each beginning right after the one before.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures::future::{FutureExt, LocalBoxFuture, MaybeDone, maybe_done};

use super::reader::{Ask, Reader, Selection, Side};
use super::row::{Block, Key, RowAt};
use super::stretch::Stretch;
use super::{Difference, DifferenceKind, VerifyError, order};
use crate::protocol::Version;
use crate::rewrite::native::{Mark, NativeState, UNLIMITED};

/// Page size before the size of rows is known.
const ROWS_FIRST: i32 = 32;
const ROWS_MAX: i32 = 1000;
/// Factor by which a page may grow at most, since the next rows may be larger.
const GROWTH_MAX: i32 = 8;

/// A page that is requested before it is needed.
type Ahead<'r> = MaybeDone<LocalBoxFuture<'r, Result<Block, VerifyError>>>;

pub(super) struct Stream<'r, 'a> {
    reader: &'r Reader<'a>,
    side: Side,
    at: u32,
    stretch: Stretch,
    block: Option<Rc<Block>>,
    /// Index of the first row of the page that has not been returned yet.
    next: usize,
    paging_state: Option<Vec<u8>>,
    page_size: i32,
    ahead: Option<Ahead<'r>>,
    current: Option<RowAt>,
    previous: Option<RowAt>,
    /// The first clustering value of the row after which the stream was opened.
    behind: Option<Box<[u8]>>,
}

impl<'r, 'a> Stream<'r, 'a> {
    pub(super) fn open(reader: &'r Reader<'a>, side: Side, at: u32) -> Self {
        Self {
            reader,
            side,
            at,
            stretch: Stretch::default(),
            block: None,
            next: 0,
            paging_state: None,
            page_size: ROWS_FIRST,
            ahead: None,
            current: None,
            previous: None,
            behind: None,
        }
    }

    /// Starts right after a row, or at the beginning if `key` is empty.
    pub(super) fn behind(self, key: &Key) -> Result<Self, VerifyError> {
        let columns = self.reader.schema().clustering.len();
        let paging_state = match key.is_empty() {
            true => None,
            false => Some(state_behind(key, columns).ok_or(VerifyError::Key)?),
        };
        Ok(Self {
            paging_state,
            behind: key.first().cloned(),
            ..self
        })
    }

    /// The next row, without advancing.
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
                if self.paging_state.is_none() && !self.stretch.go_on(self.reader.schema()) {
                    return Ok(None);
                }
            }
            self.turn_page().await?;
        }
    }

    async fn turn_page(&mut self) -> Result<(), VerifyError> {
        let mut ahead = self.ahead.take();
        let block = loop {
            let page = match ahead.take() {
                Some(ahead) => awaited(ahead).await,
                None => self.page().await,
            };
            match page {
                Err(error) if error.is_too_much() => {
                    if !self.shorten()? {
                        return Err(error);
                    }
                }
                other => break other?,
            }
        };
        let page_bytes = self.reader.verification.requests.request_bytes();
        let found = (block.row_count(), block.byte_count());
        self.page_size = next_page_size(block.page_size, found, page_bytes);
        self.paging_state = block.paging_state.clone();
        self.next = 0;
        self.block = Some(Rc::new(block));
        self.ask_ahead().await;
        Ok(())
    }

    /// Sends the request for the next page; the reply is awaited when the page is turned. Not where requests go one at
    /// a time: a request that nobody awaits would keep others from their turn.
    async fn ask_ahead(&mut self) {
        let requests = self.reader.verification.requests;
        if self.paging_state.is_none() || !requests.go_side_by_side() {
            return;
        }
        let mut ahead = maybe_done(self.page().boxed_local());
        poll_fn(|context| {
            let _ = Pin::new(&mut ahead).poll(context);
            Poll::Ready(())
        })
        .await;
        self.ahead = Some(ahead);
    }

    /// Reads the next page; the future borrows nothing from the stream.
    fn page(&self) -> impl Future<Output = Result<Block, VerifyError>> + use<'r, 'a> {
        let (reader, side, at, page_size) = (self.reader, self.side, self.at, self.page_size);
        let restriction = self.stretch.restriction(reader.schema());
        let paging_state = self.paging_state.clone();
        let bytes = self.block.as_ref().map_or(0, |block| block.byte_count());
        async move {
            let ask = Ask {
                side,
                selection: Selection::Cells,
                restriction: &restriction,
                at,
                page_size,
                paging_state: paging_state.as_deref(),
                bytes,
            };
            reader.page(ask).await
        }
    }

    /// Shortens the stretch; `false` if there is no shorter one.
    fn shorten(&mut self) -> Result<bool, VerifyError> {
        let schema = self.reader.schema();
        let previous = self.previous.as_ref();
        let read = previous.map(|row| row.read(schema.clustering.len()));
        let read = read.map(|row| row.ok_or(VerifyError::NotUnderstood));
        let read = read.transpose()?;
        // Within a stretch, the next page begins after the last row; a new stretch begins after the one before.
        let last = read.as_ref().and_then(|row| row.key.first().copied());
        let last = last.or(self.behind.as_deref());
        let last = last.filter(|_| self.paging_state.is_some());
        let buckets = &self.reader.verification.layout.buckets;
        Ok(self.stretch.shorten(schema, buckets, last))
    }

    /// Without this check, two tables with different clustering orders could pass, since a read of a single row finds
    /// it in either.
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
fn state_behind(key: &Key, columns: usize) -> Option<Vec<u8>> {
    let values: Vec<Option<&[u8]>> = key.iter().map(|value| Some(&**value)).collect();
    let state = NativeState {
        key: Vec::new(),
        mark: Some(Mark::from_values(&values)?),
        remaining: UNLIMITED,
        remaining_in_partition: UNLIMITED,
    };
    state.encode(Version::V5, columns)
}

async fn awaited(mut ahead: Ahead<'_>) -> Result<Block, VerifyError> {
    (&mut ahead).await;
    let page = Pin::new(&mut ahead).take_output();
    page.expect("the page was awaited, and is taken once")
}

/// The number of rows that make a page of about `page_bytes`, if the next rows are as large as these were.
fn next_page_size(
    page_size: i32,
    (row_count, byte_count): (usize, usize),
    page_bytes: usize,
) -> i32 {
    let row_bytes = byte_count / row_count.max(1);
    let fitting = page_bytes / row_bytes.max(1);
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
            let found = next_page_size(page_size, (rows, bytes), 1 << 20);
            assert_eq!(found, expected, "{page_size} {rows} {bytes}");
        }
    }
}
