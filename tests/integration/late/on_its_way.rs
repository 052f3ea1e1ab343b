//! Writes that are on their way for longer than a guard waits, on a node that is reached through a relay: the client speaks
//! v3, which nobody else there does.

use narrows::wide_row::state::State;
use narrows::wide_row::store::{Detected, SplitId};

use super::{CHANGED, POLL_INTERVAL, ROWS, TOO_LATE, quick};
use crate::exactness::control::Control;
use crate::pipeline::world::{
    Client, PLAIN, World, days_ago, split_after_change, until_answered, until_completed,
};
use crate::support::cluster::single_cluster;
use crate::support::proxy::Builder;
use crate::support::relay::Relay;
use crate::support::{Codec, Frame, Proxy, RawClient, eventually, opcode, request};

const VERSION: u8 = 3;
const OUTCOME_UNKNOWN: i32 = 0x1100;
const MAX_STALENESS: &str = "1s";
/// More than `MAX_STALENESS`.
const SETTLE: &str = "2s";
const LATE_ROW: i32 = 5000;
const FILTER_KEYS: &str = "narrows_filter_keys";

/// Dropped in this order.
struct Path {
    /// Through the relay.
    client: RawClient,
    proxy: Proxy,
    /// A proxy that has a way of its own.
    through_other: Client,
    other: Proxy,
    _worker: Proxy,
    control: Control,
    relay: Relay,
    world: World,
    key: i32,
}

impl Path {
    fn start() -> Self {
        let (relay, world) = relayed();
        let proxy = on_its_own(world.proxy_at(&[relay.address]));
        let client = RawClient::connect(proxy.address(), Codec::V3);
        Self::around(relay, world, proxy, client)
    }

    /// The other proxy and the worker begin only now.
    fn around(relay: Relay, world: World, proxy: Proxy, client: RawClient) -> Self {
        let other = quick(world.proxy()).expecting(CHANGED).start();
        let worker = world.splitter().worker().set("pipeline.settle", SETTLE);
        let worker = worker.expecting(TOO_LATE).expecting(CHANGED).start();
        Self {
            client,
            proxy,
            through_other: Client::connect(other.address(), Codec::V4),
            other,
            control: world.control(),
            _worker: worker,
            relay,
            world,
            key: 0,
        }
    }

    fn id(&self) -> SplitId {
        self.world.id(self.key)
    }

    /// A partition of its own for each case.
    fn next_partition(&mut self) {
        self.key += 1;
        self.world.fill(self.key, ROWS);
    }

    /// Sends the write, and does not wait for its reply.
    fn send(&mut self) {
        send(&mut self.client, &self.world, self.key);
    }

    /// Sends the write, which stays on its way between the proxy and the node.
    fn send_and_hold(&mut self) {
        self.relay.hold_requests();
        self.send();
        eventually("it is on its way", || {
            self.relay.holds_requests().then_some(())
        });
    }

    /// The partition is split, and another proxy serves it.
    fn split(&mut self) {
        self.control.nominate(&self.id());
        until_completed(&self.control, &self.id());
        self.until_served(&self.world.select(self.key));
    }

    /// `text` reads all of it.
    fn until_served(&mut self, text: &str) {
        let expected = self.world.direct.scan(text);
        until_answered(&self.other, &mut self.through_other, text, &expected);
    }

    fn until_written(&mut self) {
        self.until_one_more(&self.world.select(self.key));
    }

    fn until_one_more(&mut self, text: &str) {
        eventually("the write takes effect", || {
            let rows = self.world.direct.scan(text).len();
            (rows == ROWS as usize + 1).then_some(())
        });
    }

    /// Somebody has written down which table has the name now.
    fn until_seen(&mut self) {
        let (keyspace, control) = (&self.world.keyspace, &self.world.control_keyspace);
        let place = format!("keyspace_name = '{}' AND table_name = 't'", keyspace.name);
        let now = format!("SELECT id FROM system_schema.tables WHERE {place}");
        let seen = format!(
            "SELECT seen_table_id FROM {}.watched_table WHERE catalog = 'watched' AND {place}",
            control.name
        );
        let direct = &mut self.world.direct;
        eventually("the new table is seen", || {
            (direct.scan(&now) == direct.scan(&seen)).then_some(())
        });
    }

