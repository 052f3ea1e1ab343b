//! Partitions that a write with an unknown outcome may still change, by a hint: none of them is guarded before the hint
//! window has passed.

use futures::StreamExt;
use scylla::value::CqlTimestamp;

use super::cas::bind;
use super::transition::now;
use super::{Detected, End, Found, Outcome, SplitId, Store, StoreError};
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::names::Version;
use crate::wide_row::state::{RETIRED, Standing};

/// An attempt fails only if the partition was changed meanwhile.
const ATTEMPTS_MAX: usize = 5;
/// Number of partitions that are carried at a time.
const SIDE_BY_SIDE: usize = 16;
const CARRIED: &str = "a write to it had an unknown outcome when its table moved to other shards";

/// What became of a partition that should be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It is left alone since this version of its row.
    Alone(Version),
    /// Nothing begins in its shard any more: the table moves to other shards.
    Retired,
}

impl Store {
    /// Leaves alone in the new shards what is left alone in the old ones, which must be retired.
    pub(super) async fn carry_unsettled(
        &self,
        table: &TableName,
        (from, to): (u32, u32),
    ) -> Result<(), StoreError> {
        for old in self.read_shards(table, from).await? {
            let (keyspace, name) = (table.keyspace.clone(), table.table.clone());
            let values = bind![keyspace, name, old.shard, now()];
            let mut keys = Vec::new();
            type Row = (Option<Vec<u8>>, Option<CqlTimestamp>);
            let add = |(key, until): Row| {
                if let Some((key, until)) = key.zip(until) {
                    keys.push((PartitionKey::new(key), until.0));
                }
            };
            self.each_row(&self.statements.unsettled, &values, add)
                .await?;
            let carry = async |(key, until): (PartitionKey, i64)| {
                let id = SplitId::new(table.clone(), key, to);
                self.leave_until(&id, until, CARRIED).await
            };
            let mut carried = futures::stream::iter(keys)
                .map(carry)
                .buffer_unordered(SIDE_BY_SIDE);
            while let Some(one) = carried.next().await {
                one?;
            }
        }
        Ok(())
    }

    /// Ends the generation that a partition has, and lets no other begin before `until`, in milliseconds since 1970.
    pub async fn leave_until(
        &self,
        id: &SplitId,
        until: i64,
        reason: &'static str,
    ) -> Result<Left, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let reading = self.read_key(id).await?;
            let is = |is_so: fn(Standing) -> bool| reading.standing.is_some_and(is_so);
            if is(|standing| standing.epoch <= RETIRED) {
                return Ok(Left::Retired);
            }
            let Some(generation) = reading.generation else {
                match self.detect(id, Found::default()).await? {
                    Detected::Retired => return Ok(Left::Retired),
                    Detected::New(_) | Detected::Known | Detected::NotYet => continue,
                }
            };
            let is_guarded = reading.is_unknown || is(Standing::is_guarded);
            let end = End {
                reason,
                unsettled_until: Some(until),
                // For a split in service this is the time of its next comparison, so it is replaced; otherwise it
                // stays.
                not_before: is_guarded.then_some(until),
                ..End::default()
            };
            if let Outcome::Applied(version) = self.end_generation(id, generation, &end).await? {
                return self.left(id, version).await;
            }
        }
        Err(StoreError::Contended(ATTEMPTS_MAX))
    }

    /// The shard may have been retired since it was read, and its rows carried away without this change. If it is
    /// retired only later, the change is carried with the other rows.
    async fn left(&self, id: &SplitId, version: Version) -> Result<Left, StoreError> {
        let shard = self.read_shard(&id.table, id.shard).await?;
        Ok(match shard.epoch {
            ..=RETIRED => Left::Retired,
            _ => Left::Alone(version),
        })
    }
}
