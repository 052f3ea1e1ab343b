//! `narrows splits pause` and `narrows splits resume`: whether splits of a table begin their next stage.

use clap::Args;

use crate::cli::control::{Control, no_longer_watched};

#[derive(Debug, Args)]
pub struct OneTable {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
}

pub(super) const PAUSE_HELP: &str = "\
Example:
  narrows splits pause plant.reading

Changes: one row of the control keyspace. No split of the table begins another stage; stages in
progress stop at their next checkpoint, or finish. Splits in service still answer reads, and writes
are checked as before. Undo: narrows splits resume plant.reading";

pub(super) const RESUME_HELP: &str = "\
Example:
  narrows splits resume plant.reading

Changes: one row of the control keyspace. Workers continue the splits within a few seconds, each
from its last checkpoint. Undo: narrows splits pause plant.reading";

pub(super) async fn pause(control: &Control<'_>, table: &str) -> anyhow::Result<String> {
    let was = set(control, table, true).await?;
    Ok(paused(table, was))
}

pub(super) async fn resume(control: &Control<'_>, table: &str) -> anyhow::Result<String> {
    let was = set(control, table, false).await?;
    Ok(resumed(table, was))
}

/// Returns the previous value. Writes even if it is the same: only an LWT of our own that applied proves it.
async fn set(control: &Control<'_>, table: &str, paused: bool) -> anyhow::Result<bool> {
    let row = control.table(table).await?;
    match control.store.set_paused(&row.table.name, paused).await? {
        true => Ok(row.table.paused),
        false => Err(no_longer_watched(table)),
    }
}

fn paused(table: &str, was: bool) -> String {
    let first = match was {
        true => "was paused already",
        false => "is paused: none of its splits begins another stage",
    };
    format!(
        "{table} {first}\n\
         splits in service still answer reads, and writes are checked as before\n\
         to continue: narrows splits resume {table}\n"
    )
}

fn resumed(table: &str, was: bool) -> String {
    match was {
        true => format!(
            "{table} is resumed: workers continue its splits within a few seconds, where they stopped\n\
             to follow them: narrows splits watch {table}\n"
        ),
        false => format!("{table} was not paused\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_and_what_does_not_is_said() {
        assert_eq!(
            paused("p.t", false),
            "p.t is paused: none of its splits begins another stage\n\
             splits in service still answer reads, and writes are checked as before\n\
             to continue: narrows splits resume p.t\n"
        );
        assert!(paused("p.t", true).starts_with("p.t was paused already\n"));
        assert!(resumed("p.t", true).contains("narrows splits watch p.t\n"));
        assert_eq!(resumed("p.t", false), "p.t was not paused\n");
    }
}
