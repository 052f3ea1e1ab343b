//! The audit: splits in service are compared with their originals again and again, the first time after the hint window and
//! then every `pipeline.audit_every`. It finds what was written around the proxies, later. One at a time, at the throttle's
//! pace, in turn with the splits that are worked on.
//!
//! When each is due is in `wide_row`; nothing is kept here but a bounded list of those that are.

pub mod finding;

use crate::schema::names::TableName;
use crate::wide_row::state::State;
use crate::wide_row::store::{SplitId, Store, StoreError};

/// In one pass; the next one finds the others.
const DUE_MAX: usize = 10_000;

/// Splits in service that are to be compared at this time, in milliseconds since 1970.
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
