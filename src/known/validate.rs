//! Validation: reads what a shard's version is *now*, for every read that would be answered from a split.
//!
//! A request may share only a shard read that was sent after the request arrived. So each shard has one read in flight
//! at a time, and all requests that arrive meanwhile share the next: the cost does not grow with the load. A shard that
//! fails again and again is left alone for a while (see `breaker`), so that reads do not wait for nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, counter};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::breaker::{Admission, Breaker, Change};
use crate::wide_row::store::{ShardReading, StoreError};

const REQUESTS_TOTAL: &str = "narrows_validation_requests_total";
const READS_TOTAL: &str = "narrows_validation_reads_total";
const SKIPPED_TOTAL: &str = "narrows_validation_skipped_total";

/// A validation that takes longer is worth less than an answer from the original.
const DEADLINE: Duration = Duration::from_millis(500);
/// The longest that a failing shard is left alone: a probe costs one read no more than the deadline.
const BACK_OFF_MAX: Duration = Duration::from_secs(4);

/// Why a shard could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unvalidated {
    #[error("the shard could not be read: {0}")]
    Failed(String),
    #[error("the shard was not read within {DEADLINE:?}")]
    Late,
    #[error("the shard was not read, because it has failed too often lately")]
    Skipped,
}

/// Reads a shard's statics; implemented by the store, and by tests.
pub trait ReadShard: Send + Sync + 'static {
    fn read_shard(
        &self,
        shard: i32,
    ) -> impl Future<Output = Result<ShardReading, StoreError>> + Send;
}

/// Validates all shards of one table.
pub struct Validations<R> {
    reader: Arc<R>,
    shards: Box<[Arc<Mutex<Waiting>>]>,
    /// Runs the reads, and outlives any request.
    runtime: Handle,
    pub metrics: Metrics,
}

pub struct Metrics {
    pub sent: Counter,
    pub failed: Counter,
    /// Requests for a validation; those beyond `sent` shared a read.
    pub asked: Counter,
    /// Requests that were answered at once, because the shard has failed too often.
    pub skipped: Counter,
}

impl Metrics {
    pub fn register(table: &str) -> Self {
        let reads = |outcome: &'static str| counter!(READS_TOTAL, "table" => table.to_owned(), "outcome" => outcome);
        Self {
            sent: reads("sent"),
            failed: reads("failed"),
            asked: counter!(REQUESTS_TOTAL, "table" => table.to_owned()),
            skipped: counter!(SKIPPED_TOTAL, "table" => table.to_owned()),
        }
    }
}

type Answer = Result<ShardReading, Unvalidated>;

/// One shard: the requests for which no read was sent yet.
struct Waiting {
    requests: Vec<oneshot::Sender<Answer>>,
    under_way: bool,
    breaker: Breaker,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            under_way: false,
            breaker: Breaker::new(BACK_OFF_MAX),
        }
    }
}

/// What becomes of a request.
enum Queued {
    /// It begins to read.
    First(Admission),
    /// It shares the next read.
    Next,
    Skipped,
}

impl Waiting {
    fn queue(&mut self, request: oneshot::Sender<Answer>) -> Queued {
        let queued = match self.under_way {
            // The read under way is the probe, and nobody else waits for its outcome.
            true if self.breaker.is_open() => Queued::Skipped,
            true => Queued::Next,
            false => match self.breaker.admit(now()) {
                Some(admission) => Queued::First(admission),
                None => Queued::Skipped,
            },
        };
        if !matches!(queued, Queued::Skipped) {
            self.requests.push(request);
            self.under_way = true;
        }
        queued
    }

    /// Takes note of how a read ended.
    fn ended(&mut self, admission: Admission, shard: i32, answer: &Answer) {
        let change = match answer {
            Ok(_) => self.breaker.succeeded(admission),
            Err(_) => self.breaker.failed(admission, now()),
        };
        match (change, answer) {
            (Change::Opened, Err(reason)) => {
                tracing::info!(shard, %reason, "a shard of the control keyspace cannot be read; its splits are not asked for now");
            }
            (Change::Closed, _) => tracing::info!(shard, "a shard can be read again"),
            _ => {}
        }
    }

