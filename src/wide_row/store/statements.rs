//! Every statement on the control keyspace: its name, its text, and the consistency level with which it is prepared
//! once.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::Session;
use scylla::policies::retry::DefaultRetryPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use super::{StoreError, not_understood};
use crate::statement::quoted;
use crate::wide_row::schema::definition::LATER;

/// A read that takes longer is given up, and its caller tries again.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than Cassandra's own timeout for an LWT, so that its answer comes first.
const LWT_TIMEOUT: Duration = Duration::from_secs(5);
/// A read of one small row that a client's read waits for goes to a second and a third node after this delay each.
const NEXT_NODE_AFTER: Duration = Duration::from_millis(15);
const NEXT_NODES_MAX: usize = 2;
const PAGE_ROWS: i32 = 5000;
/// Smaller, because whole splits include their checkpoints.
const PAGE_SPLITS: i32 = 200;

/// The placeholders in the texts below, and what replaces them.
const PARTS: [(&str, &str); 8] = [
    (
        "{split}",
        "keyspace_name = ? AND table_name = ? AND shard = ? AND partition_key = ?",
    ),
    (
        "{shard}",
        "keyspace_name = ? AND table_name = ? AND shard = ?",
    ),
    (
        "{layout}",
        "keyspace_name = ? AND table_name = ? AND partition_key = ? AND generation = ?",
    ),
    (
        "{made}",
        "keyspace_name = ? AND table_name = ? AND split_table = ?",
    ),
    (
        "{row}",
        "partition_key, row_version, row_epoch, state, not_before, generation, oldest_generation",
    ),
    (
        "{whole}",
        "partition_key, version, epoch, row_epoch, state, generation, lease, pre_split_data, post_split_data, progress, reason, not_before, \
         detected_at, changed_at, failures, seen_bytes, oldest_generation{, found_by}",
    ),
    (
        "{step}",
        "version = ?, row_version = ?, state = ?, generation = ?, row_epoch = ?",
    ),
    (
        "{watched}",
        "mode, late_writes, wide_bytes, target_bytes, max_buckets, shards, time_bucket_column, \
         time_bucket_width_seconds, accept_limit_seconds, quiet_for_seconds, filter{, unit}",
    ),
];

/// The placeholders for columns that an earlier schema lacks, and what replaces them if all such columns exist. Without
/// them the statements say nothing of these columns.
const LATER_PARTS: [(&str, &str); 6] = [
    ("{, unit}", ", time_bucket_unit"),
    ("{, ?}", ", ?"),
    ("{, sealed}", ", seal, sealed_generation"),
    ("{, found_by}", ", found_by"),
    ("{, found_by = ?}", ", found_by = ?"),
    (
        "{, proof}",
        ", horizon, proof, bucket_generation, bucket_number",
    ),
];

const SHARD: &str = "SELECT DISTINCT keyspace_name, table_name, shard, version, epoch, epoch_version FROM \
        {keyspace}.wide_row WHERE {shard}";
const FLEET: &str = "SELECT value FROM {keyspace}.fleet WHERE setting = ?";

