//! One split from where it stands to its end: the stages in order, each from what the one before has left in `wide_row`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::copy::{CopyError, Copying};
use super::fail_point;
use super::metrics::Metrics;
use super::partition::Partition;
use super::plan::{Draft, Planning, StageError};
use super::report::{Halt, Report, now_millis, now_seconds};
use super::requests::Requests;
use super::scan::ScanError;
use super::strategy::PartitionSplitStrategy;
use super::verify::{Difference, Verification, Verified, VerifyError};
use super::{closed, settle};
use crate::schema::TableSchema;
use crate::upstream::pool::PoolError;
use crate::wide_row::layout::{Layout, LayoutId};
use crate::wide_row::state::{PostSplitData, Progress, State, Step, Transition};
use crate::wide_row::store::{
    ClusterPatience, Lease, Leased, Outcome, Split, SplitId, Store, StoreError,
};
use crate::wide_row::watched::WatchedTable;

/// How often a comparison says how far it is.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// What was refused or found narrow is looked at again at the earliest after a day.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The first pause after a failed attempt; each further one is twice as long.
const BACK_OFF: Duration = Duration::from_secs(60);
const BACK_OFF_MAX: Duration = Duration::from_secs(24 * 3600);

/// Where a split can be worked on.
pub const OPEN: [State; 6] = [
    State::Detected,
    State::Planned,
    State::Guarded,
    State::Copying,
    State::Verifying,
    State::Completed,
];

/// Why the work on a split stopped for now. Its state says where to go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("{0}")]
    Halt(#[from] Halt),
    #[error("{0}")]
    Request(#[from] PoolError),
    #[error("the reply to a read of the original is not what was asked for")]
    Unexpected,
    #[error("the table is being changed")]
    NoSchema,
    #[error("{0}")]
    Verify(VerifyError),
}

impl From<StoreError> for WorkError {
    fn from(error: StoreError) -> Self {
        Self::Halt(Halt::Store(error))
    }
}

/// What all splits of a table share while they are worked on.
pub struct Table {
    pub settings: WatchedTable,
    /// `None`: not known at the moment, or of a kind that cannot be split.
    pub schema: Option<Arc<TableSchema>>,
}

pub struct Work<'a> {
    pub store: &'a Store,
    pub requests: &'a Requests,
    pub metrics: &'a Metrics,
    pub table: &'a Table,
    pub patience: ClusterPatience,
    /// Since a guard was published until every write that did not see it is over.
    pub settle: Duration,
    pub worker: &'a str,
    pub lease: Duration,
    /// Whether the next stage may begin: the table's mode can change, or somebody pauses it.
    pub is_wanted: &'a dyn Fn() -> bool,
    pub stop: watch::Receiver<bool>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// It has ended, or is in service.
    Done(State),
    /// Another worker holds it.
    Busy,
}

