//! `narrows splits list`: lists splits, the latest change first. Reads all of them but keeps little more than it
//! prints, so memory does not grow with the table.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::stage::{self, ShownState};
use crate::cli;
use crate::cli::control::Control;
use crate::cli::format::{self, one_line, shortened, size};
use crate::cli::key::{KeyColumns, KeyForm};
use crate::cli::{constant, moment, terminal};
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::state::State;
use crate::wide_row::store::{Listed, Split, WatchedRow};

/// List splits with their state and progress, the latest change first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows splits list
  narrows splits list plant.reading --state failed
  narrows splits list --json --limit 1000 | jq -r 'select(.in_service) | .key | join(\",\")'

DONE is the progress of the current stage, AGE the time since the last change. ROWS and SIZE are
those of the original; until a worker has measured it, SIZE is that of the scan that found it.
WAITING splits are left alone until a time, because their partition may still be written to.
Brackets around a state mean that the split went out of service together with its whole table. Key
values with no exact CQL literal are printed as hex.

Changes: nothing.")]
pub struct List {
    /// keyspace.table, spelled as in Cassandra; without it, all watched tables
    pub table: Option<String>,
    /// Only splits in this state, such as COPYING, WAITING or FAILED
    #[arg(short, long, value_parser = parse_state)]
    pub state: Option<ShownState>,
    /// The maximum number of splits to print
    #[arg(short, long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// How keys are written: CQL literals, or the whole serialized key as 0x…
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
}

fn parse_state(text: &str) -> Result<ShownState, String> {
    ShownState::parse(&text.to_uppercase().replace('-', "_"))
}

#[derive(Debug, Clone)]
struct Found {
    table: TableName,
    key: PartitionKey,
    split: Split,
}

pub(super) async fn list(control: &Control<'_>, command: &List) -> anyhow::Result<String> {
    let tables = control.tables(command.table.as_deref()).await?;
    let mut latest = Latest {
        limit: command.limit as usize,
        state: command.state,
        now: unix_millis(),
        ..Latest::default()
    };
    for table in tables.iter().filter(|row| row.table.is_sound()) {
        let table = &table.table;
        let add = |listed| latest.add(&table.name, listed);
        let store = &control.store;
        store.list_splits(&table.name, table.shards, add).await?;
    }
    let (counts, now) = (latest.counts, latest.now);
    let found = latest.into_sorted();
    let keys = keys(control, &found, command.keys).await?;
    let notes = notes(command, &tables, counts, found.len());
    if command.json {
        cli::print_error(&notes);
        let rows = found.iter().map(|one| Row::new(one, &keys, now));
        return Ok(rows.map(|row| format::json(&row)).collect());
    }
    Ok(table(&found, &keys, now, terminal::width()) + &notes)
}

/// The key columns of each table, which say how its keys are written.
async fn keys(
    control: &Control<'_>,
    found: &[Found],
    form: KeyForm,
) -> anyhow::Result<BTreeMap<TableName, KeyColumns>> {
    let mut keys = BTreeMap::new();
    for one in found {
        if !keys.contains_key(&one.table) {
            let columns = match form {
                KeyForm::Cql => control.key_columns(&one.table).await?,
                KeyForm::Hex => KeyColumns::hex(),
            };
            keys.insert(one.table.clone(), columns);
        }
    }
    Ok(keys)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    /// In the state that the command asks for.
    matching: usize,
    others: usize,
    /// In states that a later version may have written.
    unknown: usize,
}

/// Keeps the latest changes among all splits that are added.
#[derive(Default)]
struct Latest {
    limit: usize,
    state: Option<ShownState>,
    now: i64,
    counts: Counts,
    kept: Vec<Found>,
}

impl Latest {
    fn add(&mut self, table: &TableName, listed: Listed) {
        let Some(mut split) = listed.split else {
            self.counts.unknown += 1;
            return;
        };
        let state = ShownState::of(&split, self.now);
        if self.state.is_some_and(|wanted| wanted != state) {
            self.counts.others += 1;
            return;
        }
        self.counts.matching += 1;
        // The checkpoint is private to its stage, and may be long.
        if let Some(progress) = &mut split.progress {
            progress.checkpoint = None;
        }
        let (table, key) = (table.clone(), listed.key);
        self.kept.push(Found { table, key, split });
        // Sorting at twice the limit costs little per split.
        if self.kept.len() >= 2 * self.limit {
            self.cut();
        }
    }

    /// Sorts by the last change, then by table and key, so that the order is stable.
    fn cut(&mut self) {
        let order = |one: &Found| (one.split.changed_at, one.table.clone(), one.key.clone());
        self.kept.sort_by_cached_key(|one| Reverse(order(one)));
        self.kept.truncate(self.limit);
    }

    fn into_sorted(mut self) -> Vec<Found> {
        self.cut();
        self.kept
    }
}

