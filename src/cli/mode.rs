//! `narrows mode`: shows or changes the mode of a table. Every proxy follows at its next poll.

use clap::Args;

use super::control::{Control, no_longer_watched};
use crate::watched::{Mode, WatchedTable};

/// Show or change the mode of a table: off, detect or serve
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows mode plant.reading             show the mode, and what it means
  narrows mode plant.reading detect      read everything from the originals, within a second
  narrows mode plant.reading serve       read from the splits again

  off     nothing is found or split; the originals answer all reads
  detect  wide partitions are found and reported; the originals answer all reads
  serve   wide partitions are split, and their reads are answered from the splits

Changes: one row of the control keyspace; all proxies follow at their next poll, in about a second.
The command does not ask for confirmation, because nothing is lost: splits stay as they are in every
mode, writes to them are checked in every mode, and in mode serve they are read again at once.")]
pub struct ModeArguments {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// off, detect or serve; without it, the mode is shown
    #[arg(value_parser = parse)]
    pub mode: Option<Mode>,
}

fn parse(text: &str) -> Result<Mode, String> {
    let names = Mode::ALL.map(Mode::as_str).join(", ");
    Mode::parse(text).ok_or_else(|| format!("the modes are {names}"))
}

pub(super) async fn mode(control: &Control<'_>, command: &ModeArguments) -> anyhow::Result<String> {
    let row = control.table(&command.table).await?;
    let Some(mode) = command.mode else {
        return Ok(shown(&row.table));
    };
    // Written even if the mode is the same: only an LWT of our own that applied proves it.
    match control.store.set_mode(&row.table.name, mode).await? {
        true => Ok(changed(&row.table, mode)),
        false => Err(no_longer_watched(&command.table)),
    }
}

fn shown(table: &WatchedTable) -> String {
    let (name, mode, meaning) = (&table.name, table.mode.as_str(), meaning(table.mode));
    let paused = match table.paused {
        true => format!(
            "it is paused: no split begins another stage; to continue: narrows splits resume {name}\n"
        ),
        false => String::new(),
    };
    format!("{name} is in mode {mode}: {meaning}\n{paused}")
}

fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "nothing is found or split; the originals answer all reads",
        Mode::Detect => "wide partitions are found and reported; the originals answer all reads",
        Mode::Serve => {
            "wide partitions are found and split, and their reads are answered from the splits"
        }
    }
}

fn changed(table: &WatchedTable, mode: Mode) -> String {
    if table.mode == mode {
        return shown(table);
    }
    let stays = match mode {
        Mode::Off | Mode::Detect => {
            "splits stay as they are, writes to them are checked as before, and in mode serve they are read again"
        }
        Mode::Serve => "splits in service are read from now on; writes are checked as before",
    };
    let (name, before, after) = (&table.name, table.mode.as_str(), mode.as_str());
    format!(
        "{name} changed from mode {before} to {after}: {}\n\
         {stays}\n\
         proxies follow at their next poll, in about a second; this overrides the mode in their configuration files\n",
        meaning(mode)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::names::TableName;

    #[test]
    fn a_mode_is_shown_with_what_it_means() {
        let mut table = WatchedTable::new(TableName::new("p", "t"));
        assert_eq!(
            shown(&table),
            "p.t is in mode serve: wide partitions are found and split, and their reads are answered from the splits\n"
        );
        table.paused = true;
        assert!(shown(&table).ends_with("to continue: narrows splits resume p.t\n"));
        assert_eq!(changed(&table, Mode::Serve), shown(&table));
    }

    #[test]
    fn a_change_says_what_changes_for_reads_and_what_does_not() {
        let table = WatchedTable::new(TableName::new("p", "t"));
        assert_eq!(
            changed(&table, Mode::Off),
            "p.t changed from mode serve to off: nothing is found or split; the originals answer all reads\n\
             splits stay as they are, writes to them are checked as before, and in mode serve they are read again\n\
             proxies follow at their next poll, in about a second; this overrides the mode in their configuration files\n"
        );
    }
}
