//! `narrows splits scan`: searches a whole table for wide partitions, and nominates them on request. Reads the original
//! at the pace of the pipeline's throttle; Ctrl-C ends it and keeps what it found.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::add::hindrance;
use crate::cli;
use crate::cli::control::Control;
use crate::cli::format::{self, counted, rate, size};
use crate::cli::key::KeyColumns;
use crate::cli::terminal::Live;
use crate::cli::{constant, moment};
use crate::pipeline::original::survey::{Counted, Survey, Surveyed, Wide};
use crate::pipeline::plan::StageError;
use crate::schema::names::PartitionKey;
use crate::watched::WatchedTable;
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::store::{Detected, SplitId, Store, StoreError};

/// Maximum number of unreadable partitions to name.
const UNREADABLE_MAX: usize = 10;

/// Search a whole table for wide partitions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows splits scan plant.reading                   list wide partitions and their state
  narrows splits scan plant.reading --nominate        nominate each one as it is found
  narrows splits scan plant.reading --json | jq -r '.key | join(\",\")'

Proxies find wide partitions when clients read them; this command finds the others. It reads every
partition once at consistency ONE, and only the first wide_bytes of a wide one, with the pauses of
pipeline.throttle and no faster than pipeline.bytes_per_second. Ctrl-C ends the command and keeps
what it found.

Changes: nothing; with --nominate, it adds the partitions to the control keyspace, and workers
measure and split them.")]
pub struct Scan {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// Nominate every wide partition
    #[arg(long)]
    pub nominate: bool,
    /// Stop after this many wide partitions
    #[arg(short, long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

struct Shown {
    wide: Wide,
    /// The state of its split, or the result of its nomination.
    state: String,
}

/// Why a scan ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Whole,
    Limit,
    /// By Ctrl-C or an error, after this share of the ring.
    Early(f64),
}

impl Default for End {
    fn default() -> Self {
        Self::Early(0.0)
    }
}

/// The findings of a scan.
#[derive(Default)]
struct Seen {
    shown: Vec<Shown>,
    unreadable: Vec<(i64, Option<PartitionKey>)>,
    counted: Counted,
    end: End,
}

pub(super) async fn scan(control: &Control<'_>, command: &Scan) -> anyhow::Result<String> {
    let row = control.table(&command.table).await?;
    let (store, table) = (&control.store, &row.table);
    let name = &table.name;
    if let Some(reason) = store.obstacle(name).await? {
        anyhow::bail!("no partition of {name} can be split: {reason}");
    }
    ensure!(
        store.has_murmur3_tokens().await?,
        "only clusters with the Murmur3Partitioner can be scanned; nominate partitions one by one: narrows splits add"
    );
    let schema = control.schema(name).await?;
    let largest = store.largest_partition(name).await;
    let leaving = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    cli::print_error(&heading(table, largest));
    let requests = control.originals().await?;
    let survey = Survey::new(&requests, &schema, table.wide_bytes, store.now().await?);
    let live = Live::new();
    let mut seen = Seen::default();
    let looked = look((store, table, command), (survey, &live, leaving), &mut seen).await;
    live.clear();
    let columns = KeyColumns::new(Some(&schema));
    let notes = notes(table, command.nominate, &seen, &columns);
    let found = match command.json {
        true => {
            cli::print_error(&notes);
            let rows = seen.shown.iter().map(|one| Row::new(table, &columns, one));
            rows.map(|row| format::json(&row)).collect()
        }
        false => listed(&seen.shown, &columns) + &notes,
    };
    if let Err(error) = looked {
        // The findings before the error are still useful.
        cli::print(&found);
        return Err(error);
    }
    Ok(found)
}

/// Reads until the end of the table, the limit, or Ctrl-C.
async fn look(
    (store, table, command): (&Store, &WatchedTable, &Scan),
    (mut survey, live, mut leaving): (Survey<'_>, &Live, Signal),
    seen: &mut Seen,
) -> anyhow::Result<()> {
    loop {
        let page = tokio::select! {
            page = survey.next() => page.map_err(StageError::from).context("the table cannot be read")?,
            _ = leaving.recv() => return Ok(()),
        };
        seen.counted = survey.counted();
        seen.end = End::Early(survey.share());
        let Some(page) = page else {
            seen.end = End::Whole;
            return Ok(());
        };
        for found in page {
            match found {
                Surveyed::Wide(wide) => {
                    let state = state(store, table, command.nominate, &wide).await?;
                    seen.shown.push(Shown { wide, state });
                }
                Surveyed::Unreadable { token, key } => seen.unreadable.push((token, key)),
            }
            if seen.shown.len() >= command.limit as usize {
                seen.end = End::Limit;
                return Ok(());
            }
        }
        let (share, wide) = (survey.share(), seen.shown.len());
        live.show(|| progress(share, seen.counted, wide, live.elapsed()));
    }
}

/// Nominates it on request, and returns its state.
async fn state(
    store: &Store,
    table: &WatchedTable,
    nominate: bool,
    wide: &Wide,
) -> Result<String, StoreError> {
    let id = SplitId::new(table.name.clone(), wide.key.clone(), table.shards);
    let known = store.read_key(&id).await?.standing;
    let known = known.filter(|standing| standing.row_epoch == standing.epoch);
    let known = known.map(|standing| standing.state.as_str());
    if !nominate {
        return Ok(known.unwrap_or("–").to_owned());
    }
    let found = crate::wide_row::store::Found {
        bytes: i64::try_from(wide.bytes).ok(),
        by: Some(FoundBy::Scan),
    };
    Ok(match store.detect(&id, found).await? {
        Detected::New(_) => "nominated".to_owned(),
        Detected::Known => known.unwrap_or("known").to_owned(),
        Detected::NotYet => format!("{}, waits", known.unwrap_or("known")),
        Detected::Retired => {
            "not now: the table is being moved to another number of shards".to_owned()
        }
    })
}

fn progress(share: f64, read: Counted, wide: usize, elapsed: Duration) -> String {
    let partitions = counted(read.partitions, "partition");
    let (bytes, rate) = (size(read.bytes), rate(read.bytes, elapsed));
    let left = elapsed.as_secs_f64() * (1.0 - share) / share;
    let left = Duration::try_from_secs_f64(left).ok();
    // The first seconds are no basis for an estimate.
    let left = left.filter(|_| elapsed > Duration::from_secs(5));
    let left = left.map(|left| format!(", about {} left", moment::span(left)));
    format!(
        "{:.1}% of the ring: {partitions}, {bytes}, {rate}; {wide} wide{}",
        share * 100.0,
        left.unwrap_or_default()
    )
}

/// One wide partition as a JSON object.
#[derive(Serialize)]
struct Row<'a> {
    table: String,
    key: Vec<String>,
    partition_key: String,
    rows: u64,
    bytes: u64,
    at_least: bool,
    state: &'a str,
}

