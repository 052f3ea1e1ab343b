//! What a split's state means in a sentence, and which commands make sense next. Pure.

use crate::cli::splits::{Partition, stage};
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::state::State;
use crate::wide_row::store::Split;

/// What the state means for reads and for what comes next.
pub(super) fn meaning(split: &Split, table: &WatchedTable) -> String {
    if stage::is_past(split) {
        return "all splits of the table were taken out of service after it was made; the original answers, and it is \
                split again when it is found wide again"
            .to_owned();
    }
    let state = split.standing.state;
    let mut text = words(state).to_owned();
    let is_held = stage::is_under_way(state);
    match (table.mode, table.paused) {
        (Mode::Serve, false) => {}
        (Mode::Serve, true) if is_held => text.push_str("; the table is paused, so it waits"),
        (mode, _) if state == State::Completed && mode != Mode::Serve => {
            text = format!(
                "the copy was found equal to the original, but the table is in mode {}: the original answers",
                mode.as_str()
            );
        }
        (mode, _) if is_held && mode != Mode::Serve => {
            let waits = format!("; the table is in mode {}, so it waits", mode.as_str());
            text.push_str(&waits);
        }
        _ => {}
    }
    text
}

fn words(state: State) -> &'static str {
    match state {
        State::Detected => "it was found wide and is to be measured; the original answers",
        State::Planned => {
            "it was measured and cut into buckets; copying begins once it is quiet. The original answers"
        }
        State::NotWide => {
            "it was measured and is not wide, so nothing was done; the original answers"
        }
        State::Refused => {
            "it cannot be copied exactly, so nothing was done; the original answers, as ever"
        }
        State::Guarded => {
            "writes to it are noticed from now on; copying begins when every proxy knows. The original answers"
        }
        State::Copying => "its rows are being copied into buckets; the original answers",
        State::Verifying => {
            "the copy is being compared with the original, cell by cell; the original answers"
        }
        State::Completed => {
            "in service: the copy was found equal to the original, and reads are answered from its buckets"
        }
        State::Invalidated => {
            "it was taken out of service; the original answers, and it is split again when it is found wide again"
        }
        State::Failed => {
            "this attempt was given up; the original answers, and another attempt follows"
        }
    }
}

/// Commands, one a line.
pub(super) fn what_next(partition: &Partition, split: &Split) -> String {
    let table = &partition.row.table;
    let (name, arguments) = (&table.name, partition.arguments());
    let state = split.standing.state;
    let mut commands = Vec::new();
    if stage::is_past(split) || state.is_end() {
        commands.push((format!("add {arguments}"), "try it again at once"));
    } else if state == State::Completed {
        commands.push((format!("rollback {arguments}"), "take it out of service"));
    } else {
        commands.push((format!("watch {name}"), "follow it"));
        if state.is_guarded() {
            commands.push((format!("rollback {arguments}"), "give it up"));
        }
        if table.paused {
            commands.push((format!("resume {name}"), "let it go on"));
        }
    }
    let mut lines: Vec<(String, &str)> = commands
        .into_iter()
        .map(|(command, why)| (format!("narrows splits {command}"), why))
        .collect();
    if table.mode != Mode::Serve {
        lines.push((
            format!("narrows mode {name} serve"),
            "split, and read from splits",
        ));
    }
    let mut text = String::new();
    for (number, (command, why)) in lines.into_iter().enumerate() {
        let label = if number == 0 { "next" } else { "" };
        text.push_str(&format!("{label:13}{command}    # {why}\n"));
    }
    text
}
