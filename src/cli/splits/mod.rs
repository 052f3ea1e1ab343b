//! `narrows splits`: what people see of splits, and what they change by hand. Writes the control keyspace only, never an
//! original or a bucket; `add --dry-run`, `scan` and `narrows verify` read originals. Keys are shown to whoever asks and go to no log.
//!
//! One file for each command; `key` and `constant` are how keys are written, `stage` and `moment` how far and how long.

mod add;
pub mod arguments;
mod buckets;
mod constant;
mod dry_run;
mod key;
mod list;
mod live;
mod moment;
mod originals;
mod pause;
mod rollback;
mod scan;
mod show;
mod stage;
mod verify;
mod watch;

use std::sync::Arc;

use tokio::task::LocalSet;

use super::exit;
use super::schema::ApplyError;
use crate::config::Config;
use crate::pipeline::plan::StageError;
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::schema::{self, SchemaError};
use crate::wide_row::store::connect::{self, ConnectError};
use crate::wide_row::store::{SplitId, Store, StoreError, WatchedRow};
use arguments::{KeyForm, SplitsCommand, Verify};
use key::{KeyColumns, KeyError};

#[derive(Debug, thiserror::Error)]
pub enum SplitsError {
    #[error("{0}")]
    Key(#[from] KeyError),
    #[error("{table} is not watched; {watched}")]
    NotWatched { table: String, watched: String },
    #[error("{0} has {1} shards, which this version cannot follow")]
    Unsound(TableName, u32),
    #[error("{0} is watched, but there is no such table in the cluster any more")]
    NoTable(TableName),
    #[error("{0}")]
    Refused(String),
    #[error("nothing was changed")]
    NotConfirmed,
    #[error("the table cannot be read: {0}")]
    Read(#[from] StageError),
    #[error("{0} in service did not equal the original")]
    Differs(String),
    #[error("{0} could not be compared")]
    NotCompared(String),
    #[error("{0}")]
    Cluster(ApplyError),
}

impl From<ConnectError> for SplitsError {
    fn from(error: ConnectError) -> Self {
        Self::Cluster(error.into())
    }
}

impl From<SchemaError> for SplitsError {
    fn from(error: SchemaError) -> Self {
        Self::Cluster(error.into())
    }
}

impl From<StoreError> for SplitsError {
    fn from(error: StoreError) -> Self {
        Self::Cluster(error.into())
    }
}

impl SplitsError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Cluster(error) => error.exit_code(),
            Self::Unsound(..) => exit::CONTROL_KEYSPACE,
            Self::Read(_) | Self::NotCompared(_) => exit::UPSTREAM_UNAVAILABLE,
            Self::Differs(_) => exit::DIFFERENCE,
            Self::Key(_)
            | Self::NotWatched { .. }
            | Self::NoTable(_)
            | Self::Refused(_)
            | Self::NotConfirmed => exit::CONFIGURATION,
        }
    }
}

/// Does what a command says, and tells what came of it.
pub async fn run(config: &Config, command: &SplitsCommand) -> Result<String, SplitsError> {
    let control = Control::open(config).await?;
    // Connections that read originals live on one thread.
    LocalSet::new()
        .run_until(act(config, &control, command))
        .await
}

/// Compares splits with their originals, and tells what was found.
pub async fn verify(config: &Config, command: &Verify) -> Result<String, SplitsError> {
    let control = Control::open(config).await?;
    let verify = verify::verify(config, &control, command);
    LocalSet::new().run_until(verify).await
}

async fn act(
    config: &Config,
    control: &Control,
    command: &SplitsCommand,
) -> Result<String, SplitsError> {
    match command {
        SplitsCommand::List(list) => list::list(control, list).await,
        SplitsCommand::Show(show) => show::show(control, show).await,
        SplitsCommand::Watch(watch) => watch::watch(control, watch).await,
        SplitsCommand::Rollback(rollback) => rollback::rollback(control, rollback).await,
        SplitsCommand::Add(add) => add::add(config, control, add).await,
        SplitsCommand::Scan(scan) => scan::scan(config, control, scan).await,
        SplitsCommand::Pause(table) => pause::pause(control, &table.table).await,
        SplitsCommand::Resume(table) => pause::resume(control, &table.table).await,
    }
}

/// The control keyspace, for a command.
pub(super) struct Control {
    pub(super) store: Store,
}

