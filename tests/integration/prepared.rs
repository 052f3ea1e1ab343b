//! Prepared statements: an id that the proxy or a node does not know is answered UNPREPARED, and then all is well.

use std::collections::HashSet;

use crate::support::request::{self, Item, Parameters, Value};
use crate::support::{Codec, Frame, Keyspace, Proxy, RawClient, cluster, frame, keyspace, opcode};

const TABLE: &[&str] = &["CREATE TABLE kv (k int PRIMARY KEY, v int)"];

type Id = (Vec<u8>, Vec<u8>);

/// Executes as drivers do: whoever says UNPREPARED gets the statement and is asked again. Returns how often that was.
fn execute(client: &mut RawClient, text: &str, id: &Id, values: &[Value]) -> (Frame, usize) {
    for prepared in 0..3 {
        let body = request::execute(client.codec, id, &Parameters::values(values));
        let reply = client.ask(opcode::EXECUTE, &body);
        if reply.error().is_none_or(|(code, _)| code != 0x2500) {
            assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
            return (reply, prepared);
        }
        assert_eq!(reply.unprepared_id(), id.0);
        assert_eq!(client.prepare(text), *id, "ids follow from the statement");
    }
    panic!("{text} stays unprepared");
}

#[test]
fn an_unknown_id_is_named_in_the_answer() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    for codec in Codec::ALL {
        let mut client = RawClient::connect(proxy.address(), codec);
        for id in [
            &b"0123456789abcdef"[..],
            b"x",
            b"",
            &[0xFF; 300],
            &[0xFF; 65_535],
        ] {
            let body = request::execute(codec, &(id.to_vec(), Vec::new()), &Parameters::default());
            assert_eq!(client.ask(opcode::EXECUTE, &body).unprepared_id(), id);
            let items = [
                Item::Text("INSERT INTO system.nothing (a) VALUES (1)", Vec::new()),
                Item::Prepared(id, vec![Value::int(1)]),
            ];
            let body = request::batch(codec, request::LOGGED, &items);
            assert_eq!(client.ask(opcode::BATCH, &body).unprepared_id(), id);
        }
        assert!(client.is_alive());
    }
}

#[test]
fn an_unknown_id_before_the_handshake_ends_nothing() {
    let cluster = cluster();
    let proxy = Proxy::start(&cluster);
    let mut client = RawClient::open(proxy.address(), Codec::V4);
    let id = vec![7; 65_535];
    let body = request::execute(Codec::V4, &(id.clone(), Vec::new()), &Parameters::default());
    assert_eq!(client.ask(opcode::EXECUTE, &body).unprepared_id(), id);
    assert_eq!(client.startup().opcode, opcode::READY);
    assert_eq!(
        proxy.metric("narrows_proxy_closes_total{reason=\"panic\"}"),
        0
    );
}

#[test]
fn after_a_change_of_the_table_the_client_must_prepare_again() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, TABLE);
    let proxy = Proxy::start(&cluster);
    let text = format!("SELECT * FROM {}.kv", keyspace.name);
    let mut client = RawClient::connect(proxy.address(), Codec::V4);
    let id = client.prepare(&text);
    keyspace::alone(cluster.node(), || {
        client.query(&format!("ALTER TABLE {}.kv ADD w int", keyspace.name))
    });
    // Nodes that had it have dropped it; where the proxy prepares it, the columns are not those the client was told.
    for _ in 0..6 {
        let mut other = RawClient::connect(proxy.address(), Codec::V4);
        let body = request::execute(Codec::V4, &id, &Parameters::default());
        assert_eq!(other.ask(opcode::EXECUTE, &body).unprepared_id(), id.0);
    }
}

#[test]
fn statements_prepared_on_one_connection_work_on_all() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, TABLE);
    let proxy = Proxy::start(&cluster);
    let text = format!("INSERT INTO {}.kv (k, v) VALUES (?, ?)", keyspace.name);
    for codec in Codec::ALL {
        let id = RawClient::connect(proxy.address(), codec).prepare(&text);
        for k in 0..6 {
            // Some of these meet a node that has not seen it; the proxy prepares it there.
            let mut other = RawClient::connect(proxy.address(), codec);
            let values = [Value::int(k), Value::int(k)];
            assert_eq!(execute(&mut other, &text, &id, &values).1, 0, "{codec:?}");
        }
    }
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    let rows = client.query(&format!("SELECT k FROM {}.kv", keyspace.name));
    assert_eq!(rows.rows().rows.len(), 6);
}