    /// What was acknowledged has ended the split and is seen; of an unknown outcome nothing more is known.
    fn assert_kept(&mut self, reply: &Frame) {
        self.assert_this_kept(reply, &self.id(), &self.world.select(self.key));
    }

    fn assert_this_kept(&mut self, reply: &Frame, id: &SplitId, text: &str) {
        match reply.error() {
            None => {
                let standing = self.control.standing(id).expect("was nominated");
                assert!(!standing.is_in_service(), "{standing:?}");
                let expected = self.world.direct.scan(text);
                assert_eq!(expected.len(), ROWS as usize + 1);
                assert!(
                    self.through_other.scan(text) == expected,
                    "through the other"
                );
                let mut through = Client::connect(self.proxy.address(), Codec::V4);
                assert!(through.scan(text) == expected, "through the same");
            }
            Some((code, text)) => assert_eq!(code, OUTCOME_UNKNOWN, "{text}"),
        }
    }

    /// A row that was written just now keeps a partition open; this is a split of it all the same.
    fn split_written(&mut self) {
        let known = self.proxy.metric_sum(FILTER_KEYS, "");
        let id = self.id();
        self.control.bring(&[(id, State::Verifying)]);
        eventually("the proxy knows of the guard", || {
            (self.proxy.metric_sum(FILTER_KEYS, "") > known).then_some(())
        });
    }

    /// Whether somebody has written down that nothing of the partition may be guarded for a while.
    fn is_left_alone(&mut self) -> bool {
        let text = format!(
            "SELECT partition_key, unsettled_until FROM {}.wide_row",
            self.world.control_keyspace.name
        );
        let key = Some(self.id().key.bytes().to_vec());
        let rows = self.world.direct.scan(&text);
        rows.iter().any(|row| row[0] == key && row[1].is_some())
    }
}

/// A table on a node that is reached through a relay.
fn relayed() -> (Relay, World) {
    let cluster = single_cluster();
    let relay = Relay::before(cluster.node(), VERSION);
    (relay, World::create(&cluster, Codec::V4, 1, &[PLAIN]))
}

fn on_its_own(builder: Builder) -> Proxy {
    builder
        .set("control.poll_interval", POLL_INTERVAL)
        .set("control.max_staleness", MAX_STALENESS)
        .expecting("a write is not acknowledged")
        .expecting(TOO_LATE)
        .expecting(CHANGED)
        .start()
}

fn send(client: &mut RawClient, world: &World, key: i32) {
    let table = world.name("t");
    let text = format!("INSERT INTO {table} (k, c, v) VALUES ({key}, {LATE_ROW}, 'late')");
    client.send(1, opcode::QUERY, &request::query(Codec::V3, &text));
}

#[test]
fn a_proxy_stopped_across_a_guard_acknowledges_no_write_that_reads_miss() {
    let mut path = Path::start();
    path.next_partition();
    path.send_and_hold();
    path.proxy.signal("STOP");
    path.split();
    path.relay.release_requests();
    path.until_written();
    path.proxy.signal("CONT");
    let reply = path.client.receive();
    path.assert_kept(&reply);
}

#[test]
fn a_write_slower_than_a_guard_ends_the_split() {
    let mut path = Path::start();
    path.next_partition();
    path.send_and_hold();
    path.split();
    path.relay.release_requests();
    let reply = path.client.receive();
    path.assert_kept(&reply);
    // The same with a reply that is late: the copy has the row, and nobody can know that.
    path.next_partition();
    path.relay.close_gate();
    path.send();
    eventually("its reply is on its way", || {
        path.relay.holds_replies().then_some(())
    });
    path.split_written();
    path.relay.open_gate();
    let reply = path.client.receive();
    path.assert_kept(&reply);
}

