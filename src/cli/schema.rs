//! `narrows schema`: prints or creates the control keyspace, and moves a watched table to another number of shards.

use anyhow::ensure;
use clap::{Args, Subcommand};

use super::confirm::confirm;
use super::control::Control;
use crate::config::Config;
use crate::watched::SHARDS_MAX;
use crate::wide_row::schema::{self, Applied};
use crate::wide_row::store::connect;

#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Print the CQL that creates the control keyspace, for a DBA to read and run
    #[command(after_help = "\
Example:
  narrows schema print --config narrows.toml > control.cql
  cqlsh -f control.cql

The name of the keyspace and its replication come from [control]. Without control.replication, the
CQL has a default replication, and a comment says how to choose it.

Changes: nothing, and it needs no cluster. Every statement that it prints has IF NOT EXISTS.")]
    Print,
    /// Create missing parts of the control keyspace, and check the rest
    #[command(after_help = "\
Example:
  narrows schema apply --config narrows.toml

Logs in with the role in upstream.username, which needs CREATE and ALTER only for missing parts.
Without control.replication, a new keyspace is replicated like the keyspace of the first [[table]].

Changes: creates the control keyspace, its tables and its types, where they are missing, and adds
the columns that tables of an earlier version lack. It drops nothing and changes no column: if an
existing table differs otherwise from what Narrows needs, the command names the difference and
exits 78.")]
    Apply,
    Reshard(Reshard),
}

/// Move a watched table with very many splits to another number of shards
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  narrows schema reshard plant.reading 256

Shards are the partitions of the control keyspace that record the splits of a table. 16 shards are
enough for about a million splits, 256 for ten million.

Changes: all splits of the table go out of service, and workers make them again in time; until then
the originals answer. This cannot be undone: a table never returns to a number of shards that it
had. The command asks first; without a terminal it refuses unless --yes is given.")]
pub struct Reshard {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// The new number of shards: a power of two up to 4096 that the table never had
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: u32,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
}

pub(super) async fn run(config: &Config, command: &SchemaCommand) -> anyhow::Result<String> {
    match command {
        SchemaCommand::Print => Ok(print(config)),
        SchemaCommand::Apply => {
            // Ignores control.enabled and control.apply_schema, because an operator asked for it.
            let session = connect::connect(config).await?;
            let applied = schema::apply(&session, &config.control, &config.tables).await?;
            Ok(report(&applied))
        }
        SchemaCommand::Reshard(command) => reshard(config, command).await,
    }
}

fn print(config: &Config) -> String {
    let control = &config.control;
    schema::print(&control.keyspace, control.replication.as_ref())
}

async fn reshard(config: &Config, command: &Reshard) -> anyhow::Result<String> {
    let Reshard { table, shards, yes } = command;
    ensure!(
        shards.is_power_of_two(),
        "{shards} is not a power of two, such as 16 or 256"
    );
    let control = Control::open(config).await?;
    // The table may have a number of shards that this version cannot follow.
    let row = control.watched(table).await?;
    let before = row.table.shards;
    if before == *shards {
        return Ok(format!("{table} already has {shards} shards\n"));
    }
    let consequences = format!(
        "All splits of {table} go out of service, and the table moves from {before} to {shards} shards.\n\
         The originals answer all reads, as slowly as before, until workers have made the splits again.\n\
         This cannot be undone: the table never returns to {before} shards.\n"
    );
    confirm(*yes, &consequences)?;
    control.store.reshard(&row, *shards).await?;
    Ok(format!(
        "{table} moved from {before} to {shards} shards; its splits are out of service, and workers make them again in time\n"
    ))
}

fn report(applied: &Applied) -> String {
    let existed = applied
        .existed
        .iter()
        .map(|name| format!("existed  {name}\n"));
    let made = applied.made.iter().map(|name| format!("created  {name}\n"));
    let mut out: String = existed.chain(made).collect();
    if let Some(replication) = &applied.replication {
        out.push_str(&format!("replication of the keyspace is {replication}\n"));
    }
    out + "the control keyspace is complete\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::replication::Replication;

    #[test]
    fn prints_with_the_settings_and_without_a_cluster() {
        let mut config = Config::default();
        assert!(print(&config).contains("IF NOT EXISTS narrows\n"));
        config.control.keyspace = "other".to_owned();
        config.control.replication =
            Replication::parse("{'class': 'NetworkTopologyStrategy', 'here': 2}");
        let printed = print(&config);
        assert!(printed.contains("CREATE KEYSPACE IF NOT EXISTS \"other\""));
        assert!(printed.contains("{'class': 'NetworkTopologyStrategy', 'here': '2'}"));
    }

    #[test]
    fn says_what_was_created_and_what_existed() {
        let applied = Applied {
            made: vec!["table n.b".to_owned()],
            existed: vec!["keyspace n".to_owned(), "table n.a".to_owned()],
            replication: None,
        };
        assert_eq!(
            report(&applied),
            "existed  keyspace n\nexisted  table n.a\ncreated  table n.b\n\
             the control keyspace is complete\n"
        );
    }
}