impl<'a> Row<'a> {
    fn new(table: &WatchedTable, columns: &KeyColumns, one: &'a Shown) -> Self {
        let Wide {
            key,
            rows,
            bytes,
            is_whole,
        } = &one.wide;
        Self {
            table: table.name.to_string(),
            key: columns.literals(key),
            partition_key: constant::hex(key.bytes()),
            rows: *rows,
            bytes: *bytes,
            at_least: !is_whole,
            state: &one.state,
        }
    }
}

/// Announces what the scan costs, before it reads anything.
fn heading(table: &WatchedTable, largest: Option<u64>) -> String {
    let (name, wide) = (&table.name, size(table.wide_bytes));
    let mut text = format!(
        "reading every partition of {name} once, but only the first {wide} of larger ones; Ctrl-C ends it\n"
    );
    if let Some(largest) = largest {
        let largest = size(largest);
        text.push_str(&format!(
            "the largest partition in a single SSTable has about {largest}; memtables and other SSTables may add to it\n"
        ));
    }
    text
}

/// A header and one line per partition; empty without partitions.
fn listed(shown: &[Shown], columns: &KeyColumns) -> String {
    if shown.is_empty() {
        return String::new();
    }
    let mut lines = vec![["KEY", "ROWS", "SIZE", "STATE"].map(str::to_owned)];
    lines.extend(shown.iter().map(|one| {
        let least = if one.wide.is_whole { "" } else { "≥ " };
        [
            columns.show(&one.wide.key),
            format!("{least}{}", one.wide.rows),
            format!("{least}{}", size(one.wide.bytes)),
            one.state.clone(),
        ]
    }));
    format::table(&lines, [false, true, true, false])
}

/// How much was read, what could not be read, and what to do next.
fn notes(table: &WatchedTable, nominate: bool, seen: &Seen, columns: &KeyColumns) -> String {
    let name = &table.name;
    let read = seen.counted;
    let (partitions, bytes) = (counted(read.partitions, "partition"), size(read.bytes));
    let wide = size(table.wide_bytes);
    let mut text = match seen.shown.len() {
        0 => {
            let largest = size(read.largest_bytes);
            format!(
                "no partition of {wide} or more among {partitions} of {name}; the largest has {largest}\n"
            )
        }
        found => format!("{found} of {partitions} are wide; {bytes} were read\n"),
    };
    match seen.end {
        End::Whole => {}
        End::Limit => {
            let found = seen.shown.len();
            text.push_str(&format!(
                "stopped after {found}: there may be more; a larger --limit finds them\n"
            ));
        }
        End::Early(share) => {
            let percent = share * 100.0;
            text.push_str(&format!(
                "stopped at {percent:.1}% of the ring: there may be more\n"
            ));
        }
    }
    text.push_str(&unreadable(seen, columns));
    if !seen.shown.is_empty() {
        match nominate {
            true => {
                text.push_str(&hindrance(table).unwrap_or_default());
                text.push_str(&format!("to follow them: narrows splits watch {name}\n"));
            }
            false => text.push_str(&format!(
                "to nominate them: narrows splits scan {name} --nominate\n\
                 to see the plan for one of them: narrows splits add {name} key… --dry-run\n"
            )),
        }
    }
    text
}

fn unreadable(seen: &Seen, columns: &KeyColumns) -> String {
    let all = &seen.unreadable;
    if all.is_empty() {
        return String::new();
    }
    let names = all.iter().take(UNREADABLE_MAX);
    let names = names.map(|(token, key)| match key {
        Some(key) => columns.show(key),
        None => format!("at token {token}"),
    });
    let names = names.collect::<Vec<_>>().join("; ");
    let more = match all.len().saturating_sub(UNREADABLE_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = counted(all.len(), "partition");
    format!(
        "{count} could not be read because of tombstones: {names}{more}\n\
         they may be wide; Cassandra can read them again once their tombstones are compacted away\n"
    )
}

#[cfg(test)]
mod tests;
