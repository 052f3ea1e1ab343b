//! Sightings in, events out. Pure; the rules are at the top of `detect`.

use std::time::Instant;

use super::fingerprint::PartitionFingerprint;
use super::reads::WideReads;
use super::scans::Scans;
use super::suspects::Suspects;
use super::{Event, Reason};
use crate::sighting::{Failure, SLOW, Seen, SeenPage, Sighting, Top, Warning};

/// Cassandra's default `tombstone_failure_threshold`: a read of more tombstones fails.
pub(super) const TOMBSTONES_MANY: u64 = 100_000;

/// What the rules need to know about a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFacts {
    pub wide_bytes: u64,
    /// Reads that were answered without trouble so far.
    pub answers: u64,
}

pub struct Detector {
    scans: Scans,
    suspects: Suspects,
    reads: WideReads,
}

/// What one sighting says about its partition.
enum Says {
    Nothing,
    /// The partition is wide.
    Wide(Reason, Option<u64>),
    /// The partition may be wide, or something else is wrong.
    Perhaps(Reason),
}

impl Detector {
    pub fn new(reads: WideReads) -> Self {
        Self {
            scans: Scans::new(),
            suspects: Suspects::new(),
            reads,
        }
    }

    pub fn open_scans(&self) -> usize {
        self.scans.len()
    }

    pub fn see(&mut self, sighting: Sighting, facts: TableFacts, now: Instant) -> Option<Event> {
        let partition = PartitionFingerprint::new(&sighting.table, &sighting.key);
        if is_first_of_a_read(&sighting.what) {
            self.reads.count(partition);
        }
        let says = match sighting.what {
            Seen::Page(page) => self.page(partition, &page, facts, now),
            Seen::Warning(warning) => of_warning(warning),
            Seen::Failure(failure) => of_failure(failure),
            Seen::Top(top) => of_top(top, facts),
        };
        let (reason, bytes) = match says {
            Says::Nothing => return None,
            Says::Wide(reason, bytes) => (reason, bytes),
            Says::Perhaps(reason) => {
                let (table, well) = (&sighting.table, facts.answers);
                if !self.suspects.add(table, partition, well, now) {
                    return None;
                }
                (reason, None)
            }
        };
        let event = || Event {
            table: sighting.table,
            key: sighting.key,
            bytes,
            reason,
        };
        self.reads.report(partition, now).then(event)
    }

    fn page(
        &mut self,
        partition: PartitionFingerprint,
        page: &SeenPage,
        facts: TableFacts,
        now: Instant,
    ) -> Says {
        let bytes = self.scans.add(partition, page, now);
        if bytes >= facts.wide_bytes {
            Says::Wide(Reason::Size, Some(bytes))
        } else if page.latency >= SLOW {
            Says::Perhaps(Reason::Slow)
        } else {
            Says::Nothing
        }
    }
}

/// Further pages belong to a read that was counted, and most warnings come with a page. A node's list is no read.
fn is_first_of_a_read(what: &Seen) -> bool {
    match what {
        Seen::Page(page) => page.goes_on_from.is_none(),
        Seen::Failure(_) => true,
        Seen::Warning(_) | Seen::Top(_) => false,
    }
}

fn of_warning(warning: Warning) -> Says {
    match warning {
        Warning::ReadSize | Warning::RowIndex => Says::Wide(Reason::Warning, None),
        Warning::Tombstones => Says::Perhaps(Reason::Tombstones),
    }
}

fn of_failure(failure: Failure) -> Says {
    match failure {
        Failure::TombstoneOverload => Says::Wide(Reason::Tombstones, None),
        Failure::TooLarge => Says::Wide(Reason::TooLarge, None),
        Failure::Timeout => Says::Perhaps(Reason::Timeouts),
        Failure::ReadFailure => Says::Perhaps(Reason::Failures),
    }
}

fn of_top(top: Top, facts: TableFacts) -> Says {
    match top {
        Top::Bytes(bytes) if bytes >= facts.wide_bytes => Says::Wide(Reason::Size, Some(bytes)),
        Top::Tombstones(TOMBSTONES_MANY..) => Says::Wide(Reason::Tombstones, None),
        Top::Bytes(_) | Top::Tombstones(_) => Says::Nothing,
    }
}