impl Work<'_> {
    /// Takes the split as far as it goes.
    pub async fn run(&self, id: &SplitId) -> Result<Worked, WorkError> {
        let leased = self
            .store
            .acquire(id, self.worker, self.lease, &OPEN)
            .await?;
        let Leased::Held(lease) = leased else {
            return Ok(Worked::Busy);
        };
        let result = tokio::select! {
            result = self.stages(id, &lease) => result,
            lost = self.hold(id, &lease) => Err(lost.into()),
        };
        // It expires by itself if this fails.
        drop(self.store.release(id, &lease).await);
        result.map(Worked::Done)
    }

    /// Renews the lease until it is lost.
    async fn hold(&self, id: &SplitId, lease: &Lease) -> Halt {
        let mut failures = 0;
        loop {
            sleep(self.lease / 3).await;
            match self.store.renew(id, lease).await {
                Ok(Leased::Held(())) => failures = 0,
                Ok(Leased::Lost) => return Halt::Lost,
                Err(error) if failures > 0 => return Halt::Store(error),
                Err(_) => failures += 1,
            }
        }
    }

    async fn stages(&self, id: &SplitId, lease: &Lease) -> Result<State, WorkError> {
        let Some(schema) = self.table.schema.as_deref() else {
            return self.refuse_unknown(id, lease).await;
        };
        let partition = Partition::new(schema, &id.key).ok_or(WorkError::NoSchema)?;
        let mut met = false;
        loop {
            if *self.stop.borrow() || !(self.is_wanted)() {
                return Err(Halt::Stopped.into());
            }
            let split = self.store.read_split(id).await?.ok_or(Halt::Lost)?;
            let stage = Stage {
                work: self,
                id,
                lease,
                schema,
                partition: &partition,
                split: &split,
            };
            // Its first sight has a progress only if another worker began it.
            if !std::mem::replace(&mut met, true) && split.progress.is_some() {
                self.metrics.takeovers.increment(1);
            }
            let is_current = split.standing.row_epoch == split.standing.epoch;
            match split.standing.state {
                _ if !is_current => return Ok(split.standing.state),
                State::Detected => stage.plan().await?,
                State::Planned | State::Guarded => stage.guard().await?,
                State::Copying => stage.copy().await?,
                State::Verifying => stage.verify().await?,
                State::Completed if split.not_before.is_some_and(|time| time <= now_millis()) => {
                    stage.verify_again().await?;
                    return Ok(State::Completed);
                }
                ended => return Ok(ended),
            }
        }
    }
}

impl Work<'_> {
    /// A table without a schema is being changed, or has one that cannot be split.
    async fn refuse_unknown(&self, id: &SplitId, lease: &Lease) -> Result<State, WorkError> {
        let obstacle = self.store.obstacle(&id.table).await?;
        let reason = obstacle.ok_or(WorkError::NoSchema)?;
        let split = self.store.read_split(id).await?.ok_or(Halt::Lost)?;
        let transition = Transition::step(split.standing, Step::Refuse(reason));
        let transition = transition.map_err(|_| Halt::Lost)?.not_before(after(DAY));
        match self.store.step(id, lease, &transition).await? {
            Outcome::Applied(_) => Ok(State::Refused),
            Outcome::Lost => Err(Halt::Lost.into()),
        }
    }
}

/// One split at one stage.
struct Stage<'a> {
    work: &'a Work<'a>,
    id: &'a SplitId,
    lease: &'a Lease,
    schema: &'a TableSchema,
    partition: &'a Partition,
    split: &'a Split,
}

