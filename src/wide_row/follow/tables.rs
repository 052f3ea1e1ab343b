//! The splits of one watched table: loaded once, then followed shard by shard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use tokio::sync::Mutex;
use tokio::time::sleep;

use super::{Following, Trouble};
use crate::filter::{Installed, Rebuild};
use crate::wide_row::known::Watched;
use crate::wide_row::metrics::FollowMetrics;
use crate::wide_row::names::Version;
use crate::wide_row::store::{ShardReading, Store, StoreError};
use crate::wide_row::view::{Next, ShardView};

/// A shard whose filter holds this many keys that are not split any more is rebuilt.
const GONE_KEYS_MAX: usize = 1000;

pub(super) struct Followed {
    pub(super) watched: Arc<Watched>,
    following: Following,
    /// `None` until the full load. One refresh at a time.
    shards: Mutex<Option<Vec<Shard>>>,
    rebuilding: AtomicBool,
    /// When a part of the filter was built last.
    built: std::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Shard {
    view: ShardView,
    /// Keys in the filter that have left it, about.
    gone: usize,
}

impl Followed {
    pub(super) fn new(watched: Arc<Watched>, following: Following) -> Self {
        Self {
            watched,
            following,
            shards: Mutex::new(None),
            rebuilding: AtomicBool::new(false),
            built: std::sync::Mutex::default(),
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.watched.freshness.since_refresh().is_some()
    }

    /// Follows for ever.
    pub(super) async fn run(self: Arc<Self>, store: Arc<Store>) {
        let metrics = FollowMetrics::register();
        let mut trouble = Trouble::default();
        loop {
            let result = self.refresh(&store).await;
            let freshness = &self.watched.freshness;
            self.watched.metrics.show_age(freshness.since_refresh());
            metrics.count(&result);
            trouble.report(result, &self.watched.name().to_string());
            tokio::select! {
                () = sleep(self.following.poll_interval) => {}
                () = freshness.wanted() => {}
            }
        }
    }

    /// Learns of all that was acknowledged before this call.
    async fn refresh(self: &Arc<Self>, store: &Arc<Store>) -> Result<(), StoreError> {
        let mut shards = self.shards.lock().await;
        if shards.is_none() {
            *shards = Some(self.load(store).await?);
        }
        let Some(shards) = shards.as_mut() else {
            return Ok(());
        };
        let sent = self.following.clock.now();
        let table = self.watched.name();
        let polled = store.read_shards(table, self.watched.settings.shards);
        for (shard, polled) in shards.iter_mut().zip(polled.await?) {
            if let Next::ReadAbove(since) = shard.view.next(&polled) {
                self.follow_shard(store, shard, &polled, since).await?;
            }
        }
        self.watched.freshness.record(sent);
        self.rebuild_one(store, shards);
        Ok(())
    }

    /// Reads what changed in one shard.
    async fn follow_shard(
        &self,
        store: &Store,
        shard: &mut Shard,
        polled: &ShardReading,
        since: Version,
    ) -> Result<(), StoreError> {
        let (mut seen, mut rows, mut guarded) = (false, 0, Vec::new());
        let table = self.watched.name();
        store
            .read_rows(table, polled.shard, since, |row| {
                rows += 1;
                seen |= row.version == polled.version;
                if row.is_guarded && row.row_epoch >= polled.epoch {
                    guarded.push(row.key);
                }
            })
            .await?;
        self.watched.metrics.shards.increment(1);
        self.watched.metrics.rows.increment(rows);
        shard.gone += rows as usize - guarded.len();
        if polled.epoch > shard.view.epoch() {
            // Everything in it has gone.
            shard.gone = usize::MAX / 2;
        }
        if !guarded.is_empty() {
            self.watched
                .filter
                .insert_all(guarded.iter().map(|key| key.bytes()));
        }
        shard.view.absorb(polled, seen);
        Ok(())
    }

    /// Reads all shards, and builds their filters.
    async fn load(self: &Arc<Self>, store: &Arc<Store>) -> Result<Vec<Shard>, StoreError> {
        let began = Instant::now();
        let table = self.watched.name();
        let polled = store
            .read_shards(table, self.watched.settings.shards)
            .await?;
        let mut shards = Vec::with_capacity(polled.len());
        for polled in polled {
            let mut shard = Shard::default();
            let seen = self.build(store, shards.len(), &polled).await?;
            shard.view.absorb(&polled, seen);
            shards.push(shard);
        }
        let keys = self.watched.filter.stats().keys;
        let took = began.elapsed();
        tracing::info!(%table, keys, ?took, "loaded what is split");
        Ok(shards)
    }

    /// Builds one shard's filter, at this place, from its rows. Returns whether the change at the polled version was among them.
    async fn build(
        &self,
        store: &Store,
        index: usize,
        polled: &ShardReading,
    ) -> Result<bool, StoreError> {
        let mut seen = false;
        let mut rows = 0;
        // Keys that come in from now on are kept beside the rebuild, so nothing falls between.
        let mut rebuild = self.watched.filter.begin_rebuild(index);
        let table = self.watched.name();
        store
            .read_rows(table, polled.shard, Version(0), |row| {
                rows += 1;
                seen |= row.version == polled.version;
                if row.is_guarded && row.row_epoch >= polled.epoch {
                    rebuild.add(row.key.bytes());
                }
            })
            .await?;
        self.watched.metrics.shards.increment(1);
        self.watched.metrics.rows.increment(rows);
        self.install(rebuild).await;
        Ok(seen)
    }

    /// The long step runs where it holds up nobody.
    async fn install(&self, rebuild: Rebuild) {
        let watched = self.watched.clone();
        let build = move || {
            let began = Instant::now();
            let installed = watched.filter.install(rebuild.build());
            watched.metrics.build_seconds.record(began.elapsed());
            watched.metrics.show_filter(&watched.filter.stats());
            installed
        };
        match tokio::task::spawn_blocking(build).await {
            Ok(Installed::Yes | Installed::Superseded) => {
                *self.built.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
            Err(error) => tracing::error!(%error, "building a filter failed; please report this"),
        }
    }

    fn show_metrics(&self) {
        let metrics = &self.watched.metrics;
        metrics.show_filter(&self.watched.filter.stats());
        let built = *self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = built {
            metrics.filter_age.set(built.elapsed().as_secs_f64());
        }
    }

    /// Rebuilds a shard that matches too much, in the background and one at a time.
    fn rebuild_one(self: &Arc<Self>, store: &Arc<Store>, shards: &mut [Shard]) {
        self.show_metrics();
        let grown = self.watched.filter.needs_rebuild().into_iter().next();
        let emptied = || shards.iter().position(|shard| shard.gone > GONE_KEYS_MAX);
        let Some(index) = grown.or_else(emptied) else {
            return;
        };
        if self.rebuilding.swap(true, Ordering::AcqRel) {
            return;
        }
        shards[index].gone = 0;
        let (followed, store) = (self.clone(), store.clone());
        self.following.runtime.spawn(async move {
            let table = followed.watched.name();
            let number = (followed.watched.settings.shards as usize + index) as i32;
            let built = match store.read_shard(table, number).await {
                Ok(polled) => followed.build(&store, index, &polled).await,
                Err(error) => Err(error),
            };
            if let Err(error) = built {
                tracing::debug!(%table, %error, "a filter was not rebuilt, trying again");
            }
            followed.rebuilding.store(false, Ordering::Release);
        });
    }
}
