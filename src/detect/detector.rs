//! Sightings in, events out. Pure; the rules are at the top of `detect`.

use std::time::Instant;

use super::Event;
use super::fingerprint::PartitionFingerprint;
use super::reads::WideReads;
use super::scans::Scans;
use super::suspects::{Suspects, Turns};
use crate::sighting::{Failure, LONG, SLOW, Seen, SeenPage, Sighting, Top, Warning};
use crate::wide_row::found_by::FoundBy;

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
    /// The partitions with tombstone warnings.
    warned: Suspects,
    /// The tables whose long reads count, one a minute.
    long_turns: Turns,
    reads: WideReads,
}

/// What one sighting says about its partition.
enum Says {
    Nothing,
    /// The partition is wide.
    Wide(FoundBy, Option<u64>),
    /// The partition may be wide, or something else is wrong.
    Perhaps(FoundBy),
    /// The partition has many tombstones, and matters if it is read again.
    IfRead(FoundBy),
    /// Much of the partition was read, or the cluster is slow.
    Much {
        is_slow: bool,
    },
}

impl Detector {
    pub fn new(reads: WideReads) -> Self {
        Self {
            scans: Scans::new(),
            suspects: Suspects::new(),
            warned: Suspects::new(),
            long_turns: Turns::new(),
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
                let well = Some(facts.answers);
                let counts = self.suspects.add(&sighting.table, partition, well, now);
                (counts.then_some(reason)?, None)
            }
            Says::IfRead(reason) => {
                let counts = self.warned.add(&sighting.table, partition, None, now);
                (counts.then_some(reason)?, None)
            }
            Says::Much { is_slow } => {
                let well = Some(facts.answers);
                let table = &sighting.table;
                let recurs = is_slow && self.suspects.add(table, partition, well, now);
                let is_news = || !self.reads.is_reported(partition, FoundBy::Long, now);
                match recurs {
                    true => (FoundBy::Slow, None),
                    false if is_news() && self.long_turns.take(table, now) => (FoundBy::Long, None),
                    false => return None,
                }
            }
        };
        let event = || Event {
            table: sighting.table,
            key: sighting.key,
            bytes,
            reason,
        };
        self.reads.report(partition, reason, now).then(event)
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
            Says::Wide(FoundBy::Size, Some(bytes))
        } else if page.condenses && page.latency >= LONG {
            Says::Much {
                is_slow: page.latency >= SLOW,
            }
        } else if page.latency >= SLOW {
            Says::Perhaps(FoundBy::Slow)
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
        Warning::ReadSize | Warning::RowIndex => Says::Wide(FoundBy::Warning, None),
        Warning::Tombstones => Says::IfRead(FoundBy::Tombstones),
    }
}

fn of_failure(failure: Failure) -> Says {
    match failure {
        Failure::TombstoneOverload => Says::Wide(FoundBy::Tombstones, None),
        Failure::TooLarge => Says::Wide(FoundBy::TooLarge, None),
        Failure::Timeout => Says::Perhaps(FoundBy::Timeouts),
        Failure::ReadFailure => Says::Perhaps(FoundBy::Failures),
    }
}

fn of_top(top: Top, facts: TableFacts) -> Says {
    match top {
        Top::Bytes(bytes) if bytes >= facts.wide_bytes => Says::Wide(FoundBy::Size, Some(bytes)),
        Top::Tombstones(TOMBSTONES_MANY..) => Says::Wide(FoundBy::Tombstones, None),
        Top::Bytes(_) | Top::Tombstones(_) => Says::Nothing,
    }
}
