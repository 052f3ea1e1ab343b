//! Every statement on the control keyspace, prepared once with its consistency.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::policies::retry::DefaultRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};

use super::{StoreError, not_understood};
use crate::statement::quoted;

/// A read of ours that takes longer is given up and tried again by whoever needs it.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Beyond Cassandra's own limit for an LWT, so that its answer comes first.
const LWT_TIMEOUT: Duration = Duration::from_secs(5);
const PAGE_ROWS: i32 = 5000;
/// Whole splits carry their checkpoints with them.
const PAGE_SPLITS: i32 = 200;

/// What stands for what in the texts below.
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
         detected_at, changed_at, failures, seen_bytes, oldest_generation",
    ),
    (
        "{step}",
        "version = ?, row_version = ?, state = ?, generation = ?, row_epoch = ?",
    ),
    (
        "{watched}",
        "mode, late_writes, wide_bytes, target_bytes, max_buckets, shards, time_bucket_column, \
         time_bucket_width_seconds, accept_limit_seconds, quiet_for_seconds, filter",
    ),
];

const SHARDS: &str = "SELECT DISTINCT keyspace_name, table_name, shard, version, epoch, epoch_version FROM \
    {keyspace}.wide_row WHERE keyspace_name = ? AND table_name = ? AND shard IN ?";
const SHARD: &str = "SELECT DISTINCT keyspace_name, table_name, shard, version, epoch, epoch_version FROM \
    {keyspace}.wide_row WHERE {shard}";
/// Finishes what is under way, on a quorum, before it answers.
const SETTLED_SHARD: &str = SHARD;
const ALL_ROWS: &str = "SELECT {row} FROM {keyspace}.wide_row WHERE {shard}";
const CHANGED_ROWS: &str =
    "SELECT {row} FROM {keyspace}.wide_row WHERE {shard} AND row_version > ? ALLOW FILTERING";
const KEY: &str = "SELECT version, epoch, row_version, row_epoch, state, generation, not_before, late_writes, unsettled_until FROM \
    {keyspace}.wide_row WHERE {split}";
const SPLIT: &str = "SELECT {whole} FROM {keyspace}.wide_row WHERE {split}";
/// Every split of a shard with all that is known of it, for people.
const SPLITS: &str = "SELECT {whole} FROM {keyspace}.wide_row WHERE {shard}";
const BEGIN_SHARD: &str = "UPDATE {keyspace}.wide_row SET version = ?, epoch = 0, epoch_version = ? WHERE {shard} IF version = \
    null";
const DETECT: &str = "UPDATE {keyspace}.wide_row SET {step}, detected_at = ?, changed_at = ?, oldest_generation = ?, \
    seen_bytes = ? WHERE {split} IF version < ? AND epoch = ? AND generation = null";
const AGAIN: &str = "UPDATE {keyspace}.wide_row SET {step}, detected_at = ?, changed_at = ?, seen_bytes = ?, pre_split_data = null, \
    post_split_data = null, progress = null, reason = null, not_before = null, lease = null WHERE {split} IF version < ? AND epoch = ? AND generation = ? \
    AND state = ? AND row_version = ?";
const STEP: &str = "UPDATE {keyspace}.wide_row SET {step}, pre_split_data = ?, post_split_data = ?, reason = ?, \
    not_before = ?, failures = ?, changed_at = ? WHERE {split} IF version < ? AND epoch = ? AND generation = ? AND lease = ? AND state \
    IN (?, ?)";
/// In service `not_before` is when it is compared again, which must not keep the next attempt waiting.
const INVALIDATE: &str = "UPDATE {keyspace}.wide_row SET version = ?, row_version = ?, state = 'INVALIDATED', reason = ?, \
    changed_at = ?, not_before = null WHERE {split} IF version < ? AND generation = ? AND state IN ?";
/// Whatever its state: also one that this version does not know.
const END: &str = "UPDATE {keyspace}.wide_row SET version = ?, row_version = ?, state = 'INVALIDATED', reason = ?, changed_at = ?, \
    not_before = ?, late_writes = ?, unsettled_until = ? WHERE {split} IF version < ? AND generation = ?";
