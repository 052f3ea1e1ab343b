//! What following, filters and validations count, per watched table.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::validate;
use crate::filter::{Stats, Target};
use crate::schema::names::TableName;

const CHECKS_TOTAL: &str = "narrows_filter_checks_total";
const FALSE_POSITIVES_TOTAL: &str = "narrows_filter_false_positives_total";
const FILTER_KEYS: &str = "narrows_filter_keys";
const FILTER_BYTES: &str = "narrows_filter_bytes";
const FILTER_BITS_PER_KEY: &str = "narrows_filter_bits_per_key";
const FILTER_BUILD_SECONDS: &str = "narrows_filter_build_seconds";
const FILTER_AGE_SECONDS: &str = "narrows_filter_age_seconds";
const FOLLOW_CATALOG_AGE_SECONDS: &str = "narrows_follow_catalog_age_seconds";
const FOLLOW_AGE_SECONDS: &str = "narrows_follow_age_seconds";
const FOLLOW_ROWS_TOTAL: &str = "narrows_follow_rows_total";
const FOLLOW_SHARDS_TOTAL: &str = "narrows_follow_shards_total";
const FOLLOW_REFRESHES_TOTAL: &str = "narrows_follow_refreshes_total";
const LATE_WRITES_TOTAL: &str = "narrows_late_writes_total";
const OUT_OF_SERVICE_TOTAL: &str = "narrows_follow_out_of_service_total";
const VALIDATION_REQUESTS_TOTAL: &str = "narrows_validation_requests_total";
const VALIDATION_READS_TOTAL: &str = "narrows_validation_reads_total";
const LOOKUP_ANSWERS_TOTAL: &str = "narrows_lookup_answers_total";

/// An answer to "is this partition split?", past the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Split,
    NotSplit,
    /// Not found out in time; the original answers.
    Doubt,
}

pub struct TableMetrics {
    /// By kind (point, prefix), then by answer (no, maybe).
    checks: [[Counter; 2]; 2],
    false_positives: [Counter; 2],
    keys: Gauge,
    bytes: Gauge,
    bits_per_key: Gauge,
    pub build_seconds: Histogram,
    pub filter_age: Gauge,
    pub follow_age: Gauge,
    pub rows: Counter,
    pub shards: Counter,
    pub out_of_service: Counter,
    /// Generations that a write has ended.
    pub late_invalidated: Counter,
    /// Writes rejected because of the table's policy.
    pub late_rejected: Counter,
    /// Writes refused because what they touch could not be taken out of its split.
    pub late_refused: Counter,
    /// Writes whose reply was replaced by "outcome unknown" for the same reason.
    pub late_unknown: Counter,
    /// Unknown outcomes that could not be written down.
    pub late_forgotten: Counter,
    validations: validate::Metrics,
    answers: [Counter; 3],
}

impl TableMetrics {
    pub fn register(table: &TableName) -> Self {
        let table = table.to_string();
        let by_kind = |kind: &'static str| {
            ["no", "maybe"].map(|answer| {
                counter!(CHECKS_TOTAL, "table" => table.clone(), "kind" => kind, "answer" => answer)
            })
        };
        let false_positives = |kind: &'static str| counter!(FALSE_POSITIVES_TOTAL, "table" => table.clone(), "kind" => kind);
        let reads = |outcome: &'static str| counter!(VALIDATION_READS_TOTAL, "table" => table.clone(), "outcome" => outcome);
        let answer = |answer: &'static str| counter!(LOOKUP_ANSWERS_TOTAL, "table" => table.clone(), "answer" => answer);
        let late = |outcome: &'static str| counter!(LATE_WRITES_TOTAL, "table" => table.clone(), "outcome" => outcome);
        let count = |name: &'static str| counter!(name, "table" => table.clone());
        let level = |name: &'static str| gauge!(name, "table" => table.clone());
        Self {
            checks: ["point", "prefix"].map(by_kind),
            false_positives: ["point", "prefix"].map(false_positives),
            keys: level(FILTER_KEYS),
            bytes: level(FILTER_BYTES),
            bits_per_key: level(FILTER_BITS_PER_KEY),
            build_seconds: histogram!(FILTER_BUILD_SECONDS, "table" => table.clone()),
            filter_age: level(FILTER_AGE_SECONDS),
            follow_age: level(FOLLOW_AGE_SECONDS),
            rows: count(FOLLOW_ROWS_TOTAL),
            shards: count(FOLLOW_SHARDS_TOTAL),
            out_of_service: count(OUT_OF_SERVICE_TOTAL),
            late_invalidated: late("invalidated"),
            late_rejected: late("rejected"),
            late_refused: late("refused"),
            late_unknown: late("unknown"),
            late_forgotten: late("forgotten"),
            validations: validate::Metrics {
                asked: count(VALIDATION_REQUESTS_TOTAL),
                sent: reads("sent"),
                failed: reads("failed"),
            },
            answers: ["split", "not_split", "doubt"].map(answer),
        }
    }

    pub fn validations(&self) -> validate::Metrics {
        self.validations.clone()
    }

    pub fn count_check(&self, target: &Target<'_>, might_match: bool) {
        self.checks[kind(target)][usize::from(might_match)].increment(1);
    }

    pub fn count_false_positive(&self, target: &Target<'_>) {
        self.false_positives[kind(target)].increment(1);
    }

    pub fn count_answer(&self, answer: Answer) {
        self.answers[answer as usize].increment(1);
    }

    pub fn show_filter(&self, stats: &Stats) {
        self.keys.set(stats.keys as f64);
        self.bytes.set(stats.bytes as f64);
        self.bits_per_key.set(stats.bits_per_key());
    }

    /// A table without any knowledge yet shows no age.
    pub fn show_age(&self, age: Option<Duration>) {
        if let Some(age) = age {
            self.follow_age.set(age.as_secs_f64());
        }
    }
}

fn kind(target: &Target<'_>) -> usize {
    match target {
        Target::Key(_) => 0,
        Target::Prefix(_) => 1,
    }
}

/// Polls, of the list of tables and of each table.
pub struct FollowMetrics {
    ok: Counter,
    failed: Counter,
    /// Of the list of tables.
    age: Gauge,
}

impl FollowMetrics {
    pub fn register() -> Self {
        let outcome =
            |outcome: &'static str| counter!(FOLLOW_REFRESHES_TOTAL, "outcome" => outcome);
        Self {
            ok: outcome("ok"),
            failed: outcome("failed"),
            age: gauge!(FOLLOW_CATALOG_AGE_SECONDS),
        }
    }

    pub fn show_age(&self, age: Option<Duration>) {
        if let Some(age) = age {
            self.age.set(age.as_secs_f64());
        }
    }

    pub fn count<T, E>(&self, result: &Result<T, E>) {
        match result {
            Ok(_) => self.ok.increment(1),
            Err(_) => self.failed.increment(1),
        }
    }
}
