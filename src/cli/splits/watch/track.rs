//! The splits in progress, kept up to date by changed rows. Pure.

use std::collections::{BTreeMap, HashMap};

use crate::cli::splits::stage::{self, Pace, Seen};
use crate::schema::names::{PartitionKey, TableName};
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::names::Version;
use crate::wide_row::state::State;
use crate::wide_row::store::{ChangedRow, ShardReading, Split, SplitId};

/// The pace is computed over this many readings of the progress.
const SIGHTS_MAX: usize = 10;
/// A pipe gets a line every ten percent.
const STEP: u8 = 10;

/// A split in progress.
#[derive(Debug, Clone)]
pub(super) struct Tracked {
    shard: i32,
    row_epoch: i32,
    pub(super) state: State,
    pub(super) not_before: Option<i64>,
    /// As last read; only splits with a line of their own are read.
    pub(super) split: Option<Split>,
    /// Readings of the current stage, the oldest first.
    sights: Vec<Seen>,
    /// The percent in the last line on a pipe.
    told: u8,
}

/// What happened to a split.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) id: SplitId,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It is in progress, and entered this state.
    At(State),
    /// It is no longer in progress.
    Ended(State),
    /// It went out of service with its whole table.
    OutOfService,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) active: usize,
    /// They wait for a time, for `resume`, or for mode serve.
    pub(super) waiting: usize,
}

#[derive(Default)]
pub(super) struct Tracker {
    under_way: BTreeMap<(TableName, PartitionKey), Tracked>,
    /// The shards as they were when their rows were last read.
    known: HashMap<(TableName, i32), ShardReading>,
}

impl Tracker {
    /// Forgets tables that are no longer watched, or have another number of shards.
    pub(super) fn keep(&mut self, tables: &[WatchedTable]) {
        let has = |name: &TableName, shard: i32| {
            let table = tables.iter().find(|table| table.name == *name);
            table.is_some_and(|table| shard / table.shards.cast_signed() == 1)
        };
        self.known.retain(|(table, shard), _| has(table, *shard));
        self.under_way
            .retain(|(table, _), tracked| has(table, tracked.shard));
    }

    /// The shards that changed, each with the version that is already known.
    pub(super) fn changed(
        &self,
        table: &TableName,
        readings: &[ShardReading],
    ) -> Vec<(ShardReading, Version)> {
        let known = |shard: i32| self.known.get(&(table.clone(), shard));
        let since =
            |reading: &ShardReading| known(reading.shard).map_or(Version(0), |was| was.version);
        let changed = readings.iter().map(|reading| (*reading, since(reading)));
        changed
            .filter(|(reading, since)| reading.version != *since)
            .collect()
    }

    /// The row, if its split is in progress or was until now.
    pub(super) fn relevant(&self, table: &TableName, row: ChangedRow) -> Option<ChangedRow> {
        let is_known = || {
            let id = (table.clone(), row.key.clone());
            self.under_way.contains_key(&id)
        };
        let is_under_way = row.state.is_some_and(stage::is_under_way);
        (is_under_way || is_known()).then_some(row)
    }

    /// Applies the changed rows of a shard.
    pub(super) fn apply(
        &mut self,
        table: &TableName,
        reading: ShardReading,
        rows: Vec<ChangedRow>,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        self.known.insert((table.clone(), reading.shard), reading);
        for row in rows {
            events.extend(self.apply_row(table, reading, row));
        }
        let shard = reading.shard;
        self.under_way.retain(|(of, key), tracked| {
            let is_past =
                of == table && tracked.shard == shard && tracked.row_epoch != reading.epoch;
            if is_past {
                events.push(Event {
                    id: place(of, key, shard),
                    what: What::OutOfService,
                });
            }
            !is_past
        });
        events
    }

    fn apply_row(
        &mut self,
        table: &TableName,
        reading: ShardReading,
        row: ChangedRow,
    ) -> Option<Event> {
        let state = row.state?;
        let id = place(table, &row.key, reading.shard);
        let name = (table.clone(), row.key);
        if !stage::is_under_way(state) {
            let what = What::Ended(state);
            return self.under_way.remove(&name).map(|_| Event { id, what });
        }
        let what = What::At(state);
        // It went out of service with its table before it was ever listed.
        if row.row_epoch != reading.epoch && !self.under_way.contains_key(&name) {
            return None;
        }
        let before = self.under_way.get(&name).map(|tracked| tracked.state);
        let tracked = self.under_way.entry(name).or_insert_with(|| Tracked {
            shard: reading.shard,
            row_epoch: row.row_epoch,
            state,
            not_before: None,
            split: None,
            sights: Vec::new(),
            told: 0,
        });
        tracked.row_epoch = row.row_epoch;
        tracked.not_before = row.not_before;
        tracked.state = state;
        if before == Some(state) {
            return None;
        }
        tracked.sights.clear();
        tracked.told = 0;
        Some(Event { id, what })
    }

