//! What writes do to splits: every split that could lack a write is taken out of service before the client gets its
//! reply.
//!
//! *Only an LWT of our own that applied is an acknowledgement* (see `store`). A generation that seems to have ended may
//! have ended on one replica only, while another proxy still serves it. So a partition that seems free is settled
//! first, by moving the shard's version; once for each version of its row.
//!
//! The work runs on the thread that follows the control keyspace, and always to its end: a client that goes away
//! cancels nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use metrics::{Counter, counter};
use moka::future::Cache;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::slot::StoreSlot;
use crate::known::Watched;
use crate::schema::names::PartitionKey;
use crate::watched::LateWrites;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::store::{
    ClusterPatience, End, KeyReading, Left, Outcome, SplitId, StoreError,
};

/// An attempt fails only if the split was changed meanwhile.
const ATTEMPTS_MAX: usize = 5;
/// Number of partitions of one request that are handled side by side.
const SIDE_BY_SIDE: usize = 8;
/// Drivers give up after about ten seconds; a client still gets a refusal that is sent before that.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an unknown outcome waits for newer knowledge, which may show that the table has no splits.
const REFRESH_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of keys remembered; each takes a few hundred bytes.
const REMEMBERED_MAX: u64 = 100_000;
/// A partition is left alone for this much longer than necessary, so that the next unknown outcome on it needs no
/// change.
const UNSETTLED_SPARE: Duration = Duration::from_secs(600);
/// Maximum number of attempts to record an unknown outcome when nobody waits for it any more.
const REPEATS_MAX: usize = 20;
const REPEAT_AFTER: Duration = Duration::from_secs(3);
/// Maximum number of unknown outcomes that wait to be recorded. Further ones are only counted; the comparison after the
/// hint window finds what those writes changed.
const DOUBTS_MAX: usize = 10_000;
const DOUBTS_SIDE_BY_SIDE: usize = 4;
/// Maximum number of changes in progress, unknown outcomes included. A change goes on after its client has stopped
/// waiting, so on a slow cluster changes would otherwise pile up.
const UNDER_WAY_MAX: usize = DOUBTS_MAX + 4096;
/// Maximum number of times that late writes double the pause before the next attempt.
const DOUBLINGS_MAX: u32 = 8;
const PAUSE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

const LATE_WRITES_TOTAL: &str = "narrows_late_writes_total";

const WRITTEN: &str = "it was written to";
const OUTCOME_UNKNOWN: &str = "a write to it has an unknown outcome";

/// Whether a write may go ahead on the partitions it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// No generation of them is guarded or served any more.
    Free,
    /// One is guarded or split, and late writes are rejected.
    Rejected,
}

/// What a write with an unknown outcome may have changed.
#[derive(Debug)]
pub enum Doubted {
    Keys(Vec<PartitionKey>),
    /// Rows of partitions that cannot be computed. A hint may deliver them later.
    Anywhere,
    /// The table as a whole.
    Table,
}

/// Why splits could not be checked or changed.
#[derive(Debug, thiserror::Error)]
pub enum RetireError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the control keyspace took longer than {} s", PATIENCE.as_secs())]
    Late,
    #[error("the task that changes splits has ended")]
    Ended,
    #[error("too many changes of the control keyspace are under way")]
    TooMany,
}

/// Counts what became of writes to guarded or split partitions of one table.
pub struct LateWriteMetrics {
    /// Generations that a write has ended.
    pub invalidated: Counter,
    /// Writes rejected because of the table's policy.
    pub rejected: Counter,
    /// Writes refused because a split that they touch could not be retired.
    pub refused: Counter,
    /// Writes whose reply was replaced by "outcome unknown" for the same reason.
    pub unknown: Counter,
    /// Unknown outcomes that could not be recorded.
    pub forgotten: Counter,
}

impl LateWriteMetrics {
    pub fn register(table: &str) -> Self {
        let outcome = |outcome: &'static str| counter!(LATE_WRITES_TOTAL, "table" => table.to_owned(), "outcome" => outcome);
        Self {
            invalidated: outcome("invalidated"),
            rejected: outcome("rejected"),
            refused: outcome("refused"),
            unknown: outcome("unknown"),
            forgotten: outcome("forgotten"),
        }
    }
}

