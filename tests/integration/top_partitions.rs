//! Partitions that nobody reads are found by what nodes list in `system.top_partitions`.
//!
//! A node fills its lists when a repair has read a partition, and writes them into the table every 60 minutes; nothing makes
//! it do so sooner. So these tests write the row themselves, as `SystemKeyspace.saveTopPartitions` does (the same INSERT, by a
//! list of tuples), on the node whose list it is. The key's text is proven by a real repair: nodetool shows the list that
//! would be written.

use std::net::SocketAddr;

use narrows::upstream::ring::token;

use crate::pipeline::world::SPLIT_PATIENCE;
use crate::support::cluster::old_cluster;
use crate::support::proxy::Builder;
use crate::support::{
    Codec, Keyspace, Proxy, RawClient, cluster_alone, eventually, eventually_within,
};

const COLUMNS: [(&str, &str); 8] = [
    ("a text", r"'pump:7\'"),
    ("b int", "-3"),
    ("c timestamp", "1700000000123"),
    ("d uuid", "8d6c4f2e-5b1a-41d3-9c77-000102030405"),
    ("e date", "'2025-10-30'"),
    ("f time", "'01:02:03.000000004'"),
    ("g blob", "0x00cafe"),
    ("h bigint", "9223372036854775807"),
];
/// How Cassandra prints that key.
const PRINTED: &str = r"pump\:7\!:-3:2023-11-14T22\:13\:20.123Z:8d6c4f2e-5b1a-41d3-9c77-000102030405:2025-10-30:01\:02\:03.000000004:00cafe:9223372036854775807";
/// One whose head is full of tombstones, as a node says, and one that is narrow.
const DELETED: &str = r"deleted:0:1969-12-31T23\:59\:59.999Z:8d6c4f2e-5b1a-41d3-9c77-000102030405:2025-10-30:00\:00\:00.000000000::-1";
const NARROW: &str = r"narrow:0:1969-12-31T23\:59\:59.999Z:8d6c4f2e-5b1a-41d3-9c77-000102030405:2025-10-30:00\:00\:00.000000000::-1";

/// The list of one node, which is written as the node writes it and goes with the test.
struct List<'a> {
    node: SocketAddr,
    keyspace: &'a Keyspace,
}

impl<'a> List<'a> {
    fn write(node: SocketAddr, keyspace: &'a Keyspace, kind: &str, listed: &[(&str, u64)]) -> Self {
        let listed: Vec<String> = listed
            .iter()
            .map(|(key, value)| format!("('{key}', {value})"))
            .collect();
        RawClient::connect(node, Codec::V4).query(&format!(
            "INSERT INTO system.top_partitions (keyspace_name, table_name, top_type, top, last_update) \
             VALUES ('{}', 't', '{kind}', [{}], 1700000000000)",
            keyspace.name,
            listed.join(", ")
        ));
        Self { node, keyspace }
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            RawClient::connect(self.node, Codec::V4).query(&format!(
                "DELETE FROM system.top_partitions WHERE keyspace_name = '{}'",
                self.keyspace.name
            ));
        }
    }
}

fn asking(nodes: &[SocketAddr], keyspace: &Keyspace, control: &Keyspace) -> Builder {
    let watched = format!(
        "[pipeline]\npoll_top_partitions = '1s'\n[[table]]\nname = '{}.t'\nshards = 4\nwide_bytes = '1MiB'\ntarget_bytes = '1MiB'\n",
        keyspace.name
    );
    Proxy::builder(nodes)
        .set("control.keyspace", &control.name)
        .toml(&watched)
}

/// Key, state and bytes of what was written down.
fn written(node: SocketAddr, control: &Keyspace) -> Vec<(Vec<u8>, String, Option<i64>)> {
    let text = format!(
        "SELECT partition_key, state, seen_bytes FROM {}.wide_row",
        control.name
    );
    let rows = RawClient::connect(node, Codec::V4).query(&text).rows().rows;
    let row = |row: Vec<Option<Vec<u8>>>| {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let (key, state, bytes) = (next()?, next()?, next());
        let bytes = bytes.map(|bytes| i64::from_be_bytes(bytes.try_into().expect("a bigint")));
        Some((key, String::from_utf8(state).expect("a name"), bytes))
    };
    rows.into_iter().filter_map(row).collect()
}

