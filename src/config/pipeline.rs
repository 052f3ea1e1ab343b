//! `[pipeline]`: its defaults and the rules between its settings.

use std::time::Duration;

use super::reader::Section;
use super::sections::WAIT_MAX;
use super::{Pipeline, values};

/// Workers renew a lease after a third of its time.
const LEASE_MIN: Duration = Duration::from_secs(3);
/// More splits at a time would only wait for each other.
const SPLITS_MAX: usize = 64;
/// More frequent comparisons would only add load.
const AUDIT_MIN: Duration = Duration::from_secs(1);
const AUDIT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Shorter intervals are useless anyway: nodes update their lists at most once an hour.
const POLL_MIN: Duration = Duration::from_secs(1);

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            enabled: false,
            splits_at_a_time: 1,
            bytes_per_second: None,
            throttle: true,
            lease: Duration::from_secs(30),
            settle: None,
            audit_every: Some(Duration::from_secs(7 * 24 * 3600)),
            poll_top_partitions: None,
        }
    }
}

pub(super) fn read(mut section: Section<'_>) -> Pipeline {
    let mut pipeline = Pipeline::default();
    section.set("enabled", &mut pipeline.enabled, values::boolean);
    section.set(
        "splits_at_a_time",
        &mut pipeline.splits_at_a_time,
        values::count(1..=SPLITS_MAX),
    );
    section.set("throttle", &mut pipeline.throttle, values::boolean);
    pipeline.bytes_per_second =
        section.optional("bytes_per_second", values::bytes(64 << 10..=1 << 40));
    section.set(
        "lease",
        &mut pipeline.lease,
        values::whole_seconds(LEASE_MIN..=WAIT_MAX),
    );
    pipeline.settle = section.optional("settle", values::duration(Duration::ZERO..=WAIT_MAX));
    section.set(
        "audit_every",
        &mut pipeline.audit_every,
        values::duration_or_off(AUDIT_MIN..=AUDIT_MAX),
    );
    pipeline.poll_top_partitions =
        section.optional("poll_top_partitions", values::duration(POLL_MIN..=WAIT_MAX));
    pipeline
}
