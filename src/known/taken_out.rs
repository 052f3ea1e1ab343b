//! Taking all splits of a table out of service costs an LWT per shard, and many writes may ask for it at once. One such
//! run is under way at a time; those that arrive meanwhile share the next.

use std::time::Instant;

use tokio::sync::Mutex;

use crate::wide_row::store::StoreError;

#[derive(Default)]
pub struct TakenOut(Mutex<Option<Last>>);

/// The last run that came to an end.
#[derive(Clone, Copy)]
struct Last {
    began: Instant,
    is_done: bool,
}

impl TakenOut {
    /// Runs `take`, unless another run began after this call did. That one counts for this call as well, even if it
    /// failed: otherwise each caller would wait for its own failure, one after the other.
    pub async fn share(
        &self,
        take: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let arrived = Instant::now();
        let mut last = self.0.lock().await;
        match *last {
            Some(last) if last.began > arrived && last.is_done => return Ok(()),
            Some(last) if last.began > arrived => {
                let text = "another attempt to take the splits of the table out of service failed";
                return Err(StoreError::Unreachable(text.into()));
            }
            _ => {}
        }
        let began = Instant::now();
        let taken = take.await;
        *last = Some(Last {
            began,
            is_done: taken.is_ok(),
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn those_who_arrive_during_a_run_share_the_next() {
        for is_done in [true, false] {
            let (taken_out, runs) = (TakenOut::default(), AtomicUsize::new(0));
            let take = async || {
                runs.fetch_add(1, Ordering::AcqRel);
                sleep(Duration::from_millis(10)).await;
                match is_done {
                    true => Ok(()),
                    false => Err(StoreError::Contended(1)),
                }
            };
            let callers = (0..5).map(|_| taken_out.share(take()));
            let ended = join_all(callers).await;
            assert!(ended.iter().all(|ended| ended.is_ok() == is_done));
            assert_eq!(runs.load(Ordering::Acquire), 2);
            // What ended before a call does not count for it.
            assert_eq!(taken_out.share(take()).await.is_ok(), is_done);
            assert_eq!(runs.load(Ordering::Acquire), 3);
        }
    }
}
