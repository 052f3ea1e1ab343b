//! How much of the cluster background work may take: less when requests become slow or are refused, more when all is well.
//!
//! Requests are small and go one at a time, with a pause behind each: so a client's read finds at most one short request of
//! ours before it, and mostly none. A pause is a multiple of what the request took. It grows at once when a request went
//! badly, or took much longer than such requests usually do, and shrinks slowly while all goes well.

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

/// Pauses, as multiples of what a request takes. Even the shortest leave most of the time to clients.
const PAUSE_MIN: f64 = 6.0;
const PAUSE_MAX: f64 = 64.0;
/// What one request should move: as much as is read efficiently, or as little as clients do not notice.
const LARGE_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 64 << 10;
const GROWTH: f64 = 2.0;
const SHRINKAGE: f64 = 0.97;
/// Slower than this many times the usual is a sign of load.
const SLOW: f64 = 3.0;
/// How quickly the usual, an average, follows what is seen.
const DRIFT: f64 = 0.02;
/// Requests are compared with others of about their size: 16 times as large is another one.
const SIZES: usize = 8;

/// Leave to send one request.
#[derive(Debug)]
pub struct Turn<'a> {
    _alone: Option<SemaphorePermit<'a>>,
}

#[derive(Debug)]
pub struct Throttle {
    holds_back: bool,
    bytes_per_second: Option<u64>,
    /// Whoever has it may send, if we hold back.
    turn: Semaphore,
    /// No request before this time.
    free_at: Cell<Instant>,
    /// Pauses are as many times what a request takes.
    pause: Cell<f64>,
    /// Seconds that requests of each size take when all is well.
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

    /// About how much one request should read or write.
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

    /// Waits until the cluster can bear another request that moves about so many bytes. What it returns is kept until the
    /// answer is there.
    pub async fn take(&self, bytes: usize) -> Turn<'_> {
        // It is never closed.
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
        // Timers count milliseconds, so even one that is over would cost a part of one.
        if turn > now {
            sleep_until(turn).await;
        }
        Turn { _alone: alone }
    }

    /// How it went decides when the next one may follow.
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
