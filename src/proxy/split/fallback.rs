//! How a read that might be answered from a split ends. Counts why the original had to answer.

use metrics::{Counter, counter};

use super::row_bytes::RowBytes;
use crate::protocol::Envelope;
use crate::rewrite::Reason;

pub(in crate::proxy) const SPLIT_READS_TOTAL: &str = "narrows_proxy_split_reads_total";
pub(in crate::proxy) const FALLBACKS_TOTAL: &str = "narrows_proxy_split_fallbacks_total";
pub(in crate::proxy) const NOT_REWRITTEN_TOTAL: &str = "narrows_proxy_not_rewritten_total";

/// A RESULT for the client.
pub(super) struct Reply {
    pub(super) flags: u8,
    /// The body up to its rows.
    pub(super) head: Vec<u8>,
    pub(super) rows: Vec<RowBytes>,
}

impl Reply {
    /// The body, in parts.
    pub(super) fn body(&self) -> Vec<&[u8]> {
        let rows = self.rows.iter().map(RowBytes::rows);
        std::iter::once(&self.head[..]).chain(rows).collect()
    }
}

/// What happens if no split answers.
#[derive(Debug)]
pub(super) enum Instead {
    /// The original answers the request as it came.
    Original(Fallback),
    /// The original continues the scan. It gets this request, with a native paging state.
    GoOn(Fallback, Envelope),
    /// The paging state belongs to another table, or is damaged.
    Refuse(&'static str),
}

impl Instead {
    pub(super) fn lacks_room(&self) -> bool {
        matches!(
            self,
            Self::Original(Fallback::Room) | Self::GoOn(Fallback::Room, _)
        )
    }
}

impl From<Fallback> for Instead {
    fn from(fallback: Fallback) -> Self {
        Self::Original(fallback)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum Fallback {
    /// The filter had a false positive, or the split is not in service.
    NotSplit,
    /// The look-up failed or took too long.
    Doubt,
    /// The client may not read the original, or could not prove that it may.
    Right,
    /// No split can answer the form or the values of the statement.
    Form(Reason),
    /// No node could be reached.
    Unreachable,
    /// A bucket did not answer in time.
    Timeout,
    /// A bucket answered with an error.
    Error,
    /// A bucket sent an unexpected answer.
    Unexpected,
    /// The client knows other columns than the split has.
    Columns,
    /// The reply is too large.
    Size,
    /// Too little memory is left, for all connections or for this one.
    Room,
    /// The paging state is of another statement or other values, or a later version of Narrows wrote it.
    PagingState,
    /// The client sent a USE, which may change the meaning of the statement.
    Use,
}

const LABELS: [&str; 12] = [
    "not_split",
    "doubt",
    "right",
    "form",
    "unreachable",
    "timeout",
    "error",
    "unexpected",
    "columns",
    "size",
    "paging_state",
    "use",
];

impl Fallback {
    fn index(self) -> usize {
        match self {
            Self::NotSplit => 0,
            Self::Doubt => 1,
            Self::Right => 2,
            Self::Form(_) => 3,
            Self::Unreachable => 4,
            Self::Timeout => 5,
            Self::Error => 6,
            Self::Unexpected => 7,
            Self::Columns => 8,
            Self::Size | Self::Room => 9,
            Self::PagingState => 10,
            Self::Use => 11,
        }
    }
}

impl From<Reason> for Fallback {
    fn from(reason: Reason) -> Self {
        Self::Form(reason)
    }
}

pub(in crate::proxy) struct SplitMetrics {
    /// Reads answered from splits.
    pub(super) answered: Counter,
    /// Scans that began on a split and continued at the original.
    pub(super) went_on: Counter,
    /// Paging states that were damaged, or of another table.
    pub(super) refused: Counter,
    fallbacks: [Counter; LABELS.len()],
    not_rewritten: [Counter; Reason::ALL.len()],
}

impl SplitMetrics {
    pub(in crate::proxy) fn register() -> Self {
        let outcome = |outcome: &'static str| counter!(SPLIT_READS_TOTAL, "outcome" => outcome);
        Self {
            answered: outcome("answered"),
            went_on: outcome("went_on_at_original"),
            refused: outcome("refused"),
            fallbacks: LABELS.map(|reason| counter!(FALLBACKS_TOTAL, "reason" => reason)),
            not_rewritten: Reason::ALL
                .map(|reason| counter!(NOT_REWRITTEN_TOTAL, "reason" => reason.as_str())),
        }
    }

    pub(super) fn count(&self, fallback: Fallback) {
        self.fallbacks[fallback.index()].increment(1);
        if let Fallback::Form(reason) = fallback {
            self.count_form(reason);
        }
    }

    /// A SELECT of a watched table that no split answers because of what it asks.
    pub(super) fn count_form(&self, reason: Reason) {
        self.not_rewritten[reason as usize].increment(1);
    }
}
