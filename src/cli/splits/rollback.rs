//! `narrows splits rollback`: takes one split, or all splits of a table, out of service at once. Removes nothing:
//! workers remove the buckets a day later.

use anyhow::{anyhow, bail};
use clap::Args;

use super::stage;
use crate::cli::confirm::confirm;
use crate::cli::control::{Control, Partition};
use crate::cli::key::KeyForm;
use crate::watched::WatchedTable;
use crate::wide_row::state::{INVALIDATED_FROM, State};
use crate::wide_row::store::{Outcome, Split};

/// Take one split, or all splits of a table, out of service at once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows splits rollback plant.reading \"'s1'\" 7
  narrows splits rollback --all plant.reading
  narrows splits rollback --all plant.reading --yes       in a script

Changes: the control keyspace. From then on the original answers; it has every row, because Narrows
never changes it. Workers remove the buckets after a day. A partition that is found wide again is
copied and split again; `narrows splits add` nominates it at once.

The rollback of one split does not ask for confirmation. --all asks first, because reads of every
wide partition of the table become slow at once; without a terminal it refuses unless --yes is
given. To switch reads back and forth quickly, use `narrows mode`, which keeps the splits.")]
pub struct Rollback {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// The partition key: one CQL literal per column
    #[arg(
        required_unless_present = "all",
        conflicts_with = "all",
        allow_negative_numbers = true
    )]
    pub key: Vec<String>,
    /// Take all splits of the table out of service
    #[arg(long)]
    pub all: bool,
    /// With --all: do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// How the key is written: CQL literals, or the whole serialized key as 0x…
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
}

const REASON: &str = "rolled back by hand";
/// Maximum number of attempts. One fails only if a worker changed the split meanwhile.
const ATTEMPTS_MAX: usize = 5;

pub(super) async fn rollback(control: &Control<'_>, command: &Rollback) -> anyhow::Result<String> {
    if command.all {
        return all(control, command).await;
    }
    let partition = control.partition(&command.table, &command.key, command.keys);
    let partition = partition.await?;
    let id = partition.id();
    for _ in 0..ATTEMPTS_MAX {
        let Some(split) = control.store.read_split(&id).await? else {
            bail!(
                "no split of {} is known: the original answers, and there is nothing to roll back",
                partition.name()
            );
        };
        let standing = split.standing;
        if stage::is_past(&split) || !INVALIDATED_FROM.contains(&standing.state) {
            return not_in_service(&partition, &split);
        }
        let generation = standing.generation;
        match control.store.invalidate(&id, generation, REASON).await? {
            Outcome::Applied(_) => return Ok(rolled_back(&partition, standing.state)),
            Outcome::Lost => {}
        }
    }
    Err(anyhow!("a worker keeps changing the split; try again"))
}

/// Why there is nothing to roll back; an error if the split is still in progress.
fn not_in_service(partition: &Partition, split: &Split) -> anyhow::Result<String> {
    let (name, table) = (partition.name(), &partition.row.table.name);
    let state = split.standing.state.as_str();
    if stage::is_past(split) {
        return Ok(format!(
            "{name} went out of service with its whole table already; the original answers\n"
        ));
    }
    if split.standing.state.is_end() {
        return Ok(format!(
            "{name} is {state}: it is not in service, and the original answers already\n"
        ));
    }
    Err(anyhow!(
        "{name} is {state}: nothing is read from it yet, so there is nothing to roll back; \
         to stop work on the splits of the table: narrows splits pause {table}"
    ))
}

fn rolled_back(partition: &Partition, from: State) -> String {
    let (name, arguments) = (partition.name(), partition.arguments());
    let table = &partition.row.table.name;
    let first = match from {
        State::Completed => "is out of service: from now on the original answers",
        State::Invalidated => "was out of service already; the original answers",
        _ => "is not copied any further; the original answers, as before",
    };
    format!(
        "{name} {first}\n\
         its buckets are removed after a day; the original was never changed\n\
         it is split again when it is found wide again; to nominate it at once: narrows splits add {arguments}\n\
         to keep the whole table from being split: narrows splits pause {table}\n"
    )
}

async fn all(control: &Control<'_>, command: &Rollback) -> anyhow::Result<String> {
    let table = control.table(&command.table).await?.table;
    confirm(command.yes, &consequences(&table))?;
    let store = &control.store;
    store.take_out_of_service(&table.name, table.shards).await?;
    Ok(all_rolled_back(&table))
}

fn consequences(table: &WatchedTable) -> String {
    let name = &table.name;
    format!(
        "All splits of {name} go out of service, and the originals answer all reads.\n\
         The answers stay the same, but reads of wide partitions become as slow as they were.\n\
         No command puts these splits back into service. To undo this, partitions must be copied again: when they\n\
         are found wide again, or with narrows splits add. To let the originals answer but keep the splits, use\n\
         narrows mode {name} detect.\n"
    )
}

fn all_rolled_back(table: &WatchedTable) -> String {
    let name = &table.name;
    format!(
        "all splits of {name} are out of service: from now on the originals answer\n\
         their buckets are removed after a day; the originals were never changed\n\
         partitions that are found wide again are split again; to prevent that: narrows mode {name} off\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::stage::tests::split;
    use super::*;
    use crate::cli::control::tests::partition;

    #[test]
    fn what_happened_and_what_may_follow_is_said() {
        assert_eq!(
            rolled_back(&partition(), State::Completed),
            "plant.reading 's1', 7 is out of service: from now on the original answers\n\
             its buckets are removed after a day; the original was never changed\n\
             it is split again when it is found wide again; to nominate it at once: narrows splits add plant.reading \"'s1'\" 7\n\
             to keep the whole table from being split: narrows splits pause plant.reading\n"
        );
        let copying = rolled_back(&partition(), State::Copying);
        assert!(copying.contains("is not copied any further"), "{copying}");
        let all = all_rolled_back(&partition().row.table);
        assert!(all.contains("narrows mode plant.reading off\n"), "{all}");
        let asked = consequences(&partition().row.table);
        assert!(
            asked.contains("To undo this, partitions must be copied again"),
            "{asked}"
        );
    }

    #[test]
    fn what_is_not_in_service_is_told_by_its_state() {
        let told = |split: &Split| not_in_service(&partition(), split);
        let failed = told(&split(State::Failed)).expect("nothing to do");
        assert_eq!(
            failed,
            "plant.reading 's1', 7 is FAILED: it is not in service, and the original answers already\n"
        );
        let mut past = split(State::Completed);
        past.standing.epoch = 1;
        let past = told(&past).expect("nothing to do");
        assert!(past.contains("with its whole table already"), "{past}");
        let planned = told(&split(State::Planned))
            .expect_err("goes on")
            .to_string();
        assert!(
            planned.contains("narrows splits pause plant.reading"),
            "{planned}"
        );
    }
}
