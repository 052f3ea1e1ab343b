//! `narrows splits add`: nominates a partition by hand. It is split whatever its size, as soon as no hint can change it.

use anyhow::bail;
use clap::Args;

use super::{dry_run, stage};
use crate::cli::control::{Control, Partition};
use crate::cli::key::KeyForm;
use crate::cli::moment;
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::state::State;
use crate::wide_row::store::{Detected, Found, Split};

/// Split a partition, whatever its size, and even if its last attempt failed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows splits add plant.reading \"'s1'\" 7
  narrows splits add plant.reading \"'s1'\" 7 --dry-run
  narrows splits add plant.reading \"'s1'\" 7 --dry-run --json | jq '.buckets | length'

Write the key as CQL literals, one per column of the partition key. A text needs its own quotes
inside those of the shell; 0x… gives the bytes of a value.

Changes: adds the partition to the control keyspace. A worker then measures it, and splits it,
whatever its size and quiet_for; while a hint may still change it, it is WAITING, and `narrows splits
show` says until when. A partition that cannot be copied exactly is REFUSED with the reason. With
--dry-run, the command itself measures the partition by reading all of it at consistency ALL, and
changes nothing. Undo: narrows splits rollback, once the split is GUARDED.")]
pub struct Add {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// The partition key: one CQL literal per column
    #[arg(required = true, allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// Only read the partition and print the plan; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: print the plan as one JSON object
    #[arg(long, requires = "dry_run")]
    pub json: bool,
}

pub(super) async fn add(control: &Control<'_>, command: &Add) -> anyhow::Result<String> {
    if command.dry_run {
        return dry_run::dry_run(control, command).await;
    }
    let partition = control.partition(&command.table, &command.key, KeyForm::Cql);
    let partition = partition.await?;
    let id = partition.id();
    let found = Found {
        bytes: None,
        by: Some(FoundBy::Hand),
    };
    match control.store.detect(&id, found).await? {
        Detected::New(generation) => {
            let split = control.store.read_split(&id).await?;
            Ok(nominated(&partition, generation.0, split.as_ref()))
        }
        Detected::Known => {
            let split = control.store.read_split(&id).await?;
            Ok(known(&partition, split.as_ref()))
        }
        Detected::NotYet => bail!(
            "{} cannot be split yet; narrows splits show {} says why",
            partition.name(),
            partition.arguments()
        ),
        Detected::Retired => {
            bail!(
                "the table is being moved to another number of shards; try again once that is done"
            )
        }
    }
}

fn nominated(partition: &Partition, generation: i32, split: Option<&Split>) -> String {
    let (name, now) = (partition.name(), unix_millis());
    let mut text = format!("{name} is nominated, as generation {generation}\n");
    let waits = split.and_then(|split| stage::waits_until(split, now));
    match (hindrance(&partition.row.table), waits) {
        (Some(hindrance), _) => text.push_str(&hindrance),
        (None, Some(until)) => {
            let until = moment::stamp_and_distance(until, now);
            let reason = split.and_then(|split| split.reason.as_deref());
            let reason = reason.unwrap_or("it may still be written to");
            text.push_str(&format!("it is WAITING until {until}: {reason}\n"));
        }
        (None, None) => text.push_str(
            "a worker measures it next, and splits it as soon as no hint can change it\n",
        ),
    }
    let arguments = partition.arguments();
    let table = &partition.row.table.name;
    text + &format!(
        "to follow it: narrows splits watch {table}\nto see it:    narrows splits show {arguments}\n"
    )
}

/// Why no partition of the table is split at the moment, and the command that changes that.
pub(super) fn hindrance(table: &WatchedTable) -> Option<String> {
    let name = &table.name;
    let (why, what) = match (table.mode, table.paused) {
        (Mode::Serve, false) => return None,
        (Mode::Serve, true) => ("is paused", format!("narrows splits resume {name}")),
        (Mode::Off, _) => ("is in mode off", format!("narrows mode {name} serve")),
        (Mode::Detect, _) => ("is in mode detect", format!("narrows mode {name} serve")),
    };
    Some(format!(
        "but the table {why}, so nothing is split; to change that: {what}\n"
    ))
}

fn known(partition: &Partition, split: Option<&Split>) -> String {
    let name = partition.name();
    let arguments = partition.arguments();
    let what = match split.filter(|split| !stage::is_past(split)) {
        Some(split) if split.standing.state == State::Completed => {
            "is split already, and in service"
        }
        Some(split) if stage::waits_until(split, unix_millis()).is_some() => "waits already",
        Some(split) if stage::is_under_way(split.standing.state) => "is in progress already",
        _ => "was changed by another process just now",
    };
    format!("{name} {what}; nothing was changed\nto see it: narrows splits show {arguments}\n")
}

#[cfg(test)]
mod tests {
    use super::super::stage::tests::split;
    use super::*;
    use crate::cli::control::tests::partition;
    use crate::schema::names::TableName;

    #[test]
    fn what_hinders_a_nomination_is_said_with_what_to_do() {
        let mut table = WatchedTable::new(TableName::new("p", "t"));
        assert_eq!(hindrance(&table), None);
        table.paused = true;
        assert_eq!(
            hindrance(&table).as_deref(),
            Some(
                "but the table is paused, so nothing is split; to change that: narrows splits resume p.t\n"
            )
        );
        table.mode = Mode::Detect;
        assert_eq!(
            hindrance(&table).as_deref(),
            Some(
                "but the table is in mode detect, so nothing is split; to change that: narrows mode p.t serve\n"
            )
        );
    }

    #[test]
    fn a_known_split_is_told_by_what_it_is() {
        let partition = partition();
        for (state, text) in [
            (State::Completed, "is split already, and in service"),
            (State::Copying, "is in progress already"),
            (State::Failed, "was changed by another process just now"),
        ] {
            assert_eq!(
                known(&partition, Some(&split(state))),
                format!(
                    "plant.reading 's1', 7 {text}; nothing was changed\nto see it: narrows splits show plant.reading \"'s1'\" 7\n"
                )
            );
        }
        let mut detected = split(State::Detected);
        let first = nominated(&partition, 5, Some(&detected));
        assert!(
            first.starts_with("plant.reading 's1', 7 is nominated, as generation 5\na worker"),
            "{first}"
        );
        detected.not_before = Some(unix_millis() + 7_200_000);
        detected.reason = Some("a hint may come".to_owned());
        let waits = nominated(&partition, 5, Some(&detected));
        assert!(
            waits.contains("\nit is WAITING until ") && waits.contains(": a hint may come\n"),
            "{waits}"
        );
    }
}
