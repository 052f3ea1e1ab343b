//! What all threads of a storm share: partitions with their models, which of them are written to just now, and a clock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::model::Model;
use super::weather::Seen;
use crate::support::random::Random;

pub(super) const DAY_MILLIS: i64 = 86_400_000;
/// For so long a partition is written to, at most, and for so long it is left alone: long enough to be split and served, and
/// often not quite.
const BUSY_MAX_MILLIS: usize = 1500;
const QUIET_MAX_MILLIS: usize = 14_000;
/// More than that is not worth reading.
const TOLD_MAX: usize = 20;

pub(super) struct Field {
    pub(super) table: String,
    pub(super) writers: i32,
    /// Those in use and some to take their place.
    pub(super) partitions: Vec<Partition>,
    pub(super) clock: Clock,
    pub(super) counts: Counts,
    /// The partitions in use.
    slots: Mutex<Vec<usize>>,
    seen: Mutex<Seen>,
    /// Of reads that were wrong.
    told: Mutex<Vec<String>>,
    stops: AtomicBool,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) acknowledged: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) lost: AtomicU64,
    /// Reads that went wrong without a proxy: then the model is wrong.
    pub(super) lost_directly: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn counted(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// One partition, which is a day of the past: its time is over, so that it counts as closed however new its rows are.
pub(super) struct Partition {
    /// Milliseconds since 1970.
    pub(super) day: i64,
    model: Mutex<Model>,
    /// Held by everybody who writes; by one alone who deletes the rows of all.
    pub(super) gate: RwLock<()>,
    phase: Mutex<Phase>,
}

/// Until when a partition is left alone, and then written to.
struct Phase {
    quiet_until: Instant,
    busy_until: Instant,
}

impl Partition {
    fn new(day: i64) -> Self {
        let now = Instant::now();
        Self {
            day,
            model: Mutex::default(),
            gate: RwLock::default(),
            phase: Mutex::new(Phase {
                quiet_until: now,
                busy_until: now + Duration::from_secs(1),
            }),
        }
    }

    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_busy(&self, random: &mut Random) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now > phase.busy_until {
            let mut millis = |max| Duration::from_millis(random.below(max) as u64);
            phase.quiet_until = now + millis(QUIET_MAX_MILLIS);
            phase.busy_until = phase.quiet_until + millis(BUSY_MAX_MILLIS);
        }
        now >= phase.quiet_until
    }
}

impl Field {
    pub(super) fn new(table: String, writers: i32, in_use: usize, in_all: usize) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
        let today = now.as_millis() as i64 / DAY_MILLIS * DAY_MILLIS;
        let partition = |number| Partition::new(today - (3 + number as i64) * DAY_MILLIS);
        Self {
            table,
            writers,
            partitions: (0..in_all).map(partition).collect(),
            clock: Clock::new(),
            counts: Counts::default(),
            slots: Mutex::new((0..in_use).collect()),
            seen: Mutex::default(),
            told: Mutex::default(),
            stops: AtomicBool::new(false),
        }
    }

    /// The partitions in use.
    pub(super) fn slots(&self) -> Vec<usize> {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Uses another partition in the place of one that cannot be split any more today.
    pub(super) fn replace(&self, partition: usize) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let next = slots.iter().max().map_or(0, |last| last + 1);
        if let Some(slot) = slots.iter_mut().find(|slot| **slot == partition)
            && next < self.partitions.len()
        {
            *slot = next;
        }
    }

    /// Partitions that were ever in use.
    pub(super) fn used(&self) -> std::ops::Range<usize> {
        0..self.slots().into_iter().max().map_or(0, |last| last + 1)
    }

    /// One that is written to just now.
    pub(super) fn busy(&self, random: &mut Random) -> Option<usize> {
        let mut busy = self.slots();
        busy.retain(|partition| self.partitions[*partition].is_busy(random));
        (!busy.is_empty()).then(|| *random.pick(&busy))
    }

    /// What became of splits.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, what: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX {
            told.push(what);
        }
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
    }

    pub(super) fn stops(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }
}

/// Numbers that are never the same twice: timestamps in microseconds, and values.
pub(super) struct Clock {
    last: Mutex<i64>,
    long_ago: AtomicI64,
    numbers: AtomicI64,
}

impl Clock {
    fn new() -> Self {
        Self {
            last: Mutex::default(),
            long_ago: AtomicI64::new(micros() - 5 * 1000 * DAY_MILLIS),
            numbers: AtomicI64::new(1),
        }
    }

    /// Newer than all before.
    pub(super) fn now(&self) -> i64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = micros().max(*last + 1);
        *last
    }

    /// Older than all but its own.
    pub(super) fn long_ago(&self) -> i64 {
        self.long_ago.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn number(&self) -> i64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }
}

fn micros() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    since.as_micros() as i64
}
