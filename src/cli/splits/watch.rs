//! `narrows splits watch`: what is under way, as it goes on. Asks for the versions of shards once a second and reads again
//! only what changed, so that watching a table with very many splits costs little.
//!
//! `track` knows what is under way, `text` says it in lines, `screen` puts them on a terminal or a pipe.

mod screen;
mod text;
mod track;

use std::collections::HashMap;
use std::io::stdout;
use std::time::Duration;

use tokio::time::sleep;

use super::arguments::Watch;
use super::key::KeyColumns;
use super::{Control, SplitsError, moment};
use crate::cli::terminal;
use crate::schema::names::TableName;
use crate::watched::WatchedTable;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::store::{SplitId, StoreError, WatchedRow};
use screen::Screen;
use text::Shown;
use track::{Event, Tracker, What};

const EVERY: Duration = Duration::from_secs(1);
/// Fits on a small terminal; the others are counted.
const SHOWN_MAX: usize = 15;
/// Of a control keyspace that does not answer, before it is given up.
const FAILURES_MAX: u32 = 30;

pub(super) async fn watch(control: &Control, command: &Watch) -> Result<String, SplitsError> {
    let mut watching = Watching {
        control,
        tracker: Tracker::default(),
        columns: HashMap::new(),
        tables: Vec::new(),
    };
    let mut screen = Screen::new(stdout(), terminal::width().is_some());
    let mut failures = 0;
    loop {
        let (above, live) = match watching.look(command.table.as_deref()).await {
            Ok(events) => {
                failures = 0;
                (watching.above(&events).await, watching.live(&screen))
            }
            // The first look says what is wrong, later ones are repeated.
            Err(error) if watching.tables.is_empty() || failures >= FAILURES_MAX => {
                return Err(error);
            }
            Err(SplitsError::Cluster(error)) => {
                failures += 1;
                (Vec::new(), vec![format!("{error}; trying again")])
            }
            Err(error) => return Err(error),
        };
        // Whoever read the lines went away.
        if screen.put(&above, &live).is_err() {
            return Ok(String::new());
        }
        let (tables, now) = (&watching.tables, unix_millis());
        let counts = watching.tracker.counts(tables, now);
        if command.until_done && failures == 0 && counts.active == 0 {
            // The last line of a terminal says as much.
            let is_said = screen.is_terminal() && counts.waiting == 0;
            return Ok(if is_said {
                String::new()
            } else {
                text::done(counts)
            });
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(String::new()),
        }
    }
}

struct Watching<'a> {
    control: &'a Control,
    tracker: Tracker,
    columns: HashMap<TableName, KeyColumns>,
    tables: Vec<WatchedTable>,
}

impl Watching<'_> {
    /// Looks at what changed since the last time.
    async fn look(&mut self, table: Option<&str>) -> Result<Vec<Event>, SplitsError> {
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
                // Of a first load most are of no interest, and are not kept.
                let each = |row| rows.extend(tracker.relevant(&table.name, row));
                store
                    .read_rows(&table.name, reading.shard, since, each)
                    .await?;
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

    /// What happened, one line each; and on a pipe how far splits have come, now and then.
    async fn above(&mut self, events: &[Event]) -> Vec<String> {
        let clock = moment::clock(unix_millis());
        let mut lines = Vec::new();
        let is_terminal = terminal::width().is_some();
        // On a terminal the lines below show what goes on.
        let told = |event: &&Event| !is_terminal || !matches!(event.what, What::At(_));
        for event in events.iter().filter(told) {
            // Without it the line says less.
            let split = self.control.store.read_split(&event.id).await;
            let split = split.ok().flatten();
            let name = self.name(&event.id);
            let line = text::event(&name, event.what, split.as_ref());
            lines.push(format!("{clock}  {line}"));
        }
        if !is_terminal {
            for (id, line) in self.tracker.steps() {
                lines.push(format!("{clock}  {}  {line}", self.name(&id)));
            }
        }
        lines
    }

    fn live(&self, screen: &Screen<std::io::Stdout>) -> Vec<String> {
        let Some(width) = terminal::width().filter(|_| screen.is_terminal()) else {
            return Vec::new();
        };
        let now = unix_millis();
        let shown = self.tracker.first(&self.tables, now, SHOWN_MAX);
        let lines = shown.iter().filter_map(|id| {
            let tracked = self.tracker.get(id)?;
            Some(Shown {
                // Of one table alone the last line says which.
                name: match self.tables.as_slice() {
                    [_] => self.key(id),
                    _ => self.name(id),
                },
                tracked,
                wait: tracked.waits(&id.table, &self.tables, now),
            })
        });
        let lines: Vec<_> = lines.collect();
        let mut live = text::live(&lines, now, width);
        let counts = self.tracker.counts(&self.tables, now);
        live.push(text::summary(&self.tables, counts, lines.len()));
        live
    }

    fn name(&self, id: &SplitId) -> String {
        format!("{} {}", id.table, self.key(id))
    }

    fn key(&self, id: &SplitId) -> String {
        let columns = self.columns.get(&id.table);
        columns.map_or_else(String::new, |columns| columns.show(&id.key))
    }
}
