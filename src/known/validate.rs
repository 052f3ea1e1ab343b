//! Validation: reads what a shard's version is *now*, for every read that would be answered from a split.
//!
//! A request may share only a shard read that was sent after the request arrived. So each shard has one read in flight
//! at a time, and all requests that arrive meanwhile share the next: the cost does not grow with the load.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, counter};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::wide_row::store::{ShardReading, StoreError};

const REQUESTS_TOTAL: &str = "narrows_validation_requests_total";
const READS_TOTAL: &str = "narrows_validation_reads_total";

/// A validation that takes longer is worth less than an answer from the original.
const DEADLINE: Duration = Duration::from_millis(500);

/// Why a shard could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unvalidated {
    #[error("the shard could not be read: {0}")]
    Failed(String),
    #[error("the shard was not read within {DEADLINE:?}")]
    Late,
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
}

impl Metrics {
    pub fn register(table: &str) -> Self {
        let reads = |outcome: &'static str| counter!(READS_TOTAL, "table" => table.to_owned(), "outcome" => outcome);
        Self {
            sent: reads("sent"),
            failed: reads("failed"),
            asked: counter!(REQUESTS_TOTAL, "table" => table.to_owned()),
        }
    }
}

type Answer = Result<ShardReading, Unvalidated>;

/// Requests for which no read was sent yet.
#[derive(Default)]
struct Waiting {
    requests: Vec<oneshot::Sender<Answer>>,
    under_way: bool,
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
        let begin = {
            let mut waiting = lock(place);
            waiting.requests.push(sender);
            !std::mem::replace(&mut waiting.under_way, true)
        };
        if begin {
            self.runtime.spawn(self.readings(shard, place.clone()));
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
    ) -> impl Future<Output = ()> + Send + 'static {
        let reader = self.reader.clone();
        let (sent, failed) = (self.metrics.sent.clone(), self.metrics.failed.clone());
        // Made outside the future, so that it takes effect even if the runtime drops the future before it ever ran.
        let mut broken_off = BrokenOff(Some(place.clone()));
        async move {
            loop {
                let requests = {
                    let mut waiting = lock(&place);
                    if waiting.requests.is_empty() {
                        waiting.under_way = false;
                        broken_off.ended_well();
                        return;
                    }
                    std::mem::take(&mut waiting.requests)
                };
                sent.increment(1);
                let answer = match timeout(DEADLINE, reader.read_shard(shard)).await {
                    Ok(Ok(reading)) => Ok(reading),
                    Ok(Err(error)) => Err(Unvalidated::Failed(error.to_string())),
                    Err(_) => Err(Unvalidated::Late),
                };
                if answer.is_err() {
                    failed.increment(1);
                }
                for request in requests {
                    // A request that was given up needs no answer.
                    let _ = request.send(answer.clone());
                }
            }
        }
    }
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
