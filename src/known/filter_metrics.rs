//! Metrics of one watched table's filter.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::filter::{Stats, Target};

const CHECKS_TOTAL: &str = "narrows_filter_checks_total";
const FALSE_POSITIVES_TOTAL: &str = "narrows_filter_false_positives_total";
const KEYS: &str = "narrows_filter_keys";
const BYTES: &str = "narrows_filter_bytes";
const BITS_PER_KEY: &str = "narrows_filter_bits_per_key";
const BUILD_SECONDS: &str = "narrows_filter_build_seconds";
const AGE_SECONDS: &str = "narrows_filter_age_seconds";

pub struct FilterMetrics {
    /// By kind (point, prefix), then by answer (no, maybe).
    checks: [[Counter; 2]; 2],
    false_positives: Counter,
    keys: Gauge,
    bytes: Gauge,
    bits_per_key: Gauge,
    pub build_seconds: Histogram,
    age: Gauge,
}

impl FilterMetrics {
    pub fn register(table: &str) -> Self {
        let by_kind = |kind: &'static str| {
            ["no", "maybe"].map(|answer| {
                counter!(CHECKS_TOTAL, "table" => table.to_owned(), "kind" => kind, "answer" => answer)
            })
        };
        let level = |name: &'static str| gauge!(name, "table" => table.to_owned());
        Self {
            checks: ["point", "prefix"].map(by_kind),
            false_positives: counter!(FALSE_POSITIVES_TOTAL, "table" => table.to_owned(), "kind" => "point"),
            keys: level(KEYS),
            bytes: level(BYTES),
            bits_per_key: level(BITS_PER_KEY),
            build_seconds: histogram!(BUILD_SECONDS, "table" => table.to_owned()),
            age: level(AGE_SECONDS),
        }
    }

    pub fn count_check(&self, target: &Target<'_>, might_match: bool) {
        self.checks[kind(target)][usize::from(might_match)].increment(1);
    }

    /// The filter let a key through that is neither split nor guarded. (Nothing tells that of a prefix: a series may
    /// have other splits than those that were asked for.)
    pub fn count_false_positive(&self) {
        self.false_positives.increment(1);
    }

    pub fn show(&self, stats: &Stats) {
        self.keys.set(stats.keys as f64);
        self.bytes.set(stats.bytes as f64);
        self.bits_per_key.set(stats.bits_per_key());
    }

    pub fn show_age(&self, age: Duration) {
        self.age.set(age.as_secs_f64());
    }
}

fn kind(target: &Target<'_>) -> usize {
    match target {
        Target::Key(_) => 0,
        Target::Prefix(_) => 1,
    }
}
