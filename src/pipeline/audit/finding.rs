//! The result of comparing a split in service with its original, and what follows from it. This is the only place where
//! a copy that differs is taken out of service: both the audit of a worker and `narrows verify` end here.

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
    /// Both sides were read several times, and differed each time.
    Differs(Why),
    /// One side has too many tombstones to be read any longer, which says nothing about the copy.
    Unreadable(String),
    /// The two sides cannot be compared, and a retry would not help.
    Unproven(String),
}

/// Why a copy is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// For logs, which contain no keys.
    pub told: String,
    /// For the control keyspace and `narrows verify`, which may show keys.
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
    /// Puts `before` in front of the reason.
    pub fn behind(&self, before: &str) -> Self {
        Self {
            told: format!("{before}, {}", self.told),
            kept: format!("{before}, {}", self.kept),
        }
    }
}

impl Finding {
    /// An error is due to the present state of the cluster: a later comparison may succeed.
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
                let text = "there are more tombstones in one place than a read may scan";
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
    /// All splits of its table are out of service now, and the table is in this mode; `None` if the table is no longer
    /// watched.
    Now(Option<Mode>),
    /// The split went out of service while it was compared, so a difference is expected.
    Before,
}

/// Whether reads are served from a generation now. A write through a proxy takes it out of service first, so a
/// difference that was seen *before* this call counts only if the generation is still in service.
pub async fn is_in_service(
    store: &Store,
    id: &SplitId,
    generation: Generation,
) -> Result<bool, StoreError> {
    let standing = store.read_key(id).await?.standing;
    Ok(standing
        .is_some_and(|standing| standing.is_in_service() && standing.generation == generation))
}

/// Takes all splits of a table out of service because a generation of one differs from its original, and stops
/// splitting: either somebody writes around the proxies, or there is a fault. No other copy is safe from either, and
/// after an operator has set the mode back nothing would compare the others before they are read.
pub async fn demote(
    store: &Store,
    id: &SplitId,
    generation: Generation,
    why: &Why,
) -> Result<Demoted, StoreError> {
    if !is_in_service(store, id, generation).await? {
        return Ok(Demoted::Before);
    }
    // Log first: even if a later step fails, an operator must act.
    tracing::error!(
        table = %id.table, %generation, reason = %why.told,
        "a split differs from its original; taking all splits of its table out of service, and making no more. Find out \
         who writes around the proxies, then run: narrows mode {} serve", id.table
    );
    // The split's own shard comes last. If this stops half-way, the split is still in service, so the next comparison
    // finds the same difference and all of this is done again. In mode `detect` no proxy reads the split meanwhile.
    store.take_others_out_of_service(id).await?;
    let mode = store.demote_table(&id.table).await?;
    store.take_own_out_of_service(id).await?;
    store.invalidate(id, generation, &why.kept).await?;
    Ok(Demoted::Now(mode))
}
