//! Limits: what is idle, too large or too slow is dealt with, and nobody else notices.

use crate::support::client::Received;
use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, Keyspace, Proxy, RawClient, opcode, single_cluster};

const WIDE: &[&str] = &["CREATE TABLE wide (k int PRIMARY KEY, v blob)"];

#[test]
fn idle_clients_are_closed_and_busy_ones_are_not() {
    let cluster = single_cluster();
    let proxy = Proxy::builder(cluster.nodes())
        .set("limits.idle_timeout", "5s")
        .start();
    let mut idle = RawClient::connect(proxy.address(), Codec::V5);
    let mut busy = RawClient::connect(proxy.address(), Codec::V5);
    std::thread::scope(|scope| {
        let closed = scope.spawn(move || idle.next());
        while !closed.is_finished() {
            assert!(busy.is_alive());
        }
        assert_eq!(closed.join().expect("no panic"), Received::Closed);
    });
    assert!(busy.is_alive());
    assert_eq!(
        proxy.metric("narrows_proxy_closes_total{reason=\"idle\"}"),
        1
    );
}

#[test]
fn requests_beyond_the_limit_are_refused() {
    let cluster = single_cluster();
    let keyspace = Keyspace::create(&cluster, WIDE);
    let proxy = Proxy::builder(cluster.nodes())
        .set("limits.request_bytes", "64KiB")
        .start();
    let text = format!("INSERT INTO {}.wide (k, v) VALUES (?, ?)", keyspace.name);
    for codec in [Codec::V3, Codec::V4_LZ4, Codec::V5, Codec::V5_LZ4] {
        let insert = |bytes: usize| {
            let noise = crate::support::random::Random::new(3).bytes(bytes);
            let values = Parameters::values(&[Value::int(1), Value::Bytes(noise)]);
            request::query_with(codec, &text, &values)
        };
        let mut client = RawClient::connect(proxy.address(), codec);
        let small = client.ask(opcode::QUERY, &insert(60_000));
        assert_eq!(small.opcode, opcode::RESULT, "{:?}", small.error());
        client.asking = "a request that is too large".to_owned();
        let refusal = client.ask(opcode::QUERY, &insert(200_000)).error();
        let refusal = refusal.expect("an ERROR");
        assert_eq!(refusal.0, 0x2200, "{codec:?}");
        assert!(
            refusal.1.contains("maximum allowed length 65536"),
            "{codec:?}: {}",
            refusal.1
        );
        // The rest of it was dropped, and the connection lives on.
        assert!(client.is_alive(), "{codec:?}");
    }
}

#[test]
fn what_is_too_large_for_cassandra_is_refused_in_its_words() {
    let cluster = single_cluster();
    let keyspace = Keyspace::create(&cluster, WIDE);
    let proxy = Proxy::builder(cluster.nodes())
        .set("limits.request_bytes", "64MiB")
        .start();
    let text = format!("INSERT INTO {}.wide (k, v) VALUES (?, ?)", keyspace.name);
    for codec in [Codec::V4, Codec::V5] {
        let values = Parameters::values(&[Value::int(1), Value::Bytes(vec![7; 17 << 20])]);
        let body = request::query_with(codec, &text, &values);
        let ask = |address| {
            let mut client = RawClient::connect(address, codec);
            client.asking = "17 MiB".to_owned();
            let reply = client.ask(opcode::QUERY, &body);
            (reply.error().expect("an ERROR"), client.is_alive())
        };
        assert_eq!(ask(cluster.node()), ask(proxy.address()), "{codec:?}");
    }
}

#[test]
fn a_client_that_does_not_read_costs_little_and_holds_up_nobody() {
    const REPLIES: usize = 60;
    let cluster = single_cluster();
    let keyspace = Keyspace::create(&cluster, WIDE);
    let proxy = Proxy::start(&cluster);
    let mut slow = RawClient::connect(proxy.address(), Codec::V4);
    let insert = format!("INSERT INTO {}.wide (k, v) VALUES (1, ?)", keyspace.name);
    let values = Parameters::values(&[Value::Bytes(vec![7; 1 << 20])]);
    slow.ask(
        opcode::QUERY,
        &request::query_with(Codec::V4, &insert, &values),
    );
    let select = format!("SELECT v FROM {}.wide WHERE k = 1", keyspace.name);
    let select = request::query(Codec::V4, &select);
    let before = proxy.memory_kib();
    for stream in 0..REPLIES {
        slow.send(stream as i16, opcode::QUERY, &select);
    }
    let mut other = RawClient::connect(proxy.address(), Codec::V5);
    let mut most = 0;
    for _ in 0..300 {
        other.query("SELECT keyspace_name FROM system_schema.keyspaces");
        most = most.max(proxy.memory_kib().saturating_sub(before));
    }
    assert!(most < 8 << 10, "{most} KiB for a client that does not read");
    for _ in 0..REPLIES {
        assert_eq!(slow.receive().rows().rows.len(), 1);
    }
}
