//! The splits of one watched table: each shard is loaded once, then followed.
//!
//! The shards are read apart from each other, so one that cannot be read makes only its own keys stale. While rows
//! cannot be read at QUORUM because a data centre is away, they are read at LOCAL_QUORUM instead, which adds keys to
//! the filter and removes none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::Mutex;

use super::metrics::PollMetrics;
use super::pace::{self, Pace};
use super::{Following, Trouble};
use crate::filter::{BuiltShard, Installed, Rebuild, Target};
use crate::known::view::{Next, ShardView, belongs_in_filter};
use crate::known::{Known, Watched};
use crate::wide_row::names::Version;
use crate::wide_row::store::{ChangedRow, ShardReading, Store, StoreError};

/// A shard whose filter holds more than this many keys that are no longer split is rebuilt within `MANY_GONE_POLLS`.
const GONE_KEYS_MAX: usize = 1000;
/// A shard with fewer such keys is rebuilt within this time: every write to one of them costs a read of the control
/// keyspace. Every proxy learns of the same changes, so each draws a time of its own.
const FEW_GONE_WITHIN: Duration = Duration::from_secs(600);
const MANY_GONE_POLLS: u32 = 10;
/// Number of shards of a table that are read side by side.
const SIDE_BY_SIDE: usize = 8;

pub(super) struct Followed {
    pub(super) watched: Arc<Watched>,
    /// All tables, including this one.
    known: Arc<Known>,
    following: Following,
    /// The lock admits one refresh at a time.
    shards: Mutex<Vec<Shard>>,
    rebuilding: AtomicBool,
    /// When a shard of the filter was last built.
    built: std::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Shard {
    /// `None` until all its rows were read at QUORUM.
    view: Option<ShardView>,
    /// Rows up to here were read at LOCAL_QUORUM, and their keys are in the filter. Says nothing once `view` knows more.
    nearby: Option<Version>,
    /// Approximate number of keys in the filter that no longer belong there.
    gone: usize,
    /// When the filter is rebuilt without them.
    rebuild_at: Option<Instant>,
}

impl Shard {
    /// `few` and `many`: how long to wait before the shard is rebuilt.
    fn count_gone(&mut self, keys: usize, (few, many): (Duration, Duration)) {
        self.gone += keys;
        let wait = match self.gone {
            0 => return,
            1..=GONE_KEYS_MAX => few,
            _ => many,
        };
        let at = Instant::now() + wait;
        self.rebuild_at = Some(self.rebuild_at.map_or(at, |before| before.min(at)));
    }
}

impl Followed {
    pub(super) fn new(watched: Arc<Watched>, known: Arc<Known>, following: Following) -> Self {
        let shards = (0..watched.shards()).map(|_| Shard::default()).collect();
        Self {
            watched,
            known,
            following,
            shards: Mutex::new(shards),
            rebuilding: AtomicBool::new(false),
            built: std::sync::Mutex::default(),
        }
    }

    /// Follows for ever.
    pub(super) async fn run(self: Arc<Self>, store: Arc<Store>) {
        let metrics = PollMetrics::register();
        let (mut trouble, mut pace) = (Trouble::default(), Pace::default());
        loop {
            let result = self.refresh(&store).await;
            metrics.count(&result);
            pace.count(result.is_ok());
            self.following.tell_when_loaded(&self.known);
            trouble.report(result, &self.watched.name().to_string());
            let Following {
                poll_interval,
                max_staleness,
                ..
            } = self.following;
            let tables = self.known.tables().len();
            let usual = pace::table_interval(poll_interval, max_staleness, tables);
            super::pause(&self.watched.freshness, &pace, usual).await;
        }
    }

    /// Learns of every change that was acknowledged before this call. After an error, the shards that could be read are
    /// fresh all the same.
    async fn refresh(self: &Arc<Self>, store: &Arc<Store>) -> Result<(), StoreError> {
        let mut shards = self.shards.lock().await;
        let began = Instant::now();
        let was_loaded = self.watched.freshness.is_loaded();
        let each = shards.iter_mut().enumerate();
        let each: Vec<_> = each
            .map(|(index, shard)| self.refresh_shard(store, index, shard))
            .collect();
        let mut refreshed = futures::stream::iter(each).buffer_unordered(SIDE_BY_SIDE);
        let mut all = Ok(());
        while let Some(one) = refreshed.next().await {
            all = all.and(one);
        }
        drop(refreshed);
        if !was_loaded && self.watched.freshness.is_loaded() {
            let keys = self.watched.filter.stats().keys;
            let (table, took) = (self.watched.name(), began.elapsed());
            tracing::info!(%table, keys, ?took, "loaded the splits of a table");
        }
        self.rebuild_one(store, &shards);
        all
    }