/// One line for each statement: its name, how it is prepared (see [`Preparing`]), and its text.
macro_rules! statements {
    ($($(#[$comment:meta])* $name:ident: $prepare:ident($text:expr);)+) => {
        pub(super) struct Statements {
            $($(#[$comment])* pub(super) $name: PreparedStatement,)+
            /// Consistency level of every change.
            pub(super) commit: Consistency,
            /// `None` if the schema lacks the columns of this version.
            pub(super) later: Option<Later>,
        }

        impl Preparing<'_> {
            async fn all(&self) -> Result<Statements, StoreError> {
                Ok(Statements {
                    $($name: self.$prepare($text).await?,)+
                    commit: self.commit,
                    later: self.later().await?,
                })
            }
        }
    };
}

/// The statements that need the columns of this version.
pub(super) struct Later {
    pub(super) write_proof: PreparedStatement,
    pub(super) seal: PreparedStatement,
}

statements! {
    shards: versions("SELECT DISTINCT keyspace_name, table_name, shard, version, epoch, epoch_version FROM \
        {keyspace}.wide_row WHERE keyspace_name = ? AND table_name = ? AND shard IN ?");
    shard: urgent_versions(SHARD);
    polled_shard: versions(SHARD);
    /// Finishes LWTs in flight, on a quorum, before it answers.
    settled_shard: serial(SHARD);
    all_rows: rows("SELECT {row} FROM {keyspace}.wide_row WHERE {shard}");
    changed_rows: rows("SELECT {row} FROM {keyspace}.wide_row WHERE {shard} AND row_version > ? ALLOW FILTERING");
    /// Rows whose `not_before` has passed; the audit takes the completed ones.
    due_rows: rows("SELECT {row} FROM {keyspace}.wide_row WHERE {shard} AND not_before <= ? ALLOW FILTERING");
    /// Keys that must not be guarded before a time that has not come.
    unsettled: rows("SELECT partition_key, unsettled_until FROM {keyspace}.wide_row WHERE {shard} AND unsettled_until > ? \
        ALLOW FILTERING");
    key: urgent_rows("SELECT version, epoch, row_version, row_epoch, state, generation, not_before, late_writes, unsettled_until{, sealed} FROM \
        {keyspace}.wide_row WHERE {split}");
    split: rows("SELECT {whole} FROM {keyspace}.wide_row WHERE {split}");
    /// Every split of a shard with everything known about it, for people.
    splits: whole_splits("SELECT {whole} FROM {keyspace}.wide_row WHERE {shard}");
    begin_shard: lwt("UPDATE {keyspace}.wide_row SET version = ?, epoch = 0, epoch_version = ? WHERE {shard} IF version = \
        null");
    detect: lwt("UPDATE {keyspace}.wide_row SET {step}, detected_at = ?, changed_at = ?, oldest_generation = ?, \
        seen_bytes = ?{, found_by = ?} WHERE {split} IF version < ? AND epoch = ? AND generation = null");
    again: lwt("UPDATE {keyspace}.wide_row SET {step}, detected_at = ?, changed_at = ?, seen_bytes = ?, reason = ?, not_before = ?{, found_by = ?}, \
        pre_split_data = null, post_split_data = null, progress = null, lease = null WHERE {split} IF version < ? AND epoch = ? AND generation = ? \
        AND state = ? AND row_version = ?");
    step: lwt("UPDATE {keyspace}.wide_row SET {step}, pre_split_data = ?, post_split_data = ?, progress = ?, reason = ?, \
        not_before = ?, failures = ?, changed_at = ? WHERE {split} IF version < ? AND epoch = ? AND generation = ? AND lease = ? AND state \
        IN (?, ?)");
    /// Clears `not_before`: on a split in service it is the time of the next comparison, which must not delay the next
    /// attempt.
    invalidate: lwt("UPDATE {keyspace}.wide_row SET version = ?, row_version = ?, state = 'INVALIDATED', reason = ?, \
        changed_at = ?, not_before = null WHERE {split} IF version < ? AND generation = ? AND state IN ?");
    /// Applies in any state, including one that this version does not know.
    end: lwt("UPDATE {keyspace}.wide_row SET version = ?, row_version = ?, state = 'INVALIDATED', reason = ?, changed_at = ?, \
        not_before = ?, late_writes = ?, unsettled_until = ? WHERE {split} IF version < ? AND generation = ?");
    set_epoch: lwt("UPDATE {keyspace}.wide_row SET version = ?, epoch_version = ?, epoch = ? WHERE {shard} IF version < \
        ? AND epoch = ?");
    /// The lease is written with a TTL, so this must never set `version`, which would expire with it.
    acquire: lwt("UPDATE {keyspace}.wide_row USING TTL ? SET lease = ? WHERE {split} IF lease = null AND state IN ?");
    renew: lwt("UPDATE {keyspace}.wide_row USING TTL ? SET lease = ? WHERE {split} IF lease = ?");
    release: lwt("UPDATE {keyspace}.wide_row SET lease = null WHERE {split} IF lease = ?");
    /// Followers need not notice it, so it moves no version.
    save_progress: lwt("UPDATE {keyspace}.wide_row SET progress = ? WHERE {split} IF lease = ? AND generation = ? \
        AND state = ?");
    /// Clears the checkpoint, so that the next comparison starts from the beginning.
    prove_again: lwt("UPDATE {keyspace}.wide_row SET not_before = ?, progress = null WHERE {split} IF lease = ? AND \
        generation = ? AND state = 'COMPLETED'");
    /// For a table that is gone, so it moves no version.
    forget_split: lwt("DELETE FROM {keyspace}.wide_row WHERE {split} IF row_version = ? AND lease = null");
    /// A generation's layout is written once, even if two workers try.
    write_first_bucket: lwt("UPDATE {keyspace}.wide_row_layout SET split_table = ?, strategy = ?, bucket_count = ?, checksum = ?, \
        first_clustering = ?, row_count = ?, byte_count = ? WHERE {layout} AND bucket = ? IF checksum = null");
    write_bucket: write("UPDATE {keyspace}.wide_row_layout SET split_table = ?, strategy = ?, bucket_count = ?, checksum = ?, \
        first_clustering = ?, row_count = ?, byte_count = ? WHERE {layout} AND bucket = ?");
    /// As near as versions: a layout is acknowledged like them before its generation is completed.
    read_layout: urgent_versions("SELECT split_table, strategy, bucket_count, checksum, first_clustering, row_count, byte_count{, proof} FROM \
        {keyspace}.wide_row_layout WHERE {layout}");
    delete_layout: write("DELETE FROM {keyspace}.wide_row_layout WHERE {layout}");
    /// Followers need not notice it, so it moves no version.
    set_oldest: lwt("UPDATE {keyspace}.wide_row SET oldest_generation = ? WHERE {split} IF generation = ?");
    read_watched: versions("SELECT keyspace_name, table_name, row_version, {watched}, paused, seen_table_id, seen_columns, \
        seen_truncations FROM {keyspace}.watched_table WHERE catalog = 'watched'");
    watch: lwt("INSERT INTO {keyspace}.watched_table (catalog, keyspace_name, table_name, {watched}) VALUES \
        ('watched', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?{, ?}) IF NOT EXISTS");
    set_seen: lwt("UPDATE {keyspace}.watched_table SET row_version = ?, seen_table_id = ?, seen_columns = ?, \
        seen_truncations = ? WHERE catalog = 'watched' AND keyspace_name = ? AND table_name = ? IF \
        row_version = ?");
    reshard: lwt("UPDATE {keyspace}.watched_table SET shards = ?, row_version = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
        table_name = ? IF shards = ? AND row_version = ?");
    unwatch: lwt("DELETE FROM {keyspace}.watched_table WHERE catalog = 'watched' AND keyspace_name = ? AND \
        table_name = ? IF EXISTS");
    set_mode: lwt("UPDATE {keyspace}.watched_table SET mode = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
        table_name = ? IF EXISTS");
    change_mode: lwt("UPDATE {keyspace}.watched_table SET mode = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
        table_name = ? IF mode = ?");
    set_paused: lwt("UPDATE {keyspace}.watched_table SET paused = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
        table_name = ? IF EXISTS");
    split_tables: rows("SELECT split_table, table_id, lease, unused_since, dropped_at FROM {keyspace}.split_table WHERE \
    keyspace_name = ? AND table_name = ?");
    /// The lease is written with a TTL, so this sets nothing else.
    reserve: lwt("UPDATE {keyspace}.split_table USING TTL ? SET lease = ? WHERE {made} IF lease = null AND table_id = null \
        AND dropped_at = null");
    record_made: lwt("UPDATE {keyspace}.split_table SET table_id = ?, lease = null WHERE {made} IF lease = ?");
    /// For a table whose worker died before it could record the id.
    adopt: lwt("UPDATE {keyspace}.split_table SET table_id = ? WHERE {made} IF lease = null AND table_id = null AND \
    dropped_at = null");
    /// Sent before a plan uses the table: from here on it is not dropped for a day.
    use_split_table: lwt("UPDATE {keyspace}.split_table SET unused_since = null WHERE {made} IF table_id = ? AND dropped_at = null");
    set_unused: lwt("UPDATE {keyspace}.split_table SET unused_since = ? WHERE {made} IF table_id = ? AND unused_since = ? \
        AND dropped_at = null");
    set_dropped: lwt("UPDATE {keyspace}.split_table SET dropped_at = ? WHERE {made} IF table_id = ? AND unused_since = ? \
        AND dropped_at = null");
    /// For a table that somebody dropped, replaced or truncated.
    set_lost: lwt("UPDATE {keyspace}.split_table SET dropped_at = ? WHERE {made} IF table_id = ? AND dropped_at = null");
    /// For an original that is gone.
    forget_made: lwt("DELETE FROM {keyspace}.split_table WHERE {made} IF table_id = ? AND unused_since = ? AND dropped_at \
    = ? AND lease = null");
    fleet: serial(FLEET);
    fleet_nearby: versions(FLEET);
    begin_fleet: lwt("INSERT INTO {keyspace}.fleet (setting, value) VALUES (?, ?) IF NOT EXISTS");
    /// For a setting that is never changed by an LWT.
    set_fleet: write("UPDATE {keyspace}.fleet SET value = ? WHERE setting = ?");
    raise_fleet: lwt("UPDATE {keyspace}.fleet SET value = ? WHERE setting = ? IF value < ?");
}

/// Prepares statements with the consistency levels that reads and changes need.
struct Preparing<'a> {
    session: &'a Session,
    keyspace: String,
    commit: Consistency,
    urgent: ExecutionProfileHandle,
    has_later: bool,
}

impl Statements {
    pub(super) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, StoreError> {
        let with = Preparing {
            session,
            commit: commit_consistency(session, keyspace).await?,
            has_later: has_later(session, keyspace).await?,
            keyspace: quoted(keyspace),
            urgent: urgent(session),
        };
        with.all().await
    }
}

impl Preparing<'_> {
    fn whole(&self, text: &str) -> String {
        let text = text.replace("{keyspace}", &self.keyspace);
        let put = |text: String, (name, part): (&str, &str)| text.replace(name, part);
        let text = PARTS.into_iter().fold(text, put);
        let later = LATER_PARTS
            .into_iter()
            .map(|(name, part)| (name, if self.has_later { part } else { "" }));
        later.fold(text, put)
    }

    async fn later(&self) -> Result<Option<Later>, StoreError> {
        if !self.has_later {
            return Ok(None);
        }
        let write_proof = "UPDATE {keyspace}.wide_row_layout SET proof = ? WHERE {layout}";
        let seal = "UPDATE {keyspace}.wide_row SET version = ?, row_version = ?, seal = ?, sealed_generation = ? WHERE {split} IF \
            version < ? AND generation = ? AND lease = ? AND state IN ('VERIFYING', 'COMPLETED')";
        Ok(Some(Later {
            write_proof: self.write(write_proof).await?,
            seal: self.lwt(seal).await?,
        }))
    }

    /// Versions are read all the time, so within the data centre; `Store::nearby` says where that is not enough.
    async fn versions(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::LocalQuorum).await
    }

    /// Rows are read only when a version moved, so QUORUM is affordable.
    async fn rows(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::Quorum).await
    }

    /// The same where a client's read waits for it.
    async fn urgent_versions(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        Ok(self.urgent(self.versions(text).await?))
    }

    async fn urgent_rows(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        Ok(self.urgent(self.rows(text).await?))
    }

    fn urgent(&self, mut statement: PreparedStatement) -> PreparedStatement {
        statement.set_execution_profile_handle(Some(self.urgent.clone()));
        statement
    }

    /// Finishes LWTs in flight, on a quorum, before it answers.
    async fn serial(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::Serial).await
    }

    /// Many whole rows, in pages that stay small even with large checkpoints.
    async fn whole_splits(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        let mut statement = self.rows(text).await?;
        statement.set_page_size(PAGE_SPLITS);
        Ok(statement)
    }

    async fn read(
        &self,
        text: &str,
        consistency: Consistency,
    ) -> Result<PreparedStatement, StoreError> {
        let mut statement = Statement::new(self.whole(text));
        statement.set_consistency(consistency);
        statement.set_request_timeout(Some(READ_TIMEOUT));
        statement.set_page_size(PAGE_ROWS);
        statement.set_retry_policy(Some(Arc::new(DefaultRetryPolicy::new())));
        statement.set_is_idempotent(true);
        Ok(self.session.prepare(statement).await?)
    }

    /// A change that may be written twice.
    async fn write(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        let mut statement = Statement::new(self.whole(text));
        statement.set_consistency(self.commit);
        statement.set_request_timeout(Some(LWT_TIMEOUT));
        statement.set_is_idempotent(true);
        Ok(self.session.prepare(statement).await?)
    }

    async fn lwt(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        let mut statement = Statement::new(self.whole(text));
        statement.set_consistency(self.commit);
        statement.set_serial_consistency(Some(SerialConsistency::Serial));
        statement.set_request_timeout(Some(LWT_TIMEOUT));
        statement.set_is_idempotent(false);
        Ok(self.session.prepare(statement).await?)
    }
}

/// As the session's own profile, except that the next nodes are asked sooner: a node that hangs must not hold up every
/// read that it would coordinate.
fn urgent(session: &Session) -> ExecutionProfileHandle {
    let policy = SimpleSpeculativeExecutionPolicy {
        max_retry_count: NEXT_NODES_MAX,
        retry_interval: NEXT_NODE_AFTER,
    };
    let usual = session.get_default_execution_profile_handle();
    let urgent = usual
        .pointee_to_builder()
        .speculative_execution_policy(Some(Arc::new(policy)));
    urgent.build().into_handle()
}

/// A quorum in each data centre that holds the keyspace, because followers read at LOCAL_QUORUM (but see `paxos`).
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

/// Whether the tables have all columns of this version.
async fn has_later(session: &Session, keyspace: &str) -> Result<bool, StoreError> {
    let text = "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = ?";
    let result = session.query_unpaged(text, (keyspace,)).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    let mut missing: Vec<(&str, &str)> = LATER.to_vec();
    for row in rows.rows::<(String, String)>().map_err(not_understood)? {
        let (table, column) = row.map_err(not_understood)?;
        missing.retain(|later| *later != (table.as_str(), column.as_str()));
    }
    Ok(missing.is_empty())
}

type Replication = std::collections::HashMap<String, String>;

async fn replication(session: &Session, keyspace: &str) -> Result<Replication, StoreError> {
    let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let result = session.query_unpaged(text, (keyspace,)).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    let row = rows
        .maybe_first_row::<(Replication,)>()
        .map_err(not_understood)?;
    let missing = || StoreError::Refused(format!("keyspace {keyspace} does not exist").into());
    Ok(row.ok_or_else(missing)?.0)
}
