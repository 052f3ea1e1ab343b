//! `narrows splits scan`: looks through a whole table for wide partitions, and nominates them if that is asked for. Reads the
//! original at the pace of the pipeline's throttle; ends with what was found when somebody leaves.

mod text;

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::arguments::Scan;
use super::key::KeyColumns;
use super::live::{Live, rate};
use super::{Control, SplitsError, constant, moment, originals};
use crate::cli;
use crate::cli::explain::lines::{counted, size};
use crate::config::Config;
use crate::pipeline::original::survey::{Counted, Survey, Surveyed, Wide};
use crate::pipeline::plan::StageError;
use crate::pipeline::run::report::now_seconds;
use crate::schema::names::PartitionKey;
use crate::watched::WatchedTable;
use crate::wide_row::store::{Detected, SplitId, Store, StoreError};

use super::list::json;

/// One that is shown.
struct Shown {
    wide: Wide,
    /// What is known of it, or has become of its nomination.
    state: String,
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Whole,
    Limit,
    /// Somebody left, or the cluster failed, when this share of the ring was looked at.
    Early(f64),
}

impl Default for End {
    fn default() -> Self {
        Self::Early(0.0)
    }
}

/// All that a scan found.
#[derive(Default)]
struct Seen {
    shown: Vec<Shown>,
    unreadable: Vec<(i64, Option<PartitionKey>)>,
    counted: Counted,
    end: End,
}

pub(super) async fn scan(
    config: &Config,
    control: &Control,
    command: &Scan,
) -> Result<String, SplitsError> {
    let row = control.table(&command.table).await?;
    let (store, table) = (&control.store, &row.table);
    if let Some(reason) = store.obstacle(&table.name).await? {
        let text = format!("no partition of {} can be split: {reason}", table.name);
        return Err(SplitsError::Refused(text));
    }
    if !store.has_murmur3_tokens().await? {
        let text = "only clusters with the Murmur3Partitioner can be scanned; nominate partitions one by one: narrows splits add";
        return Err(SplitsError::Refused(text.to_owned()));
    }
    let schema = store.describe(&table.name).await?.schema;
    let schema = schema.ok_or_else(|| SplitsError::NoTable(table.name.clone()))?;
    let largest = store.largest_partition(&table.name).await;
    let leaving = signal(SignalKind::interrupt());
    let leaving = leaving
        .map_err(|error| SplitsError::Refused(format!("Ctrl-C cannot be noticed: {error}")))?;
    cli::print_error(&text::heading(table, largest));
    let requests = originals::requests(config).await?;
    let survey = Survey::new(&requests, &schema, table.wide_bytes, now_seconds());
    let live = Live::new();
    let mut seen = Seen::default();
    let looked = look((store, table, command), (survey, &live, leaving), &mut seen).await;
    live.clear();
    let columns = KeyColumns::new(Some(&schema));
    let notes = text::notes(table, command.nominate, &seen, &columns);
    let found = match command.json {
        true => {
            cli::print_error(&notes);
            lines(table, &columns, &seen.shown)
        }
        false => text::table(&seen.shown, &columns) + &notes,
    };
    if let Err(error) = looked {
        // What was found until then is worth telling, too.
        cli::print(&found);
        return Err(error);
    }
    Ok(found)
}

/// Until the end of the table, until there are as many as wanted, or until somebody leaves.
async fn look(
    (store, table, command): (&Store, &WatchedTable, &Scan),
    (mut survey, live, mut leaving): (Survey<'_>, &Live, Signal),
    seen: &mut Seen,
) -> Result<(), SplitsError> {
    loop {
        let page = tokio::select! {
            page = survey.next() => page.map_err(StageError::from)?,
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

/// Nominates it, if that is wanted, and says what is known of it then.
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
        by_hand: false,
    };
    Ok(match store.detect(&id, found).await? {
        Detected::New(_) => "nominated".to_owned(),
        Detected::Known => known.unwrap_or("known").to_owned(),
        Detected::NotYet => format!("{}, waits", known.unwrap_or("known")),
        Detected::Retired => "not now: the table moves to more shards".to_owned(),
    })
}

fn progress(share: f64, read: Counted, wide: usize, elapsed: Duration) -> String {
    let partitions = counted(read.partitions, "partition");
    let (bytes, rate) = (size(read.bytes), rate(read.bytes, elapsed));
    let left = elapsed.as_secs_f64() * (1.0 - share) / share;
    let left = Duration::try_from_secs_f64(left).ok();
    // Of the first moments there is no telling.
    let left = left.filter(|_| elapsed > Duration::from_secs(5));
    let left = left.map(|left| format!(", about {} left", moment::span(left)));
    format!(
        "{:.1}% of the ring: {partitions}, {bytes}, {rate}; {wide} wide{}",
        share * 100.0,
        left.unwrap_or_default()
    )
}

fn lines(table: &WatchedTable, columns: &KeyColumns, shown: &[Shown]) -> String {
    let line = |one: &Shown| {
        let key = columns.constants(&one.wide.key);
        let key: Vec<String> = key.iter().map(|value| json::string(value)).collect();
        let bytes = constant::hex(one.wide.key.bytes());
        json::object(&[
            ("table", json::string(&table.name.to_string())),
            ("key", format!("[{}]", key.join(","))),
            ("partition_key", json::string(&bytes)),
            ("rows", one.wide.rows.to_string()),
            ("bytes", one.wide.bytes.to_string()),
            ("at_least", (!one.wide.is_whole).to_string()),
            ("state", json::string(&one.state)),
        ]) + "\n"
    };
    shown.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
