//! Leases: who may work on a split. A lease is a column that expires by itself, so a dead worker's work is free again
//! without anybody's clock; each acquisition has a token of its own, so a zombie's steps are fenced off.
//!
//! Leases are LWTs of their own that never touch `version`: what expires must not take it along, and nobody follows them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use super::cas::{Answer, bind, send};
use super::{Happened, SplitId, Store, StoreError};
use crate::wide_row::names::Version;
use crate::wide_row::state::State;

/// Repeats of an LWT whose outcome is unknown.
const ATTEMPTS_MAX: usize = 5;

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
        let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let values = || {
            let states: Vec<String> = states.iter().map(|state| (*state).to_owned()).collect();
            bind![lease.seconds(), lease.token.clone(); place id; states]
        };
        for _ in 0..ATTEMPTS_MAX {
            match send(&self.session, &self.statements.acquire, values()).await {
                Ok(answer) if answer.applied => return Ok(Leased::Held(lease)),
                // An earlier attempt took it; holding on to it makes sure that it stays.
                Ok(answer) if is_ours(&answer, &lease) => {
                    return Ok(match self.renew(id, &lease).await? {
                        Leased::Held(()) => Leased::Held(lease),
                        Leased::Lost => Leased::Lost,
                    });
                }
                Ok(_) => return Ok(Leased::Lost),
                Err(error) if matches!(error.happened(), Happened::No) => return Err(error),
                Err(_) => {}
            }
        }
        Err(StoreError::Unknown("a lease was asked for".to_owned()))
    }

    /// Starts its time anew; a third of it is a good interval.
    pub async fn renew(&self, id: &SplitId, lease: &Lease) -> Result<Leased<()>, StoreError> {
        let token = lease.token.clone();
        let values = || bind![lease.seconds(), token.clone(); place id; token.clone()];
        self.while_held(&self.statements.renew, values).await
    }

    /// Gives it back early. An expired one is not an error: then it is free, too.
    pub async fn release(&self, id: &SplitId, lease: &Lease) -> Result<(), StoreError> {
        let values = || bind![; place id; lease.token.clone()];
        self.while_held(&self.statements.release, values).await?;
        Ok(())
    }

    async fn while_held(
        &self,
        statement: &scylla::statement::prepared::PreparedStatement,
        values: impl Fn() -> super::cas::Values,
    ) -> Result<Leased<()>, StoreError> {
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            match send(&self.session, statement, values()).await {
                Ok(answer) if answer.applied => return Ok(Leased::Held(())),
                Ok(_) => return Ok(Leased::Lost),
                Err(error) if matches!(error.happened(), Happened::No) => return Err(error),
                Err(error) => last = Some(error.to_string()),
            }
        }
        Err(StoreError::Unknown(last.unwrap_or_default()))
    }
}

fn is_ours(answer: &Answer, lease: &Lease) -> bool {
    answer.text("lease") == Some(lease.token.as_str())
}
