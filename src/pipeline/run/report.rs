//! How far a stage has come, written down now and then; and whether it may go on.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::wide_row::clock::unix_millis;
use crate::wide_row::names::Generation;
use crate::wide_row::state::{Progress, State};
use crate::wide_row::store::{Lease, Leased, SplitId, Store, StoreError};

/// What a crash may cost, about; and how often people who watch see something new.
const EVERY: Duration = Duration::from_secs(2);

/// Why a stage ends before its end. Nothing is wrong with the split: somebody goes on with it.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    #[error("another worker has it")]
    Lost,
    #[error("stopping")]
    Stopped,
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Hears of a stage how far it has come.
pub trait Reporting {
    /// Whether the stage may go on. `checkpoint` is where it would.
    fn progress(
        &self,
        counted: (u64, u64),
        checkpoint: impl FnOnce() -> Vec<u8>,
    ) -> impl Future<Output = Result<(), Halt>>;
}

/// Writes it down in the split that is worked on.
pub struct Report<'a> {
    pub(super) store: &'a Store,
    pub(super) id: &'a SplitId,
    pub(super) lease: &'a Lease,
    pub(super) generation: Generation,
    pub(super) state: State,
    pub(super) stop: watch::Receiver<bool>,
    began_at: i64,
    saved: Cell<Instant>,
}

impl<'a> Report<'a> {
    /// `began_at` is that of a stage which somebody else began.
    pub(super) fn new(
        (store, id, lease): (&'a Store, &'a SplitId, &'a Lease),
        (state, generation): (State, Generation),
        stop: watch::Receiver<bool>,
        began_at: Option<i64>,
    ) -> Self {
        Self {
            store,
            id,
            lease,
            generation,
            state,
            stop,
            began_at: began_at.unwrap_or_else(unix_millis),
            saved: Cell::new(Instant::now()),
        }
    }
}

impl Reporting for Report<'_> {
    /// Writes down how far it is, if that was not done lately.
    async fn progress(
        &self,
        (rows, bytes): (u64, u64),
        checkpoint: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), Halt> {
        let stopping = *self.stop.borrow();
        if !stopping && self.saved.get().elapsed() < EVERY {
            return Ok(());
        }
        let progress = Progress {
            state: self.state,
            row_count: i64::try_from(rows).unwrap_or(i64::MAX),
            byte_count: i64::try_from(bytes).unwrap_or(i64::MAX),
            checkpoint: Some(checkpoint()),
            began_at: self.began_at,
            changed_at: unix_millis(),
        };
        let saved = self
            .store
            .save_progress(self.id, self.lease, self.generation, &progress)
            .await?;
        self.saved.set(Instant::now());
        match saved {
            Leased::Lost => Err(Halt::Lost),
            Leased::Held(()) if stopping => Err(Halt::Stopped),
            Leased::Held(()) => Ok(()),
        }
    }
}

pub fn now_seconds() -> i32 {
    i32::try_from(unix_millis() / 1000).unwrap_or(i32::MAX)
}
