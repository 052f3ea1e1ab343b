//! Limits the load that background work puts on the cluster: less when requests become slow or are refused, more when
//! all is well.
//!
//! If it holds back, requests are small and go one at a time, with a pause after each, so a client's read waits for at
//! most one short request of ours, and mostly for none. A pause is a multiple of the latency of the request. It grows
//! at once when a request is refused for overload, times out or takes much longer than usual for its size, and shrinks
//! slowly while all goes well.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// How a request of ours went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    Well,
    /// Refused for overload, or not answered in time.
    Badly,
}

/// Shortest and longest pause, as multiples of the latency of a request. Even the shortest leaves most of the time to
/// clients.
const PAUSE_MIN: f64 = 6.0;
const PAUSE_MAX: f64 = 64.0;
/// Target size of one request: large enough to be efficient, or small enough that clients do not notice it.
const LARGE_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 64 << 10;
const GROWTH: f64 = 2.0;
const SHRINKAGE: f64 = 0.97;
/// A request that takes more than this many times the usual is a sign of load.
const SLOW: f64 = 3.0;
/// Weight of a new latency in the usual one, which is a moving average.
const DRIFT: f64 = 0.02;
/// Number of size classes. Requests are compared with others of their class, which spans a factor of 16.
const SIZES: usize = 8;

/// Permission to send one request.
#[derive(Debug)]
pub struct Turn<'a> {
    _alone: Option<SemaphorePermit<'a>>,
}

#[derive(Debug)]
pub struct Throttle {
    holds_back: bool,
    bytes_per_second: Option<u64>,
    /// If the throttle holds back, only the holder of this permit may send.
    turn: Semaphore,
    /// No request may be sent before this time.
    free_at: Cell<Instant>,
    /// The present pause, as a multiple of the latency of a request.
    pause: Cell<f64>,
    /// The usual latency of each size class, in seconds; 0 before the first request.
    usual: [Cell<f64>; SIZES],
}

impl Throttle {
    pub fn new(holds_back: bool, bytes_per_second: Option<u64>) -> Self {
        Self {
            holds_back,
            bytes_per_second,
            turn: Semaphore::new(1),
            free_at: Cell::new(Instant::now()),
            pause: Cell::new(PAUSE_MIN),
            usual: Default::default(),
        }
    }

    /// Approximate number of bytes that one request should read or write.
    pub fn request_bytes(&self) -> usize {
        if self.holds_back {
            SMALL_BYTES
        } else {
            LARGE_BYTES
        }
    }

    /// Whether a request may be sent while another is under way.
    pub fn lets_side_by_side(&self) -> bool {
        !self.holds_back
    }

    /// Waits until another request of about this many bytes may be sent. The caller keeps the turn until the reply
    /// arrives.
    pub async fn take(&self, bytes: usize) -> Turn<'_> {
        // The semaphore is never closed.
        let alone = match self.holds_back {
            true => self.turn.acquire().await.ok(),
            false => None,
        };
        let now = Instant::now();
        let turn = self.free_at.get().max(now);
        if let Some(limit) = self.bytes_per_second {
            let share = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
            self.free_at.set(turn + share);
        }
        // Timers count milliseconds, so even one that has expired would cost part of a millisecond.
        if turn > now {
            sleep_until(turn).await;
        }
        Turn { _alone: alone }
    }

    /// Records how a request went, which decides when the next may follow.
    pub fn note(&self, bytes: usize, latency: Duration, went: Went) {
        if !self.holds_back {
            return;
        }
        let seconds = latency.as_secs_f64();
        let pause = self.next_pause(bytes, seconds, went);
        self.pause.set(pause);
        let wait = Duration::from_secs_f64((seconds * pause).min(30.0));
        let free_at = (Instant::now() + wait).max(self.free_at.get());
        self.free_at.set(free_at);
    }

    fn next_pause(&self, bytes: usize, seconds: f64, went: Went) -> f64 {
        let size = (bytes.max(1).ilog2() as usize / 4).min(SIZES - 1);
        let known = &self.usual[size];
        let usual = match known.get() {
            0.0 => seconds,
            usual => usual + (seconds - usual) * DRIFT,
        };
        known.set(usual);
        let slow = went == Went::Badly || seconds > SLOW * usual;
        let pause = self.pause.get() * if slow { GROWTH } else { SHRINKAGE };
        pause.clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn requests_go_one_at_a_time_where_it_holds_back() {
        for (holds_back, second_waits) in [(true, true), (false, false)] {
            let throttle = Throttle::new(holds_back, None);
            let first = throttle.take(1).await;
            assert_eq!(throttle.take(1).now_or_never().is_none(), second_waits);
            drop(first);
            throttle.take(1).await;
        }
    }

    fn after(throttle: &Throttle, times: usize, seconds: f64, went: Went) -> f64 {
        for _ in 0..times {
            throttle.pause.set(throttle.next_pause(1000, seconds, went));
        }
        throttle.pause.get()
    }

    #[test]
    fn pauses_grow_with_trouble_and_shrink_without() {
        let throttle = Throttle::new(true, None);
        assert!(after(&throttle, 20, 0.01, Went::Well) <= PAUSE_MIN);
        let slow = after(&throttle, 3, 0.1, Went::Well);
        assert!(slow >= 4.0 * PAUSE_MIN, "{slow}");
        let refused = after(&throttle, 10, 0.01, Went::Badly);
        assert!((refused - PAUSE_MAX).abs() < 1e-9, "{refused}");
        assert!(after(&throttle, 300, 0.01, Went::Well) <= PAUSE_MIN);
    }

    #[test]
    fn large_requests_are_not_slow_for_being_large() {
        let throttle = Throttle::new(true, None);
        after(&throttle, 10, 0.001, Went::Well);
        for _ in 0..10 {
            let pause = throttle.next_pause(1 << 20, 0.1, Went::Well);
            assert!(pause <= PAUSE_MIN, "{pause}");
        }
    }

    #[test]
    fn what_is_always_slow_becomes_usual() {
        let throttle = Throttle::new(true, None);
        after(&throttle, 10, 0.01, Went::Well);
        after(&throttle, 1000, 0.1, Went::Well);
        assert!(after(&throttle, 300, 0.1, Went::Well) <= PAUSE_MIN);
    }
}
