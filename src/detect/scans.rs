//! Scans under way: how much each has read so far. Pages are chained by their paging states, and two scans of one partition
//! are never summed, however often it is read.

use std::time::{Duration, Instant};

use super::fingerprint::PartitionFingerprint;
use super::recent::Recent;
use crate::sighting::SeenPage;

/// Those that were quiet for longest go first; a page that finds its scan gone begins a new one.
pub(super) const SCANS_MAX: usize = 10_000;
/// Nobody goes on with a scan after so long, or it may as well begin anew.
const SCAN_PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct Scans(Recent<Place, Open>);

/// Where a scan stands: a paging state of a partition.
type Place = (PartitionFingerprint, u64);

struct Open {
    bytes: u64,
    /// Side by side, as when the same statement runs twice.
    scans: u32,
}

impl Scans {
    pub(super) fn new() -> Self {
        Self(Recent::new(SCANS_MAX))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How much the page's scan has read with it.
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

    /// Takes one of the scans that stand there, and says how much it has read.
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
