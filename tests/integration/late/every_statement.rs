//! Every kind of statement on a partition in every state, under both policies: what is guarded or split is taken out of service
//! before the write is made, or the write is refused and nothing happens; all else is as it would be without us.

use narrows::wide_row::state::State;
use narrows::wide_row::store::SplitId;

use super::kinds::{BEFORE, KINDS, Kind, Row, Way};
use super::quick;
use crate::exactness::control::Control;
use crate::pipeline::world::World;
use crate::support::request::{self, Parameters, SERIAL};
use crate::support::response::Body;
use crate::support::{Codec, Proxy, RawClient, eventually, opcode, single_cluster};

const TABLE: &str = "CREATE TABLE t (k int, c int, v int, w text, PRIMARY KEY (k, c))";
const STATES: [State; 7] = [
    State::Detected,
    State::Planned,
    State::Guarded,
    State::Copying,
    State::Verifying,
    State::Completed,
    State::Invalidated,
];
const CODECS: [Codec; 3] = [Codec::V3, Codec::V4, Codec::V5];
/// Keys from here on have rows and no split.
const UNSPLIT: i32 = 1_000_000;
/// Microseconds since 1970: older than every write of the test.
const LONG_AGO: i64 = 1_600_000_000_000_000;
const REFUSED: i32 = 0x2200;
const FILTER_KEYS: &str = "narrows_filter_keys";
const REFRESHES: &str = "narrows_follow_refreshes_total";
/// Of the list of tables and of the table; one of each may have been under way before.
const REFRESHES_MIN: u64 = 4;

/// One statement to be made.
struct Case {
    kind: &'static Kind,
    state: State,
    way: Way,
    codec: usize,
    key: i32,
}

/// Every kind in every state, in one way and version after the other; in service, in every way and version.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |kind: &'static Kind, state, way, codec| {
        if kind.can(way) {
            let key = cases.len() as i32 + 1;
            cases.push(Case {
                kind,
                state,
                way,
                codec,
                key,
            });
        }
    };
    for (number, kind) in KINDS.iter().enumerate() {
        for (at, state) in STATES.into_iter().enumerate() {
            let turn = number + at;
            let way = Way::ALL
                .into_iter()
                .cycle()
                .skip(turn)
                .find(|way| kind.can(*way));
            add(
                kind,
                state,
                way.expect("one of them"),
                turn / 4 % CODECS.len(),
            );
        }
        for (turn, way) in Way::ALL.into_iter().enumerate() {
            add(kind, State::Completed, way, (number + turn) % CODECS.len());
        }
    }
    cases
}

/// Dropped in this order.
struct Bench {
    clients: Vec<RawClient>,
    proxy: Proxy,
    control: Control,
    direct: RawClient,
    world: World,
    table: String,
}

impl Bench {
    fn start(policy: &str, cases: &[Case]) -> Self {
        let cluster = single_cluster();
        let world = World::create(&cluster, Codec::V4, 1, &[TABLE])
            .with_settings(&format!("late_writes = '{policy}'\n"));
        let proxy = quick(world.proxy()).start();
        let bench = Self {
            clients: CODECS
                .map(|codec| RawClient::connect(proxy.address(), codec))
                .into(),
            proxy,
            control: world.control(),
            direct: RawClient::connect(cluster.node(), Codec::V4),
            table: world.name("t"),
            world,
        };
        bench.with_partitions(cases)
    }

    fn with_partitions(mut self, cases: &[Case]) -> Self {
        for key in cases.iter().flat_map(|case| [case.key, case.key + UNSPLIT]) {
            let insert = |(c, v, w): Row| {
                let (v, w) = (v.expect("a value"), w.expect("a value"));
                format!(
                    "INSERT INTO {} (k, c, v, w) VALUES ({key}, {c}, {v}, '{w}')",
                    self.table
                )
            };
            let inserts = BEFORE.map(insert).join("; ");
            let text =
                format!("BEGIN UNLOGGED BATCH USING TIMESTAMP {LONG_AGO} {inserts}; APPLY BATCH");
            self.direct.query(&text);
        }
        let splits: Vec<(SplitId, State)> = cases
            .iter()
            .map(|case| (self.world.id(case.key), case.state))
            .collect();
        self.control.bring(&splits);
        let guarded = cases.iter().filter(|case| case.state.is_guarded()).count();
        let before = self.proxy.metric_sum(REFRESHES, "\"ok\"");
        eventually("the proxy knows what is guarded", || {
            let refreshes = self.proxy.metric_sum(REFRESHES, "\"ok\"");
            let keys = self.proxy.metric_sum(FILTER_KEYS, "");
            (refreshes >= before + REFRESHES_MIN && keys >= guarded as u64).then_some(())
        });
        self
    }

