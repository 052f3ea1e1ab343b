//! `single`: one node, which is the proxy.

use super::{CODECS, bound, shown};
use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, Proxy, RawClient, cluster, frame, opcode};

fn host_id(proxy: &Proxy, codec: Codec) -> Vec<u8> {
    let rows = RawClient::connect(proxy.address(), codec)
        .query("SELECT host_id FROM system.local")
        .rows();
    rows.only("host_id").expect("not null").to_vec()
}

#[test]
fn more_reads_at_once_than_the_proxy_works_on_are_refused_not_lost() {
    const READS: i16 = 2_000;
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    let body = request::query(Codec::V4, "SELECT * FROM system.local");
    let mut wire = Vec::new();
    for stream in 0..READS {
        wire.extend(frame::request(Codec::V4, 0, stream, opcode::QUERY, &body));
    }
    client.send_envelopes(&wire);
    let mut streams = std::collections::HashSet::new();
    for _ in 0..READS {
        let reply = client.receive();
        assert!(
            reply.error().is_none_or(|(code, _)| code == 0x1001),
            "{:?}",
            reply.error()
        );
        streams.insert(reply.stream);
    }
    assert_eq!(streams.len(), READS as usize);
    assert!(client.is_alive());
}

#[test]
fn the_only_node_is_the_proxy() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let mut client = RawClient::connect(proxy.address(), codec);
        let local = client.query("SELECT * FROM system.local").rows();
        for column in ["rpc_address", "listen_address", "broadcast_address"] {
            assert_eq!(shown(local.only(column)), proxy.address().ip(), "{column}");
        }
        let port = i32::from(proxy.address().port()).to_be_bytes();
        assert_eq!(local.only("rpc_port"), Some(&port[..]));
        assert_eq!(local.only("cluster_name"), Some(&b"main"[..]));
        for table in ["peers", "peers_v2"] {
            let peers = client
                .query(&format!("SELECT * FROM system.{table}"))
                .rows();
            assert_eq!(peers.rows.len(), 0);
            let count = client
                .query(&format!("SELECT count(*) FROM system.{table}"))
                .rows();
            assert_eq!(count.only("count"), Some(&0_i64.to_be_bytes()[..]));
        }
    }
}

#[test]
fn the_advertised_address_is_the_one_shown() {
    let cluster = cluster();
    let proxy = Proxy::builder(cluster.nodes())
        .set("topology.advertise", "10.9.8.7:1234")
        .start();
    let mut client = RawClient::connect(proxy.address(), Codec::V5);
    let local = client
        .query("SELECT rpc_address, rpc_port FROM system.local")
        .rows();
    assert_eq!(shown(local.only("rpc_address")).to_string(), "10.9.8.7");
    assert_eq!(local.only("rpc_port"), Some(&1234_i32.to_be_bytes()[..]));
}

#[test]
fn the_host_id_is_the_same_behind_every_node_and_after_a_restart() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    let first = host_id(&proxy, Codec::V4);
    // Held open together, these are spread over all nodes.
    let mut clients: Vec<RawClient> = (0..6)
        .map(|_| RawClient::connect(proxy.address(), Codec::V5))
        .collect();
    let mut real = std::collections::HashSet::new();
    for client in &mut clients {
        let rows = client.query("SELECT host_id FROM system.local").rows();
        assert_eq!(rows.only("host_id"), Some(&first[..]));
        let own = "SELECT value FROM system_views.settings WHERE name = 'listen_address'";
        real.insert(client.query(own).rows().rows);
    }
    assert!(real.len() > 1, "all were sent to one node");
    drop(clients);
    let proxy = proxy.restart(Proxy::builder(&cluster.nodes()[1..]));
    assert_eq!(host_id(&proxy, Codec::V3), first);
}

#[test]
fn conditions_compare_with_what_is_shown() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let mut client = RawClient::connect(proxy.address(), codec);
        let mut count = |text: &str, parameters: &Parameters| {
            let body = request::query_with(codec, text, parameters);
            client.ask(opcode::QUERY, &body).rows().rows.len()
        };
        let by_key = "SELECT rpc_address FROM system.local WHERE key = ?";
        assert_eq!(count(by_key, &bound("local")), 1);
        assert_eq!(count(by_key, &bound("remote")), 0);
        let named = Parameters {
            values: vec![Value::text("local")],
            names: vec!["k"],
            ..Parameters::default()
        };
        assert_eq!(
            count(
                "SELECT rpc_address FROM system.local WHERE key = :k",
                &named
            ),
            1
        );
        let limited = Parameters::values(&[Value::text("local"), Value::int(1)]);
        assert_eq!(
            count(
                "SELECT key FROM system.local WHERE key = ? LIMIT ?",
                &limited
            ),
            1
        );
        let real = Parameters::values(&[Value::Bytes(vec![127, 0, 1, 2])]);
        assert_eq!(
            count("SELECT peer FROM system.peers WHERE peer = ?", &real),
            0
        );
    }
}

#[test]
fn functions_and_json_see_what_is_shown() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    let ip = proxy.address().ip();
    let mut client = RawClient::connect(proxy.address(), Codec::V5);
    let cast = client
        .query("SELECT CAST(rpc_address AS text) AS a FROM system.local")
        .rows();
    assert_eq!(cast.only("a"), Some(ip.to_string().as_bytes()));
    let json = client
        .query("SELECT toJson(listen_address) AS a FROM system.local")
        .rows();
    assert_eq!(json.only("a"), Some(format!("\"{ip}\"").as_bytes()));
    let json = client
        .query("SELECT JSON rpc_address AS a, key FROM system.local")
        .rows();
    let expected = format!("{{\"a\": \"{ip}\", \"key\": \"local\"}}");
    assert_eq!(json.only("[json]"), Some(expected.as_bytes()));
}

#[test]
fn errors_about_these_tables_are_those_of_cassandra() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in CODECS {
        let ask = |address, text: &str| {
            let mut client = RawClient::connect(address, codec);
            let mut reply = client.ask(opcode::QUERY, &request::query(codec, text));
            reply.flags &= !1;
            reply
        };
        for text in [
            "SELECT nothing FROM system.local",
            "SELECT nothing(rpc_address) FROM system.peers",
            "SELECT * FROM system.peers WHERE peer = 'nonsense'",
            "SELECT * FROM system.local WHERE rack = 'r'",
            "SELECT * FROM system.local LIMIT 0",
            "SELECT * FROM system.locals",
        ] {
            assert_eq!(
                ask(cluster.node(), text),
                ask(proxy.address(), text),
                "{text}"
            );
        }
    }
}
