//! The work to do: splits that have not reached their end, learnt from `wide_row` and nowhere else. Those furthest
//! along come first, then those read most. Partitions that were found open before come behind others for a while: many
//! of them are read most, and would come first each time.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::tally::Tally;
use crate::known::view::{Next, ShardView};
use crate::schema::names::TableName;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::names::Version;
use crate::wide_row::state::State;
use crate::wide_row::store::{ChangedRow, ShardReading, SplitId, Store, StoreError};

/// Pause after the work on a split stopped early; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// What has been due for this long comes as early as what is new.
const OVERDUE_MILLIS: i64 = 3_600_000;

#[derive(Default)]
pub(super) struct Queue {
    shards: HashMap<(TableName, i32), Shard>,
    waiting: HashMap<SplitId, Waiting>,
}

#[derive(Default)]
struct Shard {
    view: ShardView,
    tally: Tally,
}

struct Waiting {
    state: State,
    /// When it entered its state, in milliseconds since 1970, like `due`.
    since: i64,
    due: i64,
    /// It was looked at before, and had to wait.
    has_waited: bool,
    /// It also waits until then, if the work on it stopped early or another worker holds it.
    rests_until: Option<Instant>,
    pause: Duration,
    /// How many times in a row the work on it stopped early.
    stopped: u32,
}

impl Queue {
    /// Learns what has changed in a table.
    pub(super) async fn follow(
        &mut self,
        store: &Store,
        table: &TableName,
        shards: u32,
    ) -> Result<(), StoreError> {
        for polled in store.read_shards(table, shards).await? {
            let shard = self.shards.entry((table.clone(), polled.shard));
            let shard = shard.or_default();
            let Next::ReadAbove(since) = shard.view.next(&polled) else {
                continue;
            };
            // A new epoch changes the meaning of every row, so all of them are read.
            let is_known = shard.view.epoch() == polled.epoch;
            let since = if is_known { since } else { Version(0) };
            let mut rows = Vec::new();
            let read = store.read_rows(table, polled.shard, since, |row| {
                if let Some(state) = state_of(&row, &polled) {
                    shard.tally.set(&row.key, state);
                }
                // In a full read, rows without work are skipped: millions of splits may be completed.
                if since != Version(0) || work_of(&row, &polled).is_some() {
                    rows.push(row);
                }
            });
            read.await?;
            let seen = rows.iter().any(|row| row.version == polled.version);
            shard.view.absorb(&polled, seen);
            for row in rows {
                self.learn(table, row, &polled);
            }
        }
        Ok(())
    }

    /// Forgets the shards that are no longer there, and returns the tables that had them.
    pub(super) fn forget_shards(
        &mut self,
        is_there: impl Fn(&TableName, i32) -> bool,
    ) -> BTreeSet<TableName> {
        let gone = |(table, shard): &(TableName, i32)| !is_there(table, *shard);
        let gone: BTreeSet<_> = self
            .shards
            .keys()
            .filter(|key| gone(key))
            .cloned()
            .collect();
        if !gone.is_empty() {
            self.shards.retain(|shard, _| !gone.contains(shard));
            self.waiting
                .retain(|id, _| !gone.contains(&(id.table.clone(), id.shard)));
        }
        gone.into_iter().map(|(table, _)| table).collect()
    }

    fn learn(&mut self, table: &TableName, row: ChangedRow, shard: &ShardReading) {
        let work = work_of(&row, shard);
        // Versions follow the clock, in microseconds.
        let since = row.version.0 / 1000;
        let id = SplitId {
            table: table.clone(),
            shard: shard.shard,
            key: row.key,
        };
        match work {
            Some((state, due)) => {
                let known = self.waiting.remove(&id);
                let known = known.filter(|known| known.state == state);
                let waiting = Waiting {
                    state,
                    since,
                    due,
                    has_waited: row.not_before.is_some(),
                    rests_until: known.as_ref().and_then(|known| known.rests_until),
                    pause: known.as_ref().map_or(PAUSE_MIN, |known| known.pause),
                    stopped: known.map_or(0, |known| known.stopped),
                };
                self.waiting.insert(id, waiting);
            }
            None => drop(self.waiting.remove(&id)),
        }
    }

