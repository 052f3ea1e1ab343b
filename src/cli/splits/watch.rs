//! `narrows splits watch`: shows splits in progress, live. Asks for the versions of all shards once a second and reads
//! only rows that changed, so watching a table with very many splits costs little. `track` knows what is in progress.

mod track;

use std::collections::HashMap;
use std::io::{self, Stdout, Write, stdout};
use std::time::Duration;

use clap::Args;
use tokio::time::sleep;

use super::stage::{self, Pace, Percent};
use crate::cli::control::Control;
use crate::cli::format::{counted, one_line, shortened, size};
use crate::cli::key::KeyColumns;
use crate::cli::{moment, terminal};
use crate::schema::names::TableName;
use crate::watched::WatchedTable;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::state::State;
use crate::wide_row::store::{Split, SplitId, StoreError, WatchedRow};
use track::{Counts, Event, Tracked, Tracker, Wait, What};

const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of splits with a line of their own, to fit on a small terminal; the others are only counted.
const SHOWN_MAX: usize = 15;
/// Number of failed polls in a row that the command tolerates.
const FAILURES_MAX: u32 = 30;

/// The width of a line without name and bar.
const FIXED: usize = 2 + STATE + 2 + 1 + 4 + 2 + RATE + 2 + LEFT;
const STATE: usize = 9;
const RATE: usize = 12;
const LEFT: usize = 11;
const NAME_MIN: usize = 12;
const NAME_MAX: usize = 60;

/// Follow splits in progress: stage, percent, pace and time left
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows splits watch                            until Ctrl-C, redrawn in place
  narrows splits watch plant.reading --until-done
  narrows splits watch | tee splits.log           a line for each change

A split is in progress from DETECTED to VERIFYING, unless it waits: for a time that must pass
first, for `narrows splits resume`, or for mode serve.

Changes: nothing.")]
pub struct Watch {
    /// keyspace.table, spelled as in Cassandra; without it, all watched tables
    pub table: Option<String>,
    /// Exit 0 once no split is in progress
    #[arg(long)]
    pub until_done: bool,
}

pub(super) async fn watch(control: &Control<'_>, command: &Watch) -> anyhow::Result<String> {
    let mut watching = Watching {
        control,
        tracker: Tracker::default(),
        columns: HashMap::new(),
        tables: Vec::new(),
    };
    let mut screen = Screen {
        out: stdout(),
        is_terminal: terminal::width().is_some(),
        drawn: 0,
    };
    let mut failures = 0;
    loop {
        let (above, live) = match watching.look(command.table.as_deref()).await {
            Ok(events) => {
                failures = 0;
                (watching.above(&events).await, watching.live(&screen))
            }
            Err(error) if !watching.may_try_again(&error, failures) => return Err(error),
            Err(error) => {
                failures += 1;
                (Vec::new(), vec![format!("{error}; trying again")])
            }
        };
        // The reader of stdout is gone.
        if screen.put(&above, &live).is_err() {
            return Ok(String::new());
        }
        let (tables, now) = (&watching.tables, unix_millis());
        let counts = watching.tracker.counts(tables, now);
        if command.until_done && failures == 0 && counts.active == 0 {
            // On a terminal the last line says so already.
            let is_said = screen.is_terminal && counts.waiting == 0;
            return Ok(if is_said { String::new() } else { done(counts) });
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(String::new()),
        }
    }
}

struct Watching<'a> {
    control: &'a Control<'a>,
    tracker: Tracker,
    columns: HashMap<TableName, KeyColumns>,
    tables: Vec<WatchedTable>,
}

