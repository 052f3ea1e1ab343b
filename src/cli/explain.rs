//! `narrows explain`: what would happen to a SELECT, and why. Reads the schema, the watched tables, the record of each
//! partition and its layout; reads no rows and changes nothing. Statements are never logged.
//!
//! `values` replaces bind markers by literals, `text` prints the findings.

mod text;
pub(super) mod values;

use std::sync::Arc;

use anyhow::{anyhow, ensure};
use clap::Args;

use super::control::Control;
use super::exit;
use crate::config::{Config, Enabled};
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
use crate::wide_row::store::{SplitId, Store, StoreError, WatchedRow};
use text::{Facts, Form, Known, Partition, Service, Standing};

/// Explain what a proxy would do with a SELECT, and why: forward it, or answer it from which buckets
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows explain \"SELECT * FROM plant.reading WHERE sensor = 's1' AND day = 7 AND ts > 500\"
  narrows explain --keyspace plant --value \"'s1'\" --value 7 --value 500 \\
      \"SELECT * FROM reading WHERE sensor = ? AND day = ? AND ts > ?\"

Values are CQL literals: a text needs its own quotes inside those of the shell, the list for IN ? is
\"(1, 2)\", and a named marker takes name=literal, such as --value day=7. Without values, the command
only says whether buckets could answer the statement at all.

Changes: nothing; it reads the control keyspace and the schema as they are now, and no rows.")]
pub struct Explain {
    /// The statement, in quotes
    pub statement: String,
    /// The keyspace of a table named without one, spelled as in Cassandra
    #[arg(short, long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// The value of a bind marker: once per marker in their order, or by name
    #[arg(
        short,
        long = "value",
        value_name = "[NAME=]LITERAL",
        allow_hyphen_values = true
    )]
    pub values: Vec<String>,
}

/// A SELECT as it was given, parsed as far as that is possible without a schema.
struct Asked {
    /// The statement, with the given values in place of its markers.
    text: String,
    table: TableName,
    /// `None`: the parser does not understand all of it.
    select: Option<Select>,
}

impl Asked {
    fn read(command: &Explain) -> anyhow::Result<Self> {
        let text = command.statement.trim().trim_end_matches(';').trim_end();
        let Touches::Reads(name) = touches(text) else {
            return Err(anyhow!(
                "only SELECTs can be explained; Narrows forwards a write once no split depends on the data that it \
                 changes, and forwards every other statement unchanged"
            ));
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

fn table_name(name: Name, keyspace: Option<&str>) -> anyhow::Result<TableName> {
    let Name {
        keyspace: own,
        table,
    } = name;
    match own.or_else(|| keyspace.map(str::to_owned)) {
        Some(keyspace) => Ok(TableName::new(keyspace, table)),
        None => Err(anyhow!(
            "{table} has no keyspace: write keyspace.{table}, or add --keyspace"
        )),
    }
}

pub(super) async fn explain(config: &Config, command: &Explain) -> anyhow::Result<String> {
    let asked = Asked::read(command)?;
    look(config, &asked)
        .await
        .map_err(|error| match exit::code(&error) {
            exit::UPSTREAM_UNAVAILABLE => error.context(
                "the statement cannot be explained, because only the cluster knows the table's columns",
            ),
            _ => error,
        })
}

async fn look(config: &Config, asked: &Asked) -> anyhow::Result<String> {
    let store = Control::open(config).await?.store;
    let described = store.describe(&asked.table).await?;
    ensure!(
        described.table_id.is_some(),
        "there is no table {} in the cluster; Cassandra converts names to lower case unless they are quoted",
        asked.table
    );
    let watched = store.read_watched().await?;
    let watched = watched.iter().find(|row| row.table.name == asked.table);
    let form = match &described.schema {
        Some(schema) => form(&store, asked, schema, watched).await?,
        None => Form::Unreadable,
    };
    Ok(text::compose(&Facts {
        text: &asked.text,
        table: &asked.table,
        service: service(watched, config.control.enabled),
        form,
    }))
}

fn service(watched: Option<&WatchedRow>, enabled: Enabled) -> Service {
    match watched {
        None => Service::NotWatched,
        Some(_) if enabled == Enabled::No => Service::Disabled,
        Some(row) if !row.table.is_sound() => Service::Unsound(row.table.shards),
        Some(row) if row.table.mode != Mode::Serve => Service::Mode(row.table.mode),
        Some(row) if row.seen.table_id.is_none() => Service::Unseen,
        Some(_) => Service::Serving,
    }
}

/// Whether buckets could answer the statement, and the state of its partitions. Checks in the same order as a proxy.
async fn form(
    store: &Store,
    asked: &Asked,
    schema: &Arc<TableSchema>,
    watched: Option<&WatchedRow>,
) -> Result<Form, StoreError> {
    let found = || -> Result<_, Reason> {
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
        Err(reason) => return Ok(Form::Impossible(reason)),
    };
    let Some((keys, limits)) = known else {
        return Ok(Form::WithoutValues(readable.select.markers.len()));
    };
    let mut partitions = Vec::new();
    for key in keys {
        let standing = match watched.filter(|row| row.table.is_sound()) {
            Some(row) => standing(store, row, &key).await?,
            None => Standing::NotAsked,
        };
        partitions.push(Partition { key, standing });
    }
    Ok(Form::Known(Box::new(Known {
        readable,
        limits,
        partitions,
    })))
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

    fn read(statement: &str, keyspace: Option<&str>, values: &[&str]) -> Result<Asked, String> {
        let asked = Asked::read(&Explain {
            statement: statement.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        });
        asked.map_err(|error| {
            assert_eq!(exit::code(&error), exit::CONFIGURATION, "{error}");
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