    /// The requests that share the next read. `None`: there are none, and reading ends.
    fn next(&mut self, skipped: &Counter) -> Option<(Admission, Vec<oneshot::Sender<Answer>>)> {
        let requests = std::mem::take(&mut self.requests);
        if !requests.is_empty() {
            if let Some(admission) = self.breaker.admit(now()) {
                return Some((admission, requests));
            }
            skipped.increment(requests.len() as u64);
            answer_all(requests, &Err(Unvalidated::Skipped));
        }
        self.under_way = false;
        None
    }
}

impl<R: ReadShard> Validations<R> {
    pub fn new(reader: Arc<R>, shards: u32, runtime: Handle, metrics: Metrics) -> Self {
        Self {
            reader,
            shards: (0..shards).map(|_| Arc::default()).collect(),
            runtime,
            metrics,
        }
    }

    /// The shard as it is now or later, never as it was before the call.
    pub async fn validate(&self, shard: i32) -> Answer {
        self.metrics.asked.increment(1);
        let number = usize::try_from(shard).ok();
        let index = number.and_then(|number| number.checked_sub(self.shards.len()));
        let place = index.and_then(|index| self.shards.get(index));
        let Some(place) = place else {
            return Err(Unvalidated::Failed(format!("there is no shard {shard}")));
        };
        let (sender, answer) = oneshot::channel();
        let queued = lock(place).queue(sender);
        match queued {
            Queued::First(admission) => {
                self.runtime
                    .spawn(self.readings(shard, place.clone(), admission));
            }
            Queued::Next => {}
            Queued::Skipped => {
                self.metrics.skipped.increment(1);
                return Err(Unvalidated::Skipped);
            }
        }
        // Twice the deadline: the read before ours may use up its own.
        match timeout(2 * DEADLINE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Unvalidated::Late),
        }
    }

    /// Reads as long as requests wait.
    fn readings(
        &self,
        shard: i32,
        place: Arc<Mutex<Waiting>>,
        mut admission: Admission,
    ) -> impl Future<Output = ()> + Send + 'static {
        let reader = self.reader.clone();
        let (sent, failed) = (self.metrics.sent.clone(), self.metrics.failed.clone());
        let skipped = self.metrics.skipped.clone();
        // Made outside the future, so that it takes effect even if the runtime drops the future before it ever ran.
        let mut broken_off = BrokenOff(Some(place.clone()));
        async move {
            let mut requests = std::mem::take(&mut lock(&place).requests);
            loop {
                sent.increment(1);
                let answer = match timeout(DEADLINE, reader.read_shard(shard)).await {
                    Ok(Ok(reading)) => Ok(reading),
                    Ok(Err(error)) => Err(Unvalidated::Failed(error.to_string())),
                    Err(_) => Err(Unvalidated::Late),
                };
                if answer.is_err() {
                    failed.increment(1);
                }
                let next = {
                    let mut waiting = lock(&place);
                    waiting.ended(admission, shard, &answer);
                    waiting.next(&skipped)
                };
                if next.is_none() {
                    broken_off.ended_well();
                }
                answer_all(requests, &answer);
                match next {
                    Some(next) => (admission, requests) = next,
                    None => return,
                }
            }
        }
    }
}

/// A request that was given up needs no answer.
fn answer_all(requests: Vec<oneshot::Sender<Answer>>, answer: &Answer) {
    for request in requests {
        let _ = request.send(answer.clone());
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// Cleans up when the reads end by a panic or with the runtime, so that the next request can start them again. `None`
/// once they have ended normally.
struct BrokenOff(Option<Arc<Mutex<Waiting>>>);

impl BrokenOff {
    fn ended_well(&mut self) {
        self.0 = None;
    }
}

impl Drop for BrokenOff {
    fn drop(&mut self) {
        if let Some(place) = self.0.take() {
            let mut waiting = lock(&place);
            waiting.under_way = false;
            // If it was the probe, the next request becomes one.
            waiting.breaker.abandoned(Admission::Probe, now());
            // No read will answer them any more.
            waiting.requests.clear();
        }
    }
}

/// A panic leaves nothing half-done in here.
fn lock(place: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
