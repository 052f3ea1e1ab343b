//! A circuit breaker: stops asking a service that fails again and again, and finds out when it is back.
//!
//! While closed, it lets everything pass. After [`FAILURES_MAX`] failures in a row it opens, and refuses everything for
//! a back-off that doubles with every failed probe. Then exactly one question passes as the probe, and its outcome
//! decides. Pure: the caller says what time it is, and reports the outcome of every admitted question exactly once.

use std::time::{Duration, Instant};

/// This many failures in a row open it: one lost packet must not, a dead service soon should.
pub const FAILURES_MAX: u32 = 5;
pub const BACK_OFF_MIN: Duration = Duration::from_secs(1);
pub const BACK_OFF_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Breaker {
    state: State,
    /// How long it stays open the next time, and at most.
    back_off: Duration,
    back_off_max: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// The probe is on its way.
    HalfOpen,
}

/// Permission to ask one question; given back with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    Normal,
    /// The one question that decides whether the breaker closes.
    Probe,
}

/// What an outcome changed, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Unchanged,
    Opened,
    /// The probe failed as well.
    StaysOpen,
    Closed,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(BACK_OFF_MAX)
    }
}

impl Breaker {
    pub fn new(back_off_max: Duration) -> Self {
        Self {
            state: State::Closed { failures: 0 },
            back_off: BACK_OFF_MIN.min(back_off_max),
            back_off_max,
        }
    }

    /// Half-open counts as open.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    /// `None`: do not ask.
    pub fn admit(&mut self, now: Instant) -> Option<Admission> {
        match self.state {
            State::Closed { .. } => Some(Admission::Normal),
            State::Open { until } if now >= until => {
                self.state = State::HalfOpen;
                Some(Admission::Probe)
            }
            State::Open { .. } | State::HalfOpen => None,
        }
    }

    pub fn succeeded(&mut self, admission: Admission) -> Change {
        match (self.state, admission) {
            (State::Closed { .. }, _) => {
                self.state = State::Closed { failures: 0 };
                Change::Unchanged
            }
            (State::HalfOpen, Admission::Probe) => {
                *self = Self::new(self.back_off_max);
                Change::Closed
            }
            // Asked before it opened: too old to say that the service is back.
            (State::Open { .. } | State::HalfOpen, _) => Change::Unchanged,
        }
    }

    pub fn failed(&mut self, admission: Admission, now: Instant) -> Change {
        match (self.state, admission) {
            (State::Closed { failures }, _) if failures + 1 < FAILURES_MAX => {
                self.state = State::Closed {
                    failures: failures + 1,
                };
                Change::Unchanged
            }
            (State::Closed { .. }, _) => {
                self.open(now);
                Change::Opened
            }
            (State::HalfOpen, Admission::Probe) => {
                self.open(now);
                Change::StaysOpen
            }
            (State::Open { .. } | State::HalfOpen, _) => Change::Unchanged,
        }
    }

    /// Nobody waited for the outcome. If it was the probe, the next question becomes one; otherwise the breaker would
    /// stay half-open for ever.
    pub fn abandoned(&mut self, admission: Admission, now: Instant) {
        if admission == Admission::Probe && self.state == State::HalfOpen {
            self.state = State::Open { until: now };
        }
    }

