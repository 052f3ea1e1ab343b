//! Replicas, changes that reach them late or never, and everything in between: no change that was acknowledged before a
//! reading began may be missing from it. `SCALE` and `SEED` as everywhere.
//!
//! The model is what Cassandra promises of LWTs: they are decided one after the other, the one before is on a quorum
//! when the next is proposed, each is applied to a replica whole, and it is acknowledged, if at all, when a quorum has
//! it. The tests at the end break one rule of the store each, and see the model find it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::schema::names::PartitionKey;
use crate::wide_row::state::{Standing, State};

const REPLICAS: usize = 3;
const KEYS: u64 = 4;

/// A small generator; the same seed gives the same run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn often(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Two of the three.
    fn quorum(&mut self) -> [usize; 2] {
        let without = self.below(REPLICAS as u64) as usize;
        [(without + 1) % REPLICAS, (without + 2) % REPLICAS]
    }
}

#[derive(Debug, Clone, Copy)]
struct Change {
    version: Version,
    key: u64,
    state: State,
    acknowledged: bool,
}

/// Which rule of the store a run breaks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// Reads of the statics alone repair them.
    ReadRepair,
    /// A follower takes the polled version for known without its row.
    Believing,
    /// A key's state is remembered with whatever version came with it.
    Mixing,
    /// A filter leaves out a key for a change that may be on one replica only.
    Forgetting,
}

#[derive(Clone, Default)]
struct Replica {
    version: Version,
    rows: BTreeMap<u64, (Version, State)>,
}

impl Replica {
    fn apply(&mut self, change: &Change) {
        self.version = self.version.max(change.version);
        let row = self
            .rows
            .entry(change.key)
            .or_insert((change.version, change.state));
        if row.0 < change.version {
            *row = (change.version, change.state);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.version = self.version.max(other.version);
        for (key, row) in &other.rows {
            let mine = self.rows.entry(*key).or_insert(*row);
            if mine.0 < row.0 {
                *mine = *row;
            }
        }
    }
}

struct Model {
    random: Random,
    broken: Broken,
    replicas: [Replica; REPLICAS],
    changes: Vec<Change>,
    /// Which replicas have which change.
    reached: Vec<[bool; REPLICAS]>,
}

impl Model {
    fn new(seed: u64, broken: Broken) -> Self {
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            broken,
            replicas: Default::default(),
            changes: Vec::new(),
            reached: Vec::new(),
        }
    }

    /// A few things that happen anywhere in the cluster.
    fn time_passes(&mut self) {
        for _ in 0..self.random.below(4) {
            match self.random.below(10) {
                0..=2 => self.propose(),
                3..=6 => self.reach_one(),
                _ => self.acknowledge_one(),
            }
        }
    }

    fn propose(&mut self) {
        if let Some(last) = self.changes.len().checked_sub(1) {
            for replica in self.random.quorum() {
                self.reach(last, replica);
            }
        }
        let key = self.random.below(KEYS);
        let before = self.changes.iter().rev().find(|change| change.key == key);
        let state = match before.map(|change| change.state) {
            None => State::Detected,
            Some(State::Completed) => State::Invalidated,
            Some(_) => State::Completed,
        };
        let last = self
            .changes
            .last()
            .map_or(Version(0), |change| change.version);
        self.changes.push(Change {
            version: Version(last.0 + 1 + self.random.below(3) as i64),
            key,
            state,
            acknowledged: false,
        });
        self.reached.push([false; REPLICAS]);
    }

    fn reach(&mut self, change: usize, replica: usize) {
        self.reached[change][replica] = true;
        self.replicas[replica].apply(&self.changes[change]);
    }

    /// The newest change gets one replica further; older ones now and then, as hints do.
    fn reach_one(&mut self) {
        let Some(last) = self.changes.len().checked_sub(1) else {
            return;
        };
        let change = if self.random.often(80) {
            last
        } else {
            self.random.below(last as u64 + 1) as usize
        };
        let replica = self.random.below(REPLICAS as u64) as usize;
        self.reach(change, replica);
    }

    /// Only what a quorum has; some authors die before.
    fn acknowledge_one(&mut self) {
        let Some(last) = self.changes.len().checked_sub(1) else {
            return;
        };
        if self.has_quorum(last) && self.random.often(80) {
            self.changes[last].acknowledged = true;
        }
    }

    /// One read of version and rows from a quorum. Replicas answer one after the other, and much may happen in between.
    fn read(&mut self) -> Replica {
        let [one, two] = self.random.quorum();
        let mut merged = self.replicas[one].clone();
        if self.random.often(50) {
            for _ in 0..5 {
                self.time_passes();
            }
        }
        merged.merge(&self.replicas[two]);
        merged
    }

