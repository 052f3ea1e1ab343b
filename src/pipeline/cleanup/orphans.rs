//! Removes what is left of a watched table that no longer exists, a day after its end: the rows of its splits, their
//! layouts, the split tables that Narrows made, and the records of those tables. Buckets go with their split tables.
//!
//! It keeps the row in `watched_table`, because somebody put it there; the versions and epochs of its shards, because
//! followers rely on them; and split tables that a person made.

use super::tables::{Fate, fate, retire};
use super::{CANDIDATES_MAX, GRACE};
use crate::schema::names::TableName;
use crate::wide_row::layout::LayoutId;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::State;
use crate::wide_row::store::{ChangedRow, ShardReading, Store, StoreError};

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    pub splits: usize,
    pub tables: usize,
}

/// Removes what can be removed at `now`, in milliseconds since 1970. Removes nothing if the table exists.
pub async fn remove_orphans(
    store: &Store,
    table: &TableName,
    shards: u32,
    now: i64,
) -> Result<Removed, StoreError> {
    let mut removed = Removed::default();
    if !store.is_gone(table).await? {
        return Ok(removed);
    }
    let left = left_splits(store, table, shards).await?;
    if left.iter().any(|(shard, row)| is_guarded(shard, row)) {
        // No proxy has noticed yet that the table is gone. The day begins when all its splits are out of service.
        store.take_out_of_service(table, shards).await?;
        return Ok(removed);
    }
    for (shard, row) in left.iter().filter(|(shard, row)| is_over(shard, row, now)) {
        remove_layouts(store, table, row).await?;
        if store.forget_split(table, shard.shard, row).await? {
            removed.splits += 1;
        }
    }
    let made = store.made_tables(table, None).await?;
    removed.tables = retire(store, table, made, |_| true, now).await?;
    for row in store.left_rows(table).await? {
        match fate(row.since(), true, now) {
            Fate::Noted(since) => drop(store.note_left(table, &row, since.unwrap_or(now)).await?),
            Fate::Goes => drop(store.forget_left(table, &row).await?),
            Fate::Stays => {}
        }
    }
    Ok(removed)
}

/// The splits that are left, at most as many as one pass handles.
async fn left_splits(
    store: &Store,
    table: &TableName,
    shards: u32,
) -> Result<Vec<(ShardReading, ChangedRow)>, StoreError> {
    let mut left = Vec::new();
    for shard in store.read_shards(table, shards).await? {
        let read = store.read_rows(table, shard.shard, Version(0), |row| {
            if left.len() < CANDIDATES_MAX {
                left.push((shard, row));
            }
        });
        read.await?;
    }
    Ok(left)
}

fn is_guarded(shard: &ShardReading, row: &ChangedRow) -> bool {
    row.is_guarded && row.row_epoch == shard.epoch
}

/// A split that never had buckets can go at once: it is attempted again each day, so it would never be a day old.
fn is_over(shard: &ShardReading, row: &ChangedRow, now: i64) -> bool {
    let is_outdated = row.row_epoch != shard.epoch;
    let had_buckets = match row.state {
        None => is_outdated,
        Some(State::Detected | State::Planned | State::NotWide | State::Refused) => is_outdated,
        Some(_) => true,
    };
    let ended = match is_outdated {
        true => row.version.max(shard.epoch_version),
        false => row.version,
    };
    let grace = i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX);
    // Versions follow the clock, in microseconds.
    !had_buckets || (ended.0 / 1000).saturating_add(grace) <= now
}

async fn remove_layouts(
    store: &Store,
    table: &TableName,
    row: &ChangedRow,
) -> Result<(), StoreError> {
    for generation in (row.oldest_generation.0..=row.generation.0).map(Generation) {
        let id = LayoutId {
            table: table.clone(),
            key: row.key.clone(),
            generation,
        };
        store.delete_layout(&id).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::names::PartitionKey;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn what_had_buckets_goes_a_day_after_its_end_and_the_rest_at_once() {
        let now = 1000 * HOUR;
        let hours_ago = |hours: i64| Version((now - hours * HOUR) * 1000);
        let over = |state: Option<State>, row_epoch: i32, changed: i64, moved: i64| {
            let shard = ShardReading {
                shard: 4,
                version: hours_ago(0),
                epoch: 1,
                epoch_version: hours_ago(moved),
            };
            let row = ChangedRow {
                key: PartitionKey::new(*b"k"),
                version: hours_ago(changed),
                row_epoch,
                is_guarded: state.is_some_and(State::is_guarded),
                state,
                generation: Generation(2),
                oldest_generation: Generation(1),
                not_before: None,
            };
            is_over(&shard, &row, now)
        };
        for (expected, state, row_epoch, changed, moved) in [
            (true, Some(State::Completed), 0, 90, 25),
            (false, Some(State::Completed), 0, 90, 23),
            (false, Some(State::Refused), 0, 90, 23),
            (true, Some(State::Refused), 1, 0, 90),
            (true, Some(State::Detected), 1, 0, 90),
            (true, None, 1, 0, 90),
            (false, Some(State::Failed), 1, 23, 90),
            (true, Some(State::Invalidated), 1, 25, 90),
        ] {
            let found = over(state, row_epoch, changed, moved);
            assert_eq!(found, expected, "{state:?} {row_epoch} {changed} {moved}");
        }
    }
}
