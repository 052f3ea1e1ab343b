//! What writes do to splits: whatever a write could be missing from is taken out of service before its client hears of it.
//!
//! *Only an LWT of our own that applied is an acknowledgement* (see `store`). A generation that seems to have ended may
//! have done so on one replica only, and another proxy may still serve it: so what seems free is settled by moving the
//! shard's version before it is believed, once for each version of its row.
//!
//! Runs on the thread that follows the control keyspace, and to its end whoever stops waiting: a client that goes away
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

use super::freshness::Age;
use super::slot::StoreSlot;
use crate::known::Watched;
use crate::schema::names::PartitionKey;
use crate::watched::LateWrites;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::names::{Generation, Version};
use crate::wide_row::store::{
    ClusterPatience, Detected, End, Found, KeyReading, Outcome, SplitId, StoreError,
};

/// Each is lost only to somebody who moved the split meanwhile.
const ATTEMPTS_MAX: usize = 5;
/// Partitions of one request that are looked at side by side.
const SIDE_BY_SIDE: usize = 8;
/// Drivers give up after ten seconds or so; a request that is refused before that is not lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is remembered of keys; each is a few hundred bytes.
const REMEMBERED_MAX: u64 = 100_000;
/// A partition is left alone for longer than it must be, so that the next unknown outcome on it needs no change.
const UNSETTLED_SPARE: Duration = Duration::from_secs(600);
/// Attempts to write down that an outcome is unknown, when nobody waits for it any more.
const REPEATS_MAX: usize = 20;
const REPEAT_AFTER: Duration = Duration::from_secs(3);
/// Writes with an unknown outcome that wait for that to be written down. Those beyond are counted; the comparison after the
/// hint window finds what they change.
const DOUBTS_MAX: usize = 10_000;
const DOUBTS_SIDE_BY_SIDE: usize = 4;
/// All of these, and changes that somebody waits for or has given up to wait for: those go on, and while the cluster is slow
/// to make them they must not become more and more.
const UNDER_WAY_MAX: usize = DOUBTS_MAX + 4096;
/// Late writes double the pause before the next attempt so often at most.
const DOUBLINGS_MAX: u32 = 8;
const PAUSE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

const LATE_WRITES_TOTAL: &str = "narrows_late_writes_total";

const WRITTEN: &str = "it was written";
const OUTCOME_UNKNOWN: &str = "a write to it has an unknown outcome";

/// What a write may do with the partitions it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// No generation of them is guarded or served any more.
    Free,
    /// One is guarded or split, and late writes are rejected.
    Rejected,
}

/// It was not found out, or could not be changed, in time.
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

/// What became of writes to partitions of one table that are guarded or split.
pub struct LateWriteMetrics {
    /// Generations that a write has ended.
    pub invalidated: Counter,
    /// Writes rejected because of the table's policy.
    pub rejected: Counter,
    /// Writes refused because what they touch could not be taken out of its split.
    pub refused: Counter,
    /// Writes whose reply was replaced by "outcome unknown" for the same reason.
    pub unknown: Counter,
    /// Unknown outcomes that could not be written down.
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
    /// The version of a key's row at which it was not guarded, and every proxy can know.
    settled: Cache<SplitId, Version>,
    /// Until when nothing of a key is guarded, in milliseconds since 1970.
    unsettled: Cache<SplitId, i64>,
    patience: OnceCell<ClusterPatience>,
    under_way: AtomicUsize,
    /// Unknown outcomes that are not written down yet.
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

    /// Takes partitions that are about to be written, or just were, out of their splits.
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

    /// Nothing of these partitions is guarded until a write to them whose outcome is unknown can have no effect any more.
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

    /// A write has an unknown outcome and nobody waits: what it might have touched is taken out of service and left alone,
    /// all of the table without `keys`. Tried again and again for a minute, a few at a time: a cluster that loses many
    /// writes has enough to do.
    pub fn doubt(self: &Arc<Self>, watched: &Arc<Watched>, keys: Option<Vec<PartitionKey>>) {
        if self.doubts.fetch_add(1, Ordering::AcqRel) >= DOUBTS_MAX {
            self.doubts.fetch_sub(1, Ordering::AcqRel);
            watched.late_writes.forgotten.increment(1);
            return;
        }
        let (retirer, watched) = (self.clone(), watched.clone());
        let under_way = UnderWay::begin(self);
        self.runtime.spawn(async move {
            let _under_way = under_way;
            retirer.resolve(&watched, keys).await;
            retirer.doubts.fetch_sub(1, Ordering::AcqRel);
        });
    }

    async fn resolve(self: &Arc<Self>, watched: &Arc<Watched>, keys: Option<Vec<PartitionKey>>) {
        for _ in 0..REPEATS_MAX {
            let done = {
                let _turn = self.doubt_turns.acquire().await;
                match &keys {
                    Some(keys) => self.leave_alone(watched, keys.clone()).await,
                    // By now that may be known of a table which was just being loaded.
                    None if watched.freshness.age() == Age::Fresh && watched.has_no_splits() => {
                        Ok(())
                    }
                    None => self.take_out(watched, false).await,
                }
            };
            match done {
                Ok(()) => return,
                Err(_) => sleep(REPEAT_AFTER).await,
            }
        }
        watched.late_writes.forgotten.increment(1);
    }

    /// Takes all splits of a table out of service; with `demote` none are made or served until somebody says so.
    pub async fn take_out(
        self: &Arc<Self>,
        watched: &Arc<Watched>,
        demote: bool,
    ) -> Result<(), RetireError> {
        let (retirer, watched) = (self.clone(), watched.clone());
        self.run(async move {
            let store = retirer.store.get()?;
            let table = watched.name();
            store.take_out_of_service(table, watched.shards()).await?;
            watched.following.out_of_service.increment(1);
            if demote {
                store.demote_table(table).await?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until nothing is under way, or the time is up.
    pub async fn finish(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        while self.under_way.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// On the thread of the control keyspace, to its end; waited for as long as a client might wait.
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
        for _ in 0..ATTEMPTS_MAX {
            let reading = store.read_key(&id).await?;
            let is_guarded = matches!(guard_state(&reading), GuardState::Guarded(_));
            let end = End {
                reason: OUTCOME_UNKNOWN,
                unsettled_until: Some(until),
                // In service it is when it is compared again; otherwise it stays as it is.
                not_before: is_guarded.then_some(until),
                ..End::default()
            };
            let Some(generation) = reading.generation else {
                match store.detect(&id, Found::default()).await? {
                    // Nothing is guarded in a shard that was given up.
                    Detected::Retired => return Ok(()),
                    Detected::New(_) | Detected::Known | Detected::NotYet => continue,
                }
            };
            if let Outcome::Applied(version) = store.end_generation(&id, generation, &end).await? {
                self.settled.insert(id.clone(), version).await;
                self.unsettled.insert(id, until).await;
                return Ok(());
            }
        }
        Err(StoreError::Contended(ATTEMPTS_MAX))
    }

    /// Where the cluster does not say, Cassandra's own default.
    async fn hint_window(&self) -> Duration {
        let read = async || self.store.get()?.read_patience().await;
        let patience = self.patience.get_or_try_init(read).await;
        patience.copied().unwrap_or_default().hint_window
    }
}

/// Something is under way until this is dropped.
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

/// How a partition stands to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuardState {
    /// There was never a split of it.
    Absent,
    /// It seems that nothing is guarded.
    Free,
    /// Also in a state that this version does not know.
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

/// Keys that are written again and again are not split again and again.
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
