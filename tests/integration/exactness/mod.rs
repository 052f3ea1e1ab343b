//! The oracle: random SELECTs on random tables, direct on the original and through a proxy that knows of its splits.
//!
//! `QUERIES` says how many (`SCALE` multiplies), `SEED` which. Round *n* of a run is the first round of the seed *n* later,
//! so that a difference is replayed by its round's seed alone.

pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod data;
mod query;
pub(crate) mod schema;
pub(crate) mod splitter;
pub(crate) mod types;
pub(crate) mod wire;

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use compare::{Answers, Sides};
use control::{Control, SHARDS};
use data::Partition;
use query::{Question, Subject, question};
use schema::Schema;
use splitter::{SplitHandle, Splitter};
use wire::Wire;

use crate::support::cluster::old_cluster;
use crate::support::random::{self, Random};
use crate::support::request::Value;
use crate::support::{Cluster, Keyspace, Proxy, cluster, eventually, scale};

/// Counts reads that were answered from splits.
const SPLIT_READS: &str = "narrows_proxy_split_reads_total";
/// Counts partitions that were looked up; found `split`, their layout was read and believed.
const LOOKUPS: &str = "narrows_lookup_answers_total";

const QUERIES: usize = 3000;
const ROUNDS_MAX: usize = 60;
const QUERIES_PER_ROUND_MIN: usize = 300;
/// After so many, one split is rolled back and made again, and so are those that a SERIAL read has ended.
const QUERIES_PER_GENERATION: usize = 250;
/// That many at the end of a generation may be SERIAL more often.
const LAST_QUERIES: usize = 20;
const DIFFERENCES_MAX: usize = 20;

#[test]
fn the_split_answers_as_the_original_does() {
    let cluster = cluster();
    let all = queries();
    run(
        "the_split_answers_as_the_original_does",
        &cluster,
        true,
        all - all / 3,
    );
}

#[test]
fn the_split_answers_as_the_original_does_on_4_1() {
    let cluster = old_cluster();
    run(
        "the_split_answers_as_the_original_does_on_4_1",
        &cluster,
        false,
        queries() / 3,
    );
}

/// The same for all tests of a process.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(random::seed)
}

fn queries() -> usize {
    let queries =
        std::env::var("QUERIES").map_or(QUERIES, |text| text.parse().expect("QUERIES is a number"));
    queries * scale()
}

/// Fewer of them ask more of each table; a replay is one.
fn rounds() -> usize {
    std::env::var("ROUNDS").map_or(ROUNDS_MAX, |text| text.parse().expect("ROUNDS is a number"))
}

