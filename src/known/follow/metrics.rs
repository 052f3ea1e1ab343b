//! Metrics of following.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

const CATALOG_AGE_SECONDS: &str = "narrows_follow_catalog_age_seconds";
const AGE_SECONDS: &str = "narrows_follow_age_seconds";
const ROWS_TOTAL: &str = "narrows_follow_rows_total";
const SHARDS_TOTAL: &str = "narrows_follow_shards_total";
const REFRESHES_TOTAL: &str = "narrows_follow_refreshes_total";
const OUT_OF_SERVICE_TOTAL: &str = "narrows_follow_out_of_service_total";

/// Metrics of one watched table.
pub struct TableMetrics {
    age: Gauge,
    pub rows: Counter,
    pub shards: Counter,
    /// How often all splits of the table were taken out of service.
    pub out_of_service: Counter,
}

impl TableMetrics {
    pub fn register(table: &str) -> Self {
        let count = |name: &'static str| counter!(name, "table" => table.to_owned());
        Self {
            age: gauge!(AGE_SECONDS, "table" => table.to_owned()),
            rows: count(ROWS_TOTAL),
            shards: count(SHARDS_TOTAL),
            out_of_service: count(OUT_OF_SERVICE_TOTAL),
        }
    }

    /// A table that was never loaded shows no age.
    pub fn show_age(&self, age: Option<Duration>) {
        if let Some(age) = age {
            self.age.set(age.as_secs_f64());
        }
    }
}

/// Metrics of polls: of the list of tables, and of each table.
pub(super) struct PollMetrics {
    ok: Counter,
    failed: Counter,
    /// Age of the list of tables.
    age: Gauge,
}

impl PollMetrics {
    pub(super) fn register() -> Self {
        let outcome = |outcome: &'static str| counter!(REFRESHES_TOTAL, "outcome" => outcome);
        Self {
            ok: outcome("ok"),
            failed: outcome("failed"),
            age: gauge!(CATALOG_AGE_SECONDS),
        }
    }

    pub(super) fn show_age(&self, age: Option<Duration>) {
        if let Some(age) = age {
            self.age.set(age.as_secs_f64());
        }
    }

    pub(super) fn count<T, E>(&self, result: &Result<T, E>) {
        match result {
            Ok(_) => self.ok.increment(1),
            Err(_) => self.failed.increment(1),
        }
    }
}
