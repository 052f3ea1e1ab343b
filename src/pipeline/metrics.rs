//! What the pipeline counts.

use metrics::{Counter, counter};

use crate::wide_row::state::State;

pub(super) const TRANSITIONS_TOTAL: &str = "narrows_pipeline_transitions_total";
pub(super) const COPIED_ROWS_TOTAL: &str = "narrows_pipeline_copied_rows_total";
pub(super) const COPIED_BYTES_TOTAL: &str = "narrows_pipeline_copied_bytes_total";
pub(super) const DIFFERENCES_TOTAL: &str = "narrows_pipeline_verify_differences_total";
pub(super) const TAKEOVERS_TOTAL: &str = "narrows_pipeline_lease_takeovers_total";

pub struct Metrics {
    transitions: [Counter; State::ALL.len()],
    rows: Counter,
    bytes: Counter,
    /// Copies that were not equal to their originals.
    pub differences: Counter,
    /// Splits that another worker had begun.
    pub takeovers: Counter,
}

impl Metrics {
    pub fn register() -> Self {
        Self {
            transitions: State::ALL
                .map(|state| counter!(TRANSITIONS_TOTAL, "state" => state.as_str())),
            rows: counter!(COPIED_ROWS_TOTAL),
            bytes: counter!(COPIED_BYTES_TOTAL),
            differences: counter!(DIFFERENCES_TOTAL),
            takeovers: counter!(TAKEOVERS_TOTAL),
        }
    }

    pub(super) fn reached(&self, state: State) {
        let at = State::ALL.iter().position(|known| *known == state);
        if let Some(counter) = at.and_then(|at| self.transitions.get(at)) {
            counter.increment(1);
        }
    }

    pub(super) fn copied(&self, rows: u64, bytes: u64) {
        self.rows.increment(rows);
        self.bytes.increment(bytes);
    }
}
