//! What happens to the partitions meanwhile: they are nominated again and again, and some splits are rolled back.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use narrows::schema::names::TableName;
use narrows::wide_row::state::{Standing, State};
use narrows::wide_row::store::{Detected, Split, SplitId};

use super::field::Field;
use crate::exactness::control::Control;
use crate::pipeline::world::SPLIT_PATIENCE;
use crate::support::eventually_within;
use crate::support::random::Random;

const PAUSE: Duration = Duration::from_millis(60);
/// Of the looks at a split in service.
const ROLLED_BACK_ONE_IN: usize = 60;

pub(super) struct Weather<'a> {
    pub(super) field: &'a Field,
    pub(super) control: &'a Control,
    pub(super) table: TableName,
    pub(super) random: Random,
}

/// What became of splits, as far as it was seen.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    /// Generations that were in service, by partition.
    pub(super) completed: BTreeMap<usize, BTreeSet<i32>>,
    /// Generations that a write has ended, in service or before.
    pub(super) ended: BTreeSet<(usize, i32)>,
    pub(super) rolled_back: usize,
    /// How often all splits of a shard went out of service at once.
    pub(super) epoch: i32,
    /// Partitions that cannot be split any more, since a write to them has an unknown outcome.
    pub(super) given_up: usize,
}

impl Seen {
    /// All that may happen to a split did.
    pub(super) fn is_full(&self) -> bool {
        self.again() > 0 && !self.ended.is_empty()
    }

    pub(super) fn completed(&self) -> usize {
        self.completed.values().map(BTreeSet::len).sum()
    }

    /// Generations that took the place of one before that was in service, too.
    pub(super) fn again(&self) -> usize {
        self.completed() - self.completed.len()
    }
}

impl Weather<'_> {
    pub(super) fn run(mut self) {
        while !self.field.stops() {
            for partition in self.field.slots() {
                self.look(partition);
            }
            sleep(PAUSE);
        }
    }

    fn id(&self, partition: usize) -> SplitId {
        let day = self.field.partitions[partition].day;
        Control::id(self.table.clone(), &[&day.to_be_bytes()])
    }

    fn look(&mut self, partition: usize) {
        let id = self.id(partition);
        let split = self.control.split(&id);
        if let Some(split) = &split {
            let mut seen = self.field.seen();
            seen.epoch = seen.epoch.max(split.standing.epoch);
        }
        match split {
            Some(split) if split.standing.is_in_service() => {
                let generation = split.standing.generation;
                let mut seen = self.field.seen();
                let completed = seen.completed.entry(partition).or_default();
                completed.insert(generation.0);
                drop(seen);
                if self.random.one_in(ROLLED_BACK_ONE_IN)
                    && self.control.invalidate(&id, generation)
                {
                    self.field.seen().rolled_back += 1;
                }
            }
            Some(split) if is_under_way(split.standing) => {}
            other => {
                self.note_end(partition, other);
                if self.random.one_in(2) {
                    self.nominate(partition, &id);
                }
            }
        }
    }

    fn note_end(&mut self, partition: usize, split: Option<Split>) {
        let Some(split) = split.filter(|split| split.standing.state == State::Invalidated) else {
            return;
        };
        if split
            .reason
            .is_none_or(|reason| !reason.contains("the test wants it"))
        {
            self.field
                .seen()
                .ended
                .insert((partition, split.standing.generation.0));
        }
    }

    fn nominate(&mut self, partition: usize, id: &SplitId) {
        if self.control.try_nominate(id) == Detected::NotYet {
            self.field.replace(partition);
            self.field.seen().given_up += 1;
        }
    }

    /// After the storm: all that can be is split, and stays so.
    pub(super) fn settle(&mut self) -> Vec<usize> {
        let mut settled = Vec::new();
        for partition in self.field.slots() {
            let id = self.id(partition);
            let is_split = eventually_within(SPLIT_PATIENCE, "it is split at last", || match self
                .control
                .standing(&id)
            {
                Some(standing) if standing.is_in_service() => Some(true),
                Some(standing) if is_under_way(standing) => None,
                Some(standing) if standing.state == State::NotWide => Some(false),
                _ => (self.control.try_nominate(&id) == Detected::NotYet).then_some(false),
            });
            if is_split {
                settled.push(partition);
            }
        }
        settled
    }
}

/// A generation that has not ended, not even with its whole table.
fn is_under_way(standing: Standing) -> bool {
    !standing.state.is_end() && standing.row_epoch == standing.epoch
}
