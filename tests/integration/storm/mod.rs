//! Storms: writers, deleters and readers on a handful of partitions while these are found, planned, guarded, copied, verified,
//! served, invalidated, split again and rolled back, through two proxies at once, of which one knows of changes late.
//!
//! No acknowledged write may be missing from a read that began afterwards, through whichever proxy, and at the end both
//! sides agree. `STORM_SECONDS` says how long, `PROXY_KILLS` how often a proxy is killed, `SEED` replays the choices.

mod field;
mod line;
mod model;
mod reader;
mod statement;
mod weather;
mod writer;

use std::net::SocketAddr;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use field::{Field, counted};
use line::Line;
use reader::{Reader, Scope, Where, check};
use statement::Pen;
use weather::{Seen, Weather};
use writer::Writer;

use crate::exactness::control::Control;
use crate::exactness::{say, seconds_now};
use crate::pipeline::world::{ANSWERED, Client, SPLIT_PATIENCE, World};
use crate::support::proxy::Builder;
use crate::support::random::{Random, seed};
use crate::support::request::{Parameters, QUORUM};
use crate::support::{Cluster, Codec, Proxy, cluster, eventually_within, scale};

const AHEAD_SECONDS: i32 = 300;
const TABLE: &str =
    "CREATE TABLE t (day timestamp, w int, r int, v text, u int, PRIMARY KEY (day, w, r))";
/// A day that is over is closed, so that what was written just now can be split at once.
const SETTINGS: &str = "wide_bytes = '1KiB'\ntarget_bytes = '1KiB'\nmax_buckets = 16\ntime_bucket_column = 'day'\n\
    time_bucket_width = '1d'\naccept_limit = '0s'\n";
const REPLICAS: usize = 3;
const WRITERS: i32 = 4;
const PARTITIONS: usize = 5;
/// Some of them to take the place of those whose writes have an unknown outcome.
const PARTITIONS_MAX: usize = 60;
/// One proxy learns of a change at once, the other only just in time.
const MAX_STALENESS: &str = "2s";
const POLL_INTERVALS: [&str; 2] = ["50ms", "1s"];
/// More than `MAX_STALENESS`.
const SETTLE: &str = "3s";
const CODECS: [Codec; 3] = [Codec::V4, Codec::V5, Codec::V3];
const LIFE_MAX_MILLIS: usize = 2500;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn no_acknowledged_write_is_lost_in_a_storm() {
    let (seconds, seed) = (setting("STORM_SECONDS", 25 * scale() as u64), seed());
    say(&format!("storm: {seconds} s, seed {seed}"));
    let cluster = cluster();
    let mut storm = Storm::gather(&cluster, seed);
    let began = Instant::now();
    storm.blow(|proxies, _, field| {
        let is_over = || {
            let elapsed = began.elapsed();
            // Without all of this it would prove nothing.
            let is_full =
                field.seen().is_full() && proxies.answered().iter().all(|count| *count > 0);
            elapsed >= Duration::from_secs(seconds) && (is_full || elapsed >= SPLIT_PATIENCE)
        };
        while !is_over() && field.told().is_empty() {
            sleep(Duration::from_millis(100));
        }
    });
    let answered = storm.proxies.answered();
    say(&format!("read from splits {answered:?}"));
    let seen = storm.calm(seed);
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    assert!(seen.is_full(), "{seen:?}");
}

