//! One request that is being read from its split, with everything that follows from its text and values.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::read::Asked;
use super::reader::SplitReader;
use crate::rewrite::bind::{Bound, Key, Limits};
use crate::rewrite::readable::{Answer, Readable};
use crate::rewrite::state::PagingState;
use crate::wide_row::layout::Layout;

/// For all of a read: most drivers give up after ten seconds or more.
const ROWS_PATIENCE: Duration = Duration::from_secs(5);
/// Those who seek or count among very many rows have set a longer timeout.
const SCAN_PATIENCE: Duration = Duration::from_secs(30);
/// For one sub-read: a page of a narrow partition that takes longer tells of trouble, where the original serves as well.
const SUB_READ_ROWS_PATIENCE: Duration = Duration::from_secs(2);
/// The same for reading a bucket from its beginning to its end.
const SUB_READ_SCAN_PATIENCE: Duration = Duration::from_secs(10);

/// Where the rows of one key are read.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Split(Arc<Layout>),
    /// On the client's own connection.
    Original,
}

pub(super) struct Reading<'a> {
    pub(super) reader: &'a Rc<SplitReader>,
    pub(super) asked: &'a Asked,
    pub(super) readable: &'a Readable,
    pub(super) bound: &'a Bound<'a>,
    pub(super) keys: &'a [Key],
    pub(super) limits: Limits,
    pub(super) resumed: Option<PagingState>,
    /// Where a page is cut short.
    pub(super) bytes_max: Option<usize>,
    pub(super) deadline: Instant,
}

/// When a read of this form gives up: the original is asked while the client still waits.
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
    /// How much time is left for all of it.
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

    /// `None`: all rows at once.
    pub(super) fn page_rows(&self) -> Option<u32> {
        let size = self.asked.page_size?;
        // The largest of all is none to Cassandra, because no limit is larger.
        u32::try_from(size)
            .ok()
            .filter(|_| 0 < size && size < i32::MAX)
    }

    /// As Cassandra does: where the limit fits into one page, or none was asked for, a state counts for nothing.
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