/// Past the capture of the test harness: a long run shows where it is.
pub(crate) fn say(text: &str) {
    // A closed stderr is no reason to fail.
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// So many queries, in rounds of one table each.
fn run(test: &str, cluster: &Cluster, since_5: bool, queries: usize) {
    let (queries, seed) = (queries.max(1), seed());
    say(&format!("{test}: {queries} queries, seed {seed}"));
    let per_round = (queries / rounds()).max(QUERIES_PER_ROUND_MIN);
    let everywhere = format!(
        "'class': 'SimpleStrategy', 'replication_factor': {}",
        cluster.nodes().len()
    );
    let control = Keyspace::replicated(cluster, &everywhere, &[]);
    let mut total = Total::default();
    for round in 0.. {
        let left = queries - total.queries;
        if left == 0 || total.differences >= DIFFERENCES_MAX {
            break;
        }
        let mut round = Round::start(test, cluster, &control.name, (seed + round, since_5));
        total.add(&round.run(left.min(per_round)));
        round.finish(&control.name);
        say(&format!(
            "{test}: {} of {queries} queries, {} differences",
            total.queries, total.differences
        ));
    }
    say(&format!(
        "{test}: {} reads answered from splits, {} found split; {:?}",
        total.split_reads, total.split_lookups, total.answers
    ));
    say(&format!(
        "{} queries, {} differences, seed {seed}",
        total.queries, total.differences
    ));
    assert_eq!(total.differences, 0, "see above; seed {seed}");
    assert!(total.split_lookups > 0, "the proxy believed no split");
    assert!(total.split_reads > 0, "everything was forwarded");
    assert!(total.answers.were_prepared(), "statements were not kept");
}

#[derive(Default)]
struct Total {
    queries: usize,
    differences: usize,
    split_reads: u64,
    split_lookups: u64,
    answers: Answers,
}

impl Total {
    fn add(&mut self, other: &Self) {
        self.queries += other.queries;
        self.differences += other.differences;
        self.split_reads += other.split_reads;
        self.split_lookups += other.split_lookups;
        self.answers.add(&other.answers);
    }
}

/// One table, its splits, and a proxy. Fields are dropped in this order: the proxy before the keyspace.
struct Round {
    test: String,
    seed: u64,
    random: Random,
    sides: Sides,
    proxy: Proxy,
    control: Control,
    wire: Wire,
    schema: Schema,
    now: i32,
    /// Those that are split come first.
    partitions: Vec<Partition>,
    splits: Vec<SplitHandle>,
    _keyspace: Keyspace,
}

impl Round {
    fn start(test: &str, cluster: &Cluster, control: &str, (seed, since_5): (u64, bool)) -> Self {
        let mut random = far_from(seed);
        let replicas = if random.one_in(4) {
            cluster.nodes().len()
        } else {
            1
        };
        let replication = format!("'class': 'SimpleStrategy', 'replication_factor': {replicas}");
        let keyspace = Keyspace::replicated(cluster, &replication, &[]);
        let schema = Schema::random(&mut random, &keyspace.name, since_5);
        let udt = format!(
            "CREATE TYPE {}.{} (a int, b text)",
            keyspace.name,
            types::UDT
        );
        let (create, buckets) = (schema.create(), splitter::create_split_table(&schema));
        keyspace.run(&[&udt, &create, &buckets]);
        let mut wire = Wire::open(cluster.node());
        let now = seconds_now();
        let partitions = partitions(&mut wire, &schema, now, &mut random);
        let proxy = start_proxy(cluster, control, &schema);
        let control = Control::open(cluster.nodes(), control);
        let sides = Sides::new(&keyspace.name, cluster.node(), proxy.address());
        let mut round = Self {
            test: test.to_owned(),
            seed,
            random,
            sides,
            proxy,
            control,
            wire,
            schema,
            now,
            partitions,
            splits: Vec::new(),
            _keyspace: keyspace,
        };
        round.first_splits();
        round
    }

    fn first_splits(&mut self) {
        let table =
            narrows::schema::names::TableName::new(&self.schema.keyspace, &self.schema.table);
        eventually("a proxy has seen the table", || {
            self.control.is_seen(&table).then_some(())
        });
        // The last of the wide ones is left whole.
        for index in 0..self
            .partitions
            .iter()
            .filter(|partition| is_wide(partition))
            .count()
            - 1
        {
            let split = self.split(index);
            self.splits.push(split);
        }
        self.await_filter();
    }

    fn split(&mut self, index: usize) -> SplitHandle {
        let mut splitter = Splitter {
            wire: &mut self.wire,
            control: &self.control,
            schema: &self.schema,
            now: self.now,
        };
        splitter.split(&self.partitions[index], &mut self.random)
    }

    /// Until then everything is forwarded.
    fn await_filter(&self) {
        let keys = self.splits.len() as u64;
        let proxy = &self.proxy;
        eventually("the proxy knows of the splits", || {
            (proxy.metric_sum("narrows_filter_keys", "") >= keys).then_some(())
        });
    }

    fn run(&mut self, queries: usize) -> Total {
        let (mut asked, mut differences) = (0, 0);
        for index in 0..queries {
            let position = index % QUERIES_PER_GENERATION;
            let last = QUERIES_PER_GENERATION - LAST_QUERIES;
            if index > 0 && position == 0 {
                self.next_generations();
            }
            let mut random = far_from(self.seed ^ (index as u64 + 1) << 40);
            let subject = Subject {
                schema: &self.schema,
                partitions: &self.partitions,
                split: self.splits.len(),
                now: self.now,
                serial: if position < last { 600 } else { 8 },
            };
            let question = question(&subject, &mut random);
            asked += 1;
            if let Err(difference) = self.sides.compare(&question) {
                differences += 1;
                self.report(index, &question, &difference);
                self.ask_again(&question);
            }
            if differences >= DIFFERENCES_MAX {
                break;
            }
        }
        Total {
            queries: asked,
            differences,
            split_reads: self.proxy.metric_sum(SPLIT_READS, "outcome=\"answered\""),
            split_lookups: self.proxy.metric_sum(LOOKUPS, "answer=\"split\""),
            answers: std::mem::take(&mut self.sides.answers),
        }
    }

    /// Rolls one split back, and makes anew all that are not in service.
    fn next_generations(&mut self) {
        let chosen = self.random.below(self.splits.len());
        for index in 0..self.splits.len() {
            let handle = self.splits[index].clone();
            let in_service = self
                .control
                .standing(&handle.id)
                .is_some_and(|standing| standing.is_in_service());
            if in_service && index != chosen {
                continue;
            }
            let mut splitter = Splitter {
                wire: &mut self.wire,
                control: &self.control,
                schema: &self.schema,
                now: self.now,
            };
            if in_service {
                assert!(splitter.rollback(&handle), "was in service");
            }
            self.splits[index] = self.split(index);
        }
        self.await_filter();
    }

    /// Before the table is dropped: the next proxy must not wonder where it is.
    fn finish(mut self, control: &str) {
        let text = format!(
            "DELETE FROM {control}.watched_table WHERE catalog = 'watched' AND keyspace_name = ? AND table_name = ?"
        );
        let names = [&self.schema.keyspace, &self.schema.table].map(|name| Value::text(name));
        self.wire.write(&text, names.to_vec(), self.now);
        self.wire.settle();
    }

    /// Whether it passes, and whether it is a matter of replicas.
    fn ask_again(&mut self, question: &Question) {
        let at_all = Question {
            consistency: wire::ALL,
            ..question.clone()
        };
        for (how, question) in [
            ("again", question),
            ("at ALL", &at_all),
            ("again", question),
        ] {
            match self.sides.compare(question) {
                Ok(()) => say(&format!("  {how}: no difference")),
                Err(difference) => say(&format!("  {how}: {difference}")),
            }
        }
    }

    fn report(&self, index: usize, question: &Question, difference: &compare::Difference) {
        let buckets: Vec<usize> = self.splits.iter().map(|split| split.buckets).collect();
        say(&format!(
            "\ndifference in query {index} of seed {}, {difference}\n  table: {}\n  buckets: {buckets:?}\n  statement: {}\n  \
             asked: {question:?}\n  replay: SEED={} QUERIES={} ROUNDS=1 cargo test --test integration -- --exact exactness::{} --nocapture",
            self.seed,
            self.schema.create(),
            question.text,
            self.seed,
            3 * (index + 1),
            self.test
        ));
    }
}

/// Neighbouring seeds must not give similar numbers.
fn far_from(seed: u64) -> Random {
    let mixed = (seed ^ seed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    Random::new(mixed ^ mixed >> 33)
}

fn is_wide(partition: &Partition) -> bool {
    partition.rows.len() > 8
}

/// Three or four wide ones, of which one is not split, and some small ones.
fn partitions(wire: &mut Wire, schema: &Schema, now: i32, random: &mut Random) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = Vec::new();
    let wide = 3 + random.below(2);
    for _ in 0..40 {
        let key: Vec<_> = schema
            .partition
            .iter()
            .map(|column| random.pick(&column.pool).clone())
            .collect();
        if partitions.len() == wide + 3 || partitions.iter().any(|other| other.key == key) {
            continue;
        }
        let count = if partitions.len() < wide {
            60 + random.below(240)
        } else {
            1 + random.below(6)
        };
        partitions.push(data::write(wire, schema, key, (count, now), random));
    }
    partitions.sort_by_key(|partition| !is_wide(partition));
    partitions
}

fn start_proxy(cluster: &Cluster, control: &str, schema: &Schema) -> Proxy {
    Proxy::builder(cluster.nodes())
        .set("control.keyspace", control)
        .set("control.poll_interval", "200ms")
        .toml(&format!(
            "[[table]]\nname = '{}'\nshards = {SHARDS}\n",
            schema.name()
        ))
        .start()
}

pub(crate) fn seconds_now() -> i32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(Duration::ZERO, |since| since).as_secs() as i32
}
