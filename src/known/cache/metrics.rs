//! Metrics of look-ups. Handles are made once; labels come from closed sets.

use std::time::Instant;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::Tier;

const LOOKUP_TOTAL: &str = "narrows_lookup_total";
const LOOKUP_SECONDS: &str = "narrows_lookup_seconds";
const CACHE_BYTES: &str = "narrows_lookup_cache_bytes";
const CACHE_ENTRIES: &str = "narrows_lookup_cache_entries";

/// What a tier answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It had the answer, which may be a remembered absence.
    Hit,
    Miss,
    /// It had a value that is not this layout.
    Ignored,
    Failed,
    /// It was not asked, because it failed too often.
    Skipped,
}

impl Outcome {
    const ALL: [Self; 5] = [
        Self::Hit,
        Self::Miss,
        Self::Ignored,
        Self::Failed,
        Self::Skipped,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Ignored => "ignored",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Tier {
    const ALL: [Self; 3] = [Self::Memory, Self::Shared, Self::Store];

    fn label(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Shared => "shared",
            Self::Store => "store",
        }
    }
}

pub(super) struct Metrics {
    outcomes: [[Counter; Outcome::ALL.len()]; Tier::ALL.len()],
    seconds: [Histogram; Tier::ALL.len()],
    pub(super) cache_bytes: Gauge,
    pub(super) cache_entries: Gauge,
}

impl Metrics {
    pub(super) fn register() -> Self {
        let outcomes = |tier: Tier| {
            Outcome::ALL.map(|outcome| {
                counter!(LOOKUP_TOTAL, "tier" => tier.label(), "outcome" => outcome.label())
            })
        };
        let seconds = |tier: Tier| histogram!(LOOKUP_SECONDS, "tier" => tier.label());
        Self {
            outcomes: Tier::ALL.map(outcomes),
            seconds: Tier::ALL.map(seconds),
            cache_bytes: gauge!(CACHE_BYTES),
            cache_entries: gauge!(CACHE_ENTRIES),
        }
    }

    /// Counts one answer of a tier to a question asked at `start`.
    pub(super) fn count(&self, tier: Tier, outcome: Outcome, start: Instant) {
        self.outcomes[tier as usize][outcome as usize].increment(1);
        self.seconds[tier as usize].record(start.elapsed());
    }
}
