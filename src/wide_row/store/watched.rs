//! The watched tables: one small partition that every proxy reads whole.

use std::collections::BTreeMap;
use std::time::Duration;

use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::cas::{Values, answered, bind, send};
use super::columns::row_with_later_columns;
use super::{ChangedRow, Store, StoreError, not_understood};
use crate::schema::names::TableName;
use crate::watched::{BucketUnit, LateWrites, Mode, WatchedTable};
use crate::wide_row::names::Version;
use crate::wide_row::state::RETIRED;

/// A row of `watched_table`.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedRow {
    pub table: WatchedTable,
    pub seen: SeenTable,
    /// Counts the changes of `seen`; a change is conditional on the number that was read.
    row_version: Option<i64>,
}

/// What proxies last recorded about the original itself. If the original differs from it now, its splits are no longer
/// copies of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenTable {
    pub table_id: Option<Uuid>,
    /// A fingerprint of its columns.
    pub columns: Option<i64>,
    /// By host id, in milliseconds since 1970.
    pub truncations: BTreeMap<Uuid, i64>,
}

impl Store {
    pub async fn read_watched(&self) -> Result<Vec<WatchedRow>, StoreError> {
        let statement = self.nearby(&self.statements.read_watched);
        let result = self.session.execute_unpaged(&statement, ()).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let watched = |row: Row| WatchedRow::from(row);
        if self.statements.later.is_some() {
            let rows = rows.rows::<Row>().map_err(not_understood)?;
            return rows
                .map(|row| row.map(watched).map_err(not_understood))
                .collect();
        }
        let rows = rows.rows::<EarlierRow>().map_err(not_understood)?;
        let rows = rows.map(|row| row.map(Row::from).map(watched));
        rows.map(|row| row.map_err(not_understood)).collect()
    }

    /// Begins to watch a table. If it is watched already, the stored settings stay.
    pub async fn watch(&self, table: &WatchedTable) -> Result<(), StoreError> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let int = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let mut values = bind![
            table.name.keyspace.clone(),
            table.name.table.clone(),
            table.mode.as_str(),
            table.late_writes.as_str(),
            bytes(table.wide_bytes),
            bytes(table.target_bytes),
            int(table.max_buckets),
            int(table.shards),
            table.time_bucket_column.clone(),
            table.time_bucket_width.map(seconds),
            table.accept_limit.map(seconds),
            seconds(table.quiet_for),
            table.filter.clone(),
        ];
        if self.statements.later.is_some() {
            values.extend(bind![table.time_bucket_unit.map(BucketUnit::as_str)]);
        }
        send(&self.session, &self.statements.watch, values).await?;
        Ok(())
    }

    /// Records what the original is now, unless another process did so since `row` was read.
    pub async fn set_seen(&self, row: &WatchedRow, seen: &SeenTable) -> Result<(), StoreError> {
        let truncations: BTreeMap<Uuid, CqlTimestamp> = seen
            .truncations
            .iter()
            .map(|(host, millis)| (*host, CqlTimestamp(*millis)))
            .collect();
        let name = &row.table.name;
        let values = bind![
            row.next_version(),
            seen.table_id,
            seen.columns,
            truncations,
            name.keyspace.clone(),
            name.table.clone(),
            row.row_version,
        ];
        send(&self.session, &self.statements.set_seen, values).await?;
        Ok(())
    }

    /// Changes a table's mode; its proxies follow within a poll. `false`: it is not watched. What was recorded about
    /// the original stays as it is, with its version.
    pub async fn set_mode(&self, table: &TableName, mode: Mode) -> Result<bool, StoreError> {
        self.set_column(&self.statements.set_mode, table, || bind![mode.as_str()])
            .await
    }

    /// Stops the table's splits before their next stage, or lets them continue. `false`: it is not watched.
    pub async fn set_paused(&self, table: &TableName, paused: bool) -> Result<bool, StoreError> {
        self.set_column(&self.statements.set_paused, table, || bind![paused])
            .await
    }

    /// Conditional only on the row's existence: an unconditional UPDATE would create a row for a table that is no
    /// longer watched. Writing the same value twice is harmless, so it is repeated until it is answered.
    async fn set_column(
        &self,
        statement: &PreparedStatement,
        table: &TableName,
        value: impl Fn() -> Values,
    ) -> Result<bool, StoreError> {
        let values = || {
            let mut values = value();
            values.extend(bind![table.keyspace.clone(), table.table.clone()]);
            values
        };
        let answer = answered(|| send(&self.session, statement, values())).await?;
        Ok(answer.applied)
    }

    /// Moves a table to another number of shards, a power of two that it never moved away from. Its splits are taken out of service
    /// first, because they stay in the old shards. Partitions that a hint may still change are left alone in the new
    /// ones as well.
    pub async fn reshard(&self, row: &WatchedRow, shards: u32) -> Result<(), StoreError> {
        let table = &row.table;
        self.clear_shards(table, shards).await?;
        // If the number of shards is invalid, no shard was ever used.
        if table.is_sound() {
            self.retire(&table.name, table.shards).await?;
            // Before anything can be split there.
            self.carry_unsettled(&table.name, (table.shards, shards))
                .await?;
        }
        let (from, to) = (table.shards as i32, shards as i32);
        let values = bind![
            to,
            row.next_version(),
            table.name.keyspace.clone(),
            table.name.table.clone(),
            from,
            row.row_version,
        ];
        let answer = send(&self.session, &self.statements.reshard, values).await?;
        if answer.applied {
            return Ok(());
        }
        let text = format!("{} was changed by another process; try again", table.name);
        Err(StoreError::Refused(text.into()))
    }

    /// Ends the watching of a table. Its shards are closed first: a proxy that still follows the table serves nothing by
    /// then, and one that no longer does lets writes pass unchecked. `false`: it is not watched.
    pub async fn unwatch(&self, row: &WatchedRow) -> Result<bool, StoreError> {
        let table = &row.table;
        if table.is_sound() {
            self.retire(&table.name, table.shards).await?;
        }
        self.set_column(&self.statements.unwatch, &table.name, Values::new)
            .await
    }

    /// Opens the shards of a table that is watched for the first time, or again. No split from before is in service
    /// then. Returns whether there may have been any.
    pub async fn open_shards(&self, table: &WatchedTable) -> Result<bool, StoreError> {
        let there = self.read_shards(&table.name, table.shards).await?;
        for shard in there.iter().filter(|shard| shard.version > Version(0)) {
            // A retired shard no longer says which epochs it had, but nothing is added to it either.
            let mut free = 1;
            if shard.epoch <= RETIRED {
                let add = |row: ChangedRow| free = free.max(row.row_epoch.saturating_add(1));
                self.read_rows(&table.name, shard.shard, Version(0), add)
                    .await?;
            }
            let next = |epoch: i32| match epoch {
                ..=RETIRED => free,
                epoch => epoch.saturating_add(1),
            };
            self.move_epoch(&table.name, shard.shard, next).await?;
        }
        Ok(there.iter().any(|shard| shard.version > Version(0)))
    }

    /// Makes sure that nothing is in service in the shards that a table moves to. They are in use already if an earlier
    /// move to them stopped half-way, or if the table had them before somebody stopped watching it.
    async fn clear_shards(&self, table: &WatchedTable, shards: u32) -> Result<(), StoreError> {
        let there = self.read_shards(&table.name, shards).await?;
        let refused = |why: &str| {
            let text = format!("{} {why}", table.name);
            Err(StoreError::Refused(text.into()))
        };
        if shards == table.shards {
            return refused(&format!("already has {shards} shards"));
        }
        if there.iter().any(|shard| shard.epoch <= RETIRED) {
            return refused(&format!(
                "had {shards} shards before, and they stay closed; choose another number"
            ));
        }
        match there.iter().any(|shard| shard.version > Version(0)) {
            true => self.take_out_of_service(&table.name, shards).await,
            false => Ok(()),
        }
    }
}

