//! Events: schema changes pass, and nodes coming and going are shown as the topology has them.

use std::net::{SocketAddr, TcpStream};

use crate::support::cluster::StoppedNode;
use crate::support::response::Body;
use crate::support::{
    Cluster, Codec, Frame, Keyspace, Proxy, RawClient, cluster, cluster_alone, eventually,
    keyspace, opcode, request,
};

const NODE_EVENTS: &[&str] = &["STATUS_CHANGE", "TOPOLOGY_CHANGE"];

fn subscribe(address: SocketAddr, codec: Codec, kinds: &[&str]) -> RawClient {
    let mut client = RawClient::connect(address, codec);
    let mut reply = client.ask(opcode::REGISTER, &request::register(kinds));
    // Cassandra registers before it answers, so an event of another test may come first.
    while reply.opcode == opcode::EVENT {
        reply = client.receive();
    }
    assert_eq!(reply.opcode, opcode::READY, "{:?}", reply.error());
    client.asking = "an event".to_owned();
    client
}

#[test]
fn schema_events_pass_unchanged() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, &[]);
    let proxy = Proxy::start(&cluster);
    for (number, codec) in [Codec::V3, Codec::V4_LZ4, Codec::V5, Codec::V5_LZ4]
        .into_iter()
        .enumerate()
    {
        let mut both = [cluster.node(), proxy.address()]
            .map(|address| subscribe(address, codec, &["SCHEMA_CHANGE", "STATUS_CHANGE"]));
        let table = format!("{}.t{number}", keyspace.name);
        let mut client = RawClient::connect(proxy.address(), codec);
        keyspace::alone(cluster.node(), || {
            client.query(&format!("CREATE TABLE {table} (k int PRIMARY KEY)"))
        });
        let [direct, through] = both
            .each_mut()
            .map(|client| event_of(client, &keyspace.name));
        assert_eq!(direct.bytes(), through.bytes(), "{codec:?}");
    }
}

/// Whoever makes split tables does so in the clients' keyspaces; drivers must not learn of it.
#[test]
fn events_of_split_tables_are_kept_from_clients() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, &["CREATE TABLE t (k int PRIMARY KEY)"]);
    let control = Keyspace::create(&cluster, &[]);
    let name = &keyspace.name;
    let proxy = Proxy::builder(cluster.nodes())
        .set("control.keyspace", &control.name)
        .toml(&format!("[[table]]\nname = '{name}.t'\nshards = 4\n"))
        // If a poll comes before the end.
        .expecting("the table was changed")
        .start();
    let codecs = [
        Codec::V3,
        Codec::V4,
        Codec::V4_LZ4,
        Codec::V5,
        Codec::V5_LZ4,
    ];
    let mut direct = subscribe(cluster.node(), Codec::V4, &["SCHEMA_CHANGE"]);
    let mut through = codecs.map(|codec| subscribe(proxy.address(), codec, &["SCHEMA_CHANGE"]));
    let create = |table: &str| format!("CREATE TABLE {name}.{table} (k int PRIMARY KEY)");
    // The reply to whoever makes such a table himself is his.
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    let reply = keyspace::alone(cluster.node(), || client.query(&create("wide_t_2")));
    assert!(names(&reply, "wide_t_2"));
    let around = [
        create("wide_t_1"),
        create("wide_t_x"),
        create("wide_tt_1"),
        format!("DROP TABLE {name}.wide_t_1"),
        format!("ALTER TABLE {name}.t ADD v int"),
        create("last"),
    ];
    keyspace.run(&around.each_ref().map(String::as_str));
    let shown = ["wide_t_x", "wide_tt_1", "t", "last"];
    for client in &mut through {
        assert_eq!(tables_until_last(client, name), shown, "{:?}", client.codec);
    }
    let all = tables_until_last(&mut direct, name);
    assert_eq!(all.iter().filter(|table| *table == "wide_t_1").count(), 2);
    assert!(all.contains(&"wide_t_2".to_owned()) && all.len() == shown.len() + 3);
}

fn names(frame: &Frame, table: &str) -> bool {
    let mut windows = frame.body.windows(table.len());
    windows.any(|window| window == table.as_bytes())
}

/// The tables of this keyspace of which events came, in their order.
fn tables_until_last(client: &mut RawClient, keyspace: &str) -> Vec<String> {
    let mut tables = Vec::new();
    while tables.last().is_none_or(|table| table != "last") {
        let frame = event_of(client, keyspace);
        let mut body = Body(&frame.body);
        let words: Vec<String> = (0..5).map(|_| body.string()).collect();
        assert_eq!(
            (words[0].as_str(), words[2].as_str()),
            ("SCHEMA_CHANGE", "TABLE")
        );
        tables.push(words[4].clone());
    }
    tables
}

