//! Runs the pipeline: follows the queue of splits, works on as many of them at a time as it may, and stops cleanly.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::metrics::Metrics;
use super::queue::Queue;
use super::work::{Table, Work, WorkError, Worked};
use crate::config::Pipeline;
use crate::detect::WideReads;
use crate::known::{Known, Watched};
use crate::pipeline::cleanup::{self, orphans};
use crate::pipeline::original::requests::Requests;
use crate::pipeline::settle::Settle;
use crate::schema::names::TableName;
use crate::watched::Mode;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::state::State;
use crate::wide_row::store::{ClusterPatience, Detected, Found, SplitId, Store, StoreError};

const CLEAN_UP_EVERY: Duration = Duration::from_secs(3600);
/// Maximum number of guards that wait for writes to end, in addition to the splits that are worked on.
const GUARDS_AT_A_TIME: usize = 16;

pub(super) struct Runner {
    pub(super) store: Arc<Store>,
    pub(super) known: Arc<Known>,
    pub(super) requests: Rc<Requests>,
    pub(super) metrics: Rc<Metrics>,
    pub(super) reads: WideReads,
    pub(super) settings: Pipeline,
    /// One permit for each split that may be read, copied or compared at a time.
    pub(super) turns: Arc<Semaphore>,
    pub(super) patience: ClusterPatience,
    /// How long to wait after a guard was published, until no write can have missed it.
    pub(super) settle: Settle,
    pub(super) poll_interval: Duration,
    pub(super) worker: String,
    pub(super) stop: watch::Receiver<bool>,
}

impl Runner {
    /// Runs until it is told to stop and every split under way has saved its checkpoint.
    pub(super) async fn run(self) {
        let runner = Rc::new(self);
        let (mut queue, mut busy) = (Queue::default(), HashMap::new());
        let mut under_way = JoinSet::new();
        let cleaning = tokio::task::spawn_local(runner.clone().clean_up());
        let auditing = tokio::task::spawn_local(runner.clone().audit());
        let mut stop = runner.stop.clone();
        while !*stop.borrow() {
            runner.forget(&mut queue);
            for watched in runner.known.tables() {
                if let Err(error) = runner.follow(&mut queue, &watched).await {
                    tracing::debug!(%error, "could not read which splits need work, trying again");
                }
            }
            runner.begin(&mut queue, &mut busy, &mut under_way).await;
            tokio::select! {
                () = sleep(runner.poll_interval) => {}
                Some(ended) = under_way.join_next(), if !under_way.is_empty() => {
                    runner.end(ended, &mut queue, &mut busy);
                }
                _ = stop.changed() => {}
            }
        }
        cleaning.abort();
        while let Some(ended) = under_way.join_next().await {
            runner.end(ended, &mut queue, &mut busy);
        }
        if auditing.await.is_err() {
            tracing::error!("the audit of splits panicked; please report this");
        }
    }

    /// Forgets tables that are no longer watched, and shards that a table has moved away from.
    fn forget(&self, queue: &mut Queue) {
        let is_there = |table: &TableName, shard: i32| {
            let watched = self.known.table(&table.keyspace, &table.table);
            watched.is_some_and(|watched| {
                u32::try_from(shard).is_ok_and(|shard| {
                    // The numbers of shards begin with their count.
                    (watched.shards()..2 * watched.shards()).contains(&shard)
                })
            })
        };
        for table in queue.forget_shards(is_there) {
            self.metrics.splits(&table, queue);
        }
    }

    /// Follows the table also while it is paused or in another mode, so that metrics tell what is there.
    async fn follow(&self, queue: &mut Queue, watched: &Watched) -> Result<(), StoreError> {
        if !is_known(watched) {
            return Ok(());
        }
        let table = watched.name();
        queue.follow(&self.store, table, watched.shards()).await?;
        self.metrics.splits(table, queue);
        Ok(())
    }

    /// Begins work on as many splits as may be under way.
    async fn begin(
        self: &Rc<Self>,
        queue: &mut Queue,
        busy: &mut HashMap<SplitId, i64>,
        under_way: &mut JoinSet<(SplitId, Result<Worked, WorkError>)>,
    ) {
        let at_a_time = self.settings.splits_at_a_time + GUARDS_AT_A_TIME;
        while under_way.len() < at_a_time && !*self.stop.borrow() {
            let Ok(turn) = self.turns.clone().try_acquire_owned() else {
                return;
            };
            let is_free = |id: &SplitId| {
                let watched = self.known.table(&id.table.keyspace, &id.table.table);
                let is_worked_on = watched.is_some_and(|watched| is_worked_on(&watched));
                is_worked_on && !busy.contains_key(id)
            };
            let reads = |id: &SplitId| self.reads.reads(&id.table, &id.key);
            let next = queue.next(is_free, reads);
            let Some((id, state, since)) = next else {
                return;
            };
            match state {
                State::Failed | State::Refused => self.begin_again(&id, queue).await,
                _ => {
                    busy.insert(id.clone(), since);
                    let (runner, stopped_before) = (self.clone(), queue.stopped(&id));
                    under_way.spawn_local(async move {
                        let result = runner.work(&id, turn, stopped_before).await;
                        (id, result)
                    });
                }
            }
        }
    }