#[test]
fn what_a_killed_proxy_has_acknowledged_is_seen() {
    let (kills, seed) = (setting("PROXY_KILLS", 10 * scale() as u64), seed());
    say(&format!("killed proxies: {kills}, seed {seed}"));
    let cluster = cluster();
    let mut storm = Storm::gather(&cluster, seed);
    let mut random = Random::new(seed ^ 7);
    storm.blow(|proxies, world, field| {
        for number in 0..kills {
            sleep(Duration::from_millis(random.below(LIFE_MAX_MILLIS) as u64));
            if number + 1 == kills {
                // On a slow machine nothing is split between two kills. Without a split they would prove nothing.
                eventually_within(SPLIT_PATIENCE, "a partition is split", || {
                    let is_split = field.seen().completed() > 0;
                    (is_split || !field.told().is_empty()).then_some(())
                });
            }
            let at = random.below(2);
            proxies.kill(at, world);
            if !field.told().is_empty() {
                return;
            }
            if number % 20 == 19 {
                say(&format!("kill {}", number + 1));
            }
        }
    });
    let seen = storm.calm(seed);
    say(&format!("{kills} proxies killed, seed {seed}"));
    assert!(seen.completed() > 0, "nothing was split: {seen:?}");
}

/// Dropped in this order: the world after its proxies and worker.
struct Storm {
    proxies: Proxies,
    _worker: Proxy,
    control: Control,
    field: Field,
    world: World,
    direct: SocketAddr,
    seed: u64,
}

/// Two of them, at the same addresses whatever becomes of their processes.
struct Proxies {
    running: Vec<Option<Proxy>>,
    addresses: [SocketAddr; 2],
}

impl Proxies {
    fn start(world: &World) -> Self {
        let running = [0, 1].map(|number| proxy(world, number).start());
        Self {
            addresses: running.each_ref().map(Proxy::address),
            running: running.into_iter().map(Some).collect(),
        }
    }

    fn get(&self, number: usize) -> &Proxy {
        self.running[number].as_ref().expect("it was started again")
    }

    /// Reads that were answered from splits, by proxy.
    fn answered(&self) -> [u64; 2] {
        [0, 1].map(|number| self.get(number).metric(ANSWERED))
    }

    /// As `kill -9` does, and another comes in its place.
    fn kill(&mut self, number: usize, world: &World) {
        let killed = self.running[number].take().expect("it was started again");
        self.running[number] = Some(killed.restart(proxy(world, number)));
    }
}

impl Storm {
    fn gather(cluster: &Cluster, seed: u64) -> Self {
        let world = World::create(cluster, Codec::V5, REPLICAS, &[TABLE]).with_settings(SETTINGS);
        let proxies = Proxies::start(&world);
        let worker = expected(world.splitter().worker())
            .set("control.max_staleness", MAX_STALENESS)
            .set("pipeline.settle", SETTLE)
            .set("pipeline.splits_at_a_time", "8")
            .start();
        Self {
            control: world.control(),
            field: Field::new(world.name("t"), WRITERS, PARTITIONS, PARTITIONS_MAX),
            proxies,
            _worker: worker,
            world,
            direct: cluster.node(),
            seed,
        }
    }

    /// Lets everybody loose until `meanwhile` returns.
    fn blow(&mut self, meanwhile: impl FnOnce(&mut Proxies, &World, &Field)) {
        let (field, control, seed) = (&self.field, &self.control, self.seed);
        let addresses = self.proxies.addresses;
        let line = |number: usize, address: SocketAddr| Line::new(address, CODECS[number % 3]);
        let table = self.world.tables()[0].clone();
        scope(|threads| {
            let stop = StopOnDrop(field);
            for number in 0..WRITERS {
                let writer = Writer {
                    field,
                    pen: Pen {
                        field,
                        writer: number,
                    },
                    lines: [0, 1].map(|at| line(number as usize + at, addresses[at])),
                    random: Random::new(seed.wrapping_add(100 + number as u64)),
                };
                threads.spawn(move || writer.run());
            }
            for number in 0..3 {
                let places = [(Where::Proxy, addresses[0]), (Where::Proxy, addresses[1])];
                let direct = (number == 0).then_some((Where::Original, self.direct));
                let lines = places.into_iter().chain(direct);
                let lines = lines.map(|(place, address)| (place, line(number, address)));
                let reader = Reader {
                    field,
                    lines: lines.collect(),
                    random: Random::new(seed.wrapping_add(200 + number as u64)),
                };
                threads.spawn(move || reader.run());
            }
            let weather = Weather {
                field,
                control,
                table,
                random: Random::new(seed.wrapping_add(300)),
            };
            threads.spawn(move || weather.run());
            meanwhile(&mut self.proxies, &self.world, field);
            drop(stop);
        });
    }

