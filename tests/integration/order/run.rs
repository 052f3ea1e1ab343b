//! One run of an order test on one cluster.

use std::cmp::Ordering;
use std::fmt::Debug;

use narrows::schema::{CqlType, order};

use crate::support::cluster::old_cluster;
use crate::support::random::{Random, seed};
use crate::support::request::{self, Parameters, Value};
use crate::support::{Cluster, Codec, Frame, RawClient, opcode, single_cluster};

/// Refused for what it is, rather than by a server in trouble: protocol error, syntax error, invalid.
const REFUSALS: [i32; 3] = [0x000A, 0x2000, 0x2200];

/// Requests under way at a time.
const WINDOW: usize = 50;

pub(super) struct Run {
    pub(super) cluster: Cluster,
    pub(super) has_vectors: bool,
    pub(super) seed: u64,
    pub(super) random: Random,
    client: RawClient,
}

/// Runs it with 5.0 and then with 4.1, which has no vectors, with the numbers of one seed.
pub(super) fn on_both(test: impl Fn(&mut Run)) {
    let seed = seed();
    for (cluster, has_vectors) in [(single_cluster(), true), (old_cluster(), false)] {
        let client = RawClient::connect(cluster.node(), Codec::V4);
        test(&mut Run {
            cluster,
            has_vectors,
            seed,
            random: Random::new(seed),
            client,
        });
    }
}

impl Run {
    pub(super) fn prepare(&mut self, text: &str) -> (Vec<u8>, Vec<u8>) {
        self.client.prepare(text)
    }

    /// Whether Cassandra took these values.
    pub(super) fn execute(&mut self, id: &(Vec<u8>, Vec<u8>), values: &[Value]) -> bool {
        self.execute_all(id, &[values.to_vec()]) == [true]
    }

    /// The same of many, which are asked a window at a time.
    pub(super) fn execute_all(&mut self, id: &(Vec<u8>, Vec<u8>), all: &[Vec<Value>]) -> Vec<bool> {
        let mut taken = Vec::new();
        for window in all.chunks(WINDOW) {
            for (stream, values) in (0..).zip(window) {
                let body = request::execute(Codec::V4, id, &Parameters::values(values));
                self.client.send(stream, opcode::EXECUTE, &body);
            }
            let mut replies: Vec<Frame> = window.iter().map(|_| self.client.receive()).collect();
            replies.sort_by_key(|reply| reply.stream);
            let judged = replies.iter().zip(window);
            taken.extend(judged.map(|(reply, values)| self.is_taken(reply, values)));
        }
        taken
    }

    fn is_taken(&self, reply: &Frame, values: &[Value]) -> bool {
        let error = reply.error();
        let refused = |(code, _): &(i32, String)| REFUSALS.contains(code);
        assert!(
            error.as_ref().is_none_or(refused),
            "SEED={} {values:02x?}: {error:?}",
            self.seed
        );
        error.is_none()
    }

    /// All rows, none of whose values is null.
    pub(super) fn rows(&mut self, text: &str, values: &[Value]) -> Vec<Vec<Vec<u8>>> {
        let body = request::query_with(Codec::V4, text, &Parameters::values(values));
        let reply = self.client.ask(opcode::QUERY, &body);
        let rows = reply.rows().rows.into_iter();
        let present = |value: Option<Vec<u8>>| value.expect("keys are not null");
        rows.map(|row| row.into_iter().map(present).collect())
            .collect()
    }

    /// The first column of all rows.
    pub(super) fn column(&mut self, text: &str, values: &[Value]) -> Vec<Vec<u8>> {
        let rows = self.rows(text, values).into_iter();
        rows.map(|mut row| row.swap_remove(0)).collect()
    }

    /// Every row is less than every later one and greater than every earlier one.
    pub(super) fn check_order<T: AsRef<[U]> + Debug, U>(
        &self,
        what: &str,
        rows: &[T],
        compare: impl Fn(&[U], &[U]) -> Option<Ordering>,
    ) {
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                assert_eq!(
                    compare(a.as_ref(), b.as_ref()),
                    Some(i.cmp(&j)),
                    "SEED={} {what}: {a:02x?} at {i}, {b:02x?} at {j}",
                    self.seed
                );
            }
        }
    }
}

/// Whether we claim to know where the value belongs. What Cassandra changes before it stores it is not for us.
pub(super) fn is_ours(cql_type: &CqlType, value: &[u8]) -> bool {
    order::compare(cql_type, value, value).is_some()
}

/// Values as a bound list, which is what `IN ?` takes.
pub(super) fn list(values: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    request::int(&mut out, i32::try_from(values.len()).expect("few"));
    for value in values {
        request::long_string(&mut out, value);
    }
    out
}