const SET_EPOCH: &str = "UPDATE {keyspace}.wide_row SET version = ?, epoch_version = ?, epoch = ? WHERE {shard} IF version < \
    ? AND epoch = ?";
/// The lease expires by itself, so it must never carry `version` with it: it would expire, too.
const ACQUIRE: &str = "UPDATE {keyspace}.wide_row USING TTL ? SET lease = ? WHERE {split} IF lease = null AND state IN ?";
const RENEW: &str =
    "UPDATE {keyspace}.wide_row USING TTL ? SET lease = ? WHERE {split} IF lease = ?";
/// Not part of what is followed, so without a version.
const SAVE_PROGRESS: &str = "UPDATE {keyspace}.wide_row SET progress = ? WHERE {split} IF lease = ? AND generation = ? \
    AND state = ?";
/// The checkpoint goes, so that the next comparison begins at the beginning.
const PROVE_AGAIN: &str = "UPDATE {keyspace}.wide_row SET not_before = ?, progress = null WHERE {split} IF lease = ? AND \
    generation = ? AND state = 'COMPLETED'";
/// Completed splits that are to be compared again.
const DUE_ROWS: &str =
    "SELECT {row} FROM {keyspace}.wide_row WHERE {shard} AND not_before <= ? ALLOW FILTERING";
/// Of a table that is gone, so without a version.
const FORGET_SPLIT: &str =
    "DELETE FROM {keyspace}.wide_row WHERE {split} IF row_version = ? AND lease = null";
const RELEASE: &str = "UPDATE {keyspace}.wide_row SET lease = null WHERE {split} IF lease = ?";
/// A generation's layout is written once, whoever else thinks that it is his to write.
const WRITE_FIRST_BUCKET: &str = "UPDATE {keyspace}.wide_row_layout SET split_table = ?, strategy = ?, bucket_count = ?, checksum = ?, \
    first_clustering = ?, row_count = ?, byte_count = ? WHERE {layout} AND bucket = ? IF checksum = null";
const WRITE_BUCKET: &str = "UPDATE {keyspace}.wide_row_layout SET split_table = ?, strategy = ?, bucket_count = ?, checksum = ?, \
    first_clustering = ?, row_count = ?, byte_count = ? WHERE {layout} AND bucket = ?";
/// Within the data centre: a layout is on a quorum of each before its generation is completed.
const READ_LAYOUT: &str = "SELECT split_table, strategy, bucket_count, checksum, first_clustering, row_count, byte_count FROM \
    {keyspace}.wide_row_layout WHERE {layout}";
const DELETE_LAYOUT: &str = "DELETE FROM {keyspace}.wide_row_layout WHERE {layout}";
/// Not part of what is followed, so without a version.
const SET_OLDEST: &str =
    "UPDATE {keyspace}.wide_row SET oldest_generation = ? WHERE {split} IF generation = ?";
const READ_WATCHED: &str = "SELECT keyspace_name, table_name, row_version, {watched}, paused, seen_table_id, seen_columns, \
    seen_truncations FROM {keyspace}.watched_table WHERE catalog = 'watched'";
const WATCH: &str = "INSERT INTO {keyspace}.watched_table (catalog, keyspace_name, table_name, {watched}) VALUES \
    ('watched', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS";
const SET_SEEN: &str = "UPDATE {keyspace}.watched_table SET row_version = ?, seen_table_id = ?, seen_columns = ?, \
    seen_truncations = ? WHERE catalog = 'watched' AND keyspace_name = ? AND table_name = ? IF \
    row_version = ?";
const RESHARD: &str = "UPDATE {keyspace}.watched_table SET shards = ?, row_version = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
    table_name = ? IF shards = ? AND row_version = ?";

const SET_MODE: &str = "UPDATE {keyspace}.watched_table SET mode = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
    table_name = ? IF EXISTS";
const CHANGE_MODE: &str = "UPDATE {keyspace}.watched_table SET mode = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
    table_name = ? IF mode = ?";
