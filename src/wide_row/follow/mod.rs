//! Following: how a proxy keeps knowing what is split. A full load at first, then one small poll a second; whatever
//! changed is read again, and nothing else.
//!
//! `tables` follows the splits of one table, `originals` notices that a watched table itself was dropped, altered or
//! truncated by somebody else. Freshness counts from when a poll was sent, so a poll that hangs makes nothing fresh.

mod originals;
mod tables;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
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
    /// Somebody needs a refresh at once.
    pub wanted: Arc<Notify>,
    /// Where readings and rebuilds run.
    pub runtime: Handle,
    /// Becomes true when everything was loaded once.
    pub loaded: watch::Sender<bool>,
}

pub struct Follower {
    following: Following,
    known: Arc<Known>,
    slot: Arc<StoreSlot>,
    followed: HashMap<TableName, Arc<Followed>>,
    originals: Originals,
    metrics: FollowMetrics,
    /// The trouble that was reported last: the same every second is not news.
    trouble: Option<String>,
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
            trouble: None,
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
        let wanted = self.following.wanted.clone();
        let mut saved = Instant::now();
        loop {
            self.refresh(&store).await;
            if saved.elapsed() > SAVE_EVERY {
                self.save();
                saved = Instant::now();
            }
            tokio::select! {
                () = sleep(self.following.poll_interval) => {}
                () = wanted.notified() => {}
            }
        }
    }

    /// One poll of everything.
    async fn refresh(&mut self, store: &Arc<Store>) {
        let sent = self.following.clock.now();
        let result = match store.read_watched().await {
            Ok(rows) => {
                self.adopt(&rows);
                let result = self.refresh_tables(store).await;
                self.known.catalog.record(sent);
                self.originals.check(store, &rows, &self.known).await;
                result
            }
            Err(error) => Err(error),
        };
        for watched in self.known.tables() {
            watched.metrics.show_age(watched.freshness.since_refresh());
        }
        self.report(result);
    }

    async fn refresh_tables(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        let mut refreshes = JoinSet::new();
        for followed in self.followed.values() {
            let (followed, store) = (followed.clone(), store.clone());
            refreshes.spawn(async move { followed.refresh(&store).await });
        }
        let mut result = Ok(());
        while let Some(refreshed) = refreshes.join_next().await {
            match refreshed {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error),
                Err(panic) => result = Err(StoreError::NotUnderstood(panic.to_string())),
            }
        }
        result
    }

    /// Takes over the list of watched tables. One whose shards or filters changed is loaded anew.
    fn adopt(&mut self, rows: &[WatchedRow]) {
        let before = self.followed.len();
        self.followed
            .retain(|name, _| rows.iter().any(|row| row.table.name == *name));
        let mut changed = self.followed.len() != before;
        for row in rows {
            match self.followed.get(&row.table.name) {
                Some(followed) if followed.watched.settings == row.table => {}
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
        let followed = Followed::new(watched, self.following.clone());
        self.followed.insert(name, Arc::new(followed));
    }

    fn watched(&self, table: WatchedTable) -> Watched {
        let policies = policies(&table);
        let metrics = TableMetrics::register(&table.name);
        let shards = TableShards {
            store: self.slot.clone(),
            table: table.name.clone(),
        };
        let Following {
            clock,
            max_staleness,
            wanted,
            runtime,
            snapshots,
            ..
        } = &self.following;
        let stored = snapshots.as_ref().and_then(|directory| {
            let shards = table.shards as usize;
            snapshot::load(directory, &table.name, CONTEXT, policies.clone(), shards)
        });
        let filter = stored.unwrap_or_else(|| TableFilter::new(policies, table.shards as usize));
        Watched {
            filter,
            freshness: Freshness::new(clock.clone(), *max_staleness, wanted.clone()),
            validations: Validations::new(
                Arc::new(shards),
                table.shards,
                runtime.clone(),
                metrics.validations(),
            ),
            metrics,
            settings: table,
        }
    }

    fn publish(&self) {
        let watched = self
            .followed
            .values()
            .map(|followed| followed.watched.clone());
        self.known.set(watched);
    }

    /// Keeps the filters of tables that were loaded for the next start.
    pub fn save(&self) {
        let Some(directory) = &self.following.snapshots else {
            return;
        };
        for followed in self.followed.values() {
            let watched = &followed.watched;
            if watched.freshness.since_refresh().is_none() {
                continue;
            }
            let saved = snapshot::save(directory, watched.name(), &watched.filter, CONTEXT);
            if let Err(error) = saved {
                let table = watched.name();
                tracing::warn!(%table, %error, "the filter was not kept for the next start");
            }
        }
    }

    fn report(&mut self, result: Result<(), StoreError>) {
        match result {
            Ok(()) => {
                self.metrics.ok.increment(1);
                self.following
                    .loaded
                    .send_if_modified(|loaded| !std::mem::replace(loaded, true));
                if self.trouble.take().is_some() {
                    tracing::info!("the control keyspace is followed again");
                }
            }
            Err(error) => {
                self.metrics.failed.increment(1);
                let error = error.to_string();
                if self.trouble.as_ref() != Some(&error) {
                    tracing::warn!(%error, "the control keyspace cannot be followed; writes to watched tables wait, reads go on");
                    self.trouble = Some(error);
                }
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
