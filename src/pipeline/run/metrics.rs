//! Metrics of the pipeline.

use metrics::{Counter, counter, gauge};

use super::queue::Queue;
use crate::pipeline::audit::finding::Finding;
use crate::schema::names::TableName;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::state::State;

pub(super) const TRANSITIONS_TOTAL: &str = "narrows_pipeline_transitions_total";
pub(super) const COPIED_ROWS_TOTAL: &str = "narrows_pipeline_copied_rows_total";
pub(super) const COPIED_BYTES_TOTAL: &str = "narrows_pipeline_copied_bytes_total";
pub(super) const DIFFERENCES_TOTAL: &str = "narrows_pipeline_verify_differences_total";
pub(super) const AUDITS_TOTAL: &str = "narrows_pipeline_audits_total";
pub(super) const TAKEOVERS_TOTAL: &str = "narrows_pipeline_lease_takeovers_total";

pub(super) const SPLITS: &str = "narrows_pipeline_splits";
pub(super) const OLDEST_SECONDS: &str = "narrows_pipeline_oldest_seconds";

pub struct Metrics {
    transitions: [Counter; State::ALL.len()],
    rows: Counter,
    bytes: Counter,
    /// Copies that were not equal to their originals.
    pub differences: Counter,
    /// Splits in service that were compared again, by result.
    audits: [Counter; 3],
    /// Splits that a worker continued after another one.
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
            audits: ["equal", "differs", "unproven"]
                .map(|outcome| counter!(AUDITS_TOTAL, "outcome" => outcome)),
            takeovers: counter!(TAKEOVERS_TOTAL),
        }
    }

    pub(super) fn reached(&self, state: State) {
        let at = State::ALL.iter().position(|known| *known == state);
        if let Some(counter) = at.and_then(|at| self.transitions.get(at)) {
            counter.increment(1);
        }
    }

    pub(super) fn audited(&self, finding: &Finding) {
        let [equal, differs, unproven] = &self.audits;
        let counter = match finding {
            Finding::Equal(_) => equal,
            Finding::Differs(_) => differs,
            Finding::Unreadable(_) | Finding::Unproven(_) => unproven,
        };
        counter.increment(1);
    }

    /// Sets how many splits of a table are in each state, and how long the oldest one there has waited for work.
    pub(super) fn splits(&self, table: &TableName, queue: &Queue) {
        let oldest = queue.oldest(table);
        for state in State::ALL {
            let since = oldest.get(&state).copied().unwrap_or(i64::MAX);
            let age = unix_millis().saturating_sub(since).max(0) as f64 / 1000.0;
            let labels = [
                ("table", table.to_string()),
                ("state", state.as_str().to_owned()),
            ];
            gauge!(SPLITS, &labels).set(queue.count(table, state) as f64);
            gauge!(OLDEST_SECONDS, &labels).set(age);
        }
    }

    pub(super) fn copied(&self, rows: u64, bytes: u64) {
        self.rows.increment(rows);
        self.bytes.increment(bytes);
    }
}