const SET_PAUSED: &str = "UPDATE {keyspace}.watched_table SET paused = ? WHERE catalog = 'watched' AND keyspace_name = ? AND \
    table_name = ? IF EXISTS";

const SPLIT_TABLES: &str = "SELECT split_table, table_id, lease, unused_since, dropped_at FROM {keyspace}.split_table WHERE \
    keyspace_name = ? AND table_name = ?";
/// The lease expires by itself, so it stands alone.
const RESERVE: &str = "UPDATE {keyspace}.split_table USING TTL ? SET lease = ? WHERE {made} IF lease = null AND table_id = null \
    AND dropped_at = null";
const RECORD_MADE: &str =
    "UPDATE {keyspace}.split_table SET table_id = ?, lease = null WHERE {made} IF lease = ?";
/// One that was made by a worker which died before it could write that down.
const ADOPT: &str = "UPDATE {keyspace}.split_table SET table_id = ? WHERE {made} IF lease = null AND table_id = null AND \
    dropped_at = null";
/// Before a plan that goes into it: from here on it is not dropped for a day.
const USE: &str = "UPDATE {keyspace}.split_table SET unused_since = null WHERE {made} IF table_id = ? AND dropped_at = null";
const SET_UNUSED: &str = "UPDATE {keyspace}.split_table SET unused_since = ? WHERE {made} IF table_id = ? AND unused_since = ? \
    AND dropped_at = null";
const SET_DROPPED: &str = "UPDATE {keyspace}.split_table SET dropped_at = ? WHERE {made} IF table_id = ? AND unused_since = ? \
    AND dropped_at = null";
/// Of an original that is gone.
const FORGET_MADE: &str = "DELETE FROM {keyspace}.split_table WHERE {made} IF table_id = ? AND unused_since = ? AND dropped_at \
    = ? AND lease = null";
const FLEET: &str = "SELECT value FROM {keyspace}.fleet WHERE setting = ?";
const BEGIN_FLEET: &str =
    "INSERT INTO {keyspace}.fleet (setting, value) VALUES (?, ?) IF NOT EXISTS";
const RAISE_FLEET: &str = "UPDATE {keyspace}.fleet SET value = ? WHERE setting = ? IF value < ?";