    fn open(&mut self, now: Instant) {
        self.state = State::Open {
            until: now + self.back_off,
        };
        self.back_off = (self.back_off * 2).min(self.back_off_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails until it opens.
    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_MAX {
            let admission = breaker.admit(now).unwrap();
            breaker.failed(admission, now);
        }
        assert!(breaker.is_open());
        breaker
    }

    #[test]
    fn opens_at_the_last_of_several_failures_in_a_row() {
        let (now, mut breaker) = (Instant::now(), Breaker::default());
        for _ in 1..FAILURES_MAX {
            let admission = breaker.admit(now).unwrap();
            assert_eq!(breaker.failed(admission, now), Change::Unchanged);
            assert!(!breaker.is_open());
        }
        let admission = breaker.admit(now).unwrap();
        assert_eq!(breaker.failed(admission, now), Change::Opened);
        assert!(breaker.is_open());
        assert_eq!(breaker.admit(now), None);
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let (now, mut breaker) = (Instant::now(), Breaker::default());
        for _ in 0..3 {
            for _ in 1..FAILURES_MAX {
                breaker.failed(Admission::Normal, now);
            }
            assert_eq!(breaker.succeeded(Admission::Normal), Change::Unchanged);
        }
        assert_eq!(breaker.admit(now), Some(Admission::Normal));
    }

    #[test]
    fn lets_exactly_one_probe_through_when_the_back_off_is_over() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(
            breaker.admit(now + BACK_OFF_MIN - Duration::from_nanos(1)),
            None
        );
        let later = now + BACK_OFF_MIN;
        assert_eq!(breaker.admit(later), Some(Admission::Probe));
        assert_eq!(breaker.admit(later), None);
        assert_eq!(breaker.admit(later + BACK_OFF_MAX), None);
        assert!(breaker.is_open());
    }

    #[test]
    fn a_probe_that_succeeds_closes_it_and_resets_the_back_off() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let probe = breaker.admit(now + BACK_OFF_MIN).unwrap();
        let again = breaker.failed(probe, now + BACK_OFF_MIN);
        assert_eq!(again, Change::StaysOpen);
        let probe = breaker.admit(now + BACK_OFF_MAX).unwrap();
        assert_eq!(breaker.succeeded(probe), Change::Closed);
        assert_eq!(breaker.admit(now), Some(Admission::Normal));
        for _ in 0..FAILURES_MAX {
            breaker.failed(Admission::Normal, now);
        }
        assert_eq!(breaker.admit(now + BACK_OFF_MIN), Some(Admission::Probe));
    }

    #[test]
    fn the_back_off_doubles_up_to_its_limit() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let back_off = Duration::from_secs(seconds);
            assert_eq!(breaker.admit(now + back_off - BACK_OFF_MIN / 2), None);
            now += back_off;
            let probe = breaker.admit(now).expect("the back-off is over");
            breaker.failed(probe, now);
        }
    }

    #[test]
    fn another_limit_of_the_back_off_outlives_a_success() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(2 * BACK_OFF_MIN);
        for _ in 0..2 {
            for _ in 0..FAILURES_MAX {
                breaker.failed(Admission::Normal, now);
            }
            for back_off in [1, 2, 2] {
                let back_off = back_off * BACK_OFF_MIN;
                assert_eq!(breaker.admit(now + back_off - BACK_OFF_MIN / 2), None);
                now += back_off;
                let probe = breaker.admit(now).expect("the back-off is over");
                breaker.failed(probe, now);
            }
            now += BACK_OFF_MAX;
            let probe = breaker.admit(now).expect("the back-off is over");
            assert_eq!(breaker.succeeded(probe), Change::Closed);
        }
    }

    #[test]
    fn outcomes_of_questions_asked_before_it_opened_decide_nothing() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.succeeded(Admission::Normal), Change::Unchanged);
        assert_eq!(breaker.failed(Admission::Normal, now), Change::Unchanged);
        let later = now + BACK_OFF_MIN;
        let probe = breaker.admit(later).unwrap();
        assert_eq!(breaker.succeeded(Admission::Normal), Change::Unchanged);
        assert_eq!(breaker.failed(Admission::Normal, later), Change::Unchanged);
        assert!(breaker.is_open());
        assert_eq!(breaker.succeeded(probe), Change::Closed);
    }

    #[test]
    fn an_abandoned_probe_gives_its_place_to_the_next() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + BACK_OFF_MIN;
        let probe = breaker.admit(later).unwrap();
        breaker.abandoned(Admission::Normal, later);
        assert_eq!(breaker.admit(later), None);
        breaker.abandoned(probe, later);
        assert_eq!(breaker.admit(later), Some(Admission::Probe));
    }
}
