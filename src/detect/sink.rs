//! Writes events down in the control keyspace, a few at a time. Detection never waits for that. An event that cannot be
//! written down is forgotten, so that the partition is reported again when it is read again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Event, WideReads};
use crate::known::Watched;
use crate::known::slot::StoreSlot;
use crate::wide_row::store::{Detected, Found, SplitId, StoreError};

/// Maximum number of events that are written at the same time.
const AT_ONCE: usize = 4;
/// Maximum number of events that wait or are being written. Further ones are forgotten.
const WAITING_MAX: usize = 256;
/// The pause doubles after each attempt, so all attempts together take about half a minute.
const ATTEMPTS_MAX: u32 = 6;
const PAUSE_MIN: Duration = Duration::from_secs(1);

const UNSEEN: &str = "the table has not been checked since it began to be watched";

/// Receives the events of tables in mode `serve`.
pub trait Sink {
    /// Must not wait.
    fn take(&mut self, watched: &Arc<Watched>, event: Event);
}

/// Writes events to the control keyspace. Dropping it aborts its tasks.
pub struct Recorder {
    store: Arc<StoreSlot>,
    reads: WideReads,
    turns: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

impl Recorder {
    pub fn new(store: Arc<StoreSlot>, reads: WideReads) -> Self {
        Self {
            store,
            reads,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            tasks: JoinSet::new(),
        }
    }
}

impl Sink for Recorder {
    fn take(&mut self, watched: &Arc<Watched>, event: Event) {
        // Removes the tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= WAITING_MAX {
            return self.reads.forget(&event.table, &event.key);
        }
        let id = watched.split_id(event.key);
        let found = Found {
            bytes: event.bytes.and_then(|bytes| i64::try_from(bytes).ok()),
            by: Some(event.reason),
        };
        let (store, reads) = (self.store.clone(), self.reads.clone());
        let (turns, watched) = (self.turns.clone(), watched.clone());
        self.tasks.spawn(async move {
            let _turn = turns.acquire().await;
            if let Err(error) = write_down(&store, &watched, (&id, found)).await {
                tracing::warn!(table = %id.table, %error, "a wide partition could not be written down");
                reads.forget(&id.table, &id.key);
            }
        });
    }
}

async fn write_down(
    store: &StoreSlot,
    watched: &Watched,
    (id, found): (&SplitId, Found),
) -> Result<(), StoreError> {
    let mut pause = PAUSE_MIN;
    for _ in 1..ATTEMPTS_MAX {
        match attempt(store, watched, (id, found)).await {
            Err(error @ StoreError::Refused(_)) => return Err(error),
            Err(error) => tracing::debug!(table = %id.table, %error, "trying again"),
            Ok(detected) => return told(id, &detected),
        }
        sleep(pause).await;
        pause *= 2;
    }
    attempt(store, watched, (id, found))
        .await
        .and_then(|detected| told(id, &detected))
}

async fn attempt(
    store: &StoreSlot,
    watched: &Watched,
    (id, found): (&SplitId, Found),
) -> Result<Detected, StoreError> {
    // The first look at the original takes everything that was written down before out of service.
    if !watched.is_seen() {
        return Err(StoreError::Unreachable(UNSEEN.into()));
    }
    store.get()?.detect(id, found).await
}

fn told(id: &SplitId, detected: &Detected) -> Result<(), StoreError> {
    tracing::debug!(table = %id.table, shard = id.shard, ?detected, "a wide partition was written down");
    Ok(())
}
