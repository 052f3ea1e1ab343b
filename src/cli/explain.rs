//! `narrows explain`: what would happen to a SELECT, and why. Reads the schema, the watched tables, the key's standing and
//! its layout; reads no rows and changes nothing. Nothing of a statement goes to the log.
//!
//! `values` puts constants in the place of bind markers, `text` says in words what was found, in `lines`.

pub(super) mod lines;
pub(super) mod text;
pub(super) mod values;

use std::sync::Arc;

use super::schema::ApplyError;
use super::{Explain, exit};
use crate::config::Config;
use crate::rewrite::bind::{Bound, Key};
use crate::rewrite::render::From;
use crate::rewrite::{Readable, Reason};
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::statement::select::{Select, parse_select};
use crate::statement::touches::Name;
use crate::statement::{Touches, touches};
use crate::watched::Mode;
use crate::wide_row::layout::LayoutId;
use crate::wide_row::schema;
use crate::wide_row::store::{SplitId, Store, StoreError, WatchedRow, connect};
use text::{Facts, Form, Known, Partition, Service, Standing};
use values::ValueError;

#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(
        "only SELECTs are explained; a write is forwarded once it is sure that it touches no split, \
         anything else is forwarded as it is"
    )]
    NotASelect,
    #[error("{0} has no keyspace: write keyspace.{0}, or add --keyspace")]
    NoKeyspace(String),
    #[error(
        "there is no table {0} in the cluster; names are lower case there unless they were quoted"
    )]
    NoTable(TableName),
    #[error("{0}")]
    Value(#[from] ValueError),
    #[error(
        "{0}\nwithout the cluster the table's columns are not known, and nothing can be explained"
    )]
    Unreachable(ApplyError),
    #[error("{0}")]
    Cluster(ApplyError),
}

impl ExplainError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotASelect | Self::NoKeyspace(_) | Self::NoTable(_) | Self::Value(_) => {
                exit::CONFIGURATION
            }
            Self::Unreachable(error) | Self::Cluster(error) => error.exit_code(),
        }
    }
}

fn cluster(error: impl Into<ApplyError>) -> ExplainError {
    let error = error.into();
    match error.exit_code() {
        exit::UPSTREAM_UNAVAILABLE => ExplainError::Unreachable(error),
        _ => ExplainError::Cluster(error),
    }
}

/// A SELECT as it was given, read as far as that goes without a cluster.
struct Asked {
    /// With values in the place of its markers, where they were given.
    text: String,
    table: TableName,
    /// `None`: it is not understood in full.
    select: Option<Select>,
}

impl Asked {
    fn read(command: &Explain) -> Result<Self, ExplainError> {
        let text = command.statement.trim().trim_end_matches(';').trim_end();
        let Touches::Reads(name) = touches(text) else {
            return Err(ExplainError::NotASelect);
        };
        let (text, select) = match parse_select(text) {
            None => (text.to_owned(), None),
            Some(select) if command.values.is_empty() => (text.to_owned(), Some(select)),
            Some(select) => {
                let (filled, select) = values::fill(text, &select, &command.values)?;
                (filled, Some(select))
            }
        };
        Ok(Self {
            text,
            table: table_name(name, command.keyspace.as_deref())?,
            select,
        })
    }
}

fn table_name(name: Name, keyspace: Option<&str>) -> Result<TableName, ExplainError> {
    let keyspace = name.keyspace.or_else(|| keyspace.map(str::to_owned));
    match keyspace {
        Some(keyspace) => Ok(TableName::new(keyspace, name.table)),
        None => Err(ExplainError::NoKeyspace(name.table)),
    }
}

/// What would happen to a statement now, in words.
pub async fn explain(config: &Config, command: &Explain) -> Result<String, ExplainError> {
    let asked = Asked::read(command)?;
    let store = open(config).await.map_err(cluster)?;
    let described = store.describe(&asked.table).await.map_err(cluster)?;
    if described.table_id.is_none() {
        return Err(ExplainError::NoTable(asked.table));
    }
    let watched = store.read_watched().await.map_err(cluster)?;
    let watched = watched.iter().find(|row| row.table.name == asked.table);
    let form = match &described.schema {
        Some(schema) => match form(&store, &asked, schema, watched)
            .await
            .map_err(cluster)?
        {
            Ok(form) => form,
            Err(reason) => Form::Impossible(reason),
        },
        None => Form::Unreadable,
    };
    Ok(text::compose(&Facts {
        text: &asked.text,
        table: &asked.table,
        service: service(watched, config.control.enabled),
        form,
    }))
}

async fn open(config: &Config) -> Result<Store, ApplyError> {
    let session = Arc::new(connect::connect(config).await?);
    schema::verify(&session, &config.control.keyspace).await?;
    Ok(Store::open(session, &config.control.keyspace).await?)
}