    fn rows(&mut self, key: i32) -> Vec<(i32, Option<i32>, Option<String>)> {
        let text = format!("SELECT c, v, w FROM {} WHERE k = {key}", self.table);
        let rows = self.direct.query(&text).rows().rows;
        let int = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| Body(bytes).int());
        let text = |bytes: &Option<Vec<u8>>| {
            let text = bytes.clone().map(String::from_utf8);
            text.map(|text| text.expect("UTF-8"))
        };
        rows.iter()
            .map(|row| (int(&row[0]).expect("a key"), int(&row[1]), text(&row[2])))
            .collect()
    }

    /// State and generation in the store.
    fn assert_state(&self, what: &str, key: i32, before: i32, expected: State) {
        let split = self
            .control
            .split(&self.world.id(key))
            .expect("there is one");
        assert_eq!(split.standing.state, expected, "{what}");
        assert_eq!(split.standing.generation.0, before, "{what}");
        let has_reason = split.reason.is_some();
        assert_eq!(
            has_reason,
            expected == State::Invalidated,
            "{what}: {:?}",
            split.reason
        );
    }

    fn generation(&self, key: i32) -> i32 {
        let standing = self.control.standing(&self.world.id(key));
        standing.expect("there is one").generation.0
    }

    fn check(&mut self, case: &Case, is_rejecting: bool) {
        let Case {
            kind,
            state,
            way,
            key,
            ..
        } = case;
        let what = format!("{} {way:?} {:?}, {state:?}", kind.name, CODECS[case.codec]);
        let generation = self.generation(*key);
        let keys = (*key, *key + UNSPLIT);
        let reply = kind.send(&mut self.clients[case.codec], *way, &self.table, keys);
        let rejected = is_rejecting && state.is_guarded();
        match reply.error() {
            Some((code, text)) => {
                assert!(rejected, "{what}: {code:#06x} {text}");
                assert_eq!(code, REFUSED, "{what}: {text}");
                assert!(
                    text.contains(&self.table) && text.contains("reject"),
                    "{what}: {text}"
                );
            }
            None => assert!(!rejected, "{what}: {:?}", reply.opcode),
        }
        let after = if rejected { &BEFORE[..] } else { kind.after };
        let after = after.iter().map(|(c, v, w)| (*c, *v, w.map(str::to_owned)));
        assert_eq!(self.rows(*key), after.collect::<Vec<_>>(), "{what}");
        let expected = match state.is_guarded() && !rejected {
            true => State::Invalidated,
            false => *state,
        };
        self.assert_state(&what, *key, generation, expected);
    }
}

fn run(policy: &str) {
    let cases = cases();
    let mut bench = Bench::start(policy, &cases);
    for case in &cases {
        bench.check(case, policy == "reject");
    }
}

#[test]
fn every_write_to_what_is_guarded_or_split_ends_it() {
    run("invalidate");
}

#[test]
fn every_write_to_what_is_guarded_or_split_is_refused_where_late_writes_are_rejected() {
    run("reject");
}

#[test]
fn a_serial_read_ends_a_split_whatever_the_policy() {
    for policy in ["invalidate", "reject"] {
        let kind = &KINDS[0];
        let case = |(key, codec): (i32, usize)| Case {
            kind,
            state: State::Completed,
            way: Way::Literal,
            codec,
            key,
        };
        let cases: Vec<Case> = (1..).zip(0..CODECS.len()).map(case).collect();
        let mut bench = Bench::start(policy, &cases);
        for case in &cases {
            let generation = bench.generation(case.key);
            let text = format!("SELECT * FROM {} WHERE k = {}", bench.table, case.key);
            let parameters = Parameters {
                consistency: Some(SERIAL),
                ..Parameters::default()
            };
            let client = &mut bench.clients[case.codec];
            let body = request::query_with(client.codec, &text, &parameters);
            let reply = client.ask_until_forwarded(opcode::QUERY, &body);
            assert_eq!(reply.rows().rows.len(), BEFORE.len());
            bench.assert_state("a serial read", case.key, generation, State::Invalidated);
        }
    }
}
