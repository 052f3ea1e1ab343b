//! Removes the buckets and layouts of generations that ended at least a day ago. Never sooner: a scan that began on
//! them may still be running, and an operator may want to inspect them. Nothing here touches an original.
//!
//! `tables` drops whole split tables; `orphans` removes what is left of an original that no longer exists.

pub mod orphans;
pub mod tables;

use std::time::Duration;

use super::original::partition::{ALL, Partition};
use super::original::requests::Requests;
use super::run::work::WorkError;
use crate::protocol::types::Value;
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::statement::quoted;
use crate::upstream::pool::{PoolError, SubRead};
use crate::wide_row::layout::{Layout, LayoutId};
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::State;
use crate::wide_row::store::{HIDDEN, Split, SplitId, Store, StoreError};

const GRACE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of candidates in one pass; the next pass finds the others.
const CANDIDATES_MAX: usize = 10_000;
/// Approximate size of a request that deletes a bucket.
const DELETE_BYTES: usize = 256;

/// The generations whose buckets can be removed, oldest first, and the oldest generation to keep.
fn removable(
    split: &Split,
    epoch_moved_millis: i64,
    now_millis: i64,
) -> Option<(Vec<Generation>, Generation)> {
    let grace = i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX);
    let is_old =
        |time: Option<i64>| time.is_some_and(|time| time.saturating_add(grace) <= now_millis);
    let current = split.standing.generation;
    let first = split.oldest_generation.unwrap_or(current);
    let is_outdated = split.standing.row_epoch != split.standing.epoch;
    let ended_at = match is_outdated {
        true => split.changed_at.max(Some(epoch_moved_millis)),
        false => split.changed_at,
    };
    let is_over = split.standing.state.is_end() || is_outdated;
    // Earlier generations had ended when the current one began.
    let keep = match (is_over && is_old(ended_at), is_old(split.detected_at)) {
        (true, _) => Generation(current.0.saturating_add(1)),
        (false, true) => current,
        (false, false) => return None,
    };
    let removable: Vec<Generation> = (first.0..keep.0).map(Generation).collect();
    (!removable.is_empty()).then_some((removable, keep))
}

/// A split that may have something to remove.
pub struct Candidate {
    id: SplitId,
    /// The epoch of its shard, and when it last moved, which took the whole shard out of service.
    epoch: i32,
    epoch_moved_millis: i64,
}

/// Splits of a table that may have something to remove at `now_millis`, in milliseconds since 1970.
pub async fn candidates(
    store: &Store,
    table: &TableName,
    shards: u32,
    now_millis: i64,
) -> Result<Vec<Candidate>, StoreError> {
    let young = now_millis.saturating_sub(i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX));
    let mut found = Vec::new();
    for shard in store.read_shards(table, shards).await? {
        let read = store.read_rows(table, shard.shard, Version(0), |row| {
            let is_over = row.state.is_some_and(State::is_end) || row.row_epoch != shard.epoch;
            let last = row.generation.0.saturating_add(i32::from(is_over));
            // Versions follow the clock, in microseconds.
            let is_old = row.version.0 / 1000 <= young;
            if row.oldest_generation.0 < last && is_old && found.len() < CANDIDATES_MAX {
                found.push(Candidate {
                    id: SplitId {
                        table: table.clone(),
                        shard: shard.shard,
                        key: row.key,
                    },
                    epoch: shard.epoch,
                    epoch_moved_millis: shard.epoch_version.0 / 1000,
                });
            }
        });
        read.await?;
    }
    Ok(found)
}

