//! Leases: who may work on a split. A lease is a column that expires by itself, so a dead worker's work is free again
//! without anybody's clock; each acquisition has a token of its own, so a zombie's steps are fenced off.
//!
//! Leases are LWTs of their own that never touch `version`: what expires must not take it along, and nobody follows them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;

use super::cas::{Values, answered, bind, send};
use super::columns::ProgressColumn;
use super::{SplitId, Store, StoreError};
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::state::{Progress, State};

/// The right to move one split, until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    token: String,
    ttl: Duration,
    /// The shard's version when it was taken; a step starts counting there.
    version: Version,
}

impl Lease {
    /// `worker` is for people who look at the table.
    fn new(worker: &str, ttl: Duration, version: Version) -> Self {
        // Unique is enough, secret it need not be: std's random state is seeded anew for every call.
        let random = || RandomState::new().build_hasher().finish();
        Self {
            token: format!("{worker}/{:016x}{:016x}", random(), random()),
            ttl,
            version,
        }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    fn seconds(&self) -> i32 {
        i32::try_from(self.ttl.as_secs()).unwrap_or(i32::MAX).max(1)
    }
}

/// Whether a lease is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased<T> {
    Held(T),
    /// Another holds it, it expired, or there is nothing to work on.
    Lost,
}

impl Store {
    /// Takes the lease of a split that is in one of these states and that nobody holds.
    pub async fn acquire(
        &self,
        id: &SplitId,
        worker: &str,
        ttl: Duration,
        states: &[State],
    ) -> Result<Leased<Lease>, StoreError> {
        let lease = Lease::new(worker, ttl, self.read_key(id).await?.version);
        let states: Vec<&'static str> = states.iter().map(|state| state.as_str()).collect();
        let values = || bind![lease.seconds(), lease.token.clone(); place id; states.clone()];
        let statement = &self.statements.acquire;
        let answer = answered(|| send(&self.session, statement, values())).await?;
        if answer.applied {
            return Ok(Leased::Held(lease));
        }
        if answer.text("lease") != Some(lease.token.as_str()) {
            return Ok(Leased::Lost);
        }
        // An earlier attempt took it; holding on to it makes sure that it stays.
        Ok(match self.renew(id, &lease).await? {
            Leased::Held(()) => Leased::Held(lease),
            Leased::Lost => Leased::Lost,
        })
    }

    /// Starts its time anew; a third of it is a good interval.
    pub async fn renew(&self, id: &SplitId, lease: &Lease) -> Result<Leased<()>, StoreError> {
        let token = lease.token.clone();
        let values = || bind![lease.seconds(), token.clone(); place id; token.clone()];
        self.while_held(&self.statements.renew, values).await
    }

    /// Writes down how far the work has come.
    pub async fn save_progress(
        &self,
        id: &SplitId,
        lease: &Lease,
        generation: Generation,
        progress: &Progress,
    ) -> Result<Leased<()>, StoreError> {
        let column = ProgressColumn::from(progress);
        let token = lease.token.clone();
        let state = progress.state.as_str();
        let values = || bind![column.clone(); place id; token.clone(), generation.0, state];
        self.while_held(&self.statements.save_progress, values)
            .await
    }

    /// A completed split was compared once more, long after, and is equal: the next comparison is due at this time, in
    /// milliseconds since 1970, or never.
    pub async fn prove_again(
        &self,
        id: &SplitId,
        lease: &Lease,
        generation: Generation,
        next: Option<i64>,
    ) -> Result<Leased<()>, StoreError> {
        let token = lease.token.clone();
        let next = next.map(CqlTimestamp);
        let values = || bind![next; place id; token.clone(), generation.0];
        self.while_held(&self.statements.prove_again, values).await
    }

    /// Gives it back early. An expired one is not an error: then it is free, too.
    pub async fn release(&self, id: &SplitId, lease: &Lease) -> Result<(), StoreError> {
        let values = || bind![; place id; lease.token.clone()];
        self.while_held(&self.statements.release, values).await?;
        Ok(())
    }

    async fn while_held(
        &self,
        statement: &PreparedStatement,
        values: impl Fn() -> Values,
    ) -> Result<Leased<()>, StoreError> {
        let answer = answered(|| send(&self.session, statement, values())).await?;
        Ok(if answer.applied {
            Leased::Held(())
        } else {
            Leased::Lost
        })
    }
}
