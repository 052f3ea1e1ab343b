//! What is known of a shard, and what a read of it adds to that. Pure.
//!
//! A shard's version is read first, then its rows. Every change below a version is on a quorum before that version can
//! be proposed, so rows that are read after a version was seen include all changes below it. The change *at* that
//! version may still be on its way to the replicas, and a read of several replicas does not show one moment. So a
//! change counts as known only when its own row was seen, and a key's state only if it came with the very version that
//! was seen before.

use crate::wide_row::layout::Seal;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::State;
use crate::wide_row::store::{ChangedRow, KeyReading, ShardReading};

/// What a follower knows of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardView {
    /// Every change up to here is known.
    known: Version,
    epoch: i32,
}

/// What a follower must do next for a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// Read the rows above this version.
    ReadAbove(Version),
}

impl ShardView {
    /// Compares a polled version with the known one. A lower version comes from replicas that an unacknowledged change
    /// has not reached.
    pub fn next(&self, polled: &ShardReading) -> Next {
        if polled.version <= self.known {
            Next::Nothing
        } else {
            Next::ReadAbove(self.known)
        }
    }

    /// Adopts a full read of a shard, sent after the poll; `seen` as in [`Self::absorb`]. Anything known beyond that was
    /// seen on some replica only, and is read again.
    pub fn settle(&mut self, polled: &ShardReading, seen: bool) {
        *self = Self::default();
        self.absorb(polled, seen);
    }

    /// Adopts a poll after the rows above the known version were read. `seen`: one of those rows is at the polled
    /// version. An epoch at that version counts as well.
    pub fn absorb(&mut self, polled: &ShardReading, seen: bool) {
        let known = if seen || polled.epoch_version == polled.version {
            polled.version
        } else {
            polled.settled()
        };
        self.known = self.known.max(known);
        self.epoch = self.epoch.max(polled.epoch);
    }

    /// Every change up to here is known.
    pub fn known(&self) -> Version {
        self.known
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }
}

/// Whether the key of a row that was read after the poll belongs in a filter. `settled`: every change up to here is on a
/// quorum. A change beyond it that ends a split may have reached one replica only, while other proxies still serve the
/// split, so its key stays.
pub fn belongs_in_filter(row: &ChangedRow, polled: &ShardReading, settled: Version) -> bool {
    let is_out_by_epoch = row.row_epoch < polled.epoch && polled.epoch_version <= settled;
    let has_just_ended = match row.state {
        Some(State::Invalidated | State::Failed) | None => row.version > settled,
        Some(_) => false,
    };
    row.is_guarded && !is_out_by_epoch || has_just_ended
}

/// What a proxy remembers of one key, as of a version of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenKey {
    version: Version,
    served: Option<Served>,
    is_guarded: bool,
}

/// A generation in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    pub generation: Generation,
    /// Of its proven layout; `None` if an earlier version completed it.
    pub seal: Option<Seal>,
}

impl SeenKey {
    /// Made from a read of the key that was sent after the shard was read; `None` if that read proves nothing. If its
    /// version differs from the shard's, it mixes replicas that have the newest change with replicas that lack an
    /// earlier one, or it shows a change that may yet be lost. A key without a row has no version: at most, its first
    /// split is just beginning.
    pub fn new(reading: &KeyReading, shard: &ShardReading) -> Option<Self> {
        let has_row = reading.standing.is_some() || reading.is_unknown;
        if has_row && reading.version != shard.version {
            return None;
        }
        let guarded = reading.standing.filter(|standing| standing.is_guarded());
        let served = guarded.filter(|standing| standing.is_in_service());
        Some(Self {
            version: shard.version,
            served: served.map(|standing| Served {
                generation: standing.generation,
                seal: reading.seal,
            }),
            is_guarded: guarded.is_some() || reading.is_unknown,
        })
    }

    /// The generation that was in service.
    pub fn served(&self) -> Option<Served> {
        self.served
    }

    /// Whether the key belongs in a filter.
    pub fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// Whether this still holds now that the shard was read again: not if anything changed since. A shard that seems
    /// older is fine, too: versions only grow, so this has seen every change that the shard shows.
    pub fn judged_by(&self, shard: &ShardReading) -> Judged {
        match self.served {
            _ if self.version < shard.version => Judged::Outdated,
            Some(served) => Judged::InService(served),
            None => Judged::NotInService,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    InService(Served),
    NotInService,
    /// The shard has changed since; read the key again.
    Outdated,
}

#[cfg(test)]
mod tests;
