//! The splits of one watched table: loaded once, then followed shard by shard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::metrics::PollMetrics;
use super::{Following, Trouble};
use crate::filter::{BuiltShard, Installed, Rebuild, Target};
use crate::known::view::{Next, ShardView};
use crate::known::{Known, Watched};
use crate::wide_row::names::Version;
use crate::wide_row::store::{ShardReading, Store, StoreError};

/// A shard whose filter holds more than this many keys that are no longer split is rebuilt at once.
const GONE_KEYS_MAX: usize = 1000;
/// A shard with fewer such keys is rebuilt after this time: every write to one of them costs a read of the control
/// keyspace.
const GONE_PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Followed {
    pub(super) watched: Arc<Watched>,
    /// All tables, including this one.
    known: Arc<Known>,
    following: Following,
    /// `None` until the full load. The lock admits one refresh at a time.
    shards: Mutex<Option<Vec<Shard>>>,
    rebuilding: AtomicBool,
    /// When a shard of the filter was last built.
    built: std::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Shard {
    view: ShardView,
    /// Approximate number of keys in the filter that no longer belong there.
    gone: usize,
    /// Since when there have been any.
    gone_since: Option<Instant>,
}

impl Shard {
    fn count_gone(&mut self, keys: usize) {
        self.gone += keys;
        if self.gone > 0 {
            self.gone_since.get_or_insert_with(Instant::now);
        }
    }

    fn is_emptied(&self) -> bool {
        let long = |since: Instant| since.elapsed() > GONE_PATIENCE;
        self.gone > GONE_KEYS_MAX || self.gone_since.is_some_and(long)
    }
}

impl Followed {
    pub(super) fn new(watched: Arc<Watched>, known: Arc<Known>, following: Following) -> Self {
        Self {
            watched,
            known,
            following,
            shards: Mutex::new(None),
            rebuilding: AtomicBool::new(false),
            built: std::sync::Mutex::default(),
        }
    }

    /// Follows for ever.
    pub(super) async fn run(self: Arc<Self>, store: Arc<Store>) {
        let metrics = PollMetrics::register();
        let mut trouble = Trouble::default();
        loop {
            let result = self.refresh(&store).await;
            metrics.count(&result);
            self.following.tell_when_loaded(&self.known);
            trouble.report(result, &self.watched.name().to_string());
            self.following.pause(&self.watched.freshness).await;
        }
    }

    /// Learns of every change that was acknowledged before this call.
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
        let polled = store.read_shards(table, self.watched.shards());
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
        let (mut seen, mut rows, mut gone, mut guarded) = (false, 0, 0, Vec::new());
        let Watched {
            filter, following, ..
        } = &*self.watched;
        let table = self.watched.name();
        let read = store.read_rows(table, polled.shard, since, |row| {
            rows += 1;
            seen |= row.version == polled.version;
            if row.is_guarded {
                guarded.push(row.key);
            } else if filter.might_match(&Target::key(row.key.bytes())) {
                gone += 1;
            }
        });
        read.await?;
        following.shards.increment(1);
        following.rows.increment(rows);
        if polled.epoch > shard.view.epoch() {
            // The epoch has moved, so all of the shard's keys may be gone.
            gone = GONE_KEYS_MAX + 1;
        }
        shard.count_gone(gone);
        if !guarded.is_empty() {
            filter.insert_all(guarded.iter().map(|key| key.bytes()));
        }
        shard.view.absorb(polled, seen);
        Ok(())
    }

    /// Reads all shards, and builds their filters.
    async fn load(&self, store: &Store) -> Result<Vec<Shard>, StoreError> {
        let began = Instant::now();
        let mut shards = Vec::new();
        for index in 0..self.watched.shards() as usize {
            let (settled, rebuild) = self.read_all(store, index).await?;
            self.install(self.build(rebuild).await?)?;
            let mut shard = Shard::default();
            shard.view.settle(&settled);
            shards.push(shard);
        }
        let keys = self.watched.filter.stats().keys;
        let (table, took) = (self.watched.name(), began.elapsed());
        tracing::info!(%table, keys, ?took, "loaded the splits of a table");
        Ok(shards)
    }

    /// Reads a whole shard for its filter. A key is left out only because of a change that is on a quorum. That is why
    /// the statics are read serially, and why every key that changed since then stays in.
    async fn read_all(
        &self,
        store: &Store,
        index: usize,
    ) -> Result<(ShardReading, Rebuild), StoreError> {
        let table = self.watched.name();
        let number = self.watched.shards() as i32 + index as i32;
        // The filter keeps keys that are inserted from now on beside the rebuild, so none is lost.
        let mut rebuild = self.watched.filter.begin_rebuild(index);
        let settled = store.read_settled_shard(table, number).await?;
        let mut rows = 0;
        let read = store.read_rows(table, number, Version(0), |row| {
            rows += 1;
            let guarded = row.is_guarded && row.row_epoch >= settled.epoch;
            if guarded || row.version > settled.version {
                rebuild.add(row.key.bytes());
            }
        });
        read.await?;
        self.watched.following.shards.increment(1);
        self.watched.following.rows.increment(rows);
        Ok((settled, rebuild))
    }

    /// Runs the long step on a blocking thread, where it holds up nobody.
    async fn build(&self, rebuild: Rebuild) -> Result<BuiltShard, StoreError> {
        let build_seconds = self.watched.filter_metrics.build_seconds.clone();
        let build = move || {
            let began = Instant::now();
            let built = rebuild.build();
            build_seconds.record(began.elapsed());
            built
        };
        let built = tokio::task::spawn_blocking(build).await;
        built.map_err(|panic| StoreError::NotUnderstood(panic.into()))
    }

    /// Only one rebuild of a shard is in progress, so none is ever superseded. If one were, it would count as failed.
    fn install(&self, built: BuiltShard) -> Result<(), StoreError> {
        match self.watched.filter.install(built) {
            Installed::Yes => {}
            Installed::Superseded => {
                let text = "a rebuild of a filter was overtaken by another";
                return Err(StoreError::NotUnderstood(text.into()));
            }
        }
        *self.built.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    fn show_metrics(&self) {
        let metrics = &self.watched.filter_metrics;
        metrics.show(&self.watched.filter.stats());
        let built = *self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = built {
            metrics.show_age(built.elapsed());
        }
    }

    /// Rebuilds a shard that matches too much, in the background and one at a time.
    fn rebuild_one(self: &Arc<Self>, store: &Arc<Store>, shards: &[Shard]) {
        self.show_metrics();
        let grown = self.watched.filter.needs_rebuild().into_iter().next();
        let emptied = || longest_emptied(shards);
        let Some(index) = grown.or_else(emptied) else {
            return;
        };
        if self.rebuilding.swap(true, Ordering::AcqRel) {
            return;
        }
        let (followed, store) = (self.clone(), store.clone());
        self.following.runtime.spawn(async move {
            let _under_way = Rebuilding(&followed.rebuilding);
            if let Err(error) = followed.rebuild(&store, index).await {
                let table = followed.watched.name();
                tracing::debug!(%table, %error, "a filter was not rebuilt, trying again");
            }
        });
    }

    async fn rebuild(&self, store: &Store, index: usize) -> Result<(), StoreError> {
        let (settled, rebuild) = self.read_all(store, index).await?;
        let built = self.build(rebuild).await?;
        // No poll may record the table as fresh between installing the filter and resetting the shard's view.
        let mut shards = self.shards.lock().await;
        self.install(built)?;
        if let Some(shard) = shards.as_mut().and_then(|shards| shards.get_mut(index)) {
            shard.view.settle(&settled);
            (shard.gone, shard.gone_since) = (0, None);
        }
        Ok(())
    }
}

/// The emptied shard that has waited longest. Epochs may move all the time, so a fixed order would rebuild the first
/// shard again and again, and no other.
fn longest_emptied(shards: &[Shard]) -> Option<usize> {
    let emptied = shards
        .iter()
        .enumerate()
        .filter(|(_, shard)| shard.is_emptied());
    let longest = emptied.min_by_key(|(_, shard)| shard.gone_since);
    longest.map(|(index, _)| index)
}

/// Marks a rebuild as in progress. However it ends, the next may begin.
struct Rebuilding<'a>(&'a AtomicBool);

impl Drop for Rebuilding<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptied_shards_take_turns() {
        let began = Instant::now();
        let emptied = |at: u64| Shard {
            gone: GONE_KEYS_MAX + 1,
            gone_since: Some(began + Duration::from_secs(at)),
            ..Shard::default()
        };
        let mut shards = [emptied(0), Shard::default(), emptied(1), emptied(1)];
        let mut rebuilt = Vec::new();
        for at in 2..6 {
            let index = longest_emptied(&shards).expect("one is emptied");
            rebuilt.push(index);
            // Its epoch has moved again.
            shards[index] = emptied(at);
        }
        assert_eq!(rebuilt, [0, 2, 3, 0]);
        assert_eq!(longest_emptied(&shards[1..2]), None);
    }
}