    async fn refresh_shard(
        &self,
        store: &Store,
        index: usize,
        shard: &mut Shard,
    ) -> Result<(), StoreError> {
        let sent = self.following.clock.now();
        let polled = store
            .poll_shard(self.watched.name(), self.number(index))
            .await?;
        if let Err(error) = self.read_changes(store, index, shard, &polled).await {
            if !store.is_exact_nearby() {
                return Err(error);
            }
            self.add_nearby(store, index, shard, &polled).await?;
        }
        self.watched.freshness.record(index, sent);
        Ok(())
    }

    fn number(&self, index: usize) -> i32 {
        self.watched.shards() as i32 + index as i32
    }

    async fn read_changes(
        &self,
        store: &Store,
        index: usize,
        shard: &mut Shard,
        polled: &ShardReading,
    ) -> Result<(), StoreError> {
        match shard.view.map(|view| view.next(polled)) {
            None => {
                let all = self.read_all(store, index, polled, polled.settled());
                let (rebuild, seen, gone) = all.await?;
                self.install(self.build(rebuild).await?)?;
                shard.view.insert(ShardView::default()).settle(polled, seen);
                self.count_gone(shard, gone);
                Ok(())
            }
            Some(Next::Nothing) => Ok(()),
            Some(Next::ReadAbove(since)) => self.follow_shard(store, shard, polled, since).await,
        }
    }

    /// Reads what changed in one shard.
    async fn follow_shard(
        &self,
        store: &Store,
        shard: &mut Shard,
        polled: &ShardReading,
        since: Version,
    ) -> Result<(), StoreError> {
        let (mut seen, mut rows, mut gone, mut kept) = (false, 0, 0, Vec::new());
        let Watched {
            filter, following, ..
        } = &*self.watched;
        let (table, settled) = (self.watched.name(), polled.settled());
        let read = store.read_rows(table, polled.shard, since, |row| {
            rows += 1;
            seen |= row.version == polled.version;
            let is_guarded = row.is_guarded;
            if !is_guarded && filter.might_match(&Target::key(row.key.bytes())) {
                gone += 1;
            } else if belongs_in_filter(&row, polled, settled) {
                gone += usize::from(!is_guarded);
                kept.push(row.key);
            }
        });
        read.await?;
        following.shards.increment(1);
        following.rows.increment(rows);
        let view = shard.view.get_or_insert_default();
        if polled.epoch > view.epoch() {
            // The epoch has moved, so all of the shard's keys may be gone.
            gone = GONE_KEYS_MAX + 1;
        }
        view.absorb(polled, seen);
        self.count_gone(shard, gone);
        if !kept.is_empty() {
            filter.insert_all(kept.iter().map(|key| key.bytes()));
        }
        Ok(())
    }

    fn count_gone(&self, shard: &mut Shard, keys: usize) {
        let many = self.following.poll_interval * MANY_GONE_POLLS;
        shard.count_gone(keys, (pace::within(FEW_GONE_WITHIN), pace::within(many)));
    }

    /// Reads the same rows from the own data centre alone. Every acknowledged guard is among them, but a change that
    /// ends one may be on its way, so every key with a row counts as guarded. The view stays as it is, so that all of
    /// it is read again when QUORUM can be had.
    async fn add_nearby(
        &self,
        store: &Store,
        index: usize,
        shard: &mut Shard,
        polled: &ShardReading,
    ) -> Result<(), StoreError> {
        if shard.nearby >= Some(polled.version) {
            return Ok(());
        }
        let since = shard.view.map_or(Version(0), |view| view.known());
        let filter = &self.watched.filter;
        let rebuild = match shard.view {
            None => Some(filter.begin_rebuild(index)),
            Some(_) => None,
        };
        let (mut seen, mut keys) = (false, Vec::new());
        let (table, number) = (self.watched.name(), self.number(index));
        let read = store.read_rows_nearby(table, number, since, |row: ChangedRow| {
            seen |= row.version == polled.version;
            keys.push(row.key);
        });
        read.await?;
        let keys = keys.iter().map(|key| key.bytes());
        match rebuild {
            None => filter.insert_all(keys),
            Some(mut rebuild) => {
                for key in keys {
                    rebuild.add(key);
                }
                self.install(self.build(rebuild).await?)?;
                tracing::warn!(
                    %table,
                    shard = number,
                    "splits are known from this data centre alone: every partition that ever was split counts as split \
                     until the others can be read"
                );
            }
        }
        // As in `ShardView::absorb`: the row at the version may be on its way.
        shard.nearby = (seen || polled.epoch_version == polled.version).then_some(polled.version);
        Ok(())
    }