    /// Begins the next attempt at a split that has waited long enough.
    async fn begin_again(&self, id: &SplitId, queue: &mut Queue) {
        match self.store.detect(id, Found::default()).await {
            Ok(Detected::New(_) | Detected::Known | Detected::Retired) => queue.forget(id),
            Ok(Detected::NotYet) | Err(_) => queue.rest(id),
        }
    }

    /// Cleans up every hour, one bucket after the other: nobody waits for it.
    async fn clean_up(self: Rc<Self>) {
        loop {
            for watched in self.known.tables() {
                if let Err(error) = self.clean_up_table(&watched).await {
                    let table = watched.name();
                    tracing::warn!(%table, %error, "old buckets were not removed, trying again later");
                }
            }
            sleep(CLEAN_UP_EVERY).await;
        }
    }

    async fn clean_up_table(&self, watched: &Watched) -> Result<(), WorkError> {
        let (table, shards) = (watched.name(), watched.shards());
        if !watched.freshness.is_loaded() {
            return Ok(());
        }
        let Some(schema) = watched.schema() else {
            return Ok(self.remove_orphans(table, shards).await?);
        };
        let (mut removed, now) = (0, unix_millis());
        for candidate in cleanup::candidates(&self.store, table, shards, now).await? {
            let tools = (&*self.store, &*self.requests);
            match cleanup::clean_up(tools, &schema, &candidate, now).await {
                Ok(buckets) => removed += buckets,
                Err(error) => {
                    tracing::warn!(%table, %error, "buckets of a split were not removed, trying again later");
                }
            }
        }
        if removed > 0 {
            tracing::info!(%table, buckets = removed, "removed buckets that nobody reads any more");
        }
        let dropped =
            cleanup::tables::drop_unused(&self.store, &schema, shards, unix_millis()).await;
        if let Err(error) = dropped {
            tracing::warn!(%table, %error, "an unused split table was not dropped, trying again later");
        }
        Ok(())
    }

    /// Removes what is left of a table that may be gone.
    async fn remove_orphans(&self, table: &TableName, shards: u32) -> Result<(), StoreError> {
        let removed = orphans::remove_orphans(&self.store, table, shards, unix_millis()).await?;
        if removed != orphans::Removed::default() {
            let orphans::Removed { splits, tables } = removed;
            tracing::info!(%table, splits, tables, "removed what was left of a table that is gone");
        }
        Ok(())
    }

    pub(super) async fn work(
        &self,
        id: &SplitId,
        turn: OwnedSemaphorePermit,
        stopped_before: u32,
    ) -> Result<Worked, WorkError> {
        let watched = self.known.table(&id.table.keyspace, &id.table.table);
        let watched = watched.ok_or(WorkError::NoSchema)?;
        let table = Table {
            settings: (*watched.settings()).clone(),
            schema: watched.schema(),
        };
        let work = Work {
            store: &self.store,
            requests: &self.requests,
            metrics: &self.metrics,
            table: &table,
            patience: self.patience,
            settle: self.settle,
            audit_every: self.settings.audit_every,
            worker: &self.worker,
            lease: self.settings.lease,
            turns: &self.turns,
            stopped_before,
            is_wanted: &|| is_worked_on(&watched),
            stop: self.stop.clone(),
        };
        work.run(id, turn).await
    }

    fn end(
        &self,
        ended: Result<(SplitId, Result<Worked, WorkError>), tokio::task::JoinError>,
        queue: &mut Queue,
        busy: &mut HashMap<SplitId, i64>,
    ) {
        let (id, result) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // Its lease expires. The split stays in `busy`, so that this process does not panic on it again and
                // again.
                tracing::error!(%error, "the work on a split panicked; please report this");
                return;
            }
        };
        let begun = busy.remove(&id).unwrap_or_default();
        match result {
            Ok(Worked::Done) => queue.ended(&id, begun),
            // The worker that holds it may die at any time.
            Ok(Worked::Busy) => queue.wait(&id, self.settings.lease),
            Err(error) => {
                if error.is_worth_telling() {
                    tracing::warn!(table = %id.table, %error, "the work on a split stopped, and will be retried");
                }
                queue.rest(&id);
            }
        }
    }
}

/// Whether work on splits of this table may begin or continue.
pub(super) fn is_worked_on(watched: &Watched) -> bool {
    let settings = watched.settings();
    let wanted = settings.mode == Mode::Serve && !settings.paused;
    wanted && is_known(watched)
}

fn is_known(watched: &Watched) -> bool {
    watched.freshness.is_loaded() && watched.is_seen()
}