impl Control {
    pub(super) async fn open(config: &Config) -> Result<Self, SplitsError> {
        let session = Arc::new(connect::connect(config).await?);
        schema::verify(&session, &config.control.keyspace).await?;
        let store = Store::open(session, &config.control.keyspace).await?;
        Ok(Self { store })
    }

    /// The tables that a command is about: the one that is named, or all that are watched.
    async fn tables(&self, name: Option<&str>) -> Result<Vec<WatchedRow>, SplitsError> {
        match name {
            Some(name) => Ok(vec![self.table(name).await?]),
            None => Ok(self.store.read_watched().await?),
        }
    }

    pub(super) async fn table(&self, name: &str) -> Result<WatchedRow, SplitsError> {
        let rows = self.store.read_watched().await?;
        let is_it = |row: &&WatchedRow| row.table.name.to_string() == name;
        let Some(row) = rows.iter().find(is_it) else {
            let names = rows.iter().map(|row| row.table.name.to_string());
            return Err(not_watched(name, &names.collect::<Vec<_>>()));
        };
        if !row.table.is_sound() {
            return Err(SplitsError::Unsound(
                row.table.name.clone(),
                row.table.shards,
            ));
        }
        Ok(row.clone())
    }

    /// How keys of a table are written; those of one that is gone as bytes.
    async fn key_columns(&self, table: &TableName) -> Result<KeyColumns, StoreError> {
        let described = self.store.describe(table).await?;
        Ok(KeyColumns::new(described.schema.as_deref()))
    }

    /// One partition of a watched table, and how its key is written.
    async fn partition(
        &self,
        table: &str,
        given: &[String],
        form: KeyForm,
    ) -> Result<Partition, SplitsError> {
        let row = self.table(table).await?;
        let described = self.store.describe(&row.table.name).await?;
        let columns = KeyColumns::new(described.schema.as_deref());
        let key = match form {
            KeyForm::Hex => key::read_hex(given)?,
            KeyForm::Cql if described.table_id.is_none() => {
                return Err(SplitsError::NoTable(row.table.name));
            }
            KeyForm::Cql => columns.read(given)?,
        };
        Ok(Partition { row, columns, key })
    }
}

/// One partition that a command is about.
struct Partition {
    row: WatchedRow,
    columns: KeyColumns,
    key: PartitionKey,
}

impl Partition {
    fn id(&self) -> SplitId {
        let table = &self.row.table;
        SplitId::new(table.name.clone(), self.key.clone(), table.shards)
    }

    /// `plant.reading 's1', 7`.
    fn name(&self) -> String {
        format!("{} {}", self.row.table.name, self.columns.show(&self.key))
    }

    /// The arguments that name it.
    fn arguments(&self) -> String {
        let table = &self.row.table.name;
        format!("{table} {}", self.columns.arguments(&self.key))
    }
}

fn not_watched(table: &str, names: &[String]) -> SplitsError {
    /// Enough to see the spelling of.
    const NAMES_MAX: usize = 10;
    let watched = match names {
        [] => "no table is: a [[table]] in the configuration of a proxy begins that".to_owned(),
        names => {
            let some = names.iter().take(NAMES_MAX);
            let some: Vec<&str> = some.map(String::as_str).collect();
            let more = match names.len() - some.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "watched are {}{more}. A [[table]] in the configuration of a proxy begins it",
                some.join(", ")
            )
        }
    };
    SplitsError::NotWatched {
        table: table.to_owned(),
        watched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_not_watched_is_told_with_those_that_are() {
        for (names, text) in [
            (
                0,
                "a.b is not watched; no table is: a [[table]] in the configuration of a proxy begins that",
            ),
            (
                2,
                "a.b is not watched; watched are k.t0, k.t1. A [[table]] in the configuration of a proxy begins it",
            ),
            (
                12,
                "a.b is not watched; watched are k.t0, k.t1, k.t2, k.t3, k.t4, k.t5, k.t6, k.t7, k.t8, k.t9 and 2 more. \
                 A [[table]] in the configuration of a proxy begins it",
            ),
        ] {
            let names: Vec<String> = (0..names).map(|number| format!("k.t{number}")).collect();
            let error = not_watched("a.b", &names);
            assert_eq!(error.to_string(), text);
            assert_eq!(error.exit_code(), exit::CONFIGURATION);
        }
    }
}