/// Takes splits out of service because of writes.
pub struct Retirer {
    store: Arc<StoreSlot>,
    runtime: Handle,
    /// The row version at which a key was not guarded, and every proxy can know it.
    settled: Cache<SplitId, Version>,
    /// Until when a key must not be guarded, in milliseconds since 1970.
    unsettled: Cache<SplitId, i64>,
    patience: OnceCell<ClusterPatience>,
    under_way: AtomicUsize,
    /// Unknown outcomes that are not recorded yet.
    doubts: AtomicUsize,
    doubt_turns: Semaphore,
}

impl Retirer {
    pub fn new(store: Arc<StoreSlot>, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            store,
            runtime,
            settled: Cache::new(REMEMBERED_MAX),
            unsettled: Cache::new(REMEMBERED_MAX),
            patience: OnceCell::new(),
            under_way: AtomicUsize::new(0),
            doubts: AtomicUsize::new(0),
            doubt_turns: Semaphore::new(DOUBTS_SIDE_BY_SIDE),
        })
    }

    /// Retires the splits of partitions that are about to be written, or just were.
    pub async fn release(
        self: &Arc<Self>,
        watched: &Arc<Watched>,
        keys: Vec<PartitionKey>,
        policy: LateWrites,
    ) -> Result<Released, RetireError> {
        let (retirer, watched) = (self.clone(), watched.clone());
        self.run(async move {
            let release = |key| retirer.release_one(&watched, watched.split_id(key), policy);
            let released = futures::stream::iter(keys).map(release);
            let mut released = released.buffer_unordered(SIDE_BY_SIDE);
            let mut all = Released::Free;
            while let Some(one) = released.next().await {
                if one? == Released::Rejected {
                    all = Released::Rejected;
                }
            }
            Ok(all)
        })
        .await
    }

    /// Retires the splits of these partitions, and keeps the partitions from being guarded until a write with an
    /// unknown outcome can have no effect any more.
    pub async fn leave_alone(
        self: &Arc<Self>,
        watched: &Arc<Watched>,
        keys: Vec<PartitionKey>,
    ) -> Result<(), RetireError> {
        let (retirer, watched) = (self.clone(), watched.clone());
        self.run(async move {
            let leave = |key| retirer.leave_one_alone(watched.split_id(key));
            let mut left = futures::stream::iter(keys)
                .map(leave)
                .buffer_unordered(SIDE_BY_SIDE);
            while let Some(one) = left.next().await {
                one?;
            }
            Ok(())
        })
        .await
    }

    /// Handles a write with an unknown outcome that nobody waits for: retires the splits that it may have touched and
    /// leaves their partitions alone. If they are not known, it takes the whole table out of service. It tries for a
    /// minute, for a few writes at a time: a cluster that loses many writes has enough to do.
    pub fn doubt(self: &Arc<Self>, watched: &Arc<Watched>, doubted: Doubted) {
        if self.doubts.fetch_add(1, Ordering::AcqRel) >= DOUBTS_MAX {
            self.doubts.fetch_sub(1, Ordering::AcqRel);
            watched.late_writes.forgotten.increment(1);
            return;
        }
        let (retirer, watched) = (self.clone(), watched.clone());
        let under_way = UnderWay::begin(self);
        self.runtime.spawn(async move {
            let _under_way = under_way;
            retirer.resolve(&watched, &doubted).await;
            retirer.doubts.fetch_sub(1, Ordering::AcqRel);
        });
    }

    async fn resolve(self: &Arc<Self>, watched: &Arc<Watched>, doubted: &Doubted) {
        let began = watched.freshness.now();
        if let Doubted::Table = doubted {
            watched.freshness.refresh(REFRESH_PATIENCE).await;
        }
        for _ in 0..REPEATS_MAX {
            let done = {
                let _turn = self.doubt_turns.acquire().await;
                match doubted {
                    Doubted::Keys(keys) => self.leave_alone(watched, keys.clone()).await,
                    Doubted::Anywhere => self.take_out(watched, true).await,
                    // Only what was read since counts: another process may have begun to split a partition.
                    Doubted::Table
                        if watched.freshness.is_newer_than(began) && watched.has_no_splits() =>
                    {
                        Ok(())
                    }
                    Doubted::Table => self.take_out(watched, false).await,
                }
            };
            match done {
                Ok(()) => return,
                Err(_) => sleep(REPEAT_AFTER).await,
            }
        }
        watched.late_writes.forgotten.increment(1);
    }

    /// Takes all splits of a table out of service. With `demote`, no more are made or served until an operator changes
    /// the mode.
    pub async fn take_out(
        self: &Arc<Self>,
        watched: &Arc<Watched>,
        demote: bool,
    ) -> Result<(), RetireError> {
        let (retirer, watched) = (self.clone(), watched.clone());
        self.run(async move {
            let store = retirer.store.get()?;
            let table = watched.name();
            let take = async {
                store.take_out_of_service(table, watched.shards()).await?;
                watched.following.out_of_service.increment(1);
                Ok(())
            };
            watched.taken_out.share(take).await?;
            if demote {
                store.demote_table(table).await?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until no change is in progress, or the time is up.
    pub async fn finish(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        while self.under_way.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs `work` to its end on the control keyspace's thread, and waits for it as long as a client might.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, RetireError> {
        let under_way = UnderWay::begin(self);
        if self.under_way.load(Ordering::Acquire) > UNDER_WAY_MAX {
            return Err(RetireError::TooMany);
        }
        let work = self.runtime.spawn(async move {
            let _under_way = under_way;
            work.await
        });
        match timeout(PATIENCE, work).await {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(_)) => Err(RetireError::Ended),
            Err(_) => Err(RetireError::Late),
        }
    }

    async fn release_one(
        &self,
        watched: &Watched,
        id: SplitId,
        policy: LateWrites,
    ) -> Result<Released, StoreError> {
        let store = self.store.get()?;
        for _ in 0..ATTEMPTS_MAX {
            let reading = store.read_key(&id).await?;
            match guard_state(&reading) {
                GuardState::Absent => return Ok(Released::Free),
                GuardState::Guarded(_) if policy == LateWrites::Reject => {
                    return Ok(Released::Rejected);
                }
                GuardState::Guarded(generation) => {
                    let late_writes = reading.late_writes.saturating_add(1);
                    let pause = pause(watched.settings().quiet_for, late_writes);
                    let end = End {
                        reason: WRITTEN,
                        not_before: Some(in_future(pause)),
                        late_writes: Some(late_writes),
                        unsettled_until: None,
                    };
                    let ended = store.end_generation(&id, generation, &end).await?;
                    if let Outcome::Applied(version) = ended {
                        self.settled.insert(id, version).await;
                        watched.late_writes.invalidated.increment(1);
                        return Ok(Released::Free);
                    }
                }
                GuardState::Free => {
                    let settled = self.settled.get(&id).await;
                    if settled.is_some_and(|settled| settled >= reading.row_version) {
                        return Ok(Released::Free);
                    }
                    store.settle_shard(&id.table, id.shard).await?;
                    let again = store.read_key(&id).await?;
                    if guard_state(&again) == GuardState::Free {
                        self.settled.insert(id, again.row_version).await;
                        return Ok(Released::Free);
                    }
                }
            }
        }
        Err(StoreError::Contended(ATTEMPTS_MAX))
    }

    async fn leave_one_alone(&self, id: SplitId) -> Result<(), StoreError> {
        let store = self.store.get()?;
        let hint_window = self.hint_window().await;
        let needed = in_future(hint_window);
        if self.unsettled.get(&id).await >= Some(needed) {
            return Ok(());
        }
        let until = in_future(hint_window + UNSETTLED_SPARE);
        let left = store.leave_until(&id, until, OUTCOME_UNKNOWN).await?;
        let version = match left {
            Left::Alone(version) => version,
            Left::Retired => match self.leave_moved_alone(&id, until).await? {
                Some(version) => version,
                None => return Ok(()),
            },
        };
        self.settled.insert(id.clone(), version).await;
        self.unsettled.insert(id, until).await;
        Ok(())
    }

    /// The same for a partition of a table that moves to other shards, as this process has not learnt yet. `None`: the
    /// table is no longer watched.
    async fn leave_moved_alone(
        &self,
        id: &SplitId,
        until: i64,
    ) -> Result<Option<Version>, StoreError> {
        let store = self.store.get()?;
        let rows = store.read_watched().await?;
        let Some(row) = rows.into_iter().find(|row| row.table.name == id.table) else {
            return Ok(None);
        };
        let moved = SplitId::new(id.table.clone(), id.key.clone(), row.table.shards);
        match store.leave_until(&moved, until, OUTCOME_UNKNOWN).await? {
            Left::Alone(version) => Ok(Some(version)),
            Left::Retired => {
                let text = format!("{} is being moved to other shards", id.table);
                Err(StoreError::Unreachable(text.into()))
            }
        }
    }

    /// The cluster's hint window, or Cassandra's default if it cannot be read.
    async fn hint_window(&self) -> Duration {
        let read = async || self.store.get()?.read_patience().await;
        match self.patience.get_or_try_init(read).await {
            Ok(patience) => patience.hint_window,
            Err(error) => {
                let hint_window = ClusterPatience::default().hint_window;
                tracing::warn!(%error, ?hint_window, "the cluster's hint window cannot be read; using Cassandra's default");
                hint_window
            }
        }
    }
}

/// Counts a change as in progress until dropped.
struct UnderWay(Arc<Retirer>);

impl UnderWay {
    fn begin(retirer: &Arc<Retirer>) -> Self {
        retirer.under_way.fetch_add(1, Ordering::AcqRel);
        Self(retirer.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the row of a partition means for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuardState {
    /// The partition never had a split.
    Absent,
    /// The partition seems not to be guarded.
    Free,
    /// Guarded, or in a state that this version does not know.
    Guarded(Generation),
}

fn guard_state(reading: &KeyReading) -> GuardState {
    let guarded = |standing: crate::wide_row::state::Standing| standing.is_guarded();
    match reading.generation {
        None => GuardState::Absent,
        Some(generation) if reading.is_unknown || reading.standing.is_some_and(guarded) => {
            GuardState::Guarded(generation)
        }
        Some(_) => GuardState::Free,
    }
}

/// Doubles with each late write, so that a key that keeps being written does not keep being split.
fn pause(quiet_for: Duration, late_writes: i32) -> Duration {
    let doublings = u32::try_from(late_writes - 1).unwrap_or(0);
    let pause = quiet_for.saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
    pause.min(PAUSE_MAX)
}

fn in_future(pause: Duration) -> i64 {
    let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
    unix_millis().saturating_add(pause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide_row::state::{self, State};

    fn reading(state: Option<State>, row_epoch: i32) -> KeyReading {
        let standing = state.map(|state| state::Standing {
            state,
            generation: Generation(7),
            row_epoch,
            epoch: 1,
        });
        KeyReading {
            standing,
            generation: Some(Generation(7)),
            is_unknown: state.is_none(),
            ..KeyReading::default()
        }
    }

    #[test]
    fn what_is_guarded_or_unknown_must_end_and_the_rest_is_free() {
        for state in State::ALL {
            let expected = match state.is_guarded() {
                true => GuardState::Guarded(Generation(7)),
                false => GuardState::Free,
            };
            assert_eq!(guard_state(&reading(Some(state), 1)), expected, "{state:?}");
            // Out of service with its whole table.
            assert_eq!(guard_state(&reading(Some(state), 0)), GuardState::Free);
        }
        let unknown = guard_state(&reading(None, 1));
        assert_eq!(unknown, GuardState::Guarded(Generation(7)));
        assert_eq!(guard_state(&KeyReading::default()), GuardState::Absent);
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let hour = Duration::from_secs(3600);
        assert_eq!(pause(hour, 1), hour);
        assert_eq!(pause(hour, 2), 2 * hour);
        assert_eq!(pause(hour, 4), 8 * hour);
        assert_eq!(pause(hour, i32::MAX), 256 * hour);
        assert_eq!(pause(24 * hour, i32::MAX), PAUSE_MAX);
        assert_eq!(pause(hour, 0), hour);
    }
}
