//! A clock that runs on while the process is stopped or the machine sleeps: CLOCK_BOOTTIME, behind a trait so that
//! tests can move it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time, as the time since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub fn since_boot(duration: Duration) -> Self {
        Self(duration)
    }

    pub fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    /// Nanoseconds since boot; 64 bits last for 584 years.
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Zero if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

pub trait Clock: Send + Sync {
    fn now(&self) -> Moment;
}

/// The machine's clock. It does not stop with SIGSTOP, nor while a laptop or a virtual machine sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        let now = clock_gettime(ClockId::Boottime);
        // Neither part is ever negative on this clock.
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        Moment(Duration::new(
            seconds,
            u32::try_from(now.tv_nsec).unwrap_or(0),
        ))
    }
}
