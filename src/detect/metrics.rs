//! The metrics of detection. Dropped sightings are counted in `sighting`.

use metrics::{Gauge, counter, gauge};

use super::Event;

const PARTITIONS_TOTAL: &str = "narrows_detect_partitions_total";
const SCANS_OPEN: &str = "narrows_detect_scans_open";

pub(super) struct Metrics {
    pub(super) scans_open: Gauge,
}

impl Metrics {
    pub(super) fn register() -> Self {
        Self {
            scans_open: gauge!(SCANS_OPEN),
        }
    }

    /// Looks the counter up each time, because events are rare.
    pub(super) fn count(event: &Event) {
        let (table, reason) = (event.table.to_string(), event.reason.as_str());
        counter!(PARTITIONS_TOTAL, "table" => table, "reason" => reason).increment(1);
    }
}
