//! A request that is being answered from splits, with everything that follows from its text and values.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fallback::Fallback;
use super::read::Asked;
use super::reader::SplitReader;
use crate::rewrite::bind::{Bound, Key, Limits};
use crate::rewrite::readable::{Answer, Readable};
use crate::rewrite::state::PagingState;
use crate::rewrite::warnings::Quoted;
use crate::wide_row::layout::Layout;

/// Time limit of the whole read: most drivers time out after ten seconds or more.
const ROWS_PATIENCE: Duration = Duration::from_secs(5);
/// The same for reads that filter or aggregate: clients that search or count very many rows have set longer timeouts.
const SCAN_PATIENCE: Duration = Duration::from_secs(30);
/// Time limit of one sub-read: a page of a narrow partition that takes longer is a sign of trouble, and the original
/// can answer as well.
const SUB_READ_ROWS_PATIENCE: Duration = Duration::from_secs(2);
/// The same for a sub-read that filters or aggregates, and so may read a whole bucket.
const SUB_READ_SCAN_PATIENCE: Duration = Duration::from_secs(10);

/// Where the rows of one key come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Split(Arc<Layout>),
    /// On the client's own connection.
    Original,
}

impl Source {
    /// Whether both are the original, or the same generation.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Split(layout), Self::Split(other)) => layout.generation == other.generation,
            (Self::Original, Self::Original) => true,
            _ => false,
        }
    }

    /// The source with which a scan continues in the key that it has reached.
    pub(super) fn continued(&self, state: &PagingState) -> Result<Self, Fallback> {
        match self {
            // Nothing of the key was read yet.
            _ if state.generation.is_none() && state.mark.is_none() => Ok(self.clone()),
            Self::Split(layout) if state.generation == Some(layout.generation.0) => {
                Ok(self.clone())
            }
            // The original has every row, whatever became of the generation.
            _ if state.key.is_some() => Ok(Self::Original),
            _ => Err(Fallback::NotSplit),
        }
    }
}

pub(super) struct Reading<'a> {
    pub(super) reader: &'a Rc<SplitReader>,
    pub(super) asked: &'a Asked,
    pub(super) readable: &'a Readable,
    pub(super) bound: &'a Bound<'a>,
    pub(super) keys: &'a [Key],
    pub(super) limits: Limits,
    pub(super) resumed: Option<PagingState>,
    /// The size at which a page is cut short.
    pub(super) bytes_max: Option<usize>,
    pub(super) deadline: Instant,
}

/// When a read of this form times out, early enough to ask the original while the client still waits.
pub(super) fn deadline(readable: &Readable) -> Instant {
    Instant::now()
        + match is_scan(readable) {
            true => SCAN_PATIENCE,
            false => ROWS_PATIENCE,
        }
}

fn is_scan(readable: &Readable) -> bool {
    readable.filters || readable.answer != Answer::Rows
}

impl Reading<'_> {
    /// The time that is left for the whole read.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// How long one sub-read may take.
    pub(super) fn patience(&self) -> Duration {
        self.left().min(match is_scan(self.readable) {
            true => SUB_READ_SCAN_PATIENCE,
            false => SUB_READ_ROWS_PATIENCE,
        })
    }

    /// How long preparing a sub-statement may take.
    pub(super) fn prepare_patience(&self) -> Duration {
        self.left().min(SUB_READ_ROWS_PATIENCE)
    }

    /// What warnings quote of the request.
    pub(super) fn quoted(&self) -> Quoted<'_> {
        Quoted {
            table: &self.readable.schema.table,
            page_size: self.asked.page_size,
            keys: Some(self.keys.len()),
        }
    }

    /// `None`: all rows at once.
    pub(super) fn page_rows(&self) -> Option<u32> {
        let size = self.asked.page_size?;
        // Cassandra takes the largest page size to mean no paging, because no limit is larger.
        u32::try_from(size)
            .ok()
            .filter(|_| 0 < size && size < i32::MAX)
    }

    /// Like Cassandra, ignores the paging state if the limit fits into one page, or if the client asked for no pages.
    pub(super) fn restart_if_unpaged(&mut self) {
        let fits = match (self.page_rows(), self.limits.rows) {
            (None, _) => true,
            (Some(page), Some(limit)) => limit <= page,
            (Some(_), None) => false,
        };
        if fits {
            self.resumed = None;
        }
    }
}