    /// Applies what was read of one split.
    pub(super) fn see(&mut self, id: &SplitId, split: Split) {
        let name = (id.table.clone(), id.key.clone());
        let Some(tracked) = self.under_way.get_mut(&name) else {
            return;
        };
        if let Some(progress) =
            stage::progress(&split).filter(|progress| progress.state == tracked.state)
        {
            let seen = Seen::of(progress);
            // Another worker continued from an earlier checkpoint.
            if tracked
                .sights
                .last()
                .is_some_and(|last| last.is_ahead_of(&seen))
            {
                tracked.sights.clear();
            }
            if tracked
                .sights
                .last()
                .is_none_or(|last| last.at() < seen.at())
            {
                tracked.sights.push(seen);
            }
            if tracked.sights.len() > SIGHTS_MAX {
                tracked.sights.remove(0);
            }
        }
        tracked.split = Some(split);
    }

    pub(super) fn get(&self, id: &SplitId) -> Option<&Tracked> {
        let name = (id.table.clone(), id.key.clone());
        self.under_way.get(&name)
    }

    /// The first `most` splits: active ones before waiting ones, later stages first.
    pub(super) fn first(&self, tables: &[WatchedTable], now: i64, most: usize) -> Vec<SplitId> {
        let order = |tracked: &Tracked, table: &TableName| {
            let rank = State::ALL.iter().position(|state| *state == tracked.state);
            (
                tracked.waits(table, tables, now).is_some(),
                std::cmp::Reverse(rank),
            )
        };
        let mut all: Vec<_> = self.under_way.iter().collect();
        all.sort_by_key(|((table, _), tracked)| order(tracked, table));
        let first = all.into_iter().take(most);
        first
            .map(|((table, key), tracked)| place(table, key, tracked.shard))
            .collect()
    }

    pub(super) fn counts(&self, tables: &[WatchedTable], now: i64) -> Counts {
        let mut counts = Counts::default();
        for ((table, _), tracked) in &self.under_way {
            match tracked.waits(table, tables, now) {
                Some(_) => counts.waiting += 1,
                None => counts.active += 1,
            }
        }
        counts
    }

    /// Lines for a pipe, one per split that progressed ten percent since its last line.
    pub(super) fn steps(&mut self) -> Vec<(SplitId, String)> {
        let mut steps = Vec::new();
        for ((table, key), tracked) in &mut self.under_way {
            let percent = tracked.split.as_ref().and_then(stage::percent);
            let Some(percent) =
                percent.filter(|percent| percent.value / STEP > tracked.told / STEP)
            else {
                continue;
            };
            tracked.told = percent.value;
            let line = super::step(tracked, percent);
            steps.push((place(table, key, tracked.shard), line));
        }
        steps
    }
}

impl Tracked {
    /// The pace since the oldest reading, or since the stage began.
    pub(super) fn pace(&self) -> Option<Pace> {
        let split = self.split.as_ref()?;
        let progress = stage::progress(split)?;
        let since = self
            .sights
            .first()
            .and_then(|seen| stage::pace(split, *seen));
        since.or_else(|| stage::pace(split, Seen::beginning(progress)))
    }

    /// What it waits for. `None`: a worker has it, or will take it next.
    pub(super) fn waits(
        &self,
        name: &TableName,
        tables: &[WatchedTable],
        now: i64,
    ) -> Option<Wait> {
        let table = tables.iter().find(|table| table.name == *name)?;
        match (table.mode, table.paused, self.not_before) {
            (mode @ (Mode::Off | Mode::Detect), _, _) => Some(Wait::Mode(mode)),
            (Mode::Serve, true, _) => Some(Wait::Paused),
            (Mode::Serve, false, Some(time)) if time > now => Some(Wait::Until(time)),
            (Mode::Serve, false, _) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Mode(Mode),
    Paused,
    Until(i64),
}

fn place(table: &TableName, key: &PartitionKey, shard: i32) -> SplitId {
    SplitId {
        table: table.clone(),
        shard,
        key: key.clone(),
    }
}

#[cfg(test)]
pub(super) mod tests;