    /// A serial read finishes what is under way, on a quorum, before it answers.
    fn read_serially(&mut self) -> ShardReading {
        if let Some(last) = self.changes.len().checked_sub(1) {
            let begun = self.reached[last].contains(&true) || self.random.often(50);
            if begun {
                for replica in self.random.quorum() {
                    self.reach(last, replica);
                }
                return shard_reading(self.changes[last].version);
            }
        }
        // It was not accepted anywhere yet: its author has to propose it again, after this read.
        let before = self.changes.len().checked_sub(2);
        shard_reading(before.map_or(Version(0), |before| self.changes[before].version))
    }

    fn read_shard(&mut self) -> ShardReading {
        let [one, two] = self.random.quorum();
        let version = self.replicas[one].version.max(self.replicas[two].version);
        if self.broken == Broken::ReadRepair {
            self.replicas[one].version = version;
            self.replicas[two].version = version;
        }
        shard_reading(version)
    }

    fn read_key(&mut self, key: u64) -> (KeyReading, Version) {
        let read = self.read();
        match read.rows.get(&key) {
            None => (KeyReading::default(), Version(0)),
            Some((row_version, state)) => {
                let standing = Standing {
                    state: *state,
                    generation: Generation(1),
                    row_epoch: 0,
                    epoch: 0,
                };
                let reading = KeyReading {
                    version: read.version,
                    standing: Some(standing),
                    ..KeyReading::default()
                };
                (reading, *row_version)
            }
        }
    }

    fn has_quorum(&self, change: usize) -> bool {
        self.reached[change].iter().filter(|has| **has).count() >= 2
    }

    /// Up to where a follower takes changes for being on a quorum.
    fn settled(&self, polled: &ShardReading) -> Version {
        match self.broken {
            Broken::Forgetting => polled.version,
            _ => polled.settled(),
        }
    }

    fn acknowledged(&self) -> Vec<Change> {
        let all = self.changes.iter();
        all.filter(|change| change.acknowledged).copied().collect()
    }
}

fn shard_reading(version: Version) -> ShardReading {
    ShardReading {
        shard: 0,
        version,
        epoch: 0,
        epoch_version: Version(0),
    }
}

/// What a follower has of one shard.
#[derive(Default)]
struct Follower {
    view: ShardView,
    /// The newest change of each key that it has seen.
    knows: BTreeMap<u64, Version>,
    filter: BTreeSet<u64>,
}

fn row(key: u64, (version, state): (Version, State)) -> ChangedRow {
    ChangedRow {
        key: PartitionKey::new(key.to_be_bytes()),
        version,
        row_epoch: 0,
        is_guarded: state.is_guarded(),
        state: Some(state),
        generation: Generation(1),
        oldest_generation: Generation(1),
        not_before: None,
    }
}

impl Follower {
    /// Reads its rows in pages, each at its own time. Returns what it missed.
    fn follow(&mut self, model: &mut Model) -> usize {
        let acknowledged = model.acknowledged();
        let polled = model.read_shard();
        if let Next::ReadAbove(since) = self.view.next(&polled) {
            let mut seen = model.broken == Broken::Believing;
            let settled = model.settled(&polled);
            for page in 0..2 {
                model.time_passes();
                for (key, found) in model.read().rows {
                    if key % 2 == page && found.0 > since {
                        seen |= found.0 == polled.version;
                        self.knows.insert(key, found.0);
                        if belongs_in_filter(&row(key, found), &polled, settled) {
                            self.filter.insert(key);
                        }
                    }
                }
            }
            self.view.absorb(&polled, seen);
        }
        let missed = |change: &&Change| {
            let known = self.knows.get(&change.key);
            known.is_none_or(|known| *known < change.version)
        };
        let missed = acknowledged.iter().filter(missed).count();
        missed
            + (0..KEYS)
                .filter(|key| self.lets_pass(model, &acknowledged, *key))
                .count()
    }

    /// Whether a write to the key would pass unchecked although other proxies may still serve its split: it was
    /// acknowledged as split before the poll, and no quorum knows yet that this has ended.
    fn lets_pass(&self, model: &Model, acknowledged: &[Change], key: u64) -> bool {
        let newest = acknowledged.iter().rev().find(|change| change.key == key);
        let Some(split) = newest.filter(|change| change.state.is_guarded()) else {
            return false;
        };
        let has_ended = |index: usize, change: &Change| {
            let is_later = change.key == key && change.version > split.version;
            is_later && model.has_quorum(index)
        };
        let mut changes = model.changes.iter().enumerate();
        !self.filter.contains(&key) && !changes.any(|(index, change)| has_ended(index, change))
    }

