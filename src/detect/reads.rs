//! Which wide partitions were reported lately, and how often each was read since: what is read most is split first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::fingerprint::PartitionFingerprint;
use super::recent::Recent;
use crate::schema::names::{PartitionKey, TableName};

const REPORTED_MAX: usize = 10_000;
/// After this time a partition that is still found wide is reported again: an earlier attempt may have failed.
pub(super) const REPORT_AGAIN: Duration = Duration::from_secs(3600);

/// Shared by whoever detects and whoever chooses what comes next.
#[derive(Clone)]
pub struct WideReads(Arc<Mutex<Recent<PartitionFingerprint, Reported>>>);

struct Reported {
    at: Option<Instant>,
    reads: u64,
}

impl Default for WideReads {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Recent::new(REPORTED_MAX))))
    }
}

impl WideReads {
    /// Reads of a partition that was found wide, as far as they were seen; 0 for others. Older reads count less.
    pub fn reads(&self, table: &TableName, key: &PartitionKey) -> u64 {
        let partition = PartitionFingerprint::new(table, key);
        let reported = self.lock();
        reported.get(&partition).map_or(0, |known| known.reads)
    }

    /// It could not be written down, so that it must be reported again when it is read again.
    pub fn forget(&self, table: &TableName, key: &PartitionKey) {
        if let Some(known) = self.lock().get_mut(&PartitionFingerprint::new(table, key)) {
            known.at = None;
        }
    }

    /// Counts a read, if it is of a partition that was found wide.
    pub(super) fn count(&self, partition: PartitionFingerprint) {
        if let Some(known) = self.lock().get_mut(&partition) {
            known.reads = known.reads.saturating_add(1);
        }
    }

    /// Whether this is news.
    pub(super) fn report(&self, partition: PartitionFingerprint, now: Instant) -> bool {
        let mut reported = self.lock();
        let known = reported.get(&partition);
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REPORT_AGAIN;
        if known.and_then(|known| known.at).is_some_and(is_recent) {
            return false;
        }
        let reads = known.map_or(1, |known| known.reads.div_ceil(2));
        let at = Some(now);
        reported.put(partition, Reported { at, reads }, now);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Recent<PartitionFingerprint, Reported>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