impl Watching<'_> {
    /// The first poll must succeed; later ones may fail while the control keyspace does not answer.
    fn may_try_again(&self, error: &anyhow::Error, failures: u32) -> bool {
        error.is::<StoreError>() && !self.tables.is_empty() && failures < FAILURES_MAX
    }

    /// Reads what changed since the last poll.
    async fn look(&mut self, table: Option<&str>) -> anyhow::Result<Vec<Event>> {
        let rows = self.control.tables(table).await?;
        let sound = |row: WatchedRow| Some(row.table).filter(WatchedTable::is_sound);
        self.tables = rows.into_iter().filter_map(sound).collect();
        self.tracker.keep(&self.tables);
        let mut events = Vec::new();
        for table in &self.tables {
            let store = &self.control.store;
            let readings = store.read_shards(&table.name, table.shards).await?;
            for (reading, since) in self.tracker.changed(&table.name, &readings) {
                let mut rows = Vec::new();
                let tracker = &self.tracker;
                // The first load brings all splits; only those in progress are kept.
                let each = |row| rows.extend(tracker.relevant(&table.name, row));
                let (name, shard) = (&table.name, reading.shard);
                store.read_rows(name, shard, since, each).await?;
                events.extend(self.tracker.apply(&table.name, reading, rows));
            }
            if !self.columns.contains_key(&table.name) {
                let columns = self.control.key_columns(&table.name).await?;
                self.columns.insert(table.name.clone(), columns);
            }
        }
        for id in self.tracker.first(&self.tables, unix_millis(), SHOWN_MAX) {
            self.refresh(&id).await?;
        }
        Ok(events)
    }

    async fn refresh(&mut self, id: &SplitId) -> Result<(), StoreError> {
        if let Some(split) = self.control.store.read_split(id).await? {
            self.tracker.see(id, split);
        }
        Ok(())
    }

    /// One line per event; on a pipe also the progress of splits, now and then.
    async fn above(&mut self, events: &[Event]) -> Vec<String> {
        let clock = moment::clock(unix_millis());
        let mut lines = Vec::new();
        let is_terminal = terminal::width().is_some();
        // A terminal shows the stages in the live lines.
        let is_told = |event: &&Event| !is_terminal || !matches!(event.what, What::At(_));
        for event in events.iter().filter(is_told) {
            // A failed read only costs the details of the line.
            let split = self.control.store.read_split(&event.id).await;
            let split = split.ok().flatten();
            let name = self.name(&event.id);
            let line = told(&name, event.what, split.as_ref());
            lines.push(format!("{clock}  {line}"));
        }
        if !is_terminal {
            for (id, line) in self.tracker.steps() {
                lines.push(format!("{clock}  {}  {line}", self.name(&id)));
            }
        }
        lines
    }

    fn live(&self, screen: &Screen<Stdout>) -> Vec<String> {
        let Some(width) = terminal::width().filter(|_| screen.is_terminal) else {
            return Vec::new();
        };
        let now = unix_millis();
        let shown = self.tracker.first(&self.tables, now, SHOWN_MAX);
        let lines = shown.iter().filter_map(|id| {
            let tracked = self.tracker.get(id)?;
            Some(Shown {
                // The last line names the table if there is only one.
                name: match self.tables.as_slice() {
                    [_] => self.key(id),
                    _ => self.name(id),
                },
                tracked,
                wait: tracked.waits(&id.table, &self.tables, now),
            })
        });
        let lines: Vec<_> = lines.collect();
        let mut drawn = live(&lines, now, width);
        let counts = self.tracker.counts(&self.tables, now);
        drawn.push(summary(&self.tables, counts, lines.len()));
        drawn
    }

    fn name(&self, id: &SplitId) -> String {
        format!("{} {}", id.table, self.key(id))
    }

    fn key(&self, id: &SplitId) -> String {
        let columns = self.columns.get(&id.table);
        columns.map_or_else(String::new, |columns| columns.show(&id.key))
    }
}

/// A split with a line of its own.
struct Shown<'a> {
    name: String,
    tracked: &'a Tracked,
    wait: Option<Wait>,
}

/// One line per split, none wider than the terminal.
fn live(shown: &[Shown<'_>], now: i64, width: usize) -> Vec<String> {
    let bar = if width < 100 { 10 } else { 24 };
    let left = width.saturating_sub(FIXED + bar).clamp(NAME_MIN, NAME_MAX);
    let longest = shown.iter().map(|one| one.name.chars().count()).max();
    let name_width = longest.unwrap_or(0).min(left);
    let line = |one: &Shown<'_>| {
        let name = shortened(&one.name, name_width);
        let state = match (one.tracked.state, one.wait) {
            (State::Detected, Some(Wait::Until(_))) => stage::ShownState::Waiting.as_str(),
            (state, _) => state.as_str(),
        };
        let rest = match one.wait {
            Some(wait) => waits(wait, now),
            None => going(one.tracked, bar),
        };
        let line = format!("{name:name_width$}  {state:STATE$}  {rest}");
        shortened(line.trim_end(), width)
    };
    shown.iter().map(line).collect()
}

fn waits(wait: Wait, now: i64) -> String {
    match wait {
        Wait::Mode(mode) => format!("waits for mode serve; the table is in {}", mode.as_str()),
        Wait::Paused => "waits; the table is paused".to_owned(),
        Wait::Until(time) => {
            let span = moment::span(moment::since(now, time));
            format!("waits for {span}")
        }
    }
}