fn service(watched: Option<&WatchedRow>, enabled: bool) -> Service {
    match watched {
        None => Service::NotWatched,
        Some(_) if !enabled => Service::Disabled,
        Some(row) if !row.table.is_sound() => Service::Unsound(row.table.shards),
        Some(row) if row.table.mode != Mode::Serve => Service::Mode(row.table.mode),
        Some(row) if row.seen.table_id.is_none() => Service::Unseen,
        Some(_) => Service::Serving,
    }
}

/// What a split could do for the statement, and how its partitions stand. In the order in which a proxy asks.
async fn form(
    store: &Store,
    asked: &Asked,
    schema: &Arc<TableSchema>,
    watched: Option<&WatchedRow>,
) -> Result<Result<Form, Reason>, StoreError> {
    let found = || {
        let select = asked.select.clone().ok_or(Reason::NotUnderstood)?;
        let readable = Readable::new(&asked.text, select, schema)?;
        if !readable.select.markers.is_empty() {
            return Ok((readable, None));
        }
        let bound = Bound::new(&[], &[])?;
        let keys = readable.keys(&bound)?;
        let limits = readable.limits(&bound)?;
        readable.render(&bound, From::Original)?;
        Ok((readable, Some((keys, limits))))
    };
    let (readable, known) = match found() {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let Some((keys, limits)) = known else {
        return Ok(Ok(Form::WithoutValues(readable.select.markers.len())));
    };
    let mut partitions = Vec::new();
    for key in keys {
        let standing = match watched.filter(|row| row.table.is_sound()) {
            Some(row) => standing(store, row, &key).await?,
            None => Standing::NotAsked,
        };
        partitions.push(Partition { key, standing });
    }
    Ok(Ok(Form::Known(Box::new(Known {
        readable,
        limits,
        partitions,
    }))))
}

async fn standing(store: &Store, row: &WatchedRow, key: &Key) -> Result<Standing, StoreError> {
    let table = &row.table;
    let id = SplitId::new(table.name.clone(), key.key.clone(), table.shards);
    let reading = store.read_key(&id).await?;
    let Some(found) = reading.standing else {
        return Ok(match reading.is_unknown {
            true => Standing::NotUnderstood,
            false => Standing::NoSplit,
        });
    };
    let generation = found.generation;
    if !found.is_in_service() {
        let split = store.read_split(&id).await?;
        return Ok(Standing::OutOfService {
            state: found.state,
            generation,
            is_past: found.row_epoch != found.epoch,
            reason: split.and_then(|split| split.reason),
        });
    }
    let id = LayoutId {
        table: id.table,
        key: id.key,
        generation,
    };
    Ok(match store.read_layout(&id).await? {
        Some(layout) => Standing::Split(layout),
        None => Standing::WithoutLayout(generation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ConfigFile;

    fn read(statement: &str, keyspace: Option<&str>, values: &[&str]) -> Result<Asked, String> {
        let asked = Asked::read(&Explain {
            statement: statement.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            file: ConfigFile { config: None },
        });
        asked.map_err(|error| {
            assert_eq!(error.exit_code(), exit::CONFIGURATION, "{error}");
            error.to_string()
        })
    }

    #[test]
    fn finds_the_table_and_puts_values_in_place() {
        let plant = TableName::new("plant", "reading");
        for (statement, keyspace, values, text) in [
            (
                "SELECT * FROM plant.reading;",
                None,
                &[][..],
                "SELECT * FROM plant.reading",
            ),
            (
                "SELECT * FROM reading",
                Some("plant"),
                &[],
                "SELECT * FROM reading",
            ),
            // The statement's own keyspace counts.
            (
                "SELECT * FROM plant.READING",
                Some("x"),
                &[],
                "SELECT * FROM plant.READING",
            ),
            (
                "SELECT * FROM reading WHERE k = ?",
                Some("plant"),
                &["7"],
                "SELECT * FROM reading WHERE k = 7",
            ),
        ] {
            let asked = read(statement, keyspace, values).expect("right");
            assert_eq!((asked.table, asked.text.as_str()), (plant.clone(), text));
            assert!(asked.select.is_some(), "{statement}");
        }
        let odd = read("SELECT FROM plant.reading WHERE", None, &[]).expect("a SELECT of a kind");
        assert!(odd.select.is_none());
    }

    #[test]
    fn says_what_to_do_about_other_statements() {
        for (statement, sentence) in [
            ("INSERT INTO a.b (k) VALUES (1)", "only SELECTs"),
            ("", "only SELECTs"),
            ("SELECT * FROM reading", "add --keyspace"),
        ] {
            let error = read(statement, None, &[]).err().expect("refused");
            assert!(error.contains(sentence), "{error}");
        }
    }
}
