//! The control keyspace in Cassandra: the only truth about what is split.
//!
//! Four rules make it exact; everything that reads or writes here depends on them.
//! 1. *Versions grow.* Every change is one LWT that sets the shard's static `version` to a strictly larger number
//!    (`IF version < new`) and the row's `row_version` to the same one. A reader that knows all rows up to a version
//!    can ask for those above it.
//! 2. *Only an LWT of ours that applied is an acknowledgement.* What another's LWT seems to have done may have reached
//!    one replica only, so it is written again, which moves the version.
//! 3. *Reads never repair.* The tables have `read_repair = 'NONE'`: a read of the statics alone would otherwise carry a
//!    version to a replica ahead of the row it belongs to. Each replica applies an LWT's mutation atomically, so one
//!    replica's static and row are consistent; an answer from several replicas may mix old and new (see
//!    `known/view.rs`).
//! 4. *Commits reach a quorum in every data centre that reads*, so that a LOCAL_QUORUM read of a version sees every
//!    acknowledged change. Where Paxos v2 may run, they do not, and versions are read at QUORUM (see `paxos`). Rows
//!    are read at QUORUM: an LWT is on a quorum of all replicas before the next one of its partition is proposed, so
//!    a reader that sees a version sees all rows below it, acknowledged or not.

mod cas;
mod columns;
pub mod connect;
mod demote;
mod describe;
mod detect;
mod fleet;
mod layout;
mod lease;
mod list;
mod nodes;
mod obstacle;
mod paxos;
mod read;
mod rights;
mod settings;
mod sizes;
mod split_table;
mod statements;
mod time;
mod top_partitions;
mod transition;
mod unsettled;
mod watched;

use std::error::Error;
use std::sync::Arc;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::statement::Consistency;

use cas::Turns;
use paxos::Proven;

use crate::schema::names::{PartitionKey, TableName};
pub use describe::Described;
pub use detect::{Detected, Found};
pub use lease::{Lease, Leased};
pub use list::Listed;
pub use nodes::NodeFacts;
pub use read::{ChangedRow, KeyReading, ShardReading, Split};
pub use settings::ClusterPatience;
pub use split_table::{HIDDEN, LeftRow, MadeTable, Prospect, SplitTables};
use statements::Statements;
pub use time::TimeError;
pub use top_partitions::{TopPartition, TopPartitions};
pub use transition::{End, Outcome};
pub use unsettled::Left;
pub use watched::{SeenTable, WatchedRow};

/// One split's place in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SplitId {
    pub table: TableName,
    pub shard: i32,
    pub key: PartitionKey,
}

impl SplitId {
    pub fn new(table: TableName, key: PartitionKey, shards: u32) -> Self {
        Self {
            shard: key.shard(shards),
            table,
            key,
        }
    }

    /// The number of shards that the place is one of: the numbers of shards begin with their count.
    pub fn shards(&self) -> u32 {
        1 << self.shard.max(1).ilog2()
    }
}

/// The cause of an error: the driver's own error, or a text of ours.
pub type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the control keyspace does not answer: {0}")]
    Unreachable(#[source] Cause),
    /// The statement was refused before anything happened.
    #[error("the control keyspace refused the request: {0}")]
    Refused(#[source] Cause),
    /// A change was sent, and its outcome could not be found out.
    #[error("it is not known whether a change of the control keyspace took place: {0}")]
    Unknown(#[source] Box<StoreError>),
    #[error("too much contention on one shard of the control keyspace; gave up after {0} attempts")]
    Contended(usize),
    #[error("the control keyspace holds data that this version does not understand: {0}")]
    NotUnderstood(#[source] Cause),
}

/// Whether a change may have happened despite an error.
pub(super) enum Happened {
    No,
    Perhaps,
}

impl StoreError {
    pub(super) fn happened(&self) -> Happened {
        match self {
            Self::Refused(_) | Self::Contended(_) => Happened::No,
            Self::Unreachable(_) | Self::Unknown(_) | Self::NotUnderstood(_) => Happened::Perhaps,
        }
    }
}

impl From<ExecutionError> for StoreError {
    fn from(error: ExecutionError) -> Self {
        use DbError::{AuthenticationError, Invalid, SyntaxError, Unauthorized};
        // Unavailable does not count as refused: a coordinator may find too few live replicas before the proposal, or
        // only at the commit.
        let refused = match &error {
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(kind, _)) => matches!(
                kind,
                Invalid | SyntaxError | Unauthorized | AuthenticationError
            ),
            ExecutionError::EmptyPlan | ExecutionError::BadQuery(_) => true,
            _ => false,
        };
        if refused {
            Self::Refused(error.into())
        } else {
            Self::Unreachable(error.into())
        }
    }
}

impl From<PrepareError> for StoreError {
    fn from(error: PrepareError) -> Self {
        Self::Refused(error.into())
    }
}

/// For replies that do not match the statement, because somebody changed the schema.
pub(super) fn not_understood(cause: impl Into<Cause>) -> StoreError {
    StoreError::NotUnderstood(cause.into())
}

/// The control keyspace, with all statements prepared.
pub struct Store {
    session: Arc<Session>,
    statements: Statements,
    turns: Turns,
    scope: String,
    proven: Proven,
}

impl Store {
    /// The schema must exist.
    pub async fn open(session: Arc<Session>, keyspace: &str) -> Result<Self, StoreError> {
        let statements = Statements::prepare(&session, keyspace).await?;
        let cluster = nodes::cluster_name(&session).await?;
        let store = Self {
            session,
            statements,
            turns: Turns::default(),
            proven: Proven::default(),
            scope: format!("{cluster}/{keyspace}"),
        };
        store.prove_paxos_first().await;
        if store.nearby_consistency() == Consistency::Quorum {
            tracing::info!(
                "the control keyspace spans several data centres, and not every node is known to run Paxos v1 yet (it \
                 takes SELECT on system_views.settings to know): its versions are read at QUORUM"
            );
        }
        Ok(store)
    }

    /// The cluster and the control keyspace: what tells this store from others.
    pub fn scope(&self) -> &str {
        &self.scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_tells_how_many_shards_there_are() {
        for shards in [1, 2, 16, 4096] {
            for number in 0..100_u32 {
                let key = PartitionKey::new(number.to_be_bytes());
                let id = SplitId::new(TableName::new("plant", "reading"), key, shards);
                assert_eq!(id.shards(), shards, "{}", id.shard);
            }
        }
    }
}
