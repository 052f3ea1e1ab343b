//! `narrows splits list`: the latest changes first. Every split is looked at and only as many kept as are shown, so memory
//! does not grow with a table. `text` and `json` write them.

pub(super) mod json;
mod text;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

pub(super) use json::worker;
pub(super) use text::shortened;

use super::arguments::{KeyForm, List};
use super::key::KeyColumns;
use super::{Control, SplitsError};
use crate::cli;
use crate::cli::terminal;
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::state::State;
use crate::wide_row::store::{Listed, Split, WatchedRow};

/// One split that is shown.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) table: TableName,
    pub(super) key: PartitionKey,
    pub(super) split: Split,
}

pub(super) async fn list(control: &Control, command: &List) -> Result<String, SplitsError> {
    let tables = control.tables(command.table.as_deref()).await?;
    let mut latest = Latest::new(command.limit as usize, command.state);
    for table in tables.iter().filter(|row| row.table.is_sound()) {
        let table = &table.table;
        let add = |listed| latest.add(&table.name, listed);
        control
            .store
            .list_splits(&table.name, table.shards, add)
            .await?;
    }
    let counts = latest.counts;
    let found = latest.into_sorted();
    let keys = keys(control, &found, command.keys).await?;
    let notes = notes(command, &tables, counts, found.len());
    if command.json {
        cli::print_error(&notes);
        return Ok(json::lines(&found, &keys));
    }
    let table = text::table(&found, &keys, unix_millis(), terminal::width());
    Ok(table + &notes)
}

/// How the keys of each table are written.
async fn keys(
    control: &Control,
    found: &[Found],
    form: KeyForm,
) -> Result<BTreeMap<TableName, KeyColumns>, SplitsError> {
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
    /// Of the state that is asked for.
    matching: usize,
    others: usize,
    /// In states that a later version may have written.
    unknown: usize,
}

/// The latest changes among all that are added.
struct Latest {
    limit: usize,
    state: Option<State>,
    counts: Counts,
    /// The earliest of them on top.
    heap: BinaryHeap<Reverse<ByChange>>,
}

impl Latest {
    fn new(limit: usize, state: Option<State>) -> Self {
        Self {
            limit,
            state,
            counts: Counts::default(),
            heap: BinaryHeap::new(),
        }
    }

    fn add(&mut self, table: &TableName, listed: Listed) {
        let Some(mut split) = listed.split else {
            self.counts.unknown += 1;
            return;
        };
        if self
            .state
            .is_some_and(|state| state != split.standing.state)
        {
            self.counts.others += 1;
            return;
        }
        self.counts.matching += 1;
        // Private to a stage, and as long as that likes.
        if let Some(progress) = &mut split.progress {
            progress.checkpoint = None;
        }
        let found = Found {
            table: table.clone(),
            key: listed.key,
            split,
        };
        self.heap.push(Reverse(ByChange(found)));
        if self.heap.len() > self.limit {
            self.heap.pop();
        }
    }

    fn into_sorted(self) -> Vec<Found> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|Reverse(found)| found.0).collect()
    }
}

/// Ordered by when it changed last, then by what it is, so that the order is the same each time.
struct ByChange(Found);

impl ByChange {
    fn order(&self) -> (Option<i64>, &TableName, &PartitionKey) {
        (self.0.split.changed_at, &self.0.table, &self.0.key)
    }
}

impl Ord for ByChange {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for ByChange {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByChange {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for ByChange {}

/// What is not shown, or why nothing is.
fn notes(command: &List, tables: &[WatchedRow], counts: Counts, shown: usize) -> String {
    let mut notes = String::new();
    match (counts.matching, counts.others) {
        (0, 0) => notes.push_str(&nothing(command, tables)),
        (0, others) => {
            let state = command.state.map_or("", State::as_str);
            notes.push_str(&format!(
                "no split is {state}; {others} are in other states\n"
            ));
        }
        (matching, _) if matching > shown => {
            let more = matching - shown;
            notes.push_str(&format!("and {more} more; --limit {matching} shows all\n"));
        }
        _ => {}
    }
    if counts.unknown > 0 {
        let unknown = counts.unknown;
        notes.push_str(&format!(
            "{unknown} in states that a later version wrote are left out\n"
        ));
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
        return "no table is watched; a [[table]] in the configuration of a proxy begins that\n"
            .to_owned();
    };
    let (of, wide) = match tables {
        [one] => {
            let wide = cli::explain::lines::size(one.table.wide_bytes);
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
        "no partition of {of} was found wide yet; one {wide} is found when it is read through a proxy\n\
         to nominate one by hand: narrows splits add {table} key…\n"
    )
}

#[cfg(test)]
mod tests;