    /// The next split to work on, with its state and when it entered that state: the one furthest along, and among
    /// equals the most read of those that have not waited before.
    pub(super) fn next(
        &self,
        is_free: impl Fn(&SplitId) -> bool,
        reads: impl Fn(&SplitId) -> u64,
    ) -> Option<(SplitId, State, i64)> {
        let (now, instant) = (unix_millis(), Instant::now());
        let ready = self.waiting.iter().filter(|(id, waiting)| {
            let rested = waiting.rests_until.is_none_or(|until| until <= instant);
            waiting.due <= now && rested && is_free(id)
        });
        let first = ready.max_by_key(|(id, waiting)| {
            let is_overdue = waiting.due.saturating_add(OVERDUE_MILLIS) <= now;
            let is_early = is_overdue || !waiting.has_waited;
            (rank(waiting.state), is_early, reads(id))
        });
        first.map(|(id, waiting)| (id.clone(), waiting.state, waiting.since))
    }

    /// Leaves the split alone for a while, longer each time.
    pub(super) fn rest(&mut self, id: &SplitId) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.rests_until = Some(Instant::now() + waiting.pause);
            waiting.pause = (2 * waiting.pause).min(PAUSE_MAX);
            waiting.stopped = waiting.stopped.saturating_add(1);
        }
    }

    /// Another worker holds the split; after the pause, that worker may be dead.
    pub(super) fn wait(&mut self, id: &SplitId, pause: Duration) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.rests_until = Some(Instant::now() + pause);
        }
    }

    /// How many times in a row the work on the split stopped early.
    pub(super) fn stopped(&self, id: &SplitId) -> u32 {
        self.waiting.get(id).map_or(0, |waiting| waiting.stopped)
    }

    /// Removes a split whose next attempt begins; the queue learns from the store what follows.
    pub(super) fn forget(&mut self, id: &SplitId) {
        self.waiting.remove(id);
    }

    /// Removes a split when the work on it has ended, unless the store has reported a change since the work began.
    pub(super) fn ended(&mut self, id: &SplitId, begun: i64) {
        let is_same = |waiting: &Waiting| waiting.since == begun;
        if self.waiting.get(id).is_some_and(is_same) {
            self.waiting.remove(id);
        }
    }

    /// The number of splits of a table in a state.
    pub(super) fn count(&self, table: &TableName, state: State) -> usize {
        let shards = self.shards.iter().filter(|((name, _), _)| name == table);
        shards.map(|(_, shard)| shard.tally.count(state)).sum()
    }

    /// For each state, when the oldest split that waits for work entered it.
    pub(super) fn oldest(&self, table: &TableName) -> HashMap<State, i64> {
        let mut oldest = HashMap::new();
        for (id, waiting) in &self.waiting {
            if id.table == *table {
                let since = oldest.entry(waiting.state).or_insert(i64::MAX);
                // One that is not due yet does not wait for work.
                *since = waiting.since.max(waiting.due).min(*since);
            }
        }
        oldest
    }
}

/// The state in which a split is counted; a split of an older epoch went out of service with its table.
fn state_of(row: &ChangedRow, shard: &ShardReading) -> Option<State> {
    match row.row_epoch == shard.epoch {
        true => row.state,
        false => row.state.map(|_| State::Invalidated),
    }
}

/// The state of a row that needs work, and the time from which the work is due.
fn work_of(row: &ChangedRow, shard: &ShardReading) -> Option<(State, i64)> {
    if row.row_epoch != shard.epoch {
        return None;
    }
    let state = row.state?;
    match state {
        State::Detected | State::Planned | State::Guarded | State::Copying | State::Verifying => {
            Some((state, row.not_before.unwrap_or(0)))
        }
        // A new attempt, if one is scheduled.
        State::Failed | State::Refused => Some((state, row.not_before?)),
        // The audit finds completed splits that are due: there may be millions of completed ones.
        State::Completed | State::NotWide | State::Invalidated => None,
    }
}