/// On one node all connections share the statements, and `single` presents one node.
#[test]
fn a_statement_works_on_connections_in_other_keyspaces() {
    let cluster = cluster();
    let [own, other] = [(); 2].map(|()| Keyspace::create(&cluster, TABLE));
    let proxy = Proxy::start(&cluster);
    for codec in Codec::ALL {
        let mut client = RawClient::connect(proxy.address(), codec);
        client.query(&format!("USE {}", own.name));
        let text = "INSERT INTO kv (k, v) VALUES (?, ?)";
        let id = client.prepare(text);
        // Held open together, these are spread over all nodes.
        let mut others = [(); 6].map(|()| RawClient::connect(proxy.address(), codec));
        for (k, client) in (0..).zip(&mut others) {
            // One is in no keyspace at all.
            if k > 0 {
                client.query(&format!("USE {}", other.name));
            }
            let values = [Value::int(k), Value::int(i32::from(codec.version))];
            assert_eq!(execute(client, text, &id, &values).1, 0, "{codec:?}");
        }
    }
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    let mut count = |keyspace: &Keyspace| {
        let rows = client.query(&format!("SELECT k FROM {}.kv", keyspace.name));
        rows.rows().rows.len()
    };
    assert_eq!((count(&own), count(&other)), (6, 0));
}

#[test]
fn many_executes_at_once_of_a_statement_that_the_node_lacks_are_all_answered() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, TABLE);
    let proxy = Proxy::start(&cluster);
    for codec in [Codec::V3, Codec::V4_LZ4, Codec::V5_LZ4] {
        let text = format!(
            "SELECT v FROM {}.kv WHERE k = {}",
            keyspace.name, codec.version
        );
        let mut first = RawClient::connect(proxy.address(), codec);
        let id = first.prepare(&text);
        // Held open together, these are spread over all nodes.
        let mut others = [(); 3].map(|()| RawClient::connect(proxy.address(), codec));
        let execute = request::execute(codec, &id, &Parameters::default());
        let other = request::query(codec, "SELECT keyspace_name FROM system_schema.keyspaces");
        for client in &mut others {
            let envelopes: Vec<u8> = (0..40)
                .flat_map(|stream| match stream % 2 {
                    0 => frame::request(codec, 0, stream, opcode::EXECUTE, &execute),
                    _ => frame::request(codec, 0, stream, opcode::QUERY, &other),
                })
                .collect();
            client.send_envelopes(&envelopes);
            let mut answered = HashSet::new();
            for _ in 0..40 {
                let reply = client.receive();
                assert_eq!(
                    reply.rows().rows.is_empty(),
                    reply.stream % 2 == 0,
                    "{codec:?}"
                );
                answered.insert(reply.stream);
            }
            assert_eq!(answered.len(), 40, "{codec:?}");
        }
    }
}

#[test]
fn the_registry_stays_within_its_bound_and_recovers() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, TABLE);
    let proxy = Proxy::builder(cluster.nodes())
        .set("limits.prepared_statements", "5")
        .start();
    let mut client = RawClient::connect(proxy.address(), Codec::V5_LZ4);
    let statements: Vec<(String, Id)> = (0..20)
        .map(|k| {
            let text = format!("SELECT v FROM {}.kv WHERE k = {k}", keyspace.name);
            let id = client.prepare(&text);
            (text, id)
        })
        .collect();
    assert_eq!(proxy.metric("narrows_proxy_prepared_statements"), 5);
    let again: usize = statements
        .iter()
        .map(|(text, id)| execute(&mut client, text, id, &[]).1)
        .sum();
    assert!(again >= 15, "{again} were forgotten");
    assert_eq!(proxy.metric("narrows_proxy_prepared_statements"), 5);
}

#[test]
fn a_restarted_proxy_has_statements_prepared_again() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, TABLE);
    let proxy = Proxy::start(&cluster);
    let text = format!("SELECT v FROM {}.kv WHERE k = ?", keyspace.name);
    let mut client = RawClient::connect(proxy.address(), Codec::V5);
    let id = client.prepare(&text);
    let values = [Value::int(1)];
    assert_eq!(execute(&mut client, &text, &id, &values).1, 0);
    let proxy = proxy.restart(Proxy::builder(cluster.nodes()));
    assert_ne!(client.next(), crate::support::client::Received::Broken);
    let mut client = RawClient::connect(proxy.address(), Codec::V5);
    assert_eq!(execute(&mut client, &text, &id, &values).1, 1);
    assert_eq!(execute(&mut client, &text, &id, &values).1, 0);
}

#[test]
fn statements_that_cassandra_forgot_are_prepared_again() {
    let cluster = cluster();
    let keyspace = Keyspace::create(&cluster, TABLE);
    let proxy = Proxy::start(&cluster);
    let text = format!("SELECT * FROM {}.kv WHERE k = ?", keyspace.name);
    for (codec, column) in [(Codec::V4, "w"), (Codec::V5, "x")] {
        let mut client = RawClient::connect(proxy.address(), codec);
        let id = client.prepare(&text);
        let alter = format!("ALTER TABLE {}.kv ADD {column} int", keyspace.name);
        keyspace::alone(cluster.node(), || client.query(&alter));
        let body = request::execute(codec, &id, &Parameters::values(&[Value::int(1)]));
        let reply = client.ask(opcode::EXECUTE, &body);
        assert_eq!(reply.unprepared_id(), id.0, "{codec:?}");
        let id = client.prepare(&text);
        let (reply, _) = execute(&mut client, &text, &id, &[Value::int(1)]);
        assert!(reply.rows().names.contains(&column.to_owned()), "{codec:?}");
    }
}