/// What the list leaves out, or why it is empty.
fn notes(command: &List, tables: &[WatchedRow], counts: Counts, shown: usize) -> String {
    let mut notes = String::new();
    match (counts.matching, counts.others) {
        (0, 0) => notes.push_str(&nothing(command, tables)),
        (0, others) => {
            let state = command.state.map_or("", ShownState::as_str);
            let note = format!("no split is {state}; {others} are in other states\n");
            notes.push_str(&note);
        }
        (matching, _) if matching > shown => {
            let more = matching - shown;
            notes.push_str(&format!("and {more} more; --limit {matching} shows all\n"));
        }
        _ => {}
    }
    if counts.unknown > 0 {
        let unknown = counts.unknown;
        let note =
            format!("splits left out, because a later version wrote their state: {unknown}\n");
        notes.push_str(&note);
    }
    let unsound = tables.iter().filter(|row| !row.table.is_sound());
    for row in unsound {
        let (name, shards) = (&row.table.name, row.table.shards);
        notes.push_str(&format!(
            "{name} is left out: it has {shards} shards, which this version cannot follow\n"
        ));
    }
    notes
}

fn nothing(command: &List, tables: &[WatchedRow]) -> String {
    let Some(first) = tables.first() else {
        return "no table is watched; to watch one, add a [[table]] to the configuration of a proxy\n"
            .to_owned();
    };
    let (of, wide) = match tables {
        [one] => {
            let wide = size(one.table.wide_bytes);
            (one.table.name.to_string(), format!("of {wide} or more"))
        }
        _ => (
            "any watched table".to_owned(),
            "of wide_bytes or more".to_owned(),
        ),
    };
    let table = command
        .table
        .clone()
        .unwrap_or_else(|| first.table.name.to_string());
    format!(
        "no partition of {of} has been found wide yet; one {wide}, or one whose reads are slow or fail, is found when a \
         client reads it through a proxy\n\
         to nominate one by hand: narrows splits add {table} key…\n"
    )
}

/// One split as a JSON object.
#[derive(Serialize)]
struct Row<'a> {
    table: String,
    key: Vec<String>,
    partition_key: String,
    state: &'static str,
    found_by: Option<&'static str>,
    generation: i32,
    in_service: bool,
    out_with_table: bool,
    percent: Option<u8>,
    done_rows: Option<i64>,
    done_bytes: Option<i64>,
    rows: Option<i64>,
    bytes: Option<i64>,
    seen_bytes: Option<i64>,
    worker: Option<&'a str>,
    failures: i32,
    reason: Option<&'a str>,
    not_before: Option<String>,
    detected_at: Option<String>,
    changed_at: Option<String>,
}

impl<'a> Row<'a> {
    fn new(one: &'a Found, keys: &BTreeMap<TableName, KeyColumns>, now: i64) -> Self {
        let Found { table, key, split } = one;
        let (original, progress) = (split.pre_split_data.as_ref(), stage::progress(split));
        let columns = keys.get(table);
        Self {
            table: table.to_string(),
            key: columns.map_or_else(Vec::new, |columns| columns.literals(key)),
            partition_key: constant::hex(key.bytes()),
            state: ShownState::of(split, now).as_str(),
            found_by: split.found_by.map(FoundBy::as_str),
            generation: split.standing.generation.0,
            in_service: split.standing.is_in_service(),
            out_with_table: stage::is_past(split),
            percent: stage::percent(split).map(|percent| percent.value),
            done_rows: progress.map(|progress| progress.row_count),
            done_bytes: progress.map(|progress| progress.byte_count),
            rows: original.map(|original| original.row_count),
            bytes: original.map(|original| original.byte_count),
            seen_bytes: split.seen_bytes,
            worker: split.lease.as_deref().map(stage::worker),
            failures: split.failures,
            reason: split.reason.as_deref(),
            not_before: split.not_before.and_then(moment::iso),
            detected_at: split.detected_at.and_then(moment::iso),
            changed_at: split.changed_at.and_then(moment::iso),
        }
    }
}

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
/// The columns that are aligned to the right.
const RIGHT: [bool; COLUMNS] = [false, false, false, true, true, true, true, true, false];
/// Keys are cut to a width between these two.
const KEY_MIN: usize = 12;
const KEY_MAX: usize = 48;
const NONE: &str = "–";

/// A header and one line per split; empty without splits.
fn table(
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
    let key_width = key_width(&format::widths(&lines), width);
    for line in &mut lines {
        line[KEY] = shortened(&line[KEY], key_width);
    }
    format::table(&lines, RIGHT)
}

/// The width that a terminal leaves for keys beside the other columns; reasons may wrap.
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
    let state = ShownState::of(split, now).as_str();
    let age = split.changed_at.map(|at| moment::since(at, now));
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
        or_none(bytes.map(size)),
        or_none(age.map(moment::span)),
        reason(one, now),
    ]
}

fn reason(one: &Found, now: i64) -> String {
    let split = &one.split;
    if stage::is_past(split) {
        return "out of service with its whole table".to_owned();
    }
    let waits = split.not_before.filter(|time| *time > now);
    // A completed split only waits for its next comparison.
    let waits = waits.filter(|_| split.standing.state != State::Completed);
    let waits = waits.map(|time| format!("waits for {}", moment::span(moment::since(now, time))));
    let reason = split.reason.as_deref().map(one_line);
    let both: Vec<String> = reason.into_iter().chain(waits).collect();
    both.join("; ")
}

#[cfg(test)]
mod tests;