/// Splits that have been begun come before new ones, because their guards cost writers something.
fn rank(state: State) -> u8 {
    match state {
        State::Verifying => 5,
        State::Copying => 4,
        State::Guarded => 3,
        State::Planned => 2,
        State::Detected => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::names::PartitionKey;
    use crate::wide_row::names::Generation;

    const EPOCH: i32 = 1;

    fn row(key: u8, state: State, micros: i64, not_before: Option<i64>) -> ChangedRow {
        ChangedRow {
            key: PartitionKey::new([key]),
            version: Version(micros),
            row_epoch: EPOCH,
            is_guarded: state.is_guarded(),
            state: Some(state),
            generation: Generation(1),
            oldest_generation: Generation(1),
            not_before,
        }
    }

    fn queue(rows: Vec<ChangedRow>) -> Queue {
        let mut queue = Queue::default();
        rows.into_iter().for_each(|row| learn(&mut queue, row));
        queue
    }

    fn learn(queue: &mut Queue, row: ChangedRow) {
        let shard = ShardReading {
            shard: 4,
            version: Version(9),
            epoch: EPOCH,
            epoch_version: Version(0),
        };
        queue.learn(&TableName::new("ks", "t"), row, &shard);
    }

    fn next(queue: &Queue) -> Option<(u8, State, i64)> {
        let found = queue.next(|_| true, |id| u64::from(id.key.bytes()[0]));
        found.map(|(id, state, since)| (id.key.bytes()[0], state, since))
    }

    #[test]
    fn what_is_furthest_comes_first_and_then_what_is_read_most() {
        let mut queue = queue(vec![
            row(9, State::Detected, 1, None),
            row(1, State::Copying, 1, None),
            row(2, State::Copying, 1, None),
            row(3, State::NotWide, 1, None),
            row(4, State::Completed, 1, None),
        ]);
        for expected in [2, 1, 9] {
            let (key, ..) = next(&queue).expect("more to do");
            assert_eq!(key, expected);
            let id = SplitId {
                table: TableName::new("ks", "t"),
                shard: 4,
                key: PartitionKey::new([key]),
            };
            queue.forget(&id);
        }
        assert_eq!(next(&queue), None);
    }

    #[test]
    fn what_is_not_due_waits_and_what_had_trouble_rests() {
        let later = unix_millis() + 3_600_000;
        let mut queue = queue(vec![
            row(1, State::Failed, 1, Some(later)),
            row(2, State::Refused, 1, Some(1)),
            row(3, State::Refused, 1, None),
            row(4, State::Completed, 1, Some(1)),
        ]);
        let (key, state, _) = next(&queue).expect("one is due");
        assert_eq!((key, state), (2, State::Refused));
        let id = queue.next(|_| true, |_| 0).expect("one is due").0;
        queue.rest(&id);
        assert_eq!(next(&queue), None);
    }

    #[test]
    fn what_was_found_open_comes_behind_what_is_new_for_a_while() {
        let just = Some(unix_millis() - 1000);
        let queue = queue(vec![
            row(9, State::Detected, 1, just),
            row(8, State::Detected, 1, just),
            row(2, State::Detected, 1, Some(1)),
            row(1, State::Detected, 1, None),
        ]);
        let mut order = Vec::new();
        while let Some((id, ..)) = queue.next(
            |id| !order.contains(&id.key.bytes()[0]),
            |id| u64::from(id.key.bytes()[0]),
        ) {
            order.push(id.key.bytes()[0]);
        }
        assert_eq!(order, [2, 1, 9, 8]);
        let open = row(7, State::Detected, 1, Some(unix_millis() + 3_600_000));
        assert_eq!(next(&self::queue(vec![open])), None, "it waits");
    }

    #[test]
    fn news_that_came_during_the_work_are_kept_and_nothing_else_is() {
        let mut queue = queue(vec![row(1, State::Planned, 1000, None)]);
        let (id, _, begun) = queue.next(|_| true, |_| 0).expect("due");
        // Nothing was changed by the work: it must not begin for ever.
        queue.ended(&id, begun);
        assert_eq!(next(&queue), None);
        learn(&mut queue, row(1, State::Detected, 2000, None));
        let (id, _, begun) = queue.next(|_| true, |_| 0).expect("due");
        learn(&mut queue, row(1, State::Failed, 3000, Some(1)));
        queue.ended(&id, begun);
        assert_eq!(next(&queue), Some((1, State::Failed, 3)));
    }

    #[test]
    fn shards_that_are_gone_take_their_work_and_their_numbers_along() {
        let table = |name: &str| TableName::new("ks", name);
        let mut queue = queue(vec![row(1, State::Copying, 1, None)]);
        for (name, shard) in [("t", 4), ("t", 5), ("other", 4)] {
            let shard = queue.shards.entry((table(name), shard)).or_default();
            let key = PartitionKey::new([1]);
            shard.tally.set(&key, State::Copying);
        }
        assert_eq!(queue.forget_shards(|_, _| true), BTreeSet::new());
        assert_eq!(queue.count(&table("t"), State::Copying), 2);
        // The table moves to other shards.
        let gone = queue.forget_shards(|name, shard| *name != table("t") || shard == 5);
        assert_eq!(gone, BTreeSet::from([table("t")]));
        assert_eq!(queue.count(&table("t"), State::Copying), 1);
        assert_eq!(next(&queue), None);
        assert_eq!(queue.count(&table("other"), State::Copying), 1);
    }

    #[test]
    fn a_row_of_an_older_epoch_has_no_work() {
        let mut outdated = row(1, State::Copying, 1, None);
        outdated.row_epoch = EPOCH - 1;
        assert_eq!(next(&queue(vec![outdated])), None);
    }
}
