//! How old a proxy's knowledge of a table is: the time since its last successful refresh was *sent*. Every change that
//! was acknowledged before that moment is known; a later one may not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::clock::{Clock, Moment};

pub struct Freshness {
    clock: Arc<dyn Clock>,
    max_staleness: Duration,
    /// When the newest successful refresh was sent, in nanoseconds since boot; 0 until the first full load.
    refreshed: AtomicU64,
    /// Notified when a refresh was recorded.
    recorded: Notify,
    /// Notified when somebody waits for one.
    wanted: Notify,
}

/// The age of our knowledge. Only fresh knowledge allows a write to be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    Fresh,
    /// Older than `max_staleness`.
    Stale,
    /// Nothing was loaded yet.
    Unknown,
}

impl Freshness {
    pub fn new(clock: Arc<dyn Clock>, max_staleness: Duration) -> Self {
        Self {
            clock,
            max_staleness,
            refreshed: AtomicU64::new(0),
            recorded: Notify::new(),
            wanted: Notify::new(),
        }
    }

    /// Records that a refresh that was sent at this moment has succeeded.
    pub fn record(&self, sent: Moment) {
        // A refresh that was sent earlier but ends later must not set this back.
        self.refreshed
            .fetch_max(sent.nanos().max(1), Ordering::AcqRel);
        self.recorded.notify_waiters();
    }

    /// Returns when somebody needs a refresh at once.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Time since the last successful refresh was sent.
    pub fn since_refresh(&self) -> Option<Duration> {
        // The clock is read last: if it were read first, a pause of the process in between would not count.
        match self.refreshed.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(self.clock.now().since(Moment::from_nanos(nanos))),
        }
    }

    /// Whether there was a first full load.
    pub fn is_loaded(&self) -> bool {
        self.since_refresh().is_some()
    }

    pub fn age(&self) -> Age {
        match self.since_refresh() {
            None => Age::Unknown,
            Some(age) if age <= self.max_staleness => Age::Fresh,
            Some(_) => Age::Stale,
        }
    }

    /// Waits until the knowledge is fresh or the time is up. All who wait share one refresh.
    pub async fn wait(&self, at_most: Duration) -> Age {
        let deadline = Instant::now() + at_most;
        loop {
            let recorded = self.recorded.notified();
            match self.age() {
                Age::Fresh => return Age::Fresh,
                age => {
                    self.wanted.notify_one();
                    if timeout_at(deadline, recorded).await.is_err() {
                        return age;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Moves only when told to.
    struct Manual(Mutex<Duration>);

    impl Clock for Manual {
        fn now(&self) -> Moment {
            Moment::since_boot(*self.0.lock().unwrap())
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::since_boot(Duration::from_secs(seconds))
    }

    fn freshness(seconds: u64) -> (Arc<Manual>, Freshness) {
        let clock = Arc::new(Manual(Mutex::new(Duration::from_secs(seconds))));
        let max_staleness = Duration::from_secs(10);
        let fresh = Freshness::new(clock.clone(), max_staleness);
        (clock, fresh)
    }

    #[test]
    fn counts_from_when_the_refresh_was_sent() {
        let (clock, fresh) = freshness(100);
        assert_eq!(fresh.age(), Age::Unknown);
        fresh.record(at(95));
        assert_eq!(fresh.since_refresh(), Some(Duration::from_secs(5)));
        *clock.0.lock().unwrap() = Duration::from_secs(105);
        assert_eq!(fresh.age(), Age::Fresh);
        *clock.0.lock().unwrap() = Duration::from_millis(105_001);
        assert_eq!(fresh.age(), Age::Stale);
    }

    #[test]
    fn an_older_refresh_that_ends_later_changes_nothing() {
        let (_, fresh) = freshness(100);
        fresh.record(at(99));
        fresh.record(at(80));
        assert_eq!(fresh.since_refresh(), Some(Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn all_who_wait_share_one_refresh() {
        let (_, fresh) = freshness(100);
        let fresh = Arc::new(fresh);
        let wait = || {
            let fresh = fresh.clone();
            tokio::spawn(async move { fresh.wait(Duration::from_secs(1)).await })
        };
        let (one, two) = (wait(), wait());
        fresh.wanted().await;
        fresh.record(at(100));
        assert_eq!(
            (one.await.unwrap(), two.await.unwrap()),
            (Age::Fresh, Age::Fresh)
        );
    }

    #[tokio::test]
    async fn a_refresh_that_was_sent_too_long_ago_helps_nobody() {
        let (_, fresh) = freshness(100);
        let fresh = Arc::new(fresh);
        let waiting = tokio::spawn({
            let fresh = fresh.clone();
            async move { fresh.wait(Duration::from_millis(500)).await }
        });
        tokio::task::yield_now().await;
        fresh.record(at(85));
        assert_eq!(waiting.await.unwrap(), Age::Stale);
    }
}
