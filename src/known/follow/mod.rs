//! Following: how a proxy stays up to date about what is split. After a full load it makes one small poll a second, and
//! reads only what has changed.
//!
//! `tables` follows the splits of one table. Each table has its own task, so that loading a large one keeps no other
//! waiting. `originals` notices when somebody dropped, altered or truncated a watched table itself, `split_tables` when
//! a split table was dropped or truncated. Freshness counts from when a poll was sent, so a poll that hangs makes
//! nothing fresh.

pub mod metrics;
mod originals;
mod pace;
mod split_tables;
mod tables;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep, sleep_until};

use self::metrics::PollMetrics;
use crate::filter::{Policies, TableFilter, spec};
use crate::known::clock::Clock;
use crate::known::freshness::Freshness;
use crate::known::slot::{StoreSlot, TableShards};
use crate::known::snapshot;
use crate::known::validate::{self, Validations};
use crate::known::{Known, Watched};
use crate::schema::names::TableName;
use crate::watched::{Mode, SHARDS_MAX, WatchedTable};
use crate::wide_row::store::{Store, StoreError, WatchedRow};
use originals::Originals;
use pace::Pace;
use tables::Followed;

/// What must match when a stored filter is loaded, besides its table's name. Nothing: however old it is, reads are
/// validated and writes wait for the full load.
const CONTEXT: &[u8] = b"";
/// Interval at which filters are saved to disk; they are also saved on shutdown.
const SAVE_EVERY: Duration = Duration::from_secs(300);
/// First pause before another attempt to close the shards of a table that is no longer watched.
const RETIRE_AGAIN: Duration = Duration::from_secs(1);
/// A schema change is looked at after this pause, since the next one often follows at once.
const SCHEMA_PAUSE: Duration = Duration::from_millis(20);

/// What all following tasks share.
#[derive(Clone)]
pub struct Following {
    pub poll_interval: Duration,
    pub max_staleness: Duration,
    /// A shard with fewer keys than this gets no filter; its keys are held exactly.
    pub min_filter_keys: usize,
    /// Directory where filters are saved for the next start.
    pub snapshots: Option<std::path::PathBuf>,
    pub clock: Arc<dyn Clock>,
    /// Runs the polls, reads and rebuilds.
    pub runtime: Handle,
    /// Becomes true once everything has been loaded.
    pub loaded: watch::Sender<bool>,
    /// Notified when a schema changed, perhaps that of a watched table.
    pub schema_changed: Arc<Notify>,
}

impl Following {
    /// A freshness for which nothing has been loaded yet.
    pub fn freshness(&self, parts: usize) -> Freshness {
        Freshness::new(self.clock.clone(), self.max_staleness, parts)
    }
}

/// Follows the list of watched tables, and runs a task to follow each of them.
pub struct Follower {
    following: Following,
    known: Arc<Known>,
    slot: Arc<StoreSlot>,
    followed: HashMap<TableName, Task>,
    /// Locked while a check runs, so that only one does.
    originals: Arc<Mutex<Originals>>,
    metrics: PollMetrics,
    trouble: Trouble,
}

/// A table and the task that follows it. Dropping this ends the task.
struct Task {
    followed: Arc<Followed>,
    /// `None` until the store has been reached.
    task: Option<AbortHandle>,
    /// Runs when the table is no longer watched, until its shards are closed.
    leaving: Option<JoinHandle<()>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        self.stay();
    }
}

impl Follower {
    pub fn new(following: Following, known: Arc<Known>, slot: Arc<StoreSlot>) -> Self {
        Self {
            following,
            known,
            slot,
            followed: HashMap::new(),
            originals: Arc::default(),
            metrics: PollMetrics::register(),
            trouble: Trouble::default(),
        }
    }

    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Watches tables before the store is reached, with the filters that the last run saved, if any. Reads files, so
    /// not for a thread that must not block.
    pub fn begin(&mut self, tables: &[WatchedTable]) {
        for table in tables {
            let stored = self.stored_filter(table);
            self.watch(table.clone(), stored);
        }
        self.publish();
    }

