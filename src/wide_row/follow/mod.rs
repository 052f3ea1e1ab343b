//! Following: how a proxy keeps knowing what is split. A full load at first, then one small poll a second; whatever
//! changed is read again, and nothing else.
//!
//! `tables` follows the splits of one table, each in a task of its own, so that the load of a large one keeps no other
//! waiting; `originals` notices that a watched table itself was dropped, altered or truncated by somebody else. Freshness
//! counts from when a poll was sent, so a poll that hangs makes nothing fresh.

mod originals;
mod tables;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::clock::Clock;
use super::freshness::Freshness;
use super::known::{Known, Watched};
use super::metrics::{FollowMetrics, TableMetrics};
use super::names::TableName;
use super::slot::{StoreSlot, TableShards};
use super::snapshot;
use super::store::{Store, StoreError, WatchedRow};
use super::validate::Validations;
use super::watched::WatchedTable;
use crate::filter::{Policies, TableFilter, spec};
use originals::Originals;
use tables::Followed;

/// What a stored filter must agree on, beside its table's name. Nothing: reads are validated however old it is, and writes
/// wait for the full load.
const CONTEXT: &[u8] = b"";
/// Filters are kept on disk this often, and at the end.
const SAVE_EVERY: Duration = Duration::from_secs(300);

/// How to follow.
#[derive(Clone)]
pub struct Following {
    pub poll_interval: Duration,
    pub max_staleness: Duration,
    /// Where filters are kept for the next start.
    pub snapshots: Option<std::path::PathBuf>,
    pub clock: Arc<dyn Clock>,
    /// Where polls, readings and rebuilds run.
    pub runtime: Handle,
    /// Becomes true when everything was loaded once.
    pub loaded: watch::Sender<bool>,
}

impl Following {
    /// Nothing is known yet.
    pub fn freshness(&self) -> Freshness {
        Freshness::new(self.clock.clone(), self.max_staleness)
    }
}

/// Follows the list of watched tables, and has each of them followed.
pub struct Follower {
    following: Following,
    known: Arc<Known>,
    slot: Arc<StoreSlot>,
    followed: HashMap<TableName, Task>,
    originals: Originals,
    metrics: FollowMetrics,
    trouble: Trouble,
}

/// A table and the task that follows it, which ends with this.
struct Task {
    followed: Arc<Followed>,
    /// `None` before the store could be reached.
    task: Option<AbortHandle>,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Follower {
    pub fn new(following: Following, known: Arc<Known>, slot: Arc<StoreSlot>) -> Self {
        Self {
            following,
            known,
            slot,
            followed: HashMap::new(),
            originals: Originals::default(),
            metrics: FollowMetrics::register(),
            trouble: Trouble::default(),
        }
    }

    /// Watches tables before the store could be reached: with the filters of the last run, where they were kept.
    pub fn begin(&mut self, tables: &[WatchedTable]) {
        for table in tables {
            self.watch(table.clone());
        }
        self.publish();
    }

    /// Follows for ever.
    pub async fn run(&mut self, store: Arc<Store>) {
        let known = self.known.clone();
        let mut saved = Instant::now();
        loop {
            let sent = self.following.clock.now();
            let result = self.refresh(&store).await;
            if result.is_ok() {
                known.catalog.record(sent);
                self.tell_when_loaded();
            }
            self.metrics.count(&result);
            self.trouble.report(result, "the list of watched tables");
            if saved.elapsed() > SAVE_EVERY {
                self.save();
                saved = Instant::now();
            }
            tokio::select! {
                () = sleep(self.following.poll_interval) => {}
                () = known.catalog.wanted() => {}
            }
        }
    }

    /// Learns which tables are watched, and whether they are still what they were.
    async fn refresh(&mut self, store: &Arc<Store>) -> Result<(), StoreError> {
        let rows = store.read_watched().await?;
        self.adopt(&rows);
        for task in self.followed.values_mut() {
            task.begin(&self.following, store);
        }
        self.originals.check(store, &rows, &self.known).await;
        Ok(())
    }

    /// Takes over the list of watched tables. One whose settings changed is loaded anew.
    fn adopt(&mut self, rows: &[WatchedRow]) {
        let before = self.followed.len();
        self.followed
            .retain(|name, _| rows.iter().any(|row| row.table.name == *name));
        let mut changed = self.followed.len() != before;
        for row in rows {
            match self.followed.get(&row.table.name) {
                Some(task) if task.followed.watched.settings == row.table => {}
                _ => {
                    self.watch(row.table.clone());
                    changed = true;
                }
            }
        }
        if changed {
            self.publish();
        }
    }

    fn watch(&mut self, table: WatchedTable) {
        let name = table.name.clone();
        tracing::info!(table = %name, mode = table.mode.as_str(), shards = table.shards, "watching");
        let watched = Arc::new(self.watched(table));
        let task = Task {
            followed: Arc::new(Followed::new(watched, self.following.clone())),
            task: None,
        };
        self.followed.insert(name, task);
    }

    fn watched(&self, table: WatchedTable) -> Watched {
        let policies = policies(&table);
        let metrics = TableMetrics::register(&table.name);
        let shards = table.shards as usize;
        let stored = self.following.snapshots.as_ref().and_then(|directory| {
            snapshot::load(directory, &table.name, CONTEXT, policies.clone(), shards)
        });
        let reader = TableShards {
            store: self.slot.clone(),
            table: table.name.clone(),
        };
        Watched {
            filter: stored.unwrap_or_else(|| TableFilter::new(policies, shards)),
            freshness: self.following.freshness(),
            validations: Validations::new(
                Arc::new(reader),
                table.shards,
                self.following.runtime.clone(),
                metrics.validations(),
            ),
            metrics,
            settings: table,
        }
    }

    fn publish(&self) {
        let followed = self.followed.values();
        let watched = followed.map(|task| task.followed.watched.clone());
        self.known.set(watched);
    }

    fn tell_when_loaded(&self) {
        let mut followed = self.followed.values();
        if followed.all(|task| task.followed.is_loaded()) {
            let loaded = &self.following.loaded;
            loaded.send_if_modified(|loaded| !std::mem::replace(loaded, true));
        }
    }

    /// Keeps the filters of tables that were loaded for the next start.
    pub fn save(&self) {
        let Some(directory) = &self.following.snapshots else {
            return;
        };
        let followed = self.followed.values().map(|task| &task.followed);
        for followed in followed.filter(|followed| followed.is_loaded()) {
            let watched = &followed.watched;
            let saved = snapshot::save(directory, watched.name(), &watched.filter, CONTEXT);
            if let Err(error) = saved {
                let table = watched.name();
                tracing::warn!(%table, %error, "the filter was not kept for the next start");
            }
        }
    }
}

impl Task {
    fn begin(&mut self, following: &Following, store: &Arc<Store>) {
        if self.task.is_none() {
            let (followed, store) = (self.followed.clone(), store.clone());
            let task = following
                .runtime
                .spawn(async move { followed.run(store).await });
            self.task = Some(task.abort_handle());
        }
    }
}

/// The trouble that was told last: the same every second is not news.
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
                tracing::warn!(%error, "{what} cannot be followed; writes to watched tables wait, reads go on");
                self.0 = Some(error);
            }
        }
    }
}

/// A policy that this version does not know must not stop it: the default answers the same, only at another price.
fn policies(table: &WatchedTable) -> Policies {
    spec::parse(&table.filter).unwrap_or_else(|error| {
        tracing::warn!(table = %table.name, %error, "filter not understood, using the default");
        spec::parse(&spec::DEFAULT.map(str::to_owned)).expect("the default is understood")
    })
}