impl Stage<'_> {
    async fn plan(&self) -> Result<(), WorkError> {
        let Work {
            store,
            table,
            requests,
            ..
        } = self.work;
        let obstacle = store.obstacle(&self.id.table).await?;
        if let Some(reason) = obstacle {
            return self.refuse(reason, DAY).await;
        }
        let planning = Planning {
            requests,
            schema: self.schema,
            partition: self.partition,
            settings: &table.settings,
            now: now_seconds(),
        };
        let draft = match planning.run(self.checkpoint(), &self.report()).await {
            Err(StageError::Scan(error @ ScanError::Tombstones)) => {
                return self.refuse(error.to_string(), DAY).await;
            }
            other => other.map_err(stage_error)?,
        };
        let data = draft.data();
        let hint_window = self.work.patience.hint_window;
        if draft.byte_count < table.settings.wide_bytes {
            let step = Step::FindNotWide(data);
            return self.step(step, Some(after(DAY))).await;
        }
        let open = closed::still_open(
            &table.settings,
            self.schema,
            self.partition,
            &data,
            hint_window,
        );
        if let Some(open) = open {
            let transition = Step::Refuse(open.reason);
            return self.step(transition, Some(open.closed_at)).await;
        }
        fail_point::reached("plan.layout");
        self.write_layout(&draft).await?;
        self.step(Step::Plan(data), None).await
    }

    /// A layout is written once: a plan that was read again after a crash finds that of the first one, whose boundaries
    /// are as good.
    async fn write_layout(&self, draft: &Draft) -> Result<(), WorkError> {
        let Work { store, .. } = self.work;
        if store.read_layout(&self.layout_id()).await?.is_some() {
            return Ok(());
        }
        let split_table = store.split_table(self.schema).await?;
        fail_point::reached("plan.split_table");
        let layout = Layout {
            table: self.id.table.clone(),
            key: self.id.key.clone(),
            generation: self.split.standing.generation,
            split_table,
            strategy: draft.strategy.name().to_owned(),
            buckets: draft.strategy.buckets().to_vec(),
        };
        Ok(store.write_layout(&layout).await?)
    }

    /// Publishes the guard, by an LWT of our own even if it stands already: only then is it known since when.
    async fn guard(&self) -> Result<(), WorkError> {
        fail_point::reached("guard.before");
        self.step(Step::Guard, None).await?;
        fail_point::reached("guard.published");
        settle::wait(self.work.settle, self.work.stop.clone()).await?;
        settle::finish_paxos(self.work.requests, self.schema, self.partition).await?;
        let split = self.work.store.read_split(self.id).await?;
        let split = split.ok_or(Halt::Lost)?;
        let stage = Stage {
            split: &split,
            ..*self
        };
        stage.step(Step::Copy, None).await
    }

    async fn copy(&self) -> Result<(), WorkError> {
        fail_point::reached("copy.before");
        let layout = self.layout().await?;
        let copying = Copying {
            requests: self.work.requests,
            schema: self.schema,
            partition: self.partition,
            layout: &layout,
            now: now_seconds(),
            guarded_micros: self.split.changed_at.unwrap_or(0).saturating_mul(1000),
        };
        let before = self
            .split
            .progress
            .as_ref()
            .map_or(0, |progress| progress.byte_count);
        match copying.run(self.checkpoint(), &self.report()).await {
            Ok(copied) => {
                let bytes = copied.byte_count.saturating_sub(before.unsigned_abs());
                self.work.metrics.copied(copied.row_count, bytes);
            }
            Err(CopyError::Impossible(why)) => return self.fail(why.to_owned()).await,
            Err(CopyError::Stage(error)) => return Err(stage_error(error)),
        }
        fail_point::reached("copy.after");
        self.step(Step::Verify, None).await
    }

    async fn verify(&self) -> Result<(), WorkError> {
        fail_point::reached("verify.before");
        let layout = self.layout().await?;
        match self.compare(&layout).await? {
            Ok(verified) => {
                fail_point::reached("verify.after");
                let again = after(self.work.patience.hint_window);
                let step = Step::Complete(post_split_data(&layout, &verified));
                self.step(step, Some(again)).await
            }
            Err(difference) => self.fail(difference.to_string()).await,
        }
    }

    /// After the hint window: what a writer around the proxies, or a late hint, has changed is found now.
    async fn verify_again(&self) -> Result<(), WorkError> {
        let layout = self.layout().await?;
        let (store, generation) = (self.work.store, self.split.standing.generation);
        match self.compare(&layout).await? {
            Ok(_) => match store.prove_again(self.id, self.lease, generation).await? {
                Leased::Held(()) => Ok(()),
                Leased::Lost => Err(Halt::Lost.into()),
            },
            Err(difference) => {
                let reason = format!("the second comparison found a difference: {difference}");
                tracing::error!(table = %self.id.table, %reason, "a split is taken out of service");
                store.invalidate(self.id, generation, &reason).await?;
                Ok(())
            }
        }
    }

    /// Compares both sides, and says meanwhile how far that is.
    async fn compare(&self, layout: &Layout) -> Result<Result<Verified, Difference>, WorkError> {
        let checked = Cell::new((0, 0));
        let verification = Verification {
            requests: self.work.requests,
            schema: self.schema,
            key: &self.id.key,
            layout,
            now: now_seconds(),
            patience: Default::default(),
            progress: &|found| checked.set((found.row_count, found.byte_count)),
        };
        let report = self.report();
        let halted = async {
            loop {
                sleep(SAVE_EVERY).await;
                if let Err(halt) = report.progress(checked.get(), Vec::new).await {
                    return halt;
                }
            }
        };
        let verified = tokio::select! {
            verified = verification.run() => verified,
            halt = halted => return Err(halt.into()),
        };
        match verified {
            Ok(verified) => Ok(Ok(verified)),
            Err(VerifyError::Differs(difference)) => {
                self.work.metrics.differences.increment(1);
                Ok(Err(difference))
            }
            Err(error) => Err(WorkError::Verify(error)),
        }
    }

    async fn layout(&self) -> Result<Layout, WorkError> {
        let layout = self.work.store.read_layout(&self.layout_id()).await?;
        let missing = || StoreError::NotUnderstood("a split without its layout".to_owned());
        Ok(layout.ok_or_else(missing)?)
    }

    fn layout_id(&self) -> LayoutId {
        LayoutId {
            table: self.id.table.clone(),
            key: self.id.key.clone(),
            generation: self.split.standing.generation,
        }
    }

    fn checkpoint(&self) -> Option<&[u8]> {
        self.own_progress()?.checkpoint.as_deref()
    }

    /// What was written down in this very stage.
    fn own_progress(&self) -> Option<&Progress> {
        let progress = self.split.progress.as_ref();
        progress.filter(|progress| progress.state == self.split.standing.state)
    }

    fn report(&self) -> Report<'_> {
        Report::new(
            (self.work.store, self.id, self.lease),
            (self.split.standing.state, self.split.standing.generation),
            self.work.stop.clone(),
            self.own_progress().map(|progress| progress.began_at),
        )
    }

    async fn refuse(&self, reason: String, pause: Duration) -> Result<(), WorkError> {
        self.step(Step::Refuse(reason), Some(after(pause))).await
    }

    async fn fail(&self, reason: String) -> Result<(), WorkError> {
        let failures = self.split.failures.saturating_add(1);
        let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
        let pause = (BACK_OFF * 2_u32.pow(doublings)).min(BACK_OFF_MAX);
        tracing::warn!(table = %self.id.table, %reason, ?pause, "an attempt at a split failed");
        let step = Step::Fail { reason, failures };
        self.step(step, Some(after(pause))).await
    }

    async fn step(&self, step: Step, not_before: Option<i64>) -> Result<(), WorkError> {
        let transition = Transition::step(self.split.standing, step);
        let mut transition = transition.map_err(|_| Halt::Lost)?;
        if let Some(time) = not_before {
            transition = transition.not_before(time);
        }
        let to = transition.to();
        match self
            .work
            .store
            .step(self.id, self.lease, &transition)
            .await?
        {
            Outcome::Applied(_) => {
                tracing::info!(table = %self.id.table, state = to.as_str(), "split");
                self.work.metrics.reached(to);
                Ok(())
            }
            Outcome::Lost => Err(Halt::Lost.into()),
        }
    }
}

fn post_split_data(layout: &Layout, verified: &Verified) -> PostSplitData {
    PostSplitData {
        split_table: layout.split_table.clone(),
        strategy: layout.strategy.clone(),
        start_event_bucket: 0,
        target_event_buckets: i32::try_from(layout.buckets.len()).unwrap_or(i32::MAX),
        row_count: i64::try_from(verified.row_count).unwrap_or(i64::MAX),
        byte_count: i64::try_from(verified.byte_count).unwrap_or(i64::MAX),
        checksum: verified.checksum.to_vec(),
    }
}

fn after(pause: Duration) -> i64 {
    let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
    now_millis().saturating_add(pause)
}

fn stage_error(error: StageError) -> WorkError {
    match error {
        StageError::Halt(halt) => halt.into(),
        StageError::Request(error) | StageError::Scan(ScanError::Request(error)) => error.into(),
        StageError::Scan(ScanError::Unexpected | ScanError::Tombstones) => WorkError::Unexpected,
    }
}