    /// Reads a whole shard for its filter. `settled`: every change up to here is on a quorum. Returns also whether the row
    /// at the polled version was among the rows, and how many keys will not belong in the filter once all is settled.
    async fn read_all(
        &self,
        store: &Store,
        index: usize,
        polled: &ShardReading,
        settled: Version,
    ) -> Result<(Rebuild, bool, usize), StoreError> {
        // The filter keeps keys that are inserted from now on beside the rebuild, so none is lost.
        let mut rebuild = self.watched.filter.begin_rebuild(index);
        let (mut rows, mut seen, mut gone) = (0, false, 0);
        let (table, number) = (self.watched.name(), self.number(index));
        let read = store.read_rows(table, number, Version(0), |row| {
            rows += 1;
            seen |= row.version == polled.version;
            if belongs_in_filter(&row, polled, settled) {
                gone += usize::from(!belongs_in_filter(&row, polled, Version(i64::MAX)));
                rebuild.add(row.key.bytes());
            }
        });
        read.await?;
        self.watched.following.shards.increment(1);
        self.watched.following.rows.increment(rows);
        Ok((rebuild, seen, gone))
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
        let emptied = || longest_emptied(shards, Instant::now());
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
        let (table, number) = (self.watched.name(), self.number(index));
        // A serial read makes sure that the last change is on a quorum, too, so that its key can be left out.
        let polled = store.read_settled_shard(table, number).await?;
        let all = self.read_all(store, index, &polled, polled.version);
        let (rebuild, seen, _) = all.await?;
        let built = self.build(rebuild).await?;
        // No poll may record the table as fresh between installing the filter and resetting the shard's view.
        let mut shards = self.shards.lock().await;
        self.install(built)?;
        if let Some(shard) = shards.get_mut(index) {
            shard.view.get_or_insert_default().settle(&polled, seen);
            (shard.nearby, shard.gone, shard.rebuild_at) = (None, 0, None);
        }
        Ok(())
    }
}

/// The emptied shard that has waited longest. Epochs may move all the time, so a fixed order would rebuild the first
/// shard again and again, and no other.
fn longest_emptied(shards: &[Shard], now: Instant) -> Option<usize> {
    let due = |shard: &Shard| shard.rebuild_at.filter(|at| *at <= now);
    let emptied = shards.iter().enumerate();
    let emptied = emptied.filter_map(|(index, shard)| Some((due(shard)?, index)));
    emptied.min().map(|(_, index)| index)
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
            rebuild_at: Some(began + Duration::from_secs(at)),
            ..Shard::default()
        };
        let now = began + Duration::from_secs(10);
        let mut shards = [emptied(0), Shard::default(), emptied(1), emptied(1)];
        let mut rebuilt = Vec::new();
        for at in 2..6 {
            let index = longest_emptied(&shards, now).expect("one is emptied");
            rebuilt.push(index);
            // Its epoch has moved again.
            shards[index] = emptied(at);
        }
        assert_eq!(rebuilt, [0, 2, 3, 0]);
        assert_eq!(longest_emptied(&shards[1..2], now), None);
        assert_eq!(longest_emptied(&[emptied(11)], now), None);
    }

    #[test]
    fn many_keys_that_are_gone_are_removed_sooner_than_few() {
        let (few, many) = (Duration::from_secs(600), Duration::from_secs(10));
        let mut shard = Shard::default();
        shard.count_gone(0, (few, many));
        assert_eq!(shard.rebuild_at, None);
        let now = Instant::now();
        shard.count_gone(1, (few, many));
        assert!(shard.rebuild_at >= Some(now + few));
        shard.count_gone(GONE_KEYS_MAX, (few, many));
        assert!(shard.rebuild_at < Some(now + few));
    }
}