fn going(tracked: &Tracked, bar: usize) -> String {
    let Some(percent) = tracked.split.as_ref().and_then(stage::percent) else {
        return match tracked.state {
            State::Guarded => "until every proxy knows of it".to_owned(),
            _ => String::new(),
        };
    };
    let drawn = stage::bar(f64::from(percent.value) / 100.0, bar);
    let (rate, left) = pace(tracked.pace());
    format!("{drawn} {percent:>4}  {rate:>RATE$}  {left:>LEFT$}")
}

fn pace(pace: Option<Pace>) -> (String, String) {
    let Some(pace) = pace else {
        return (String::new(), String::new());
    };
    let rate = format!("{}/s", size(pace.bytes_per_second as u64));
    let left = pace.left.map(|left| format!("{} left", moment::span(left)));
    (rate, left.unwrap_or_default())
}

/// The progress of a split, for a pipe.
fn step(tracked: &Tracked, percent: Percent) -> String {
    let (rate, left) = pace(tracked.pace());
    let parts = [percent.to_string(), rate, left];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{} {}", tracked.state.as_str(), parts.join(", "))
}

/// What happened to a split.
fn told(name: &str, what: What, split: Option<&Split>) -> String {
    match what {
        What::At(state) => format!("{name}  {}", state.as_str()),
        What::OutOfService => format!("{name}  out of service with its whole table"),
        What::Ended(state) => {
            // Details of a later generation would be wrong here.
            let split = split.filter(|split| split.standing.state == state);
            let detail = split.and_then(|split| detail(split, state));
            let detail = detail.map(|detail| format!(": {detail}"));
            format!("{name}  {}{}", state.as_str(), detail.unwrap_or_default())
        }
    }
}

fn detail(split: &Split, state: State) -> Option<String> {
    let held = |rows: i64, bytes: i64| format!("{} ({})", counted(rows, "row"), size(bytes));
    match state {
        State::Completed => {
            let copy = split.post_split_data.as_ref()?;
            let held = held(copy.row_count, copy.byte_count);
            Some(format!("{held} in {}, in service", copy.split_table))
        }
        State::NotWide => {
            let original = split.pre_split_data.as_ref()?;
            Some(held(original.row_count, original.byte_count))
        }
        _ => split.reason.as_deref().map(one_line),
    }
}

/// The last line.
fn summary(tables: &[WatchedTable], counts: Counts, shown: usize) -> String {
    let of = match tables {
        [one] => format!("{}: ", one.name),
        _ => String::new(),
    };
    of + &counted_up(counts, shown)
}

fn counted_up(counts: Counts, shown: usize) -> String {
    let Counts { active, waiting } = counts;
    let hidden = match (active + waiting).saturating_sub(shown) {
        0 => String::new(),
        hidden => format!(", {hidden} of them not shown"),
    };
    match (active, waiting) {
        (0, 0) => "nothing is in progress".to_owned(),
        (active, 0) => format!("{active} in progress{hidden}"),
        (active, waiting) => format!("{active} in progress, {} waiting{hidden}", waiting),
    }
}

/// What `--until-done` prints before it exits.
fn done(counts: Counts) -> String {
    match counts.waiting {
        0 => "nothing is in progress\n".to_owned(),
        waiting => {
            let splits = counted(waiting, "split");
            let verb = if waiting == 1 { "waits" } else { "wait" };
            format!("nothing is in progress; {splits} {verb}: narrows splits list\n")
        }
    }
}

/// Lines that a terminal redraws in place; a pipe only gets events, one line each.
struct Screen<W> {
    out: W,
    is_terminal: bool,
    /// The number of lines that the next drawing replaces.
    drawn: usize,
}

impl<W: Write> Screen<W> {
    /// `above` stays; `live` is replaced the next time.
    fn put(&mut self, above: &[String], live: &[String]) -> io::Result<()> {
        let mut text = String::new();
        if !self.is_terminal {
            for line in above {
                text.push_str(line);
                text.push('\n');
            }
            self.out.write_all(text.as_bytes())?;
            return self.out.flush();
        }
        // CSI A moves up; CSI K clears to the right, CSI J clears below.
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        for line in above {
            text.push_str(&format!("{line}\x1b[K\n"));
        }
        // A wrapped line would make `drawn` wrong, so the terminal cuts long live lines (CSI ?7l).
        text.push_str("\x1b[?7l");
        for line in live {
            text.push_str(&format!("{line}\x1b[K\n"));
        }
        text.push_str("\x1b[?7h\x1b[J");
        self.drawn = live.len();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
