//! How old a proxy's knowledge is: the time since its last successful refresh was *sent*. Every change that was
//! acknowledged before that moment is known; a later one may not be.
//!
//! Knowledge has parts that are refreshed apart from each other: the shards of a table. The list of watched tables is
//! one part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::clock::{Clock, Moment};

pub struct Freshness {
    clock: Arc<dyn Clock>,
    max_staleness: Duration,
    /// For each part, when its newest successful refresh was sent, in nanoseconds since boot; 0 until the first full
    /// load.
    refreshed: Box<[AtomicU64]>,
    /// Notified when a refresh was recorded.
    recorded: Notify,
    /// Notified when somebody waits for one.
    wanted: Notify,
}

/// The parts of the knowledge that a question needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    All,
    Some(Vec<usize>),
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
    pub fn new(clock: Arc<dyn Clock>, max_staleness: Duration, parts: usize) -> Self {
        Self {
            clock,
            max_staleness,
            refreshed: (0..parts).map(|_| AtomicU64::new(0)).collect(),
            recorded: Notify::new(),
            wanted: Notify::new(),
        }
    }

    /// Records that a refresh of one part, sent at this moment, has succeeded.
    pub fn record(&self, part: usize, sent: Moment) {
        if let Some(refreshed) = self.refreshed.get(part) {
            // A refresh that was sent earlier but ends later must not set this back.
            refreshed.fetch_max(sent.nanos().max(1), Ordering::AcqRel);
            self.recorded.notify_waiters();
        }
    }

    /// Returns when somebody needs a refresh at once.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Time since the last successful refresh of the oldest part was sent. `None`: not all are loaded.
    pub fn since_refresh(&self) -> Option<Duration> {
        self.since(&Parts::All)
    }

    fn since(&self, parts: &Parts) -> Option<Duration> {
        let load = |refreshed: &AtomicU64| refreshed.load(Ordering::Acquire);
        let oldest = match parts {
            Parts::All => self.refreshed.iter().map(load).min(),
            Parts::Some(parts) => {
                let part = |part: &usize| self.refreshed.get(*part).map_or(0, load);
                parts.iter().map(part).min()
            }
        };
        // The clock is read last: if it were read first, a pause of the process in between would not count.
        match oldest {
            Some(0) => None,
            // A question that needs no part needs no refresh.
            None => Some(Duration::ZERO),
            Some(nanos) => Some(self.clock.now().since(Moment::from_nanos(nanos))),
        }
    }

    /// Whether there was a first full load.
    pub fn is_loaded(&self) -> bool {
        self.since_refresh().is_some()
    }

    /// Whether all parts were refreshed by reads that were sent after this moment.
    pub fn is_newer_than(&self, moment: Moment) -> bool {
        let is_newer = |refreshed: &AtomicU64| refreshed.load(Ordering::Acquire) > moment.nanos();
        self.refreshed.iter().all(is_newer)
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The age of the oldest part.
    pub fn age(&self) -> Age {
        self.age_of(&Parts::All)
    }

    pub fn age_of(&self, parts: &Parts) -> Age {
        match self.since(parts) {
            None => Age::Unknown,
            Some(age) if age <= self.max_staleness => Age::Fresh,
            Some(_) => Age::Stale,
        }
    }

    /// Whether knowledge from this moment may still be used.
    pub fn allows(&self, moment: Moment) -> bool {
        self.clock.now().since(moment) <= self.max_staleness
    }

    /// Waits until all parts were refreshed by reads that are sent from now on, or the time is up.
    pub async fn refresh(&self, at_most: Duration) {
        let (began, deadline) = (self.now(), Instant::now() + at_most);
        loop {
            let recorded = self.recorded.notified();
            if self.is_newer_than(began) {
                return;
            }
            self.wanted.notify_one();
            if timeout_at(deadline, recorded).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the knowledge is fresh or the time is up. All who wait share one refresh.
    pub async fn wait(&self, parts: &Parts, at_most: Duration) -> Age {
        let deadline = Instant::now() + at_most;
        loop {
            let recorded = self.recorded.notified();
            match self.age_of(parts) {
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
        let fresh = Freshness::new(clock.clone(), max_staleness, 2);
        (clock, fresh)
    }

    fn both(fresh: &Freshness, seconds: u64) {
        fresh.record(0, at(seconds));
        fresh.record(1, at(seconds));
    }

    #[test]
    fn a_part_that_cannot_be_refreshed_ages_alone() {
        let (clock, fresh) = freshness(100);
        fresh.record(0, at(100));
        assert_eq!((fresh.age(), fresh.is_loaded()), (Age::Unknown, false));
        let [first, second] = [Parts::Some(vec![0]), Parts::Some(vec![1])];
        assert_eq!(fresh.age_of(&first), Age::Fresh);
        assert_eq!(fresh.age_of(&second), Age::Unknown);
        fresh.record(1, at(100));
        *clock.0.lock().unwrap() = Duration::from_secs(111);
        fresh.record(0, at(111));
        assert_eq!(fresh.age_of(&first), Age::Fresh);
        assert_eq!(
            (fresh.age_of(&second), fresh.age()),
            (Age::Stale, Age::Stale)
        );
        assert_eq!(fresh.age_of(&Parts::Some(vec![])), Age::Fresh);
        assert!(!fresh.is_newer_than(at(105)) && fresh.is_newer_than(at(99)));
    }

    #[test]
    fn counts_from_when_the_refresh_was_sent() {
        let (clock, fresh) = freshness(100);
        assert_eq!(fresh.age(), Age::Unknown);
        both(&fresh, 95);
        assert_eq!(fresh.since_refresh(), Some(Duration::from_secs(5)));
        *clock.0.lock().unwrap() = Duration::from_secs(105);
        assert_eq!(fresh.age(), Age::Fresh);
        *clock.0.lock().unwrap() = Duration::from_millis(105_001);
        assert_eq!(fresh.age(), Age::Stale);
    }

    #[test]
    fn an_older_refresh_that_ends_later_changes_nothing() {
        let (_, fresh) = freshness(100);
        both(&fresh, 99);
        both(&fresh, 80);
        assert_eq!(fresh.since_refresh(), Some(Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn all_who_wait_share_one_refresh() {
        let (_, fresh) = freshness(100);
        let fresh = Arc::new(fresh);
        let wait = || {
            let fresh = fresh.clone();
            tokio::spawn(async move { fresh.wait(&Parts::All, Duration::from_secs(1)).await })
        };
        let (one, two) = (wait(), wait());
        fresh.wanted().await;
        both(&fresh, 100);
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
            async move { fresh.wait(&Parts::All, Duration::from_millis(500)).await }
        });
        tokio::task::yield_now().await;
        both(&fresh, 85);
        assert_eq!(waiting.await.unwrap(), Age::Stale);
    }
}