/// The next event of this keyspace; other tests change schemas too.
fn event_of(client: &mut RawClient, keyspace: &str) -> Frame {
    loop {
        let frame = client.receive();
        assert_eq!((frame.opcode, frame.stream), (opcode::EVENT, -1));
        let needle = keyspace.as_bytes();
        if frame
            .body
            .windows(needle.len())
            .any(|window| window == needle)
        {
            return frame;
        }
    }
}

/// A node goes and comes back once, for all that is to be seen of it: nodes take long to start.
#[test]
fn a_node_that_goes_and_comes_is_hidden_in_single_and_mirrored_in_mirror() {
    let cluster = cluster_alone();
    let single = Proxy::builder(cluster.nodes())
        .expecting("no control connection")
        .start();
    let mirror = Proxy::builder(cluster.nodes())
        .set("topology.mode", "mirror")
        .set("topology.network", "127.79.0.0/16")
        .expecting("no control connection")
        .start();
    let port = mirror.address().port();
    // The nodes' own last two bytes, in the network of the mirror.
    let mirrored = |number: u8| SocketAddr::from(([127, 79, 6, number], port));
    eventually("all nodes are mirrored", || {
        (1..=3)
            .all(|number| accepts(mirrored(number)))
            .then_some(())
    });
    // One session for each node; the one on the node that goes is lost with it.
    let mut hidden = [Codec::V4, Codec::V5, Codec::V3]
        .map(|codec| subscribe(single.address(), codec, NODE_EVENTS));
    let mut shown = subscribe(mirrored(1), Codec::V5_LZ4, NODE_EVENTS);
    let mut direct = subscribe(cluster.node(), Codec::V4, NODE_EVENTS);
    let stopped = cluster.stop_node(3);
    while_stopped(&cluster, &single, &stopped);
    assert_eq!(status_of(&mut direct), ("DOWN".into(), cluster.nodes()[2]));
    assert_eq!(status_of(&mut shown), ("DOWN".into(), mirrored(3)));
    eventually("its listener is gone", || {
        (!accepts(mirrored(3))).then_some(())
    });
    drop(stopped);
    until_up(&mut direct, cluster.nodes()[2]);
    until_up(&mut shown, mirrored(3));
    RawClient::connect(mirrored(3), Codec::V5).query("SELECT * FROM system.local");
    assert!(hidden.iter_mut().filter_map(answers_without_event).count() >= 2);
}

fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// New clients find a node that is there, and schema changes do not wait for the one that is not.
fn while_stopped(cluster: &Cluster, single: &Proxy, _stopped: &StoppedNode<'_>) {
    eventually("clients are served", || {
        for _ in 0..cluster.nodes().len() {
            let mut client = RawClient::open(single.address(), Codec::V5);
            if client.startup().opcode != opcode::READY {
                return None;
            }
        }
        Some(())
    });
    let mut client = RawClient::connect(single.address(), Codec::V5);
    let name = "while_a_node_is_down";
    client.query(&format!(
        "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ));
    client.query(&format!("DROP KEYSPACE {name}"));
}

/// Kind and address of a STATUS_CHANGE.
fn status_of(client: &mut RawClient) -> (String, SocketAddr) {
    loop {
        let frame = client.receive();
        assert_eq!((frame.opcode, frame.stream), (opcode::EVENT, -1));
        let mut body = Body(&frame.body);
        let kind = body.string();
        let change = body.string();
        let length = body.take(1)[0];
        assert_eq!(length, 4, "IPv4");
        let ip: [u8; 4] = body.take(4).try_into().expect("four bytes");
        let address = SocketAddr::from((ip, body.int() as u16));
        if kind == "STATUS_CHANGE" {
            return (change, address);
        }
    }
}

/// Cassandra may say DOWN more than once before it says UP.
fn until_up(client: &mut RawClient, address: SocketAddr) {
    loop {
        let (change, whose) = status_of(client);
        assert_eq!(whose, address);
        if change == "UP" {
            return;
        }
    }
}

/// Whether the connection is there still; an event on it fails the test.
fn answers_without_event(client: &mut RawClient) -> Option<()> {
    use crate::support::client::Received;
    let options = crate::support::frame::raw(client.codec.version, 0, 2, opcode::OPTIONS, &[]);
    client.try_send_raw(&client.framed(&options)).ok()?;
    match client.next() {
        Received::Frame(frame) => {
            assert_eq!(frame.opcode, opcode::SUPPORTED, "{frame:?}");
            Some(())
        }
        Received::Closed | Received::Broken => None,
    }
}