    /// Reads the shard whole, after a poll or after a serial read.
    fn rebuild(&mut self, model: &mut Model) {
        let (polled, settled) = match model.random.often(50) {
            true => {
                let read = model.read_serially();
                (read, read.version)
            }
            false => {
                let polled = model.read_shard();
                (polled, model.settled(&polled))
            }
        };
        model.time_passes();
        let rows = model.read().rows;
        let seen = rows.values().any(|(version, _)| *version == polled.version);
        self.filter = rows
            .iter()
            .filter(|(key, found)| belongs_in_filter(&row(**key, **found), &polled, settled))
            .map(|(key, _)| *key)
            .collect();
        let rows = rows.into_iter();
        self.knows = rows.map(|(key, (version, _))| (key, version)).collect();
        self.view.settle(&polled, seen);
    }
}

/// A reader that remembers what it saw of each key. Returns how often it would have served what was invalidated before
/// it came.
fn serve(model: &mut Model, memory: &mut BTreeMap<u64, (SeenKey, Version)>) -> usize {
    let key = model.random.below(KEYS);
    let acknowledged = model.acknowledged();
    let newest = acknowledged.iter().rev().find(|change| change.key == key);
    for _ in 0..3 {
        let shard = model.read_shard();
        model.time_passes();
        if let Some((seen, basis)) = memory.get(&key) {
            match seen.judged_by(&shard) {
                Judged::InService(_) => {
                    return usize::from(newest.is_some_and(|change| change.version > *basis));
                }
                Judged::NotInService => return 0,
                Judged::Outdated => {}
            }
        }
        let (reading, basis) = model.read_key(key);
        let seen = match model.broken {
            // The version of the key's own read, whatever was seen before it.
            Broken::Mixing if reading.version > Version(0) => {
                SeenKey::new(&reading, &shard_reading(reading.version))
            }
            _ => SeenKey::new(&reading, &shard),
        };
        match seen {
            Some(seen) => memory.insert(key, (seen, basis)),
            None => memory.remove(&key),
        };
    }
    0
}

fn seed() -> u64 {
    std::env::var("SEED").map_or(20_261_116, |seed| seed.parse().expect("a number"))
}

/// Runs one history; returns how many readings missed something.
fn missed(broken: Broken, seed: u64) -> usize {
    let mut model = Model::new(seed, broken);
    let (mut follower, mut memory) = (Follower::default(), BTreeMap::new());
    let mut missed = 0;
    for _ in 0..60 {
        model.time_passes();
        if model.random.often(20) {
            follower.rebuild(&mut model);
        }
        missed += follower.follow(&mut model);
        missed += serve(&mut model, &mut memory);
    }
    missed
}

#[test]
fn nothing_that_was_acknowledged_is_ever_missed() {
    let scale: u64 = std::env::var("SCALE").map_or(1, |scale| scale.parse().expect("a number"));
    for seed in (seed()..).take(2_000 * scale as usize) {
        assert_eq!(missed(Broken::Nothing, seed), 0, "SEED={seed}");
    }
}

/// The same with a rule broken goes wrong soon.
fn assert_found(broken: Broken) {
    let mut histories = (seed()..).take(100_000);
    assert!(
        histories.any(|seed| missed(broken, seed) > 0),
        "{broken:?} does no harm in the model"
    );
}

#[test]
fn repairing_reads_would_miss_changes() {
    assert_found(Broken::ReadRepair);
}

#[test]
fn believing_a_version_without_its_row_would_miss_changes() {
    assert_found(Broken::Believing);
}

#[test]
fn remembering_a_mixture_would_serve_what_was_invalidated() {
    assert_found(Broken::Mixing);
}

#[test]
fn leaving_out_a_key_for_a_change_in_flight_would_let_writes_pass() {
    assert_found(Broken::Forgetting);
}

#[test]
fn what_a_rebuild_did_not_prove_is_read_again() {
    let mut view = ShardView::default();
    // Seen on one replica, and then not by the rebuild that asked the two others.
    view.absorb(&shard_reading(Version(7)), true);
    view.settle(&shard_reading(Version(5)), true);
    assert_eq!(
        view.next(&shard_reading(Version(7))),
        Next::ReadAbove(Version(5))
    );
}

#[test]
fn an_unchanged_version_costs_no_read_and_an_older_one_neither() {
    let at = |version| shard_reading(Version(version));
    let mut view = ShardView::default();
    assert_eq!(view.next(&at(5)), Next::ReadAbove(Version(0)));
    view.absorb(&at(5), true);
    assert_eq!(view.next(&at(5)), Next::Nothing);
    assert_eq!(view.next(&at(4)), Next::Nothing);
    view.absorb(&at(9), false);
    assert_eq!(view.next(&at(9)), Next::ReadAbove(Version(8)));
    let epoch = ShardReading {
        epoch: 1,
        epoch_version: Version(12),
        ..at(12)
    };
    view.absorb(&epoch, false);
    assert_eq!((view.next(&epoch), view.epoch()), (Next::Nothing, 1));
}
