//! Compares splits in service with their originals again, each when it is due.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::report::Halt;
use super::runner::{Runner, is_worked_on};
use super::work::WorkError;
use crate::known::Watched;
use crate::pipeline::audit::due;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::store::StoreError;

/// Longest interval between two looks for splits that are due, however rarely each split is compared.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(3600);
const FIRST_LOOK: Duration = Duration::from_secs(60);
/// Number of looks between two comparisons of the same split. A look reads all splits of a table, so there are only a
/// few.
const LOOKS: u32 = 8;

impl Runner {
    /// Runs until it is told to stop; a comparison under way then saves its checkpoint.
    pub(super) async fn audit(self: Rc<Self>) {
        let every = match self.settings.audit_every {
            Some(every) => (every / LOOKS).min(LOOK_EVERY_MAX),
            None => LOOK_EVERY_MAX,
        };
        let every = every.max(self.poll_interval);
        // The splits are not known right after the start.
        let mut pause = every.min(FIRST_LOOK);
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                () = sleep(pause) => pause = every,
                () = stopped(&mut stop) => return,
            }
            for watched in self.known.tables() {
                if *stop.borrow() {
                    return;
                }
                if let Err(error) = self.audit_table(&watched).await {
                    let table = watched.name();
                    tracing::debug!(%table, %error, "could not read which splits are due for another comparison");
                }
            }
        }
    }

    async fn audit_table(&self, watched: &Watched) -> Result<(), StoreError> {
        if !is_worked_on(watched) {
            return Ok(());
        }
        let (table, shards) = (watched.name(), watched.shards());
        let mut stop = self.stop.clone();
        for id in due(&self.store, table, shards, unix_millis()).await? {
            let turn = tokio::select! {
                turn = self.turns.clone().acquire_owned() => turn,
                () = stopped(&mut stop) => return Ok(()),
            };
            let Ok(turn) = turn else {
                return Ok(());
            };
            // It may have been found long ago, and another worker may have compared it since.
            let is_due = self.store.read_key(&id).await?.not_before;
            let is_due = is_due.is_some_and(|time| time <= unix_millis());
            if !is_due || !is_worked_on(watched) {
                continue;
            }
            match self.work(&id, turn, 0).await {
                Ok(_) => {}
                Err(WorkError::Halt(Halt::Stopped)) => return Ok(()),
                Err(error) if error.is_worth_telling() => {
                    tracing::warn!(%table, %error, "a split was not compared again, and will be retried later");
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop, too.
    drop(stop.wait_for(|stop| *stop).await);
}
