//! Open scans, and how much each has read so far. Pages are chained by their paging states, and scans of the same
//! partition are never summed, however often it is read.

use std::time::{Duration, Instant};

use super::fingerprint::PartitionFingerprint;
use super::recent::Recent;
use crate::sighting::SeenPage;

/// Maximum number of open scans. The one that was idle for longest is evicted first; its next page begins a new scan.
pub(super) const SCANS_MAX: usize = 10_000;
/// A scan that was idle for this long is forgotten. If it continues after all, it counts as a new one.
const SCAN_PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct Scans(Recent<Place, Open>);

/// The position of a scan: a partition, and the hash of a paging state.
type Place = (PartitionFingerprint, u64);

struct Open {
    bytes: u64,
    /// Number of scans at this position, as when the same statement runs twice.
    scans: u32,
}

impl Scans {
    pub(super) fn new() -> Self {
        Self(Recent::new(SCANS_MAX))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a page to its scan. Returns how much the scan has read so far, this page included.
    pub(super) fn add(
        &mut self,
        partition: PartitionFingerprint,
        page: &SeenPage,
        now: Instant,
    ) -> u64 {
        self.0.expire(SCAN_PATIENCE, now);
        let before = page
            .goes_on_from
            .map(|state| self.go_on((partition, state)));
        let bytes = before.unwrap_or(0).saturating_add(page.bytes);
        if let Some(state) = page.ends_at {
            self.stop_at((partition, state), bytes, now);
        }
        bytes
    }

    /// Removes one of the scans at this position. Returns how much it has read.
    fn go_on(&mut self, place: Place) -> u64 {
        let Some(open) = self.0.get_mut(&place) else {
            return 0;
        };
        let bytes = open.bytes;
        open.scans = open.scans.saturating_sub(1);
        if open.scans == 0 {
            self.0.remove(&place);
        }
        bytes
    }

    fn stop_at(&mut self, place: Place, bytes: u64, now: Instant) {
        let (others, most) = match self.0.get(&place) {
            Some(open) => (open.scans, open.bytes),
            None => (0, 0),
        };
        let open = Open {
            bytes: bytes.max(most),
            scans: others.saturating_add(1),
        };
        self.0.put(place, open, now);
    }
}
