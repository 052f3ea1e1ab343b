//! Changes of splits: each one LWT that also moves the shard's version.

use futures::StreamExt;
use scylla::value::{CqlTimestamp, MaybeUnset};

use super::cas::{Answer, Ended, bind, change};
use super::columns::{PostSplitColumn, PreSplitColumn, ProgressColumn};
use super::{Lease, SplitId, Store, StoreError, not_understood};
use crate::schema::names::TableName;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::layout::Layout;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::{INVALIDATED_FROM, RETIRED, State, Transition};

/// Maximum number of shards that are changed concurrently.
const SHARDS_SIDE_BY_SIDE: usize = 16;

/// How a change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Certain, because an LWT of ours returned; visible to every quorum read sent from now on.
    Applied(Version),
    /// Somebody else moved the split, or holds its lease.
    Lost,
}

/// How a generation ends. A field that is `None` leaves the stored value unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    pub reason: &'static str,
    /// Milliseconds since 1970, like `unsettled_until`.
    pub not_before: Option<i64>,
    pub unsettled_until: Option<i64>,
    pub late_writes: Option<i32>,
}

impl Store {
    /// Names the one layout of a generation that readers may use, once it is proven. `None`: the schema has no room for
    /// a seal yet, and readers treat the generation as one of an earlier version.
    pub async fn seal(
        &self,
        id: &SplitId,
        lease: &Lease,
        layout: &Layout,
    ) -> Result<Option<Outcome>, StoreError> {
        let (Some(later), Some(seal)) = (&self.statements.later, layout.seal()) else {
            return Ok(None);
        };
        let generation = layout.generation.0;
        let token = lease.token().to_owned();
        let values = |version: Version| {
            bind![
                version.0, version.0, seal.0.to_vec(), generation;
                place id;
                version.0, generation, token.clone()
            ]
        };
        let repeatable = |answer: &Answer| {
            answer.int("generation") == Some(generation)
                && answer.text("lease") == Some(token.as_str())
                && matches!(answer.text("state"), Some("VERIFYING" | "COMPLETED"))
        };
        let _turn = self.turns.take(&id.table, id.shard).await;
        let seen = lease.version();
        let ended = change(&self.session, &later.seal, seen, values, repeatable).await?;
        Ok(Some(ended.into()))
    }

    /// A worker's step, fenced by its lease. It is sent again if its outcome is unknown: if it had applied already, it
    /// writes the same values once more.
    pub async fn step(
        &self,
        id: &SplitId,
        lease: &Lease,
        transition: &Transition,
    ) -> Result<Outcome, StoreError> {
        let now = now();
        let (from, to) = (transition.from().as_str(), transition.to().as_str());
        let (generation, epoch) = (transition.generation().0, transition.epoch());
        let pre = transition.pre_split_data().map(PreSplitColumn::from);
        let post = transition.post_split_data().map(PostSplitColumn::from);
        let reason = transition.reason().map(str::to_owned);
        let token = lease.token().to_owned();
        let not_before = transition.earliest().map(CqlTimestamp);
        let failures = transition.failures();
        let progress = || match transition.forgets_progress() {
            true => MaybeUnset::Set(None::<ProgressColumn>),
            false => MaybeUnset::Unset,
        };
        let values = |version: Version| {
            bind![
                version.0, version.0, to, generation, epoch,
                MaybeUnset::from_option(pre.clone()),
                MaybeUnset::from_option(post.clone()),
                progress(),
                reason.clone(),
                not_before,
                MaybeUnset::from_option(failures),
                now;
                place id;
                version.0, epoch, generation, token.clone(), from, to
            ]
        };
        let repeatable = |answer: &Answer| {
            answer.int("epoch") == Some(epoch)
                && answer.int("generation") == Some(generation)
                && answer.text("lease") == Some(token.as_str())
                && answer
                    .text("state")
                    .is_some_and(|state| state == from || state == to)
        };
        let statement = &self.statements.step;
        let _turn = self.turns.take(&id.table, id.shard).await;
        let seen = lease.version();
        Ok(change(&self.session, statement, seen, values, repeatable)
            .await?
            .into())
    }

    /// Takes a generation out of service, without a lease. [`Outcome::Lost`]: it is no longer guarded, so there was
    /// nothing to invalidate.
    pub async fn invalidate(
        &self,
        id: &SplitId,
        generation: Generation,
        reason: &str,
    ) -> Result<Outcome, StoreError> {
        let now = now();
        let from = INVALIDATED_FROM.map(State::as_str);
        let values = |version: Version| {
            bind![
                version.0, version.0, reason.to_owned(), now;
                place id;
                version.0, generation.0, from.to_vec()
            ]
        };
        let repeatable = |answer: &Answer| {
            answer.int("generation") == Some(generation.0)
                && answer
                    .text("state")
                    .is_some_and(|state| from.contains(&state))
        };
        let statement = &self.statements.invalidate;
        let _turn = self.turns.take(&id.table, id.shard).await;
        let seen = Version::default();
        Ok(change(&self.session, statement, seen, values, repeatable)
            .await?
            .into())
    }