#[test]
fn a_write_whose_outcome_is_unknown_ends_a_split_or_holds_off_the_next() {
    let mut path = Path::start();
    // Nothing is guarded: it may take effect at any time, so nothing is, for as long as a hint may take.
    path.next_partition();
    path.send_and_hold();
    path.relay.cut();
    assert!(
        !path.client.is_alive(),
        "the client hears that its connection has ended"
    );
    eventually("it is left alone", || path.is_left_alone().then_some(()));
    assert_eq!(path.control.try_nominate(&path.id()), Detected::NotYet);
    path.relay.release_requests();
    path.until_written();
    let text = path.world.select(path.key);
    let expected = path.world.direct.scan(&text);
    assert!(path.through_other.scan(&text) == expected);
    // Guarded meanwhile: that generation ends.
    path.client = RawClient::connect(path.proxy.address(), Codec::V3);
    path.next_partition();
    path.relay.close_gate();
    path.send();
    eventually("its reply is on its way", || {
        path.relay.holds_replies().then_some(())
    });
    path.split_written();
    path.relay.cut();
    path.relay.open_gate();
    let id = path.id();
    eventually("its generation has ended", || {
        let state = path.control.standing(&id)?.state;
        (state == State::Invalidated).then_some(())
    });
    eventually("it is left alone, too", || {
        path.is_left_alone().then_some(())
    });
    assert_eq!(path.control.try_nominate(&id), Detected::NotYet);
}

#[test]
fn a_write_from_before_its_table_was_watched_is_acknowledged_only_without_a_split() {
    for is_stopped in [false, true] {
        let (relay, mut world) = relayed();
        let control = &world.control_keyspace.name;
        let proxy = Proxy::builder(&[relay.address]).set("control.keyspace", control);
        let proxy = on_its_own(proxy.set("control.enabled", "true"));
        let mut client = RawClient::connect(proxy.address(), Codec::V3);
        world.fill(1, ROWS);
        eventually("what is watched is known", || {
            send(&mut client, &world, 0);
            client.receive().error().is_none().then_some(())
        });
        relay.hold_requests();
        send(&mut client, &world, 1);
        eventually("it is on its way", || relay.holds_requests().then_some(()));
        let mut path = Path::around(relay, world, proxy, client);
        path.key = 1;
        if is_stopped {
            path.proxy.signal("STOP");
        }
        path.split();
        path.relay.release_requests();
        path.until_written();
        if is_stopped {
            path.proxy.signal("CONT");
        }
        let reply = path.client.receive();
        path.assert_kept(&reply);
    }
}

#[test]
fn a_write_from_before_its_table_was_made_anew_is_acknowledged_only_without_a_split() {
    let mut path = Path::start();
    path.key = 1;
    path.send_and_hold();
    // The write is one to this table, too, of another partition.
    let table = path.world.name("t");
    path.world.keyspace.run(&[
        &format!("DROP TABLE {table}"),
        &format!("CREATE TABLE {table} (k int, c int, v text, w int, PRIMARY KEY ((k, c), v))"),
    ]);
    let (written, text) = (days_ago(2), "x".repeat(900));
    let insert = |row: i32| {
        format!(
            "INSERT INTO {table} (k, c, v, w) VALUES (1, {LATE_ROW}, '{row} {text}', 0) USING TIMESTAMP {written}"
        )
    };
    let inserts: Vec<String> = (0..ROWS).map(insert).collect();
    path.world.direct.write(&inserts);
    path.until_seen();
    let key: [&[u8]; 2] = [&1_i32.to_be_bytes(), &LATE_ROW.to_be_bytes()];
    let id = Control::id(path.world.tables()[0].clone(), &key);
    let text = format!("SELECT v FROM {table} WHERE k = 1 AND c = {LATE_ROW}");
    split_after_change(&path.control, &id);
    path.until_served(&text);
    path.relay.release_requests();
    path.until_one_more(&text);
    let reply = path.client.receive();
    path.assert_this_kept(&reply, &id, &text);
}
