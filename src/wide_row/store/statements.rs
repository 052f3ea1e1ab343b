//! Every statement on the control keyspace, prepared once with its consistency.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use super::{StoreError, not_understood};
use crate::statement::quoted;

/// A read of ours that takes longer is given up and tried again by whoever needs it.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Beyond Cassandra's own limit for an LWT, so that its answer comes first.
const LWT_TIMEOUT: Duration = Duration::from_secs(5);
const PAGE_ROWS: i32 = 5000;

const SPLIT: &str = "keyspace_name = ? AND table_name = ? AND shard = ? AND partition_key = ?";
const SHARD: &str = "keyspace_name = ? AND table_name = ? AND shard = ?";

pub(super) struct Statements {
    pub(super) shards: PreparedStatement,
    pub(super) shard: PreparedStatement,
    pub(super) all_rows: PreparedStatement,
    pub(super) changed_rows: PreparedStatement,
    pub(super) key: PreparedStatement,
    pub(super) split: PreparedStatement,
    pub(super) begin_shard: PreparedStatement,
    pub(super) detect: PreparedStatement,
    pub(super) again: PreparedStatement,
    pub(super) step: PreparedStatement,
    pub(super) invalidate: PreparedStatement,
    pub(super) set_epoch: PreparedStatement,
    pub(super) acquire: PreparedStatement,
    pub(super) renew: PreparedStatement,
    pub(super) release: PreparedStatement,
}

/// Prepares with the consistencies that reads and changes need.
struct Preparing<'a> {
    session: &'a Session,
    keyspace: String,
    commit: Consistency,
}

impl Statements {
    pub(super) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, StoreError> {
        let with = Preparing {
            session,
            commit: commit_consistency(session, keyspace).await?,
            keyspace: quoted(keyspace),
        };
        let row = "partition_key, row_version, row_epoch, state";
        let step = "version = ?, row_version = ?, state = ?, generation = ?, row_epoch = ?";
        Ok(Self {
            shards: with
                .versions(&format!(
                    "SELECT DISTINCT keyspace_name, table_name, shard, version, epoch, epoch_version FROM {{}}.wide_row \
                     WHERE keyspace_name = ? AND table_name = ? AND shard IN ?"
                ))
                .await?,
            shard: with
                .versions(&format!(
                    "SELECT DISTINCT keyspace_name, table_name, shard, version, epoch, epoch_version FROM {{}}.wide_row \
                     WHERE {SHARD}"
                ))
                .await?,
            all_rows: with.rows(&format!("SELECT {row} FROM {{}}.wide_row WHERE {SHARD}")).await?,
            changed_rows: with
                .rows(&format!(
                    "SELECT {row} FROM {{}}.wide_row WHERE {SHARD} AND row_version > ? ALLOW FILTERING"
                ))
                .await?,
            key: with
                .rows(&format!(
                    "SELECT version, epoch, row_epoch, state, generation FROM {{}}.wide_row WHERE {SPLIT}"
                ))
                .await?,
            split: with
                .rows(&format!(
                    "SELECT version, epoch, row_epoch, state, generation, lease, pre_split_data, post_split_data, reason, \
                     not_before, detected_at, changed_at FROM {{}}.wide_row WHERE {SPLIT}"
                ))
                .await?,
            begin_shard: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row SET version = ?, epoch = 0, epoch_version = ? WHERE {SHARD} IF version = null"
                ))
                .await?,
            detect: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row SET {step}, detected_at = ?, changed_at = ? WHERE {SPLIT} \
                     IF version < ? AND epoch = ? AND generation = null"
                ))
                .await?,
            again: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row SET {step}, detected_at = ?, changed_at = ?, pre_split_data = null, \
                     post_split_data = null, reason = null WHERE {SPLIT} \
                     IF version < ? AND epoch = ? AND generation = ? AND state = ?"
                ))
                .await?,
            step: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row SET {step}, pre_split_data = ?, post_split_data = ?, reason = ?, changed_at = ? \
                     WHERE {SPLIT} IF version < ? AND epoch = ? AND generation = ? AND lease = ? AND state IN (?, ?)"
                ))
                .await?,
            invalidate: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row SET version = ?, row_version = ?, state = 'INVALIDATED', reason = ?, \
                     changed_at = ? WHERE {SPLIT} IF version < ? AND generation = ? AND state IN ?"
                ))
                .await?,
            set_epoch: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row SET version = ?, epoch_version = ?, epoch = ? WHERE {SHARD} \
                     IF version < ? AND epoch = ?"
                ))
                .await?,
            // The lease expires by itself, so it must never carry `version` with it: it would expire, too.
            acquire: with
                .lwt(&format!(
                    "UPDATE {{}}.wide_row USING TTL ? SET lease = ? WHERE {SPLIT} IF lease = null AND state IN ?"
                ))
                .await?,
            renew: with
                .lwt(&format!("UPDATE {{}}.wide_row USING TTL ? SET lease = ? WHERE {SPLIT} IF lease = ?"))
                .await?,
            release: with
                .lwt(&format!("UPDATE {{}}.wide_row SET lease = null WHERE {SPLIT} IF lease = ?"))
                .await?,
        })
    }
}

impl Preparing<'_> {
    /// Versions are asked for all the time, so within the data centre.
    async fn versions(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::LocalQuorum).await
    }

    /// Rows only when a version moved.
    async fn rows(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::Quorum).await
    }

    async fn read(
        &self,
        text: &str,
        consistency: Consistency,
    ) -> Result<PreparedStatement, StoreError> {
        let mut statement = Statement::new(text.replace("{}", &self.keyspace));
        statement.set_consistency(consistency);
        statement.set_request_timeout(Some(READ_TIMEOUT));
        statement.set_page_size(PAGE_ROWS);
        statement.set_is_idempotent(true);
        Ok(self.session.prepare(statement).await?)
    }

    async fn lwt(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        let mut statement = Statement::new(text.replace("{}", &self.keyspace));
        statement.set_consistency(self.commit);
        statement.set_serial_consistency(Some(SerialConsistency::Serial));
        statement.set_request_timeout(Some(LWT_TIMEOUT));
        statement.set_is_idempotent(false);
        Ok(self.session.prepare(statement).await?)
    }
}

/// A quorum in each data centre that holds the keyspace, since followers read at LOCAL_QUORUM.
async fn commit_consistency(session: &Session, keyspace: &str) -> Result<Consistency, StoreError> {
    let replication = replication(session, keyspace).await?;
    let data_centers = replication
        .iter()
        .filter(|(name, _)| *name != "class" && *name != "replication_factor")
        .count();
    Ok(if data_centers > 1 {
        Consistency::EachQuorum
    } else {
        Consistency::Quorum
    })
}

type Replication = std::collections::HashMap<String, String>;

async fn replication(session: &Session, keyspace: &str) -> Result<Replication, StoreError> {
    let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let result = session.query_unpaged(text, (keyspace,)).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    let row = rows
        .maybe_first_row::<(Replication,)>()
        .map_err(not_understood)?;
    let missing = || StoreError::Refused(format!("keyspace {keyspace} does not exist"));
    Ok(row.ok_or_else(missing)?.0)
}
