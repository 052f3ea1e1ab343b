//! Leases: which worker may work on a split. A lease is a column with a TTL, so a dead worker's split becomes free
//! without relying on any worker's clock; each acquisition has its own token, so the steps of a worker that lost its
//! lease are fenced off.
//!
//! Leases have separate LWTs that never set `version`: it would expire with the lease, and nobody follows leases.

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
    /// The shard's version when the lease was taken; a step starts counting there.
    version: Version,
}

impl Lease {
    /// `worker` is for people who read the table.
    fn new(worker: &str, ttl: Duration, version: Version) -> Self {
        // It must be unique, not secret: std's random state differs on every call.
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
    /// Another worker holds it, it has expired, or there is nothing to work on.
    Lost,
}

impl Store {
    /// Takes the lease of a split that is in one of these states, if nobody holds it.
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
        // An earlier attempt of ours took it; a renewal makes sure that we still hold it.
        Ok(match self.renew(id, &lease).await? {
            Leased::Held(()) => Leased::Held(lease),
            Leased::Lost => Leased::Lost,
        })
    }

    /// Restarts the lease's time; a third of it is a good interval between renewals.
    pub async fn renew(&self, id: &SplitId, lease: &Lease) -> Result<Leased<()>, StoreError> {
        let token = lease.token.clone();
        let values = || bind![lease.seconds(), token.clone(); place id; token.clone()];
        self.while_held(&self.statements.renew, values).await
    }

    /// Records how far the work has come.
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

    /// Records that a completed split was compared again and is still equal. The next comparison is due at `next`, in
    /// milliseconds since 1970; `None` means never.
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

    /// Gives the lease back early. An expired one is not an error: the split is free then, too.
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
