//! Takes one split from its present state to its end: the stages in order, each from what the one before left in
//! `wide_row`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use super::metrics::Metrics;
use super::report::Halt;
use super::stage::{Stage, in_a_day};
use crate::pipeline::original::partition::Partition;
use crate::pipeline::original::requests::Requests;
use crate::pipeline::settle::Settle;
use crate::schema::TableSchema;
use crate::upstream::pool::PoolError;
use crate::watched::WatchedTable;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::state::{State, Step, Transition};
use crate::wide_row::store::{
    ClusterPatience, Lease, Leased, Outcome, SplitId, Store, StoreError, TimeError,
};

/// After this many stops in a row, with growing pauses in between, another refusal is taken as final.
const REFUSALS_MAX: u32 = 3;
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// States in which a split can be worked on.
pub const OPEN: [State; 6] = [
    State::Detected,
    State::Planned,
    State::Guarded,
    State::Copying,
    State::Verifying,
    State::Completed,
];

/// Why the work on a split stopped for now. The state of the split says where to resume.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("{0}")]
    Halt(#[from] Halt),
    #[error("{0}")]
    Request(#[from] PoolError),
    #[error("the reply to a read of the original does not match the request")]
    Unexpected,
    #[error("the table is being changed")]
    NoSchema,
    #[error("{0}")]
    Time(#[from] TimeError),
}

impl WorkError {
    /// A lost lease, a stop and a table that is being changed are expected.
    pub(super) fn is_worth_telling(&self) -> bool {
        !matches!(
            self,
            Self::Halt(Halt::Lost | Halt::Stopped) | Self::NoSchema
        )
    }
}

impl From<StoreError> for WorkError {
    fn from(error: StoreError) -> Self {
        Self::Halt(Halt::Store(error))
    }
}

/// What all splits of a table share while they are worked on.
pub struct Table {
    pub settings: WatchedTable,
    /// `None` if it is not known at the moment, or if the table cannot be split.
    pub schema: Option<Arc<TableSchema>>,
}

pub struct Work<'a> {
    pub store: &'a Store,
    pub requests: &'a Requests,
    pub metrics: &'a Metrics,
    pub table: &'a Table,
    pub patience: ClusterPatience,
    /// How long to wait after a guard was published, until every write that missed it has ended.
    pub settle: Settle,
    /// Time between two comparisons of a split in service; `None` if there is no second one.
    pub audit_every: Option<Duration>,
    pub worker: &'a str,
    pub lease: Duration,
    /// A split that is read, copied or compared holds one of these permits; one that waits for writes to end does not.
    pub turns: &'a Arc<Semaphore>,
    /// How many times in a row the work has stopped at this stage before.
    pub stopped_before: u32,
    /// Whether the next stage may begin: the table's mode can change, or an operator can pause it.
    pub is_wanted: &'a dyn Fn() -> bool,
    pub stop: watch::Receiver<bool>,
}

/// What became of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// It has ended, is in service, or is out of service with its table.
    Done,
    /// Another worker holds it.
    Busy,
}

impl Work<'_> {
    /// Takes the split through its stages, as far as possible.
    pub async fn run(&self, id: &SplitId, turn: OwnedSemaphorePermit) -> Result<Worked, WorkError> {
        let leased = self
            .store
            .acquire(id, self.worker, self.lease, &OPEN)
            .await?;
        let Leased::Held(lease) = leased else {
            return Ok(Worked::Busy);
        };
        let result = tokio::select! {
            result = self.stages(id, &lease, turn) => result,
            lost = self.hold(id, &lease) => Err(lost.into()),
            () = self.out_of_time() => Err(Halt::Stopped.into()),
        };
        // The lease expires by itself if this fails.
        drop(self.store.release(id, &lease).await);
        result.map(|_| Worked::Done)
    }

    /// Returns some time after a stop. Work that has not saved a checkpoint by then is cut off, which is no worse than
    /// a crash.
    async fn out_of_time(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
        sleep(STOP_PATIENCE).await;
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

    /// Nodes also refuse a table that they have not heard of yet, so the first refusals do not count.
    fn gives_up(&self, error: &PoolError) -> bool {
        error.is_refused_for_good() && self.stopped_before >= REFUSALS_MAX
    }

    async fn stages(
        &self,
        id: &SplitId,
        lease: &Lease,
        turn: OwnedSemaphorePermit,
    ) -> Result<State, WorkError> {
        let Some(schema) = self.table.schema.as_deref() else {
            return self.refuse_unknown(id, lease).await;
        };
        let partition = Partition::new(schema, &id.key).ok_or(WorkError::NoSchema)?;
        let mut met = false;
        let mut turn = Some(turn);
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
            // In the first round, progress means that the split was begun before; the progress of a completed split is
            // old.
            let is_begun = split.progress.is_some() && split.standing.state != State::Completed;
            if !std::mem::replace(&mut met, true) && is_begun {
                self.metrics.takeovers.increment(1);
            }
            if matches!(split.standing.state, State::Planned | State::Guarded) {
                turn = None;
            } else if turn.is_none() {
                turn = self.turns.clone().acquire_owned().await.ok();
                // The wait may have been long, so read the split again.
                continue;
            }
            let is_current = split.standing.row_epoch == split.standing.epoch;
            let done = match split.standing.state {
                _ if !is_current => return Ok(split.standing.state),
                State::Detected if split.not_before.is_some_and(|time| time > unix_millis()) => {
                    return Ok(State::Detected);
                }
                State::Detected => stage.plan().await,
                State::Planned | State::Guarded => stage.guard().await,
                State::Copying => stage.copy().await,
                State::Verifying => stage.verify().await,
                State::Completed if split.not_before.is_some_and(|time| time <= unix_millis()) => {
                    stage.verify_again().await?;
                    return Ok(State::Completed);
                }
                ended => return Ok(ended),
            };
            match done {
                Err(WorkError::Request(error)) if self.gives_up(&error) => {
                    stage.fail_refused(&error).await?;
                }
                done => done?,
            }
        }
    }
}

impl Work<'_> {
    /// Refuses the split if its table cannot be split. Otherwise a table without a schema is being changed.
    async fn refuse_unknown(&self, id: &SplitId, lease: &Lease) -> Result<State, WorkError> {
        let obstacle = self.store.obstacle(&id.table).await?;
        let reason = obstacle.ok_or(WorkError::NoSchema)?;
        let split = self.store.read_split(id).await?.ok_or(Halt::Lost)?;
        let transition = Transition::step(split.standing, Step::Refuse(reason));
        let transition = transition.map_err(|_| Halt::Lost)?.not_before(in_a_day());
        match self.store.step(id, lease, &transition).await? {
            Outcome::Applied(_) => Ok(State::Refused),
            Outcome::Lost => Err(Halt::Lost.into()),
        }
    }
}
