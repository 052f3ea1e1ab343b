//! What is known of a shard, and what follows from a reading of it. Pure.
//!
//! A shard's version is read first, then its rows. All changes below a version are on a quorum before it can be proposed, so
//! rows that are read after a version was seen hold every change below it. The change *at* that version may still be on
//! its way to the replicas, and a read of several replicas is not one moment: so a change counts as known only when its own
//! row was seen, and a key's state only when it came with the very version that was seen before.

use crate::wide_row::names::{Generation, Version};
use crate::wide_row::store::{KeyReading, ShardReading};

/// How far a follower knows one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardView {
    /// Every change up to here is known.
    known: Version,
    epoch: i32,
}

/// What a follower has to do about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// Read the rows above this version.
    ReadAbove(Version),
}

impl ShardView {
    /// What a polled version asks for. One that is lower than what is known comes from replicas that an
    /// unacknowledged change has not reached.
    pub fn next(&self, polled: &ShardReading) -> Next {
        if polled.version <= self.known {
            Next::Nothing
        } else {
            Next::ReadAbove(self.known)
        }
    }

    /// Takes over a full reading of a shard whose statics were read serially: everything up to its version was on a quorum
    /// before the rows were read. What is known beyond that was seen on some replica only, and is read again.
    pub fn settle(&mut self, settled: &ShardReading) {
        self.known = settled.version;
        self.epoch = settled.epoch;
    }

    /// Takes over a poll after the rows above were read. `seen`: one of them, or the epoch, is at the polled version.
    pub fn absorb(&mut self, polled: &ShardReading, seen: bool) {
        let below = Version(polled.version.0.saturating_sub(1));
        let known = if seen || polled.epoch_version == polled.version {
            polled.version
        } else {
            below
        };
        self.known = self.known.max(known);
        self.epoch = self.epoch.max(polled.epoch);
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }
}

/// What a proxy remembers of one key, and the shard's version at which that was so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenKey {
    version: Version,
    served: Option<Generation>,
    is_guarded: bool,
}

impl SeenKey {
    /// From a read of the key that was sent after the shard was read; `None` if it is worth nothing. With another version
    /// than the shard's it is a mixture: of replicas that have the newest change and others that lack one before it, or of
    /// one that has a change that may yet be lost. A key without a row comes without a version: what may be under way there
    /// cannot be more than the beginning of a split.
    pub fn new(reading: &KeyReading, shard: &ShardReading) -> Option<Self> {
        let has_row = reading.standing.is_some() || reading.is_unknown;
        if has_row && reading.version != shard.version {
            return None;
        }
        let guarded = reading.standing.filter(|standing| standing.is_guarded());
        let served = guarded.filter(|standing| standing.is_in_service());
        Some(Self {
            version: shard.version,
            served: served.map(|standing| standing.generation),
            is_guarded: guarded.is_some() || reading.is_unknown,
        })
    }

    /// The generation that was in service.
    pub fn served(&self) -> Option<Generation> {
        self.served
    }

    /// The key belongs into a filter.
    pub fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// What it is worth now that the shard was read again: nothing, if anything changed since. A shard that seems older
    /// is good, too: versions only grow, and ours saw all that it saw.
    pub fn judged_by(&self, shard: &ShardReading) -> Judged {
        match self.served {
            _ if self.version < shard.version => Judged::Outdated,
            Some(generation) => Judged::InService(generation),
            None => Judged::NotInService,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    InService(Generation),
    NotInService,
    /// The shard moved on; read the key again.
    Outdated,
}

#[cfg(test)]
mod tests;