fn key_columns() -> String {
    let name = |(declared, _): (&'static str, _)| declared.split(' ').next();
    let names: Vec<&str> = COLUMNS.into_iter().filter_map(name).collect();
    names.join(", ")
}

/// Fills a partition of more than the mebibyte from which nodes list them, and returns its token.
fn fill(node: SocketAddr, keyspace: &str) -> i64 {
    let mut client = RawClient::connect(node, Codec::V4);
    let (names, values) = (key_columns(), COLUMNS.map(|(_, value)| value).join(", "));
    let text = "x".repeat(100_000);
    for row in 0..15 {
        client.query(&format!(
            "INSERT INTO {keyspace}.t ({names}, i, v) VALUES ({values}, {row}, '{text}')"
        ));
    }
    let rows = client
        .query(&format!("SELECT token({names}) FROM {keyspace}.t LIMIT 1"))
        .rows();
    let token = rows.rows[0][0].clone().expect("a token");
    i64::from_be_bytes(token.try_into().expect("of Murmur3"))
}

#[test]
fn what_any_node_lists_is_found_by_the_key_that_it_prints() {
    // `nodetool tablestats` asks every table of the node, and fails with "Server is not initialized yet" when one of them
    // is dropped meanwhile. Beside other tests that happens.
    let cluster = cluster_alone();
    let declared = COLUMNS.map(|(declared, _)| declared).join(", ");
    let names = key_columns();
    let table = format!("CREATE TABLE t ({declared}, i int, v text, PRIMARY KEY (({names}), i))");
    let three = "'class': 'SimpleStrategy', 'replication_factor': 3";
    let keyspace = Keyspace::replicated(&cluster, three, &[&table]);
    let control = Keyspace::create(&cluster, &[]);
    let token_of_cassandra = fill(cluster.node(), &keyspace.name);
    cluster.nodetool(&["repair", "--full", &keyspace.name, "t"]);
    let table = format!("{}.t", keyspace.name);
    let stats = cluster.nodetool(&["tablestats", "-F", "json", &table]);
    let in_json = PRINTED.replace('\\', r"\\");
    assert!(stats.contains(&format!("\"{in_json}\"")), "{stats}");

    let (second, third) = (cluster.nodes()[1], cluster.nodes()[2]);
    let sizes = [(PRINTED, 1_500_000), (NARROW, 1_000), ("no key", 1 << 30)];
    let _sizes = List::write(second, &keyspace, "SIZES", &sizes);
    let _tombstones = List::write(third, &keyspace, "TOMBSTONES", &[(DELETED, 100_000)]);
    let proxy = asking(cluster.nodes(), &keyspace, &control).start();
    let written = eventually("both are written down", || {
        let written = written(cluster.node(), &control);
        (written.len() >= 2).then_some(written)
    });
    let sizes: Vec<_> = written.iter().filter(|row| row.2.is_some()).collect();
    let [(key, state, bytes)] = sizes[..] else {
        panic!("one was found by its size: {written:?}");
    };
    assert_eq!(token(key), token_of_cassandra, "its very key");
    assert_eq!((state.as_str(), *bytes), ("DETECTED", Some(1_500_000)));
    for reason in ["size", "tombstones"] {
        let label = format!("reason=\"{reason}\"");
        let found = proxy.metric_sum("narrows_detect_partitions_total", &label);
        assert_eq!(found, 1, "for {reason}, once however often nodes are asked");
    }
    assert_eq!(written.len(), 2, "and nothing else");
}

#[test]
fn a_list_that_is_out_of_date_does_no_harm_on_cassandra_4_1() {
    let cluster = old_cluster();
    let table = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
    let keyspace = Keyspace::create(&cluster, &[table]);
    let control = Keyspace::create(&cluster, &[]);
    let _list = List::write(cluster.node(), &keyspace, "SIZES", &[("-7", 2 << 20)]);
    // What a worker does without any proxy.
    let _worker = asking(cluster.nodes(), &keyspace, &control)
        .worker()
        .start();
    let row = eventually_within(SPLIT_PATIENCE, "nothing is found there", || {
        let written = written(cluster.node(), &control);
        written.into_iter().find(|row| row.1 == "NOT_WIDE")
    });
    assert_eq!(row.0, (-7_i32).to_be_bytes());
}
