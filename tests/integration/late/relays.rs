//! Writes through proxies that have no `[[table]]` in their file: they follow a control keyspace that others made.

use narrows::wide_row::state::State;

use super::{Pair, ROWS, quick, recently};
use crate::pipeline::world::{PLAIN, World, until_completed};
use crate::support::client::Received;
use crate::support::keyspace::control_tables;
use crate::support::proxy::Builder;
use crate::support::relay::Relay;
use crate::support::request::{Parameters, Value};
use crate::support::{
    Cluster, Codec, Keyspace, Proxy, RawClient, cluster, eventually, opcode, request,
    single_cluster,
};

/// Only clients whose requests are held speak it.
const HELD: Codec = Codec::V3;
const HELD_VERSION: u8 = 3;
const REFRESHES: &str = "narrows_follow_refreshes_total";

fn without_tables(nodes: &[std::net::SocketAddr], control: &str) -> Builder {
    quick(Proxy::builder(nodes).set("control.keyspace", control))
}

#[test]
fn a_write_through_a_proxy_without_tables_ends_the_split() {
    let cluster = cluster();
    let mut pair = Pair::start(&cluster, PLAIN, "nothing is expected");
    pair.world.fill(1, ROWS);
    let generation = pair.split();
    // From its first connection on, ready or not.
    let control = &pair.world.control_keyspace.name;
    let relay = without_tables(cluster.nodes(), control).unready().start();
    let mut writing = RawClient::connect(relay.address(), Codec::V4);
    let (table, late) = (pair.world.name("t"), recently());
    writing.query(&format!(
        "INSERT INTO {table} (k, c, v) VALUES (1, 5000, 'late') USING TIMESTAMP {late}"
    ));
    pair.assert_ended(generation);
    pair.assert_same("a write through a relay", ROWS as usize + 1);
}

#[test]
fn a_proxy_that_is_told_not_to_look_stays_a_relay() {
    let cluster = cluster();
    let world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    let control = &world.control_keyspace.name;
    let relay = without_tables(cluster.nodes(), control)
        .set("control.enabled", "false")
        .start();
    let mut writing = RawClient::connect(relay.address(), Codec::V4);
    let table = world.name("t");
    writing.query(&format!("INSERT INTO {table} (k, c, v) VALUES (1, 1, 'x')"));
    assert_eq!(relay.metric_sum(REFRESHES, ""), 0);
    assert!(!relay.log().contains("a control keyspace was found"));
}

/// A relay with clients, before there is a control keyspace.
struct Before {
    idle: RawClient,
    writing: RawClient,
    proxy: Proxy,
    relay: Relay,
    keyspace: Keyspace,
    control: Keyspace,
}

impl Before {
    fn start(cluster: &Cluster) -> Self {
        let relay = Relay::before(cluster.node(), HELD_VERSION);
        let keyspace = Keyspace::create(cluster, &[PLAIN]);
        let control = Keyspace::create(cluster, &[]);
        let proxy = without_tables(&[relay.address], &control.name).start();
        Self {
            idle: RawClient::connect(proxy.address(), HELD),
            writing: RawClient::connect(proxy.address(), HELD),
            proxy,
            relay,
            keyspace,
            control,
        }
    }

    /// Sends a write that stays on its way.
    fn hold_write(&mut self, stream: i16) {
        let table = &self.keyspace.name;
        let text = format!("INSERT INTO {table}.t (k, c, v) VALUES (0, 0, 'on its way')");
        self.relay.hold_requests();
        let body = request::query(HELD, &text);
        self.writing.send(stream, opcode::QUERY, &body);
        eventually("it is on its way", || {
            self.relay.holds_requests().then_some(())
        });
    }

    fn make_control_keyspace(&self) {
        let tables = control_tables(&self.control.name);
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        self.control.run(&tables);
    }
}

#[test]
fn a_relay_that_finds_a_control_keyspace_later_ends_its_sessions_and_checks_new_ones() {
    let cluster = single_cluster();
    let mut before = Before::start(&cluster);
    let insert = format!(
        "INSERT INTO {}.t (k, c, v) VALUES (?, ?, ?)",
        before.keyspace.name
    );
    let mut early = RawClient::connect(before.proxy.address(), Codec::V4);
    let prepared = early.prepare(&insert);
    before.hold_write(9);
    assert_eq!(before.proxy.metric_sum(REFRESHES, ""), 0);
    before.make_control_keyspace();
    assert_eq!(before.idle.next(), Received::Closed);
    assert_eq!(early.next(), Received::Closed);
    // Somebody who reconnects is served while the write of another is on its way.
    let mut fresh = RawClient::connect(before.proxy.address(), Codec::V4);
    let execute = |k: i32| {
        let values = [Value::int(k), Value::int(5000), Value::text("late")];
        request::execute(Codec::V4, &prepared, &Parameters::values(&values))
    };
    let reply = fresh.ask_until_forwarded(opcode::EXECUTE, &execute(2));
    assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
    before.relay.release_requests();
    let reply = before.writing.receive();
    assert_eq!((reply.stream, reply.opcode), (9, opcode::RESULT));
    assert_eq!(before.writing.next(), Received::Closed);
    let keyspaces = [before.keyspace, before.control];
    let mut world = World::around(&cluster, Codec::V4, keyspaces, &[PLAIN]);
    let _worker = quick(world.splitter().worker()).start();
    let _other = quick(world.proxy()).start();
    let control = world.control();
    world.fill(1, ROWS);
    let id = world.id(1);
    control.nominate(&id);
    until_completed(&control, &id);
    eventually("the relay knows", || {
        (before.proxy.metric_sum("narrows_filter_keys", "") > 0).then_some(())
    });
    // The statement was prepared before anything could be watched.
    let reply = fresh.ask_until_forwarded(opcode::EXECUTE, &execute(1));
    assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
    let standing = control.standing(&id).expect("was nominated");
    assert_eq!(standing.state, State::Invalidated);
    drop((fresh, before.proxy));
}

#[test]
fn a_relay_whose_control_keyspace_is_dropped_forwards_writes_unchecked_again() {
    let cluster = single_cluster();
    let world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    let control = &world.control_keyspace;
    let proxy = without_tables(cluster.nodes(), &control.name)
        .expecting("the control keyspace is gone")
        .start();
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    let insert = format!(
        "INSERT INTO {} (k, c, v) VALUES (1, 1, 'x')",
        world.name("t")
    );
    client.query(&insert);
    assert!(proxy.metric_sum(REFRESHES, "ok") > 0);
    control.run(&[&format!("DROP KEYSPACE {}", control.name)]);
    eventually("it is a relay again", || {
        let log = proxy.log();
        log.contains("the control keyspace is gone").then_some(())
    });
    assert_eq!(client.next(), Received::Closed);
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    let reply = client.ask(opcode::QUERY, &request::query(Codec::V4, &insert));
    assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
}
