//! How splits begin: a partition that was found wide gets its first generation, or its next.

use scylla::serialize::value::SerializeValue;
use scylla::value::{CqlTimestamp, MaybeUnset};

use super::cas::{Answer, Ended, bind, change};
use super::transition::now;
use super::{KeyReading, SplitId, Store, StoreError};
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::{RETIRED, Standing, State, Transition};

const UNSETTLED: &str = "a write to it has an unknown outcome, and a hint may still deliver it";

/// What recording a wide partition led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    New(Generation),
    /// It has a split that is in progress or in service, or that another process has just recorded.
    Known,
    /// It is too early for another attempt: `not_before` or `unsettled_until` has not passed.
    NotYet,
    /// The table is being moved to another number of shards.
    Retired,
}

/// How a wide partition was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Size of the scan that found it, if there was one.
    pub bytes: Option<i64>,
    /// What drew attention to it; `None` leaves what is recorded. What a person asks for does not wait for
    /// `not_before`.
    pub by: Option<FoundBy>,
}

impl Found {
    fn is_by_hand(self) -> bool {
        self.by == Some(FoundBy::Hand)
    }

    /// Whether the partition was measured and is not wide, but hurts all the same.
    fn is_worse_than(self, state: State, before: Option<FoundBy>) -> bool {
        let hurts = self.by.is_some_and(|by| !by.is_size());
        state == State::NotWide && hurts && before.is_none_or(FoundBy::is_size)
    }
}

impl Store {
    /// Records that a partition is wide; a split that has ended begins its next generation. What a person asks for
    /// begins even while a hint may still change the partition, and waits for that.
    pub async fn detect(&self, id: &SplitId, found: Found) -> Result<Detected, StoreError> {
        let reading = self.read_key(id).await?;
        if let Some(standing) = reading.standing {
            // Without a place for the reason, an attempt that begins anew would not be judged by it.
            let begins = match found.is_by_hand() && self.statements.later.is_some() {
                true => Transition::again_by_hand(standing),
                false => Transition::again(standing),
            };
            let Ok(again) = begins else {
                return Ok(Detected::Known);
            };
            let is_before = |time: Option<i64>| time.is_some_and(|time| now().0 < time);
            let before = self.found_before(id, standing).await?;
            let is_wish = before == Some(FoundBy::Hand);
            if found.is_by_hand() && is_wish && standing.state == State::Detected {
                return Ok(Detected::Known);
            }
            let too_early = is_before(reading.not_before)
                && standing.row_epoch == standing.epoch
                && !found.is_worse_than(standing.state, before);
            if !found.is_by_hand() && (too_early || is_before(reading.unsettled_until)) {
                return Ok(Detected::NotYet);
            }
            // A person's wish stays one until it is fulfilled.
            let by = found.by.filter(|_| !is_wish || found.is_by_hand());
            let found = Found { by, ..found };
            let waits = reading
                .unsettled_until
                .filter(|time| is_before(Some(*time)));
            return self
                .next_generation(id, (&reading, waits), &again, found)
                .await;
        }
        if reading.is_unknown {
            return Ok(Detected::Known);
        }
        // A read of a key that has no row returns no statics, so they are read separately.
        let shard = self.read_shard(&id.table, id.shard).await?;
        let seen = match shard.version {
            Version(0) => self.begin_shard(&id.table, id.shard).await?,
            version => version,
        };
        match shard.epoch {
            ..=RETIRED => Ok(Detected::Retired),
            epoch => self.first_generation(id, seen, epoch, found).await,
        }
    }

    /// By what a split was found that has not been made yet.
    async fn found_before(
        &self,
        id: &SplitId,
        standing: Standing,
    ) -> Result<Option<FoundBy>, StoreError> {
        use State::{Detected, Failed, NotWide, Refused};
        let is_open = matches!(standing.state, Detected | Failed | NotWide | Refused);
        if !is_open || standing.row_epoch != standing.epoch {
            return Ok(None);
        }
        let split = self.read_split(id).await?;
        Ok(split.and_then(|split| split.found_by))
    }

    async fn first_generation(
        &self,
        id: &SplitId,
        seen: Version,
        epoch: i32,
        found: Found,
    ) -> Result<Detected, StoreError> {
        let now = now();
        let first = Generation::first(now.0).ok_or_else(|| {
            StoreError::Refused("this machine's clock is before 2020; set it first".into())
        })?;
        let values = |version: Version| {
            let state = State::Detected.as_str();
            let mut values = bind![
                version.0,
                version.0,
                state,
                first.0,
                epoch,
                now,
                now,
                first.0,
                found.bytes
            ];
            values.extend(self.found_by(found));
            values.extend(bind![; place id; version.0, epoch]);
            values
        };
        let repeatable = |answer: &Answer| {
            answer.int("epoch") == Some(epoch) && answer.int("generation").is_none()
        };
        let statement = &self.statements.detect;
        let _turn = self.turns.take(&id.table, id.shard).await;
        let ended = change(&self.session, statement, seen, values, repeatable).await?;
        Ok(match ended {
            Ended::Applied(_) => Detected::New(first),
            Ended::Lost(_) => Detected::Known,
        })
    }

    async fn next_generation(
        &self,
        id: &SplitId,
        (reading, waits): (&KeyReading, Option<i64>),
        again: &Transition,
        found: Found,
    ) -> Result<Detected, StoreError> {
        let now = now();
        let (from, to) = (again.from().as_str(), again.to().as_str());
        let (last, next) = (again.generation(), again.next_generation());
        let epoch = again.epoch();
        // A process that changed the row since it was read may have had a reason against another attempt.
        let row_version = Some(reading.row_version.0).filter(|version| *version > 0);
        let values = |version: Version| {
            let mut values = bind![
                version.0,
                version.0,
                to,
                next.0,
                epoch,
                now,
                now,
                found.bytes,
                waits.map(|_| UNSETTLED),
                waits.map(CqlTimestamp)
            ];
            values.extend(self.found_by(found));
            values.extend(bind![; place id; version.0, epoch, last.0, from, row_version]);
            values
        };
        let repeatable = |answer: &Answer| {
            answer.int("epoch") == Some(epoch)
                && answer.int("generation") == Some(last.0)
                && answer.text("state") == Some(from)
                && answer.bigint("row_version") == row_version
        };
        let statement = &self.statements.again;
        let _turn = self.turns.take(&id.table, id.shard).await;
        let seen = reading.version;
        let ended = change(&self.session, statement, seen, values, repeatable).await?;
        Ok(match ended {
            Ended::Applied(_) => Detected::New(next),
            Ended::Lost(_) => Detected::Known,
        })
    }

    /// The value of `found_by`, if the schema has it.
    fn found_by(&self, found: Found) -> Option<Box<dyn SerializeValue + Send + Sync>> {
        self.statements.later.as_ref()?;
        Some(Box::new(MaybeUnset::from_option(
            found.by.map(FoundBy::as_str),
        )))
    }
}
