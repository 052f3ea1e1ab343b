//! Splits as aligned lines for people. Pure.

use std::collections::BTreeMap;

use super::Found;
use crate::cli::explain::lines::size;
use crate::cli::splits::key::KeyColumns;
use crate::cli::splits::{moment, stage};
use crate::schema::names::TableName;
use crate::wide_row::state::State;

const HEAD: [&str; COLUMNS] = [
    "TABLE",
    "KEY",
    "STATE",
    "GENERATION",
    "DONE",
    "ROWS",
    "SIZE",
    "AGE",
    "REASON",
];
const COLUMNS: usize = 9;
const KEY: usize = 1;
/// Numbers stand on the right.
const RIGHT: [bool; COLUMNS] = [false, false, false, true, true, true, true, true, false];
/// A key is never shortened below this, nor shown longer than that.
const KEY_MIN: usize = 12;
const KEY_MAX: usize = 48;
const NONE: &str = "–";

/// One line for each, below a line of names; nothing for none.
pub(super) fn table(
    found: &[Found],
    keys: &BTreeMap<TableName, KeyColumns>,
    now: i64,
    width: Option<usize>,
) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(found.iter().map(|one| line(one, keys, now)));
    let mut widths = [0; COLUMNS];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths[KEY] = key_width(&widths, width);
    lines.iter().map(|line| aligned(line, &widths)).collect()
}

/// What a terminal leaves for keys beside the columns of numbers; the reasons may go on in the next line.
fn key_width(widths: &[usize; COLUMNS], width: Option<usize>) -> usize {
    let longest = widths[KEY];
    let others: usize = widths.iter().take(COLUMNS - 1).map(|width| width + 2).sum();
    let left = width.map(|width| width.saturating_sub(others - longest));
    longest.min(left.unwrap_or(KEY_MAX).clamp(KEY_MIN, KEY_MAX))
}

fn line(one: &Found, keys: &BTreeMap<TableName, KeyColumns>, now: i64) -> [String; COLUMNS] {
    let split = &one.split;
    let key = keys.get(&one.table).map(|columns| columns.show(&one.key));
    let original = split.pre_split_data.as_ref();
    let bytes = original.map_or(split.seen_bytes, |original| Some(original.byte_count));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let state = split.standing.state.as_str();
    [
        one.table.to_string(),
        key.unwrap_or_default(),
        match stage::is_past(split) {
            true => format!("({state})"),
            false => state.to_owned(),
        },
        split.standing.generation.to_string(),
        or_none(stage::percent(split).map(|percent| percent.to_string())),
        or_none(original.map(|original| original.row_count.to_string())),
        or_none(bytes.map(|bytes| size(u64::try_from(bytes).unwrap_or(0)))),
        or_none(
            split
                .changed_at
                .map(|at| moment::span(moment::since(at, now))),
        ),
        reason(one, now),
    ]
}

fn reason(one: &Found, now: i64) -> String {
    let split = &one.split;
    if stage::is_past(split) {
        return "out of service with its whole table".to_owned();
    }
    let waits = split.not_before.filter(|time| *time > now);
    // Of a completed split it is only the time of the next comparison.
    let waits = waits.filter(|_| split.standing.state != State::Completed);
    let waits = waits.map(|time| format!("waits for {}", moment::span(moment::since(now, time))));
    let reason = split.reason.as_deref().map(one_line);
    let both: Vec<String> = reason.into_iter().chain(waits).collect();
    both.join("; ")
}

/// A reason may hold what a server said.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn aligned(line: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let mut text = String::new();
    for (number, ((cell, width), right)) in line.iter().zip(widths).zip(RIGHT).enumerate() {
        let cell = if number == KEY {
            shortened(cell, *width)
        } else {
            cell.clone()
        };
        let cell = match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        };
        let gap = if number == 0 { "" } else { "  " };
        text.push_str(gap);
        text.push_str(&cell);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// With `…` in the place of its end.
pub(in crate::cli::splits) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}
