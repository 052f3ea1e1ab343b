//! What writes do to splits: a generation ends, whatever it is, or nothing of a partition is guarded for a while.

use scylla::value::{CqlTimestamp, MaybeUnset};

use super::cas::{Answer, bind, change};
use super::transition::now;
use super::{Outcome, SplitId, Store, StoreError};
use crate::schema::names::TableName;
use crate::wide_row::names::{Generation, Version};

/// How a generation ends. What is `None` stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    pub reason: &'static str,
    /// Milliseconds since 1970, both.
    pub not_before: Option<i64>,
    pub unsettled_until: Option<i64>,
    pub late_writes: Option<i32>,
}

impl Store {
    /// Ends a generation in whatever state it is, also one that this version does not know. [`Outcome::Lost`]: another
    /// generation has begun, or there is none.
    pub async fn end_generation(
        &self,
        id: &SplitId,
        generation: Generation,
        end: &End,
    ) -> Result<Outcome, StoreError> {
        let now = now();
        let values = |version: Version| {
            bind![
                version.0, version.0, end.reason, now,
                MaybeUnset::from_option(end.not_before.map(CqlTimestamp)),
                MaybeUnset::from_option(end.late_writes),
                MaybeUnset::from_option(end.unsettled_until.map(CqlTimestamp));
                place id;
                version.0, generation.0
            ]
        };
        let repeatable = |answer: &Answer| answer.int("generation") == Some(generation.0);
        let statement = &self.statements.end;
        let _turn = self.turns.take(&id.table, id.shard).await;
        let seen = Version::default();
        Ok(change(&self.session, statement, seen, values, repeatable)
            .await?
            .into())
    }

    /// Moves a shard's version and nothing else. After that everything which was seen of the shard before is decided, on a
    /// quorum, and every other proxy looks again.
    pub async fn settle_shard(&self, table: &TableName, shard: i32) -> Result<(), StoreError> {
        self.move_epoch(table, shard, |epoch| epoch).await.map(drop)
    }
}
