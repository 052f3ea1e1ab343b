//! `narrows splits add`: nominates a partition by hand. Whether it is wide is found out by planning, not here.

use super::arguments::{Add, KeyForm};
use super::dry_run::dry_run;
use super::{Control, Partition, SplitsError, stage};
use crate::config::Config;
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::state::State;
use crate::wide_row::store::{Detected, Found, Split};

pub(super) async fn add(
    config: &Config,
    control: &Control,
    command: &Add,
) -> Result<String, SplitsError> {
    if command.dry_run {
        return dry_run(config, control, command).await;
    }
    let partition = control
        .partition(&command.table, &command.key, KeyForm::Cql)
        .await?;
    let id = partition.id();
    let found = Found {
        bytes: None,
        by_hand: true,
    };
    match control.store.detect(&id, found).await? {
        Detected::New(generation) => Ok(nominated(&partition, generation.0)),
        Detected::Known => {
            let split = control.store.read_split(&id).await?;
            Ok(known(&partition, split.as_ref()))
        }
        Detected::NotYet => {
            let text = format!("{} is not tried again yet", partition.name());
            Err(SplitsError::Refused(text))
        }
        Detected::Retired => {
            let text = "the table is being moved to more shards; try again once that is done";
            Err(SplitsError::Refused(text.to_owned()))
        }
    }
}

fn nominated(partition: &Partition, generation: i32) -> String {
    let name = partition.name();
    let mut text = format!("{name} is nominated, as generation {generation}\n");
    match hindrance(&partition.row.table) {
        Some(hindrance) => text.push_str(&hindrance),
        None => text.push_str("a worker measures it next, and splits it if it is wide and quiet\n"),
    }
    let arguments = partition.arguments();
    let table = &partition.row.table.name;
    text + &format!(
        "to follow it: narrows splits watch {table}\nto see it:    narrows splits show {arguments}\n"
    )
}

/// Why nothing comes of it for now, and what to do about that.
pub(super) fn hindrance(table: &WatchedTable) -> Option<String> {
    let name = &table.name;
    let (why, what) = match (table.mode, table.paused) {
        (Mode::Serve, false) => return None,
        (Mode::Serve, true) => ("is paused", format!("narrows splits resume {name}")),
        (mode @ (Mode::Off | Mode::Detect), _) => {
            let why = match mode {
                Mode::Off => "is in mode off",
                _ => "is in mode detect",
            };
            (why, format!("narrows mode {name} serve"))
        }
    };
    Some(format!(
        "but the table {why}, so nothing is split until: {what}\n"
    ))
}

fn known(partition: &Partition, split: Option<&Split>) -> String {
    let name = partition.name();
    let arguments = partition.arguments();
    let what = match split.filter(|split| !stage::is_past(split)) {
        Some(split) if split.standing.state == State::Completed => {
            "is split already, and in service"
        }
        Some(split) if stage::is_under_way(split.standing.state) => "is on its way already",
        _ => "was just changed by another",
    };
    format!("{name} {what}; nothing was changed\nto see it: narrows splits show {arguments}\n")
}

#[cfg(test)]
mod tests {
    use super::super::key::tests::{sensor_and_day, words};
    use super::super::stage::tests::split;
    use super::*;
    use crate::schema::names::TableName;

    #[test]
    fn what_hinders_a_nomination_is_said_with_what_to_do() {
        let mut table = WatchedTable::new(TableName::new("p", "t"));
        assert_eq!(hindrance(&table), None);
        table.paused = true;
        assert_eq!(
            hindrance(&table).as_deref(),
            Some("but the table is paused, so nothing is split until: narrows splits resume p.t\n")
        );
        table.mode = Mode::Detect;
        assert_eq!(
            hindrance(&table).as_deref(),
            Some(
                "but the table is in mode detect, so nothing is split until: narrows mode p.t serve\n"
            )
        );
    }

    #[test]
    fn a_known_split_is_told_by_what_it_is() {
        let columns = sensor_and_day();
        let key = columns.read(&words(&["'s1'", "7"])).expect("right");
        let table = WatchedTable::new(TableName::new("p", "t"));
        let partition = Partition {
            row: crate::wide_row::store::WatchedRow::unseen(table),
            columns,
            key,
        };
        for (state, text) in [
            (State::Completed, "is split already, and in service"),
            (State::Copying, "is on its way already"),
            (State::Failed, "was just changed by another"),
        ] {
            assert_eq!(
                known(&partition, Some(&split(state))),
                format!(
                    "p.t 's1', 7 {text}; nothing was changed\nto see it: narrows splits show p.t \"'s1'\" 7\n"
                )
            );
        }
        let first = nominated(&partition, 5);
        assert!(
            first.starts_with("p.t 's1', 7 is nominated, as generation 5\na worker"),
            "{first}"
        );
    }
}
