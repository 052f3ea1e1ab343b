//! Saves the progress of a stage now and then, and says whether the stage may go on.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::wide_row::clock::unix_millis;
use crate::wide_row::names::Generation;
use crate::wide_row::state::{Progress, State};
use crate::wide_row::store::{Lease, Leased, SplitId, Store, StoreError};

/// Interval between two saves: a crash costs about this much work, and operators see new progress this often.
const EVERY: Duration = Duration::from_secs(2);

/// Why a stage stops early. Nothing is wrong with the split: the stage is resumed later.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    #[error("the lease is lost, or the split has changed")]
    Lost,
    #[error("stopping")]
    Stopped,
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Receives the progress of a stage.
pub trait Reporting {
    /// Takes note of the progress; an error tells the stage to stop. `checkpoint` is where it would resume.
    fn progress(
        &self,
        counted: (u64, u64),
        checkpoint: impl FnOnce() -> Vec<u8>,
    ) -> impl Future<Output = Result<(), Halt>>;
}

/// Saves progress in the record of the split.
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
    /// `began_at` is when the stage began, if it is being resumed.
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
    /// Saves the progress, unless that was done recently.
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
