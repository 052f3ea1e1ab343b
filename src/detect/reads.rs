//! The wide partitions that were reported lately, and how often each was read since: the most-read one is split first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::fingerprint::PartitionFingerprint;
use super::recent::Recent;
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::found_by::FoundBy;

const REPORTED_MAX: usize = 10_000;
/// After this time a partition that is still found wide is reported again: an earlier attempt may have failed.
pub(super) const REPORT_AGAIN: Duration = Duration::from_secs(3600);

/// Shared by detection, which counts, and the pipeline, which chooses the next partition to split.
#[derive(Clone)]
pub struct WideReads(Arc<Mutex<Recent<PartitionFingerprint, Reported>>>);

struct Reported {
    at: Option<Instant>,
    by: FoundBy,
    reads: u64,
}

impl Reported {
    /// Whether the same was said lately. That it hurts is news about a partition that was only taken for wide.
    fn is_recent(&self, by: FoundBy, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REPORT_AGAIN;
        self.at.is_some_and(is_recent) && (by.is_size() || !self.by.is_size())
    }
}

impl Default for WideReads {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Recent::new(REPORTED_MAX))))
    }
}

impl WideReads {
    /// The number of reads of a reported partition that were seen; 0 for other partitions. Older reads count less.
    pub fn reads(&self, table: &TableName, key: &PartitionKey) -> u64 {
        let partition = PartitionFingerprint::new(table, key);
        let reported = self.lock();
        reported.get(&partition).map_or(0, |known| known.reads)
    }

    /// The partition could not be written down, so it is reported again the next time it seems wide.
    pub fn forget(&self, table: &TableName, key: &PartitionKey) {
        if let Some(known) = self.lock().get_mut(&PartitionFingerprint::new(table, key)) {
            known.at = None;
        }
    }

    /// Counts a read if its partition was reported.
    pub(super) fn count(&self, partition: PartitionFingerprint) {
        if let Some(known) = self.lock().get_mut(&partition) {
            known.reads = known.reads.saturating_add(1);
        }
    }

    /// Whether the partition was reported less than an hour ago.
    pub(super) fn is_reported(
        &self,
        partition: PartitionFingerprint,
        by: FoundBy,
        now: Instant,
    ) -> bool {
        let reported = self.lock();
        let known = reported.get(&partition);
        known.is_some_and(|known| known.is_recent(by, now))
    }

    /// Marks the partition as reported. `false`: it was reported less than an hour ago.
    pub(super) fn report(
        &self,
        partition: PartitionFingerprint,
        by: FoundBy,
        now: Instant,
    ) -> bool {
        let mut reported = self.lock();
        let known = reported.get(&partition);
        if known.is_some_and(|known| known.is_recent(by, now)) {
            return false;
        }
        let reads = known.map_or(1, |known| known.reads.div_ceil(2));
        let at = Some(now);
        reported.put(partition, Reported { at, by, reads }, now);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Recent<PartitionFingerprint, Reported>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
