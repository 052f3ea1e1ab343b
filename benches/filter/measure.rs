//! What a check, a key and a rebuild cost with one choice of policies.

use std::hint::black_box;
use std::time::{Duration, Instant};

use narrows::filter::{Installed, Policies, TableFilter, Target};
use rustix::time::{ClockId, clock_gettime};

use crate::keys::Keys;
use crate::reader::{self, Readings};

/// Shards of a watched table when nobody says otherwise.
const STORE_SHARDS: usize = 16;
/// Keys inserted to see what a check costs while overlays are not empty.
const LATE_KEYS: usize = 1000;
/// Checks that are timed together.
const BATCH: usize = 5_000;

/// The best of all rounds.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) present_ns: f64,
    pub(crate) absent_ns: f64,
    /// Absent keys while every shard has an overlay.
    pub(crate) overlay_ns: f64,
    pub(crate) prefix_ns: f64,
    pub(crate) bytes_per_key: f64,
    pub(crate) false_positive_rate: f64,
    pub(crate) shards: usize,
    /// Processor time of the whole table, every shard once.
    pub(crate) rebuild: Duration,
    pub(crate) readings: Readings,
}

impl Figures {
    /// The slower of present and absent keys.
    pub(crate) fn check_ns(&self) -> f64 {
        self.present_ns.max(self.absent_ns)
    }
}

/// A table's filter with its keys as a store would hand them out, shard by shard.
pub(crate) struct Table<'a> {
    pub(crate) filter: TableFilter,
    sharded: Vec<Vec<&'a [u8]>>,
}

impl<'a> Table<'a> {
    fn new(policies: &Policies, keys: &'a Keys) -> Self {
        let filter = TableFilter::new(policies.clone(), STORE_SHARDS);
        let mut sharded = vec![Vec::new(); filter.shards()];
        for key in keys.present() {
            sharded[filter.shard_of(key)].push(key);
        }
        let table = Self { filter, sharded };
        table.rebuild();
        table
    }

    /// Every shard once; hashing of the keys, the builds and their re-checks are part of it.
    pub(crate) fn rebuild(&self) {
        for (shard, keys) in self.sharded.iter().enumerate() {
            let installed = self.filter.rebuild_shard(shard, keys);
            assert_eq!(installed, Installed::Yes, "nobody else rebuilds");
        }
    }
}

pub(crate) fn measure(policies: &Policies, keys: &Keys, rounds: usize) -> Figures {
    let table = Table::new(policies, keys);
    let filter = &table.filter;
    let bytes_per_key = filter.stats().bytes as f64 / keys.count() as f64;
    let key = |key: &[u8]| filter.might_match(&Target::key(key));
    let prefix = |prefix: &[u8]| filter.might_match(&Target::prefix(prefix));
    let best = |check: &dyn Fn() -> f64| (0..rounds).map(|_| check()).fold(f64::INFINITY, f64::min);

    let present_ns = best(&|| per_check(keys.present(), key));
    let absent_ns = best(&|| per_check(keys.absent(), key));
    let prefix_ns = best(&|| per_check(keys.absent_prefixes(), prefix));
    let matched = keys.absent().filter(|absent| key(absent)).count();
    let rebuild = (0..rounds).map(|_| processor_time(|| table.rebuild()));
    let rebuild = rebuild.min().unwrap_or_default();
    let readings = reader::compare(&table, &Table::new(policies, keys), keys, rounds);
    filter.insert_all(keys.present().take(LATE_KEYS));
    let overlay_ns = best(&|| per_check(keys.absent(), key));
    Figures {
        present_ns,
        absent_ns,
        overlay_ns,
        prefix_ns,
        bytes_per_key,
        false_positive_rate: matched as f64 / keys.count() as f64,
        shards: filter.shards(),
        rebuild,
        readings,
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

/// What this thread spent on `work`, without what others took from it.
fn processor_time(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(time).expect("processor time is not negative")
    };
    let start = now();
    work();
    now() - start
}
