//! How often a process polls the control keyspace. Pure.
//!
//! Many processes follow one control keyspace, so each polls as little as exactness allows. Knowledge may be as old as
//! `max_staleness`, so the tables of an idle proxy take turns: together they cost one poll in `poll_interval`, however
//! many there are. After a failure a poll waits longer each time.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A table is polled at least so many times in `max_staleness`.
const POLLS_OF_STALENESS: u32 = 4;
/// Even when a write waits for a poll, it comes after a pause.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause after failures while a write waits.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest interval after failures; `max_staleness` may be shorter.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The pace of one poll.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Failures in a row.
    failures: u32,
}

impl Pace {
    pub(super) fn count(&mut self, succeeded: bool) {
        self.failures = match succeeded {
            true => 0,
            false => self.failures.saturating_add(1),
        };
    }

    /// How long to wait if nobody needs the poll.
    pub(super) fn interval(&self, usual: Duration) -> Duration {
        jittered(self.doubled(usual, INTERVAL_MAX.max(usual)))
    }

    /// How long to wait if somebody does.
    pub(super) fn pause(&self) -> Duration {
        jittered(self.doubled(PAUSE_MIN, PAUSE_MAX))
    }

    fn doubled(&self, first: Duration, at_most: Duration) -> Duration {
        first
            .saturating_mul(1 << self.failures.min(16))
            .min(at_most)
    }
}

/// How often one of so many tables is polled.
pub(super) fn table_interval(poll: Duration, max_staleness: Duration, tables: usize) -> Duration {
    let tables = u32::try_from(tables).unwrap_or(u32::MAX);
    let in_turns = poll.saturating_mul(tables);
    in_turns.min(max_staleness / POLLS_OF_STALENESS).max(poll)
}

/// Up to a tenth less, so that processes that began together do not stay together.
fn jittered(pause: Duration) -> Duration {
    pause - within(pause / 10)
}

/// A random time up to this one.
pub(super) fn within(longest: Duration) -> Duration {
    // A new state hashes with new random keys.
    let share = RandomState::new().hash_one(0_u8) % 1000;
    longest / 1000 * share as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn tables_share_one_poll_as_long_as_their_knowledge_stays_young_enough() {
        let interval = |tables| table_interval(SECOND, 600 * SECOND, tables);
        assert_eq!(interval(1), SECOND);
        assert_eq!(interval(10), 10 * SECOND);
        assert_eq!(interval(50), 50 * SECOND);
        assert_eq!(interval(1000), 150 * SECOND);
        // A trial that sets seconds polls as often as it says.
        assert_eq!(table_interval(SECOND, 2 * SECOND, 10), SECOND);
    }

    #[test]
    fn failures_make_polls_rarer_and_a_success_makes_them_usual() {
        let mut pace = Pace::default();
        let near =
            |pause: Duration, expected: Duration| pause <= expected && pause > expected * 8 / 10;
        assert!(near(pace.interval(SECOND), SECOND) && near(pace.pause(), PAUSE_MIN));
        pace.count(false);
        pace.count(false);
        assert!(near(pace.interval(SECOND), 4 * SECOND) && near(pace.pause(), 4 * PAUSE_MIN));
        for _ in 0..100 {
            pace.count(false);
        }
        assert!(near(pace.interval(SECOND), INTERVAL_MAX) && near(pace.pause(), PAUSE_MAX));
        // A failure is no reason to poll sooner than usual.
        assert!(near(pace.interval(60 * SECOND), 60 * SECOND));
        pace.count(true);
        assert!(near(pace.interval(SECOND), SECOND));
    }
}
