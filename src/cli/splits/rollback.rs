//! `narrows splits rollback`: takes one split, or all of a table, out of service at once. Nothing is removed here: buckets
//! go a day later, by the pipeline.

use std::io::{IsTerminal, stdin};

use super::arguments::Rollback;
use super::{Control, Partition, SplitsError, stage};
use crate::cli;
use crate::watched::WatchedTable;
use crate::wide_row::state::{INVALIDATED_FROM, State};
use crate::wide_row::store::{Outcome, Split};

const REASON: &str = "rolled back by hand";
/// Each is lost only to a worker that moved the split meanwhile.
const ATTEMPTS_MAX: usize = 5;

pub(super) async fn rollback(control: &Control, command: &Rollback) -> Result<String, SplitsError> {
    if command.all {
        return all(control, command).await;
    }
    let partition = control
        .partition(&command.table, &command.key, command.keys)
        .await?;
    one(control, &partition).await
}

async fn one(control: &Control, partition: &Partition) -> Result<String, SplitsError> {
    let id = partition.id();
    for _ in 0..ATTEMPTS_MAX {
        let Some(split) = control.store.read_split(&id).await? else {
            let text = format!(
                "no split of {} is known; the original answers, and there is nothing to roll back",
                partition.name()
            );
            return Err(SplitsError::Refused(text));
        };
        let standing = split.standing;
        if stage::is_past(&split) || !INVALIDATED_FROM.contains(&standing.state) {
            return not_in_service(partition, &split);
        }
        let generation = standing.generation;
        match control.store.invalidate(&id, generation, REASON).await? {
            Outcome::Applied(_) => return Ok(rolled_back(partition, standing.state)),
            Outcome::Lost => {}
        }
    }
    let text = "the split changes all the time; try again".to_owned();
    Err(SplitsError::Refused(text))
}

/// What could not be rolled back because nothing is read from it.
fn not_in_service(partition: &Partition, split: &Split) -> Result<String, SplitsError> {
    let (name, table) = (partition.name(), &partition.row.table.name);
    let state = split.standing.state;
    if stage::is_past(split) {
        return Ok(format!(
            "{name} went out of service with its whole table already; the original answers\n"
        ));
    }
    if state.is_end() {
        let state = state.as_str();
        return Ok(format!(
            "{name} is {state}: it is not in service, and the original answers already\n"
        ));
    }
    let state = state.as_str();
    Err(SplitsError::Refused(format!(
        "{name} is {state}: nothing is read from it yet, so there is nothing to roll back; \
         to keep it from going on: narrows splits pause {table}"
    )))
}

fn rolled_back(partition: &Partition, from: State) -> String {
    let (name, arguments) = (partition.name(), partition.arguments());
    let first = match from {
        State::Completed => "is out of service: from now on the original answers",
        State::Invalidated => "was out of service already; the original answers",
        _ => "is not copied any further; the original answers, as before",
    };
    format!(
        "{name} {first}\n\
         its buckets are removed after a day; the original was never changed\n\
         it may be split again when it is found wide again; at once: narrows splits add {arguments}\n\
         to keep the whole table from being split: narrows splits pause {}\n",
        partition.row.table.name
    )
}

async fn all(control: &Control, command: &Rollback) -> Result<String, SplitsError> {
    let row = control.table(&command.table).await?;
    let table = &row.table;
    if !command.yes && stdin().is_terminal() && !confirmed(table) {
        return Err(SplitsError::NotConfirmed);
    }
    control
        .store
        .take_out_of_service(&table.name, table.shards)
        .await?;
    Ok(all_rolled_back(table))
}

/// Asks on the terminal. Whoever answers nothing has not said yes.
fn confirmed(table: &WatchedTable) -> bool {
    let name = &table.name;
    cli::print_error(&format!(
        "All splits of {name} go out of service, and all reads of them to the originals.\n\
         That is exact, but reads of wide partitions become as slow as they were.\n\
         Type yes to go on: "
    ));
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    read.is_ok() && answer.trim().eq_ignore_ascii_case("yes")
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
    use super::super::key::tests::{sensor_and_day, words};
    use super::super::stage::tests::split;
    use super::*;
    use crate::schema::names::TableName;
    use crate::wide_row::store::WatchedRow;

    fn partition() -> Partition {
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
    fn what_happened_and_what_may_follow_is_said() {
        assert_eq!(
            rolled_back(&partition(), State::Completed),
            "plant.reading 's1', 7 is out of service: from now on the original answers\n\
             its buckets are removed after a day; the original was never changed\n\
             it may be split again when it is found wide again; at once: narrows splits add plant.reading \"'s1'\" 7\n\
             to keep the whole table from being split: narrows splits pause plant.reading\n"
        );
        let copying = rolled_back(&partition(), State::Copying);
        assert!(copying.contains("is not copied any further"), "{copying}");
        let all = all_rolled_back(&partition().row.table);
        assert!(all.contains("narrows mode plant.reading off\n"), "{all}");
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