    /// When the storm is over everything is split, and read once more on both sides.
    fn calm(&mut self, seed: u64) -> Seen {
        let seen = self.field.seen().clone();
        let mut weather = Weather {
            field: &self.field,
            control: &self.control,
            table: self.world.tables()[0].clone(),
            random: Random::new(seed),
        };
        let split = weather.settle();
        let mut differences = 0;
        for partition in self.field.used() {
            differences += self.differences(partition, split.contains(&partition));
        }
        let counts = &self.field.counts;
        let [acknowledged, unknown, reads, lost, directly] = [
            &counts.acknowledged,
            &counts.unknown,
            &counts.reads,
            &counts.lost,
            &counts.lost_directly,
        ]
        .map(counted);
        say(&format!(
            "{reads} reads, {unknown} outcomes unknown, {} splits, {} again, {} ended by writes, {} rolled back, epoch {}",
            seen.completed(),
            seen.again(),
            seen.ended.len(),
            seen.rolled_back,
            seen.epoch
        ));
        say(&format!(
            "{acknowledged} writes acknowledged, {lost} lost, {differences} differences, seed {seed}"
        ));
        let told = self.field.told();
        assert_eq!(directly, 0, "the model is wrong: {told:#?}");
        assert_eq!((lost, differences), (0, 0), "{told:#?}");
        assert!(acknowledged > 50, "{acknowledged} is no storm");
        seen
    }

    /// Of a partition that is read through both proxies and directly, now and in a second that nobody's clock has reached:
    /// one that may have passed is the original's.
    fn differences(&mut self, partition: usize, is_split: bool) -> usize {
        let now = seconds_now();
        self.differences_at(partition, false, now)
            + self.differences_at(partition, is_split, now + AHEAD_SECONDS)
    }

    fn differences_at(&mut self, partition: usize, is_split: bool, second: i32) -> usize {
        let day = self.field.partitions[partition].day;
        let text = format!(
            "SELECT w, r, v, u, WRITETIME(v), TTL(v), WRITETIME(u), TTL(u) FROM {} WHERE day = {day}",
            self.field.table
        );
        let parameters = Parameters {
            consistency: Some(QUORUM),
            now_in_seconds: Some(second),
            ..Parameters::default()
        };
        let expected = self.world.direct.scan_with(&text, parameters.clone());
        let mut differences = 0;
        for number in 0..2 {
            let proxy = self.proxies.get(number);
            let mut through = Client::connect(proxy.address(), Codec::V5);
            if is_split && !expected.is_empty() {
                eventually_within(SPLIT_PATIENCE, "it is read from the split", || {
                    let before = proxy.metric(ANSWERED);
                    through.scan_with(&text, parameters.clone());
                    (proxy.metric(ANSWERED) > before).then_some(())
                });
            }
            let found = through.scan_with(&text, parameters.clone());
            if found != expected {
                differences += 1;
                self.field.tell(format!(
                    "partition {partition} differs through proxy {number}"
                ));
            }
            let mut line = Line::new(proxy.address(), Codec::V5);
            let mut random = Random::new(self.seed);
            check(
                &self.field,
                &mut line,
                Where::Proxy,
                (partition, Scope::Whole),
                &mut random,
            );
        }
        differences
    }
}

/// Also when somebody panics: the threads of a scope are waited for.
struct StopOnDrop<'a>(&'a Field);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn proxy(world: &World, number: usize) -> Builder {
    expected(world.proxy())
        .set("control.max_staleness", MAX_STALENESS)
        .set("control.poll_interval", POLL_INTERVALS[number])
}

/// What a busy machine makes of a storm.
fn expected(builder: Builder) -> Builder {
    builder
        .expecting("an attempt at a split failed")
        .expecting("a write is not acknowledged")
        .expecting("cannot be followed; writes and reads go on")
}