    /// Follows for ever.
    pub async fn run(&mut self, store: Arc<Store>) {
        let known = self.known.clone();
        let (mut saved, mut pace) = (Instant::now(), Pace::default());
        loop {
            let sent = self.following.clock.now();
            let rows = store.read_watched().await;
            self.metrics.count(&rows);
            pace.count(rows.is_ok());
            let result = rows.map(|rows| {
                self.adopt(&rows, &store);
                known.catalog.record(0, sent);
                self.check_originals(rows, &store);
                self.following.tell_when_loaded(&known);
            });
            self.trouble.report(result, "the list of watched tables");
            self.show_ages();
            if saved.elapsed() > SAVE_EVERY {
                saved = Instant::now();
                tokio::task::spawn_blocking(self.saving());
            }
            tokio::select! {
                () = pause(&known.catalog, &pace, self.following.poll_interval) => {}
                () = self.following.schema_changed.notified() => sleep(SCHEMA_PAUSE).await,
            }
        }
    }

    /// Adopts the list of watched tables. A table whose shards or filter policies changed is loaded anew.
    fn adopt(&mut self, rows: &[WatchedRow], store: &Arc<Store>) {
        let before = self.followed.len();
        let following = &self.following;
        self.followed.retain(|name, task| {
            let is_watched = rows.iter().any(|row| row.table.name == *name);
            if is_watched {
                task.stay();
            }
            is_watched || !task.leave(following, store)
        });
        let mut changed = self.followed.len() != before;
        for row in rows {
            let followed = self.followed.get(&row.table.name);
            match followed.map(|task| (task, task.followed.watched.settings())) {
                Some((_, settings)) if *settings == row.table => {}
                Some((task, settings)) if settings.is_followed_like(&row.table) => {
                    task.followed.watched.set_settings(row.table.clone());
                }
                _ => {
                    self.watch(row.table.clone(), None);
                    changed = true;
                }
            }
        }
        if changed {
            self.publish();
        }
        for row in rows {
            if let Some(task) = self.followed.get_mut(&row.table.name) {
                let watched = &task.followed.watched;
                watched.set_seen(!row.is_first_sight(), row.seen.table_id);
                task.keep_running(&self.following, store);
            }
        }
    }

    fn watch(&mut self, table: WatchedTable, stored: Option<TableFilter>) {
        let name = table.name.clone();
        if table.is_sound() {
            tracing::info!(table = %name, mode = table.mode.as_str(), shards = table.shards, "watching");
        } else {
            // With another number we would look for splits in the wrong shards.
            tracing::error!(
                table = %name,
                shards = table.shards,
                "watched_table has a number of shards that is not a power of two up to {SHARDS_MAX}; the table is not \
                 followed, and writes to it are refused"
            );
        }
        let watched = Arc::new(self.watched(table, stored));
        let task = Task {
            followed: Arc::new(Followed::new(
                watched,
                self.known.clone(),
                self.following.clone(),
            )),
            task: None,
            leaving: None,
        };
        self.followed.insert(name, task);
    }

    fn watched(&self, table: WatchedTable, stored: Option<TableFilter>) -> Watched {
        let shards = table.shards.min(SHARDS_MAX);
        let filter = stored.unwrap_or_else(|| TableFilter::new(policies(&table), shards as usize));
        let filter = filter.with_min_filter_keys(self.following.min_filter_keys);
        let metrics = validate::Metrics::register(&table.name.to_string());
        let reader = TableShards {
            store: self.slot.clone(),
            table: table.name.clone(),
        };
        let runtime = self.following.runtime.clone();
        let freshness = self.following.freshness(shards as usize);
        let validations = Validations::new(Arc::new(reader), shards, runtime, metrics);
        let watched = Watched::new(table, filter, freshness, validations);
        watched.filter_metrics.show(&watched.filter.stats());
        watched
    }

    fn stored_filter(&self, table: &WatchedTable) -> Option<TableFilter> {
        let directory = self.following.snapshots.as_ref()?;
        let shards = table.shards as usize;
        snapshot::load(directory, &table.name, CONTEXT, policies(table), shards)
    }

    fn publish(&self) {
        let followed = self.followed.values();
        let watched = followed.map(|task| task.followed.watched.clone());
        self.known.set(watched);
    }

    /// Runs beside the polls, because it may write, and may wait for nodes that hang.
    fn check_originals(&self, rows: Vec<WatchedRow>, store: &Arc<Store>) {
        if let Ok(mut originals) = self.originals.clone().try_lock_owned() {
            let (store, known) = (store.clone(), self.known.clone());
            let check = async move { originals.check(&store, &rows, &known).await };
            self.following.runtime.spawn(check);
        }
    }

