//! The audit compares splits in service with their originals again: first after the hint window, then every
//! `pipeline.audit_every`. It finds, with a delay, what was written around the proxies. It compares one split at a
//! time, at the throttle's pace, and takes turns with the splits that are worked on.
//!
//! `wide_row` says when each split is due; only a bounded list of those that are due is kept here.

pub mod finding;

use crate::schema::names::TableName;
use crate::wide_row::state::State;
use crate::wide_row::store::{SplitId, Store, StoreError};

/// Maximum number of splits in one pass; the next pass finds the others.
const DUE_MAX: usize = 10_000;

/// Splits in service whose comparison is due at `now`, in milliseconds since 1970.
pub async fn due(
    store: &Store,
    table: &TableName,
    shards: u32,
    now: i64,
) -> Result<Vec<SplitId>, StoreError> {
    let mut found = Vec::new();
    for shard in store.read_shards(table, shards).await? {
        let read = store.read_due(table, shard.shard, now, |row| {
            let in_service = row.state == Some(State::Completed) && row.row_epoch == shard.epoch;
            if in_service && found.len() < DUE_MAX {
                found.push(SplitId {
                    table: table.clone(),
                    shard: shard.shard,
                    key: row.key,
                });
            }
        });
        read.await?;
    }
    Ok(found)
}
