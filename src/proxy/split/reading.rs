//! A request that is being answered from splits, with everything that follows from its text and values.

use std::rc::Rc;
use std::sync::Arc;

use super::fallback::Fallback;
use super::patience::{Kind, Patience};
use super::read::Asked;
use super::reader::SplitReader;
use crate::rewrite::bind::{Bound, Key, Limits};
use crate::rewrite::readable::{Answer, Readable};
use crate::rewrite::state::PagingState;
use crate::rewrite::warnings::Quoted;
use crate::wide_row::layout::Layout;

/// An unpaged read with a larger limit, or none, asks for as many rows as there are.
const UNPAGED_ROWS_MAX: u32 = 5_000;

/// Where the rows of one key come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Split(Arc<Layout>),
    /// On the client's own connection.
    Original,
}

impl Source {
    /// Whether both are the original, or the same layout. The seal tells layouts of one generation apart.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Split(layout), Self::Split(other)) => {
                layout.generation == other.generation && layout.seal() == other.seal()
            }
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
    pub(super) patience: Patience,
}

/// How long such a read may take.
pub(super) fn patience(readable: &Readable, asked: &Asked, limits: Limits) -> Patience {
    let is_scan = readable.filters || readable.answer != Answer::Rows;
    let has_few = limits.rows.is_some_and(|rows| rows <= UNPAGED_ROWS_MAX);
    Patience::new(match page_rows(asked) {
        _ if is_scan => Kind::Scan,
        None if !has_few => Kind::Unpaged,
        None | Some(_) => Kind::Page,
    })
}

fn page_rows(asked: &Asked) -> Option<u32> {
    let size = asked.page_size?;
    // Cassandra takes the largest page size to mean no paging, because no limit is larger.
    u32::try_from(size)
        .ok()
        .filter(|_| 0 < size && size < i32::MAX)
}

impl Reading<'_> {
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
        page_rows(self.asked)
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
