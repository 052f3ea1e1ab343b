//! `narrows unwatch`: ends the watching of a table.

use clap::Args;

use super::confirm::confirm;
use super::control::{Control, no_longer_watched};
use crate::schema::names::TableName;
use crate::statement::quoted;

/// Stop watching a table, and take its splits out of service
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  narrows unwatch plant.reading

First remove the table from the configuration files of all proxies: one that starts with it watches
it again. All splits of the table go out of service at once, and the originals answer all reads.
Nothing is deleted; the command prints the statements that drop the table's split tables.

Changes: one row of the control keyspace for each shard of the table, and one row of watched_table.")]
pub struct UnwatchArguments {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
}

pub(super) async fn unwatch(
    control: &Control<'_>,
    command: &UnwatchArguments,
) -> anyhow::Result<String> {
    let UnwatchArguments { table, yes } = command;
    let row = control.watched(table).await?;
    let consequences = format!(
        "All splits of {table} go out of service, and Narrows forgets that the table was watched.\n\
         The originals answer all reads, as slowly as before.\n\
         A proxy that starts with {table} in its configuration file watches it again.\n"
    );
    confirm(*yes, &consequences)?;
    let split_tables = control.store.read_split_tables(&row.table.name).await?;
    if !control.store.unwatch(&row).await? {
        return Err(no_longer_watched(table));
    }
    let names: Vec<&str> = split_tables.names.iter().map(String::as_str).collect();
    Ok(done(&row.table.name, &names))
}

fn done(table: &TableName, split_tables: &[&str]) -> String {
    let mut out = format!(
        "{table} is no longer watched, and its splits are out of service; proxies follow within a few seconds\n"
    );
    if !split_tables.is_empty() {
        out += "its split tables are left; once no proxy watches the table any more, these statements drop them:\n";
    }
    for name in split_tables {
        let (keyspace, name) = (quoted(&table.keyspace), quoted(name));
        out += &format!("  DROP TABLE {keyspace}.{name};\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_left_to_do() {
        let table = TableName::new("plant", "reading");
        let short = "plant.reading is no longer watched, and its splits are out of service; proxies follow within a few \
                     seconds\n";
        assert_eq!(done(&table, &[]), short);
        let told = done(&table, &["wide_reading_1"]);
        assert!(told.starts_with(short), "{told}");
        assert!(
            told.ends_with("  DROP TABLE \"plant\".\"wide_reading_1\";\n"),
            "{told}"
        );
    }
}
