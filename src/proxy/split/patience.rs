//! How long a read may go on at the split, so that the original can still answer while the client waits.
//!
//! A page of rows has a time limit: drivers give up after 2 s (Java), 10 s (Python) or later. A read that filters, counts
//! or asks for all rows at once may rightly take longer than that, and would take longer still at the original: it goes
//! on as long as answers come.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// Time limit of a page of rows, look-up included: the original then has another second before Java's driver gives up.
const PAGE: Duration = Duration::from_secs(1);
/// A page of rows is given up if no sub-read is answered for this long, although others were asked.
const PAGE_STALL: Duration = Duration::from_millis(600);
/// The same for reads that filter or count: a sub-read may have to read a whole bucket.
const SCAN_STALL: Duration = Duration::from_secs(2);
/// Time limit of one sub-read, however well the others go.
const ONE: Duration = Duration::from_secs(8);

/// What a client asks for, as far as it matters for the time that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Page,
    /// All rows at once.
    Unpaged,
    /// Rows that are filtered, or an aggregate.
    Scan,
}

/// The patience with one read.
pub(super) struct Patience {
    stall: Duration,
    deadline: Option<Instant>,
    /// When a sub-read was answered last.
    answered: Cell<Instant>,
}

impl Patience {
    /// Begins now.
    pub(super) fn new(kind: Kind) -> Self {
        let now = Instant::now();
        Self {
            stall: match kind {
                Kind::Page | Kind::Unpaged => PAGE_STALL,
                Kind::Scan => SCAN_STALL,
            },
            deadline: (kind == Kind::Page).then(|| now + PAGE),
            answered: Cell::new(now),
        }
    }

    /// Time limit of one request, whether or not others are answered.
    pub(super) fn one(&self) -> Duration {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        self.deadline.map_or(ONE, left)
    }

    /// Waits for one sub-read as long as any of them is answered now and then. `None`: not in time.
    pub(super) async fn wait<T>(&self, sub_read: impl Future<Output = T>) -> Option<T> {
        let mut sub_read = std::pin::pin!(sub_read);
        let began = Instant::now();
        loop {
            let until = self.until(began);
            match timeout_at(until, sub_read.as_mut()).await {
                Ok(answer) => {
                    self.answered.set(Instant::now());
                    return Some(answer);
                }
                Err(_) if self.until(began) > until => {}
                Err(_) => return None,
            }
        }
    }

    /// When a sub-read that began then has waited long enough.
    fn until(&self, began: Instant) -> Instant {
        let stalled = self.answered.get().max(began) + self.stall;
        self.deadline
            .map_or(stalled, |deadline| deadline.min(stalled))
    }

    /// Waits for all that a read needs. `None`: not in time.
    pub(super) async fn wait_for_all<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, answer).await.ok(),
            None => Some(answer.await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_early_enough_for_the_original() {
        let patience = Patience::new(Kind::Page);
        let began = patience.answered.get();
        assert_eq!(patience.until(began), began + PAGE_STALL);
        // Answers do not lengthen it.
        patience.answered.set(began + PAGE_STALL);
        assert_eq!(patience.until(began), began + PAGE);
        assert!(patience.one() <= PAGE);
    }

    #[test]
    fn a_scan_goes_on_as_long_as_answers_come() {
        for kind in [Kind::Scan, Kind::Unpaged] {
            let patience = Patience::new(kind);
            let began = patience.answered.get();
            for seconds in 0..100 {
                let answered = began + Duration::from_secs(seconds);
                patience.answered.set(answered);
                assert_eq!(patience.until(began), answered + patience.stall, "{kind:?}");
            }
            // One that begins later gets all of its time.
            let later = began + Duration::from_secs(200);
            assert_eq!(patience.until(later), later + patience.stall, "{kind:?}");
            assert_eq!(patience.one(), ONE);
        }
    }

    #[tokio::test]
    async fn what_is_not_answered_is_given_up_and_what_is_answered_counts() {
        let patience = Patience {
            stall: Duration::ZERO,
            deadline: None,
            answered: Cell::new(Instant::now()),
        };
        assert_eq!(patience.wait(std::future::pending::<()>()).await, None);
        let before = patience.answered.get();
        assert_eq!(patience.wait(async { 7 }).await, Some(7));
        assert!(patience.answered.get() >= before);
        assert_eq!(patience.wait_for_all(async { 8 }).await, Some(8));
        let over = Patience {
            deadline: Some(Instant::now()),
            ..patience
        };
        let never = over.wait_for_all(std::future::pending::<()>());
        assert_eq!(never.await, None);
        assert_eq!(over.one(), Duration::ZERO);
    }
}
