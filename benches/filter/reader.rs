//! Does a rebuild stall a reader? One thread asks about keys without a pause and times every check, while another
//! one does nothing, computes, rebuilds another table, or rebuilds the table that is asked.
//!
//! What the busy thread adds is the scheduler's and the shared core's. What another table's rebuild adds are caches and
//! memory that the allocator gives back to the system, for which every core of the process is interrupted; it is gone
//! with `MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` of glibc set very high. Only what the asked table's own
//! rebuild adds to that could be a reader that waits for a writer.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows::filter::{TableFilter, Target};

use crate::keys::Keys;
use crate::measure::Table;

/// How long each situation lasts per round, at least.
const SLICE: Duration = Duration::from_millis(200);
/// Checks between two looks at whether to stop.
const CHECKS: usize = 1_000;

/// The four situations, over all rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readings {
    pub(crate) alone: Reading,
    pub(crate) busy: Reading,
    pub(crate) other_rebuild: Reading,
    pub(crate) rebuild: Reading,
}

impl Readings {
    pub(crate) fn named(&self) -> [(&'static str, &Reading); 4] {
        [
            ("alone", &self.alone),
            ("busy", &self.busy),
            ("other_rebuild", &self.other_rebuild),
            ("rebuild", &self.rebuild),
        ]
    }
}

/// In every round all situations come in turn, so that a slow minute of the machine spoils none alone.
pub(crate) fn compare(asked: &Table, other: &Table, keys: &Keys, rounds: usize) -> Readings {
    let mut readings = Readings::default();
    let read = |work: &dyn Fn()| beside(&asked.filter, keys, work);
    for _ in 0..rounds {
        readings.alone.add(read(&|| thread::sleep(SLICE)));
        readings.busy.add(read(&|| for_a_slice(compute)));
        let rebuild_other = || for_a_slice(|| other.rebuild());
        readings.other_rebuild.add(read(&rebuild_other));
        let rebuild = || for_a_slice(|| asked.rebuild());
        readings.rebuild.add(read(&rebuild));
    }
    readings
}

fn for_a_slice(work: impl Fn()) {
    let start = Instant::now();
    while start.elapsed() < SLICE {
        work();
    }
}

/// Some ten microseconds of work that touches no memory.
fn compute() {
    let mut number = 1u64;
    for _ in 0..10_000 {
        number = black_box(number.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(9));
    }
}

/// The readings of a thread that asks as long as `work` runs. Fails if a key is missing.
fn beside(filter: &TableFilter, keys: &Keys, work: &dyn Fn()) -> Reading {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(&done, filter, keys));
        work();
        done.store(true, Ordering::Relaxed);
        reader.join().expect("a reader found its key missing")
    })
}

fn read_until(done: &AtomicBool, filter: &TableFilter, keys: &Keys) -> Reading {
    let mut reading = Reading::default();
    let before = switches();
    let mut present = keys.present().cycle();
    let mut last = Instant::now();
    while !done.load(Ordering::Relaxed) {
        for key in present.by_ref().take(CHECKS) {
            assert!(filter.might_match(&Target::key(key)), "a key is missing");
            let now = Instant::now();
            reading.record(now - last);
            last = now;
        }
    }
    let after = switches();
    reading.waits = after.0 - before.0;
    reading.preempted = after.1 - before.1;
    reading
}

/// How often this thread gave up the processor by itself, as who waits for a lock does, and how often it was taken
/// from it. Zeros where the system does not tell.
fn switches() -> (u64, u64) {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let count = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    };
    (
        count("voluntary_ctxt_switches:"),
        count("nonvoluntary_ctxt_switches:"),
    )
}

/// Buckets of a sixteenth of a power of two: a quantile is right within 6 %.
const STEPS: usize = 16;

/// How long checks took, with one look at the clock each.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    buckets: Vec<u64>,
    pub(crate) worst: Duration,
    pub(crate) waits: u64,
    pub(crate) preempted: u64,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            buckets: vec![0; 64 * STEPS],
            worst: Duration::ZERO,
            waits: 0,
            preempted: 0,
        }
    }
}

impl Reading {
    fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)] += 1;
        self.worst = self.worst.max(time);
    }

    fn add(&mut self, other: Self) {
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += count;
        }
        self.worst = self.worst.max(other.worst);
        self.waits += other.waits;
        self.preempted += other.preempted;
    }

    pub(crate) fn checks(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// So many nanoseconds or less took this share of the checks.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (self.checks() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, upper_bound)
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let power = nanos.ilog2() as usize;
    let step = (nanos >> (power - STEPS.ilog2() as usize)) as usize - STEPS;
    (power - STEPS.ilog2() as usize + 1) * STEPS + step
}

/// The largest number of nanoseconds in a bucket.
fn upper_bound(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    let first = (STEPS + bucket % STEPS) as u64;
    ((first + 1) << shift) - 1
}
