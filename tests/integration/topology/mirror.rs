//! `mirror`: every node at an address of its own.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use super::{ANSWERED, CODECS, ODD, assert_no_real_address, both_ways, shown};
use crate::support::request::{self, Parameters, Value};
use crate::support::{Cluster, Codec, Proxy, RawClient, cluster, eventually, opcode};

/// A proxy that mirrors 127.0.1.k at 127.NETWORK.1.k.
fn mirror(cluster: &Cluster, network: u8) -> (Proxy, [SocketAddr; 3]) {
    let proxy = Proxy::builder(cluster.nodes())
        .set("topology.mode", "mirror")
        .set("topology.network", &format!("127.{network}.0.0/16"))
        .start();
    let port = proxy.address().port();
    let nodes = [1, 2, 3].map(|number| SocketAddr::from(([127, network, 1, number], port)));
    for node in nodes {
        eventually("every node has a listener", || {
            std::net::TcpStream::connect(node).ok()
        });
    }
    (proxy, nodes)
}

#[test]
fn every_listener_leads_to_its_own_node() {
    let cluster = cluster();
    let (_proxy, nodes) = mirror(&cluster, 71);
    for (mirrored, real) in nodes.iter().zip(cluster.nodes()) {
        let ask = |address| {
            let mut client = RawClient::connect(address, Codec::V5);
            let rows = client.query("SELECT host_id, tokens, gossip_generation FROM system.local");
            rows.rows().rows
        };
        assert_eq!(ask(*mirrored), ask(*real));
    }
}

#[test]
fn rows_show_the_mirrored_addresses_of_all_nodes() {
    let cluster = cluster();
    let (_proxy, nodes) = mirror(&cluster, 72);
    let all: HashSet<IpAddr> = nodes.iter().map(|node| node.ip()).collect();
    let port = i32::from(nodes[0].port()).to_be_bytes();
    for (codec, node) in CODECS.iter().zip(nodes.iter().cycle()) {
        let mut client = RawClient::connect(*node, *codec);
        let local = client.query("SELECT * FROM system.local").rows();
        for column in ["rpc_address", "listen_address", "broadcast_address"] {
            assert_eq!(shown(local.only(column)), node.ip(), "{column}");
        }
        assert_eq!(local.only("rpc_port"), Some(&port[..]));
        let peers = client.query("SELECT * FROM system.peers").rows();
        let v2 = client.query("SELECT * FROM system.peers_v2").rows();
        let mut seen = HashSet::from([node.ip()]);
        for row in 0..2 {
            seen.insert(shown(peers.get(row, "rpc_address")));
            assert_eq!(
                shown(peers.get(row, "peer")),
                shown(peers.get(row, "rpc_address"))
            );
            assert!(all.contains(&shown(v2.get(row, "native_address"))));
            assert_eq!(v2.get(row, "native_port"), Some(&port[..]));
        }
        assert_eq!(seen, all);
    }
}

#[test]
fn no_form_of_select_shows_a_real_address() {
    let cluster = cluster();
    let (_proxy, nodes) = mirror(&cluster, 73);
    for codec in CODECS {
        let mut direct = RawClient::connect(cluster.node(), codec);
        let mut client = RawClient::connect(nodes[0], codec);
        for text in ANSWERED.iter().chain(ODD) {
            let through = both_ways(&mut client, text);
            for reply in through.iter().filter(|reply| reply.error().is_none()) {
                assert_no_real_address(reply, text);
            }
            if ANSWERED.contains(text) {
                for (direct, through) in both_ways(&mut direct, text).iter().zip(&through) {
                    assert_eq!(direct.rows().metadata, through.rows().metadata, "{text}");
                }
            }
        }
    }
}

#[test]
fn conditions_counts_and_functions_see_what_is_shown() {
    let cluster = cluster();
    let (_proxy, nodes) = mirror(&cluster, 74);
    let (own, other) = (nodes[0], nodes[1].ip());
    let mut client = RawClient::connect(own, Codec::V5);
    let count = client.query("SELECT count(*) FROM system.peers").rows();
    assert_eq!(count.only("count"), Some(&2_i64.to_be_bytes()[..]));
    let text =
        format!("SELECT CAST(peer AS text) AS a, host_id FROM system.peers WHERE peer = '{other}'");
    let found = client.query(&text).rows();
    assert_eq!(found.only("a"), Some(other.to_string().as_bytes()));
    let real = RawClient::connect(cluster.nodes()[1], Codec::V4)
        .query("SELECT host_id FROM system.local")
        .rows();
    assert_eq!(found.only("host_id"), real.only("host_id"));
    let IpAddr::V4(other) = other else {
        panic!("IPv4")
    };
    let values = [Value::Bytes(other.octets().to_vec())];
    let body = request::query_with(
        Codec::V5,
        "SELECT JSON peer FROM system.peers WHERE peer = ?",
        &Parameters::values(&values),
    );
    let json = client.ask(opcode::QUERY, &body).rows();
    assert_eq!(
        json.only("[json]"),
        Some(format!("{{\"peer\": \"{other}\"}}").as_bytes())
    );
    let limited = client.query("SELECT peer FROM system.peers LIMIT 1").rows();
    assert_eq!(limited.rows.len(), 1);
}
