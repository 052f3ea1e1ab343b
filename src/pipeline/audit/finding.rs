//! What a comparison of a split in service has found, and what follows from it. The one place where a copy that differs is
//! taken out of service: the audit of a worker and `narrows verify` both end here.

use crate::pipeline::verify::{Verified, VerifyError};
use crate::schema::TableSchema;
use crate::upstream::pool::PoolError;
use crate::watched::Mode;
use crate::wide_row::names::Generation;
use crate::wide_row::store::{SplitId, Store, StoreError};

/// How a comparison ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    Equal(Verified),
    /// Every time that both sides were read.
    Differs(Why),
    /// One side cannot be read over any more, which says nothing about the copy.
    Unreadable(String),
    /// It cannot be compared, and trying again would find the same.
    Unproven(String),
}

/// Why a copy is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// For logs, which name no key.
    pub told: String,
    /// For people who ask for it.
    pub kept: String,
}

impl From<String> for Why {
    fn from(reason: String) -> Self {
        Self {
            told: reason.clone(),
            kept: reason,
        }
    }
}

impl Why {
    /// The same with what came before it.
    pub fn behind(&self, before: &str) -> Self {
        Self {
            told: format!("{before}, {}", self.told),
            kept: format!("{before}, {}", self.kept),
        }
    }
}

impl Finding {
    /// An error is of the cluster as it is now: a later comparison may succeed.
    pub fn of(
        result: Result<Verified, VerifyError>,
        schema: &TableSchema,
    ) -> Result<Self, PoolError> {
        match result {
            Ok(verified) => Ok(Self::Equal(verified)),
            Err(VerifyError::Differs(difference)) => {
                let row = difference.first_row(&schema.clustering);
                let told = VerifyError::Differs(difference).to_string();
                let kept = format!("{told} at the row {row}");
                Ok(Self::Differs(Why { told, kept }))
            }
            Err(VerifyError::Request(error)) if error.is_too_much() => {
                let text = "there are more tombstones in one place than can be read over";
                Ok(Self::Unreadable(text.to_owned()))
            }
            Err(VerifyError::Request(error)) => Err(error),
            Err(error) => Ok(Self::Unproven(error.to_string())),
        }
    }
}

/// What became of a split whose copy differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demoted {
    /// It is out of service, and its table in this mode; `None`: the table is not watched any more.
    Now(Option<Mode>),
    /// It went out of service while it was compared, so that it differs is nobody's fault.
    Before,
}

/// Whether a generation is read at this time. Whoever writes through a proxy takes it out of service first, so a difference
/// seen *before* this was asked counts only if it still is.
pub async fn is_in_service(
    store: &Store,
    id: &SplitId,
    generation: Generation,
) -> Result<bool, StoreError> {
    let standing = store.read_key(id).await?.standing;
    Ok(standing
        .is_some_and(|standing| standing.is_in_service() && standing.generation == generation))
}

/// Takes a generation that differs from its original out of service, then its table: somebody writes around the proxies, or
/// something is wrong that no other copy is safe from.
pub async fn demote(
    store: &Store,
    id: &SplitId,
    generation: Generation,
    why: &Why,
) -> Result<Demoted, StoreError> {
    if !is_in_service(store, id, generation).await? {
        return Ok(Demoted::Before);
    }
    // Said first: whatever fails then, somebody must act. The table goes before the split, which nobody would look at again.
    tracing::error!(
        table = %id.table, %generation, reason = %why.told,
        "a split differs from its original; it goes out of service, and no split of its table is read any more"
    );
    let mode = store.demote_table(&id.table).await?;
    store.invalidate(id, generation, &why.kept).await?;
    Ok(Demoted::Now(mode))
}