    /// Called here and not where tables are polled, so that the age grows while a poll hangs.
    fn show_ages(&self) {
        self.metrics.show_age(self.known.catalog.since_refresh());
        for watched in self.known.tables() {
            watched
                .following
                .show_age(watched.freshness.since_refresh());
        }
    }

    /// Returns a function that saves the filters of all loaded tables for the next start. The function blocks.
    pub fn saving(&self) -> impl FnOnce() + Send + 'static {
        let mut loaded = self.known.tables();
        loaded.retain(|watched| watched.freshness.is_loaded());
        let directory = self.following.snapshots.clone();
        move || {
            let Some(directory) = directory else {
                return;
            };
            for watched in loaded {
                let table = watched.name();
                if let Err(error) = snapshot::save(&directory, table, &watched.filter, CONTEXT) {
                    tracing::warn!(%table, %error, "the filter could not be saved for the next start");
                }
            }
        }
    }
}

impl Following {
    fn tell_when_loaded(&self, known: &Known) {
        if known.is_loaded() {
            let first = |loaded: &mut bool| !std::mem::replace(loaded, true);
            self.loaded.send_if_modified(first);
        }
    }
}

/// Waits until the next poll is due or somebody needs it.
async fn pause(freshness: &Freshness, pace: &Pace, usual: Duration) {
    let due = Instant::now() + pace.interval(usual);
    tokio::select! {
        () = sleep_until(due.into()) => {}
        () = freshness.wanted() => sleep(pace.pause()).await,
    }
}

impl Task {
    /// Its row in the list of watched tables is gone. Other proxies may not know that yet, and serve its splits. So
    /// writes are checked until the shards are closed: by us, because only an LWT of our own proves it. Returns whether
    /// that is done.
    fn leave(&mut self, following: &Following, store: &Arc<Store>) -> bool {
        let watched = &self.followed.watched;
        let settings = watched.settings();
        if !settings.is_sound() {
            return true;
        }
        let leaving = self.leaving.get_or_insert_with(|| {
            let off = WatchedTable {
                mode: Mode::Off,
                ..(*settings).clone()
            };
            watched.set_settings(off);
            let table = settings.name.clone();
            tracing::info!(%table, "the table is no longer watched; its writes are checked until its splits are out of service");
            let (store, shards) = (store.clone(), settings.shards);
            following.runtime.spawn(close_shards(store, table, shards))
        });
        leaving.is_finished()
    }

    /// Its row is there, or there again.
    fn stay(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.abort();
        }
    }

    /// Starts the task, and restarts it after a panic has ended it.
    fn keep_running(&mut self, following: &Following, store: &Arc<Store>) {
        let runs = self.task.as_ref().is_some_and(|task| !task.is_finished());
        if runs || !self.followed.watched.settings().is_sound() {
            return;
        }
        let (followed, store) = (self.followed.clone(), store.clone());
        let task = following.runtime.spawn(followed.run(store));
        self.task = Some(task.abort_handle());
    }
}

/// Tries until it succeeds.
async fn close_shards(store: Arc<Store>, table: TableName, shards: u32) {
    let (mut pace, mut trouble) = (Pace::default(), Trouble::default());
    loop {
        let closed = store.retire(&table, shards).await;
        if closed.is_ok() {
            return;
        }
        pace.count(false);
        trouble.report(closed, "a table that is no longer watched");
        sleep(pace.interval(RETIRE_AGAIN)).await;
    }
}

/// The last error that was logged, so that the same error is not logged every second.
#[derive(Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn report(&mut self, result: Result<(), StoreError>, what: &str) {
        match result.map_err(|error| error.to_string()) {
            Ok(()) => {
                if self.0.take().is_some() {
                    tracing::info!("{what} can be followed again");
                }
            }
            Err(error) if self.0.as_ref() == Some(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "{what} cannot be followed; writes and reads go on, writes by what is known until control.max_staleness has passed");
                self.0 = Some(error);
            }
        }
    }
}

/// A policy that this version does not know must not stop it: the default is just as correct, only at another cost.
fn policies(table: &WatchedTable) -> Policies {
    spec::parse(&table.filter).unwrap_or_else(|error| {
        tracing::warn!(table = %table.name, %error, "filter not understood, using the default");
        spec::parse(&spec::DEFAULT.map(str::to_owned)).expect("the default is understood")
    })
}