impl WatchedRow {
    /// A table that nobody has looked at yet.
    #[cfg(test)]
    pub(crate) fn unseen(table: WatchedTable) -> Self {
        Self {
            table,
            seen: SeenTable::default(),
            row_version: None,
        }
    }

    /// No proxy has looked at the original yet.
    pub fn is_first_sight(&self) -> bool {
        self.row_version.is_none()
    }

    fn next_version(&self) -> i64 {
        self.row_version.unwrap_or(0).saturating_add(1)
    }
}

row_with_later_columns! {
struct Row, EarlierRow {
    keyspace_name: String,
    table_name: String,
    row_version: Option<i64>,
    mode: Option<String>,
    paused: Option<bool>,
    late_writes: Option<String>,
    wide_bytes: Option<i64>,
    target_bytes: Option<i64>,
    max_buckets: Option<i32>,
    shards: Option<i32>,
    time_bucket_column: Option<String>,
    time_bucket_width_seconds: Option<i64>,
    accept_limit_seconds: Option<i64>,
    quiet_for_seconds: Option<i64>,
    filter: Option<Vec<String>>,
    seen_table_id: Option<Uuid>,
    seen_columns: Option<i64>,
    seen_truncations: Option<BTreeMap<Uuid, CqlTimestamp>>,
}
later {
    time_bucket_unit: Option<String>,
}
}

impl From<Row> for WatchedRow {
    fn from(row: Row) -> Self {
        let default = WatchedTable::new(TableName::new(row.keyspace_name, row.table_name));
        let bytes = |bytes: Option<i64>, default: u64| {
            bytes
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or(default)
        };
        let count = |count: Option<i32>, default: u32| {
            let count = count.and_then(|count| u32::try_from(count).ok());
            count.filter(|count| *count > 0).unwrap_or(default)
        };
        let duration = |seconds: Option<i64>| {
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            seconds.map(Duration::from_secs)
        };
        let truncations = row.seen_truncations.unwrap_or_default();
        Self {
            row_version: row.row_version,
            seen: SeenTable {
                table_id: row.seen_table_id,
                columns: row.seen_columns,
                truncations: truncations
                    .into_iter()
                    .map(|(host, time)| (host, time.0))
                    .collect(),
            },
            table: WatchedTable {
                // A mode of a later version counts as `off` here; writes are checked in every mode.
                mode: match row.mode.as_deref() {
                    None => default.mode,
                    Some(mode) => Mode::parse(mode).unwrap_or(Mode::Off),
                },
                paused: row.paused.unwrap_or(default.paused),
                late_writes: row
                    .late_writes
                    .as_deref()
                    .and_then(LateWrites::parse)
                    .unwrap_or(default.late_writes),
                wide_bytes: bytes(row.wide_bytes, default.wide_bytes),
                target_bytes: bytes(row.target_bytes, default.target_bytes),
                max_buckets: count(row.max_buckets, default.max_buckets),
                shards: count(row.shards, default.shards),
                time_bucket_column: row.time_bucket_column,
                time_bucket_unit: row.time_bucket_unit.as_deref().and_then(BucketUnit::parse),
                time_bucket_width: duration(row.time_bucket_width_seconds),
                accept_limit: duration(row.accept_limit_seconds),
                quiet_for: duration(row.quiet_for_seconds).unwrap_or(default.quiet_for),
                filter: row.filter.unwrap_or(default.filter),
                name: default.name,
            },
        }
    }
}
