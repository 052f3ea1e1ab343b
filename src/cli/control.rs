//! The control keyspace and the originals, as commands use them: the watched tables, one partition by its key, and
//! requests to originals with a worker's throttle.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use super::exit;
use super::key::{self, KeyColumns, KeyForm};
use crate::config::Config;
use crate::pipeline::original::requests::Requests;
use crate::pipeline::original::throttle::Throttle;
use crate::schema::TableSchema;
use crate::schema::names::{PartitionKey, TableName};
use crate::tls;
use crate::upstream::balance::Balance;
use crate::upstream::dial::Dialer;
use crate::upstream::pool::{Pool, PoolConfig};
use crate::wide_row::schema;
use crate::wide_row::store::connect;
use crate::wide_row::store::{SplitId, Store, WatchedRow};

pub(super) struct Control<'a> {
    pub(super) config: &'a Config,
    pub(super) store: Store,
}

impl<'a> Control<'a> {
    /// Connects, and checks that the control keyspace is one that this version understands.
    pub(super) async fn open(config: &'a Config) -> anyhow::Result<Self> {
        let session = Arc::new(connect::connect(config).await?);
        schema::verify(&session, &config.control.keyspace).await?;
        let store = Store::open(session, &config.control.keyspace).await?;
        Ok(Self { config, store })
    }

    /// The table that a command names, or all watched tables.
    pub(super) async fn tables(&self, name: Option<&str>) -> anyhow::Result<Vec<WatchedRow>> {
        match name {
            Some(name) => Ok(vec![self.table(name).await?]),
            None => Ok(self.store.read_watched().await?),
        }
    }

    /// A watched table whose shards this version can follow.
    pub(super) async fn table(&self, name: &str) -> anyhow::Result<WatchedRow> {
        let row = self.watched(name).await?;
        if !row.table.is_sound() {
            let shards = row.table.shards;
            let text = format!("{name} has {shards} shards, which this version cannot follow");
            return Err(exit::error(exit::CONTROL_KEYSPACE, text));
        }
        Ok(row)
    }

    pub(super) async fn watched(&self, name: &str) -> anyhow::Result<WatchedRow> {
        let rows = self.store.read_watched().await?;
        let names: Vec<_> = rows.iter().map(|row| row.table.name.to_string()).collect();
        let found = rows.into_iter().zip(&names).find(|(_, of)| *of == name);
        let (row, _) = found.ok_or_else(|| anyhow!(not_watched(name, &names)))?;
        Ok(row)
    }

    /// The key columns of a table; without them, keys are written as hex, for instance if the table is gone.
    pub(super) async fn key_columns(&self, table: &TableName) -> anyhow::Result<KeyColumns> {
        let described = self.store.describe(table).await?;
        Ok(KeyColumns::new(described.schema.as_deref()))
    }

    /// The schema of an original that a command reads.
    pub(super) async fn schema(&self, table: &TableName) -> anyhow::Result<Arc<TableSchema>> {
        let described = self.store.describe(table).await?;
        described.schema.ok_or_else(|| no_table(table))
    }

    /// One partition of a watched table.
    pub(super) async fn partition(
        &self,
        table: &str,
        given: &[String],
        form: KeyForm,
    ) -> anyhow::Result<Partition> {
        let row = self.table(table).await?;
        let described = self.store.describe(&row.table.name).await?;
        let columns = KeyColumns::new(described.schema.as_deref());
        let key = match form {
            KeyForm::Hex => key::read_hex(given)?,
            KeyForm::Cql if described.table_id.is_none() => return Err(no_table(&row.table.name)),
            KeyForm::Cql => columns.read(given)?,
        };
        Ok(Partition { row, columns, key })
    }

    /// Requests to originals, on connections that live on the `LocalSet` that calls this.
    pub(super) async fn originals(&self) -> anyhow::Result<Requests> {
        let (upstream, pipeline) = (&self.config.upstream, &self.config.pipeline);
        let tls = upstream.tls.as_ref().map(tls::load_upstream).transpose();
        let tls = tls.context("upstream TLS")?;
        let balance = Arc::new(Balance::default());
        balance.set_cluster(Arc::new(connect::look(upstream, tls.clone()).await?));
        let dialer = Dialer::new(upstream.connect_timeout, tls);
        let credentials = upstream.credentials.clone();
        let pool = PoolConfig::new(dialer, credentials, balance, Arc::default());
        let throttle = Throttle::new(pipeline.throttle, pipeline.bytes_per_second);
        Ok(Requests::new(
            Rc::new(Pool::new(Arc::new(pool))),
            Rc::new(throttle),
        ))
    }
}

/// One partition that a command is about.
pub(super) struct Partition {
    pub(super) row: WatchedRow,
    pub(super) columns: KeyColumns,
    pub(super) key: PartitionKey,
}

impl Partition {
    pub(super) fn id(&self) -> SplitId {
        let table = &self.row.table;
        SplitId::new(table.name.clone(), self.key.clone(), table.shards)
    }

    /// `plant.reading 's1', 7`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.row.table.name, self.columns.show(&self.key))
    }

    /// `plant.reading: sensor = 's1', day = 7`.
    pub(super) fn full_name(&self) -> String {
        let key = self.columns.show_with_names(&self.key);
        format!("{}: {key}", self.row.table.name)
    }

    /// Table and key as arguments of a command.
    pub(super) fn arguments(&self) -> String {
        let key = self.columns.arguments(&self.key);
        format!("{} {key}", self.row.table.name)
    }
}

fn no_table(table: &TableName) -> anyhow::Error {
    anyhow!("{table} is watched, but it no longer exists in the cluster")
}

pub(super) fn no_longer_watched(table: &str) -> anyhow::Error {
    anyhow!("{table} is no longer watched")
}

fn not_watched(table: &str, names: &[String]) -> String {
    /// Enough to find a typing mistake.
    const NAMES_MAX: usize = 10;
    const HOW: &str = "to watch a table, add a [[table]] to the configuration of a proxy";
    let some = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len() {
        0 => format!("{table} is not watched; no table is watched yet; {HOW}"),
        count if count <= NAMES_MAX => {
            format!("{table} is not watched; the watched tables are {some}; {HOW}")
        }
        count => {
            let more = count - NAMES_MAX;
            format!("{table} is not watched; the watched tables are {some} and {more} more; {HOW}")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::key::tests::{sensor_and_day, words};
    use super::*;
    use crate::watched::WatchedTable;

    /// `plant.reading` with the key `'s1', 7`.
    pub(in crate::cli) fn partition() -> Partition {
        let columns = sensor_and_day();
        let key = columns.read(&words(&["'s1'", "7"])).expect("right");
        let table = WatchedTable::new(TableName::new("plant", "reading"));
        Partition {
            row: WatchedRow::unseen(table),
            columns,
            key,
        }
    }

    #[test]
    fn a_table_that_is_not_watched_is_told_with_those_that_are() {
        let how = "to watch a table, add a [[table]] to the configuration of a proxy";
        for (names, text) in [
            (0, "no table is watched yet;"),
            (2, "the watched tables are k.t0, k.t1;"),
            (
                12,
                "the watched tables are k.t0, k.t1, k.t2, k.t3, k.t4, k.t5, k.t6, k.t7, k.t8, k.t9 and 2 more;",
            ),
        ] {
            let names: Vec<String> = (0..names).map(|number| format!("k.t{number}")).collect();
            let expected = format!("a.b is not watched; {text} {how}");
            assert_eq!(not_watched("a.b", &names), expected);
        }
    }
}