    /// Takes all splits of a table out of service: one LWT per shard.
    pub async fn take_out_of_service(
        &self,
        table: &TableName,
        shards: u32,
    ) -> Result<(), StoreError> {
        let all = (shards as i32..).take(shards as usize);
        self.take_shards_out(table, all).await
    }

    /// Takes the splits of all other shards than this split's own out of service.
    pub async fn take_others_out_of_service(&self, id: &SplitId) -> Result<(), StoreError> {
        let shards = id.shards();
        let all = (shards as i32..).take(shards as usize);
        let others = all.filter(|shard| *shard != id.shard);
        self.take_shards_out(&id.table, others).await
    }

    /// Takes all splits of this split's shard out of service.
    pub async fn take_own_out_of_service(&self, id: &SplitId) -> Result<(), StoreError> {
        self.take_shards_out(&id.table, [id.shard]).await
    }

    async fn take_shards_out(
        &self,
        table: &TableName,
        shards: impl IntoIterator<Item = i32>,
    ) -> Result<(), StoreError> {
        let take = async |shard: i32| {
            // A retired shard stays retired, but an LWT of our own must confirm that, too.
            let next = |epoch: i32| match epoch {
                ..=RETIRED => RETIRED,
                epoch => epoch.saturating_add(1),
            };
            self.move_epoch(table, shard, next).await.map(drop)
        };
        // Concurrently, because the caller waits for all of them.
        let mut taken = futures::stream::iter(shards)
            .map(take)
            .buffer_unordered(SHARDS_SIDE_BY_SIDE);
        while let Some(one) = taken.next().await {
            one?;
        }
        Ok(())
    }

    /// Closes a table's shards, before the table moves to another number of shards or is no longer watched.
    pub async fn retire(&self, table: &TableName, shards: u32) -> Result<(), StoreError> {
        for reading in self.read_shards(table, shards).await? {
            self.move_epoch(table, reading.shard, |_| RETIRED).await?;
        }
        Ok(())
    }

    /// Only an applied LWT of our own proves that the epoch moved, so if another process moved it, this moves it once
    /// more.
    pub(super) async fn move_epoch(
        &self,
        table: &TableName,
        shard: i32,
        next: impl Fn(i32) -> i32,
    ) -> Result<Version, StoreError> {
        let reading = self.read_shard(table, shard).await?;
        let (mut seen, mut epoch) = (reading.version, reading.epoch);
        if seen == Version(0) {
            seen = self.begin_shard(table, shard).await?;
        }
        loop {
            let to = next(epoch);
            let values = |version: Version| {
                bind![
                    version.0,
                    version.0,
                    to,
                    table.keyspace.clone(),
                    table.table.clone(),
                    shard,
                    version.0,
                    epoch
                ]
            };
            let repeatable = |answer: &Answer| answer.int("epoch") == Some(epoch);
            let statement = &self.statements.set_epoch;
            let _turn = self.turns.take(table, shard).await;
            match change(&self.session, statement, seen, values, repeatable).await? {
                Ended::Applied(version) => return Ok(version),
                Ended::Lost(answer) => match (answer.int("epoch"), answer.version()) {
                    (Some(moved), Some(version)) if moved != epoch => {
                        epoch = moved;
                        seen = version;
                    }
                    _ => {
                        let text = format!("shard {shard} of {table} without an epoch");
                        return Err(not_understood(text));
                    }
                },
            }
        }
    }

    /// Gives a shard its first version, unless another process was first.
    pub(super) async fn begin_shard(
        &self,
        table: &TableName,
        shard: i32,
    ) -> Result<Version, StoreError> {
        let values = |version: Version| {
            bind![
                version.0,
                version.0,
                table.keyspace.clone(),
                table.table.clone(),
                shard
            ]
        };
        let statement = &self.statements.begin_shard;
        let _turn = self.turns.take(table, shard).await;
        let seen = Version(0);
        Ok(
            match change(&self.session, statement, seen, values, |_| false).await? {
                Ended::Applied(version) => version,
                Ended::Lost(answer) => answer.version().unwrap_or(seen),
            },
        )
    }

    /// Ends a generation in any state, including one that this version does not know. [`Outcome::Lost`]: another
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

    /// Moves a shard's version and nothing else. Every change of the shard that was seen before is then decided, on a
    /// quorum, and every other proxy looks again.
    pub async fn settle_shard(&self, table: &TableName, shard: i32) -> Result<(), StoreError> {
        self.move_epoch(table, shard, |epoch| epoch).await.map(drop)
    }
}

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Applied(version) => Self::Applied(version),
            Ended::Lost(_) => Self::Lost,
        }
    }
}

pub(super) fn now() -> CqlTimestamp {
    CqlTimestamp(unix_millis())
}
