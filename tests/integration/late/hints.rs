//! A write that times out, and that Cassandra makes later: the coordinator keeps a hint for the one replica, which did not
//! answer.

use std::net::SocketAddr;

use narrows::wide_row::state::State;
use narrows::wide_row::store::Detected;

use super::{ROWS, quick};
use crate::pipeline::world::{
    Client, PLAIN, SPLIT_PATIENCE, World, replication, until_answered, until_completed,
};
use crate::support::{
    Cluster, Codec, RawClient, cluster_alone, eventually, eventually_within, opcode, request,
};

/// The node that is paused, counted from 1.
const PAUSED: usize = 3;
const MIRROR: &str = "127.81.0.0/16";
const UNAVAILABLE: i32 = 0x1000;
const OVERLOADED: i32 = 0x1001;
const WRITE_TIMEOUT: i32 = 0x1100;
const LATE_ROW: i32 = 5000;
/// What a proxy and its control session say of a node that does not answer.
const COMPLAINTS: [&str; 2] = ["no control connection", "could not be written down"];

/// Where a proxy shows this node: in the network of the mirror, with the node's own last two bytes.
fn mirrored(node: SocketAddr, port: u16) -> SocketAddr {
    let std::net::IpAddr::V4(ip) = node.ip() else {
        panic!("{node} is IPv4");
    };
    let [_, _, third, fourth] = ip.octets();
    SocketAddr::from(([127, 81, third, fourth], port))
}

/// Partitions that are on this node and on no other.
fn keys_on(cluster: &Cluster, world: &World, node: SocketAddr) -> impl Iterator<Item = i32> {
    let keyspace = world.keyspace.name.clone();
    let address = node.ip().to_string();
    let is_there = move |key: &i32| {
        let said = cluster.nodetool(&["getendpoints", &keyspace, "t", &key.to_string()]);
        said.lines().any(|line| line.trim() == address)
    };
    (1..).filter(is_there)
}

/// Makes a write whose only replica answers nothing, while its coordinator believes it to be alive.
fn time_out(cluster: &Cluster, client: &mut RawClient, text: &str) {
    let body = request::query(Codec::V4, text);
    eventually_within(SPLIT_PATIENCE, "it times out", || {
        let _paused = cluster.pause_node(PAUSED);
        match client.ask(opcode::QUERY, &body).error() {
            Some((WRITE_TIMEOUT, _)) => Some(()),
            // The node was found dead sooner, or the control keyspace was slow without it: nothing was written. It comes back,
            // and is seen by all, before the next attempt.
            Some((UNAVAILABLE | OVERLOADED, _)) => None,
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_write_that_timed_out_and_comes_by_a_hint_is_missing_nowhere() {
    let cluster = cluster_alone();
    let mut world = World::create(&cluster, Codec::V4, cluster.nodes().len(), &[PLAIN]);
    let (name, one) = (&world.keyspace.name, replication(1));
    let alter = format!("ALTER KEYSPACE {name} WITH replication = {{{one}}}");
    world.keyspace.run(&[&alter]);
    let keys: Vec<i32> = keys_on(&cluster, &world, cluster.nodes()[PAUSED - 1])
        .take(2)
        .collect();
    let [split, unsplit] = keys[..] else {
        panic!("two keys");
    };
    // Mirrored, a client knows which node it is connected to.
    let proxy = quick(world.proxy())
        .set("topology.mode", "mirror")
        .set("topology.network", MIRROR);
    let proxy = COMPLAINTS
        .into_iter()
        .fold(proxy, |proxy, text| proxy.expecting(text));
    let proxy = proxy.start();
    let mirrored = mirrored(cluster.node(), proxy.address().port());
    let mut client = eventually("the first node is mirrored", || {
        let _reached = std::net::TcpStream::connect(mirrored).ok()?;
        Some(RawClient::connect(mirrored, Codec::V4))
    });
    let worker = quick(world.splitter().worker()).start();
    let control = world.control();
    for key in [split, unsplit] {
        world.fill(key, ROWS);
    }
    let id = world.id(split);
    control.nominate(&id);
    until_completed(&control, &id);
    drop(worker);
    let mut through = Client::connect(mirrored, Codec::V4);
    let text = world.select(split);
    until_answered(&proxy, &mut through, &text, &world.direct.scan(&text));
    for key in [split, unsplit] {
        let table = world.name("t");
        let text = format!("INSERT INTO {table} (k, c, v) VALUES ({key}, {LATE_ROW}, 'late')");
        time_out(&cluster, &mut client, &text);
    }
    let standing = control.standing(&id).expect("was split");
    assert_eq!(standing.state, State::Invalidated);
    for key in [split, unsplit] {
        eventually("it is left alone for as long as a hint may take", || {
            (control.try_nominate(&world.id(key)) == Detected::NotYet).then_some(())
        });
        let text = world.select(key);
        eventually_within(SPLIT_PATIENCE, "the hint has come", || {
            let rows = world.direct.scan(&text);
            (rows.len() == ROWS as usize + 1).then_some(())
        });
        assert!(through.scan(&text) == world.direct.scan(&text), "{text}");
    }
}