pub(super) struct Statements {
    pub(super) shards: PreparedStatement,
    pub(super) shard: PreparedStatement,
    pub(super) settled_shard: PreparedStatement,
    pub(super) all_rows: PreparedStatement,
    pub(super) changed_rows: PreparedStatement,
    pub(super) due_rows: PreparedStatement,
    pub(super) key: PreparedStatement,
    pub(super) split: PreparedStatement,
    pub(super) splits: PreparedStatement,
    pub(super) begin_shard: PreparedStatement,
    pub(super) detect: PreparedStatement,
    pub(super) again: PreparedStatement,
    pub(super) step: PreparedStatement,
    pub(super) invalidate: PreparedStatement,
    pub(super) end: PreparedStatement,
    pub(super) set_epoch: PreparedStatement,
    pub(super) acquire: PreparedStatement,
    pub(super) renew: PreparedStatement,
    pub(super) release: PreparedStatement,
    pub(super) save_progress: PreparedStatement,
    pub(super) prove_again: PreparedStatement,
    pub(super) forget_split: PreparedStatement,
    pub(super) write_first_bucket: PreparedStatement,
    pub(super) write_bucket: PreparedStatement,
    pub(super) read_layout: PreparedStatement,
    pub(super) delete_layout: PreparedStatement,
    pub(super) set_oldest: PreparedStatement,
    pub(super) read_watched: PreparedStatement,
    pub(super) watch: PreparedStatement,
    pub(super) set_seen: PreparedStatement,
    pub(super) reshard: PreparedStatement,
    pub(super) set_mode: PreparedStatement,
    pub(super) change_mode: PreparedStatement,
    pub(super) set_paused: PreparedStatement,
    pub(super) split_tables: PreparedStatement,
    pub(super) reserve: PreparedStatement,
    pub(super) record_made: PreparedStatement,
    pub(super) adopt: PreparedStatement,
    pub(super) use_split_table: PreparedStatement,
    pub(super) set_unused: PreparedStatement,
    pub(super) set_dropped: PreparedStatement,
    pub(super) forget_made: PreparedStatement,
    pub(super) fleet: PreparedStatement,
    pub(super) fleet_nearby: PreparedStatement,
    pub(super) begin_fleet: PreparedStatement,
    pub(super) raise_fleet: PreparedStatement,
    /// What a change must reach.
    pub(super) commit: Consistency,
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
        Ok(Self {
            shards: with.versions(SHARDS).await?,
            shard: with.versions(SHARD).await?,
            settled_shard: with.read(SETTLED_SHARD, Consistency::Serial).await?,
            all_rows: with.rows(ALL_ROWS).await?,
            changed_rows: with.rows(CHANGED_ROWS).await?,
            due_rows: with.rows(DUE_ROWS).await?,
            key: with.rows(KEY).await?,
            split: with.rows(SPLIT).await?,
            splits: with.whole_splits(SPLITS).await?,
            begin_shard: with.lwt(BEGIN_SHARD).await?,
            detect: with.lwt(DETECT).await?,
            again: with.lwt(AGAIN).await?,
            step: with.lwt(STEP).await?,
            invalidate: with.lwt(INVALIDATE).await?,
            end: with.lwt(END).await?,
            set_epoch: with.lwt(SET_EPOCH).await?,
            acquire: with.lwt(ACQUIRE).await?,
            renew: with.lwt(RENEW).await?,
            release: with.lwt(RELEASE).await?,
            save_progress: with.lwt(SAVE_PROGRESS).await?,
            prove_again: with.lwt(PROVE_AGAIN).await?,
            forget_split: with.lwt(FORGET_SPLIT).await?,
            write_first_bucket: with.lwt(WRITE_FIRST_BUCKET).await?,
            write_bucket: with.write(WRITE_BUCKET).await?,
            read_layout: with.versions(READ_LAYOUT).await?,
            delete_layout: with.write(DELETE_LAYOUT).await?,
            set_oldest: with.lwt(SET_OLDEST).await?,
            read_watched: with.versions(READ_WATCHED).await?,
            watch: with.lwt(WATCH).await?,
            set_seen: with.lwt(SET_SEEN).await?,
            reshard: with.lwt(RESHARD).await?,
            set_mode: with.lwt(SET_MODE).await?,
            change_mode: with.lwt(CHANGE_MODE).await?,
            set_paused: with.lwt(SET_PAUSED).await?,
            split_tables: with.rows(SPLIT_TABLES).await?,
            reserve: with.lwt(RESERVE).await?,
            record_made: with.lwt(RECORD_MADE).await?,
            adopt: with.lwt(ADOPT).await?,
            use_split_table: with.lwt(USE).await?,
            set_unused: with.lwt(SET_UNUSED).await?,
            set_dropped: with.lwt(SET_DROPPED).await?,
            forget_made: with.lwt(FORGET_MADE).await?,
            fleet: with.read(FLEET, Consistency::Serial).await?,
            fleet_nearby: with.versions(FLEET).await?,
            begin_fleet: with.lwt(BEGIN_FLEET).await?,
            raise_fleet: with.lwt(RAISE_FLEET).await?,
            commit: with.commit,
        })
    }
}

impl Preparing<'_> {
    fn whole(&self, text: &str) -> String {
        let text = text.replace("{keyspace}", &self.keyspace);
        let put = |text: String, (name, part): (&str, &str)| text.replace(name, part);
        PARTS.into_iter().fold(text, put)
    }

    /// Versions are asked for all the time, so within the data centre.
    async fn versions(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::LocalQuorum).await
    }

    /// Rows only when a version moved.
    async fn rows(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        self.read(text, Consistency::Quorum).await
    }

    /// Many whole rows, in pages that are small whatever their checkpoints hold.
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

    /// What may be written twice.
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
    let missing = || StoreError::Refused(format!("keyspace {keyspace} does not exist").into());
    Ok(row.ok_or_else(missing)?.0)
}
