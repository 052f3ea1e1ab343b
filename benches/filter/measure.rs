//! The measurements of one policy.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows::filter::{Installed, Policies, TableFilter, Target};

use crate::keys::Keys;

/// Shards of a small store; larger tables get a multiple.
const STORE_SHARDS: usize = 16;
/// Keys inserted to see what a check costs while overlays are not empty.
const LATE_KEYS: usize = 1000;
/// Checks that are timed together.
const BATCH: usize = 5_000;

/// The best of all rounds; gaps are the worst of all rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) present_ns: f64,
    pub(crate) absent_ns: f64,
    /// Absent keys while every shard has an overlay.
    pub(crate) overlay_ns: f64,
    pub(crate) prefix_ns: f64,
    pub(crate) bytes_per_key: f64,
    pub(crate) false_positive_rate: f64,
    pub(crate) shards: usize,
    /// Of the whole table, every shard once.
    pub(crate) rebuild: Duration,
    pub(crate) gaps_idle: Gaps,
    pub(crate) gaps_rebuild: Gaps,
}

/// How long a reader that asks all the time went without an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gaps {
    /// Only one in a million checks waited longer.
    pub(crate) millionth: Duration,
    pub(crate) worst: Duration,
    /// How often the reader gave up the processor by itself, as who waits for a lock does. Gaps without it
    /// are other processes' doing. `None`: this system does not tell.
    pub(crate) waits: Option<u64>,
}

pub(crate) fn measure(policies: &Policies, keys: &Keys, rounds: usize) -> Figures {
    let count = keys.present().count();
    let shards = TableFilter::shards_for(count, STORE_SHARDS);
    let filter = TableFilter::new(policies.clone(), shards);
    let sharded = by_shard(&filter, keys);
    rebuild(&filter, &sharded);
    let bytes_per_key = filter.stats().bytes as f64 / count as f64;
    let key = |key: &[u8]| filter.might_match(&Target::key(key));
    let prefix = |prefix: &[u8]| filter.might_match(&Target::prefix(prefix));
    let best = |check: &dyn Fn() -> f64| (0..rounds).map(|_| check()).fold(f64::INFINITY, f64::min);

    let present_ns = best(&|| per_check(keys.present(), key));
    let absent_ns = best(&|| per_check(keys.absent(), key));
    let prefix_ns = best(&|| per_check(keys.absent_prefixes(), prefix));
    let matched = keys.absent().filter(|absent| key(absent)).count();
    let rebuild_time = (0..rounds).map(|_| rebuild(&filter, &sharded)).min();
    let rebuild_time = rebuild_time.unwrap_or_default();
    let gaps_idle = gaps(&filter, keys, || {
        thread::sleep(rebuild_time * rounds as u32)
    });
    let gaps_rebuild = gaps(&filter, keys, || {
        for _ in 0..rounds {
            rebuild(&filter, &sharded);
        }
    });
    filter.insert_all(keys.present().take(LATE_KEYS));
    let overlay_ns = best(&|| per_check(keys.absent(), key));
    Figures {
        present_ns,
        absent_ns,
        overlay_ns,
        prefix_ns,
        bytes_per_key,
        false_positive_rate: matched as f64 / count as f64,
        shards,
        rebuild: rebuild_time,
        gaps_idle,
        gaps_rebuild,
    }
}

/// Nanoseconds per check: the median over batches shorter than a time slice, so that other processes on the
/// machine do not count.
fn per_check<'a>(targets: impl Iterator<Item = &'a [u8]>, check: impl Fn(&[u8]) -> bool) -> f64 {
    let mut targets = targets.peekable();
    let mut batches = Vec::new();
    while targets.peek().is_some() {
        let start = Instant::now();
        let mut asked = 0;
        for target in targets.by_ref().take(BATCH) {
            black_box(check(black_box(target)));
            asked += 1;
        }
        batches.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(asked));
    }
    batches.sort_unstable_by(f64::total_cmp);
    batches[batches.len() / 2]
}

/// The keys as a store would hand them out, shard by shard.
fn by_shard<'a>(filter: &TableFilter, keys: &'a Keys) -> Vec<Vec<&'a [u8]>> {
    let mut sharded = vec![Vec::new(); filter.shards()];
    for key in keys.present() {
        sharded[filter.shard_of(key)].push(key);
    }
    sharded
}

/// Every shard once; hashing of the keys, the builds and their re-checks are part of it.
fn rebuild(filter: &TableFilter, sharded: &[Vec<&[u8]>]) -> Duration {
    let start = Instant::now();
    for (shard, keys) in sharded.iter().enumerate() {
        let installed = filter.rebuild_shard(shard, keys);
        assert_eq!(installed, Installed::Yes, "nobody else rebuilds");
    }
    start.elapsed()
}

/// A reader that asks about present keys all the time while `work` runs. Fails if one is missing.
fn gaps(filter: &TableFilter, keys: &Keys, work: impl FnOnce()) -> Gaps {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(&done, filter, keys));
        work();
        done.store(true, Ordering::Relaxed);
        reader.join().expect("a reader found its key missing")
    })
}

fn read_until(done: &AtomicBool, filter: &TableFilter, keys: &Keys) -> Gaps {
    // A gap below a microsecond is no gap.
    let mut long = Vec::new();
    let mut checks = 0usize;
    let waits_before = waits();
    let mut last = Instant::now();
    while !done.load(Ordering::Relaxed) {
        for key in keys.present().take(10_000) {
            assert!(filter.might_match(&Target::key(key)), "a key is missing");
            let now = Instant::now();
            if now - last > Duration::from_micros(1) {
                long.push(now - last);
            }
            last = now;
            checks += 1;
        }
        last = Instant::now();
    }
    let waits = waits()
        .zip(waits_before)
        .map(|(after, before)| after - before);
    long.sort_unstable_by(|a, b| b.cmp(a));
    Gaps {
        waits,
        millionth: long.get(checks / 1_000_000).copied().unwrap_or_default(),
        worst: long.first().copied().unwrap_or_default(),
    }
}

/// Voluntary context switches of this thread so far.
fn waits() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}