/// Deletes the buckets and layouts of all generations that can be removed at `now_millis`. Returns the number of
/// buckets deleted.
pub async fn clean_up(
    (store, requests): (&Store, &Requests),
    schema: &TableSchema,
    candidate: &Candidate,
    now_millis: i64,
) -> Result<usize, WorkError> {
    let id = &candidate.id;
    let Some(split) = store.read_split(id).await? else {
        return Ok(0);
    };
    // The shard went out of service after the candidate was found; the next pass will read when.
    if split.standing.epoch != candidate.epoch {
        return Ok(0);
    }
    let removable = removable(&split, candidate.epoch_moved_millis, now_millis);
    let Some((generations, keep)) = removable else {
        return Ok(0);
    };
    let partition = Partition::new(schema, &id.key).ok_or(WorkError::NoSchema)?;
    let layout_id = |generation| LayoutId {
        table: id.table.clone(),
        key: id.key.clone(),
        generation,
    };
    // A later version may let a generation use buckets of an earlier one.
    let present = layout_id(split.standing.generation);
    let is_borrowing = |layout: Layout| layout.buckets.iter().any(|bucket| bucket.home.is_some());
    if store.read_layout(&present).await?.is_some_and(is_borrowing) {
        return Ok(0);
    }
    let mut removed = 0;
    for generation in generations {
        let layout_id = layout_id(generation);
        // A generation without a layout has no buckets: its layout is written before them and deleted after them.
        let Some(layout) = store.read_layout(&layout_id).await? else {
            continue;
        };
        for bucket in 0..layout.buckets.len() {
            let place = (layout.split_table.as_str(), generation, bucket as i32);
            match delete(requests, schema, &partition, place).await {
                Ok(()) => removed += 1,
                // If somebody dropped the split table, its buckets are gone with it.
                Err(error) if is_no_table(&error) => {
                    let name = TableName::new(&schema.keyspace, &layout.split_table);
                    match store.describe(&name).await?.table_id {
                        None => break,
                        Some(_) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        store.delete_layout(&layout_id).await?;
    }
    store
        .set_oldest(id, split.standing.generation, keep)
        .await?;
    Ok(removed)
}

/// Whether an error may mean that the table does not exist: native_protocol_v5 §9, Invalid.
fn is_no_table(error: &WorkError) -> bool {
    const INVALID: i32 = 0x2200;
    matches!(error, WorkError::Request(PoolError::Refused { code, .. }) if *code == INVALID)
}

async fn delete(
    requests: &Requests,
    schema: &TableSchema,
    partition: &Partition,
    (table, generation, bucket): (&str, Generation, i32),
) -> Result<(), WorkError> {
    let key = schema
        .partition_key
        .iter()
        .map(|column| quoted(&column.name));
    let columns: Vec<String> = key
        .chain(HIDDEN.map(str::to_owned))
        .map(|name| format!("{name} = ?"))
        .collect();
    let text = format!(
        "DELETE FROM {}.{} WHERE {}",
        quoted(&schema.keyspace),
        quoted(table),
        columns.join(" AND ")
    );
    let hidden = [generation.0.to_be_bytes(), bucket.to_be_bytes()];
    let hidden = hidden.iter().map(|bytes| Value::Bytes(bytes));
    let request = SubRead {
        values: partition.values().chain(hidden).collect(),
        consistency: ALL,
        ..SubRead::default()
    };
    let bucket_key = partition.bucket_key(generation, bucket);
    let bucket_key = bucket_key.ok_or(WorkError::NoSchema)?;
    let place = (schema.replication.as_slice(), bucket_key.bytes());
    requests
        .execute(&text, &request, place, DELETE_BYTES)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide_row::state::Standing;

    const HOUR: i64 = 3_600_000;

    pub(super) fn split(state: State, epochs: (i32, i32), detected: i64, changed: i64) -> Split {
        Split {
            version: Version(1),
            standing: Standing {
                state,
                generation: Generation(12),
                row_epoch: epochs.0,
                epoch: epochs.1,
            },
            lease: None,
            pre_split_data: None,
            post_split_data: None,
            progress: None,
            reason: None,
            not_before: None,
            detected_at: Some(detected),
            changed_at: Some(changed),
            failures: 0,
            seen_bytes: None,
            oldest_generation: Some(Generation(10)),
            found_by: None,
        }
    }

    #[test]
    fn a_generation_goes_a_day_after_its_end_and_never_while_it_lives() {
        let now = 100 * HOUR;
        let generations = |split: &Split, moved: i64| {
            let found = removable(split, moved, now);
            found.map(|(going, keep)| (going.iter().map(|one| one.0).collect::<Vec<_>>(), keep.0))
        };
        let old = now - 25 * HOUR;
        let young = now - 23 * HOUR;
        let cases = [
            (
                split(State::Completed, (1, 1), old, old),
                Some((vec![10, 11], 12)),
            ),
            (split(State::Completed, (1, 1), young, young), None),
            (
                split(State::Copying, (1, 1), old, young),
                Some((vec![10, 11], 12)),
            ),
            (
                split(State::Invalidated, (1, 1), old, old),
                Some((vec![10, 11, 12], 13)),
            ),
            (
                split(State::Invalidated, (1, 1), old, young),
                Some((vec![10, 11], 12)),
            ),
            (split(State::Invalidated, (1, 1), young, young), None),
            (
                split(State::Completed, (1, 2), old, old),
                Some((vec![10, 11, 12], 13)),
            ),
        ];
        for (split, expected) in cases {
            assert_eq!(generations(&split, old), expected, "{:?}", split.standing);
        }
        let mut clean = split(State::Completed, (1, 1), old, old);
        clean.oldest_generation = Some(Generation(12));
        assert_eq!(generations(&clean, old), None);
        clean.oldest_generation = None;
        assert_eq!(generations(&clean, old), None);
        let outdated = split(State::Completed, (1, 2), old, old);
        assert_eq!(generations(&outdated, young), Some((vec![10, 11], 12)));
    }
}
