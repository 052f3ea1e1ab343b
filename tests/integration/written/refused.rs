//! What has no keys, because Cassandra refuses it: alone, prepared, and with all of a batch that it is part of.

use super::{KEYS, Table, create, drafts, query, told};
use crate::support::cluster::old_cluster;
use crate::support::request::{self, Item, Parameters, Value};
use crate::support::{Cluster, Codec, Frame, Keyspace, RawClient, opcode, single_cluster};

/// `((k0 text, k1 int), c)`.
const TABLE: usize = 15;

fn cases() -> Vec<(&'static str, Vec<Value>)> {
    let mut cases: Vec<(&str, Vec<Value>)> = [
        "INSERT INTO t (k0, k1, c) VALUES (null, 1, 1)",
        "INSERT INTO t (k0, k1, c) VALUES ('a', null, 1)",
        "INSERT INTO t (k0, c) VALUES ('a', 1)",
        "INSERT INTO t (k0, s) VALUES ('a', 1)",
        "INSERT INTO t (k0, k0, k1, c) VALUES ('a', 'b', 1, 1)",
        "UPDATE t SET v = 1 WHERE k0 = null AND k1 = 1 AND c = 1",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND k1 IN (1, null) AND c = 1",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND c = 1",
        "UPDATE t SET s = 1 WHERE k0 = 'a'",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND k1 > 0 AND c = 1",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND k1 = 1 AND k1 = 2 AND c = 1",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND k1 IN (1) AND k1 IN (1, 2) AND c = 1",
        "UPDATE t SET v = 1 WHERE token(k0, k1) = 5 AND c = 1",
        "UPDATE t SET v = 1 WHERE (k0, k1) = ('a', 1) AND c = 1",
        "UPDATE t SET v = 1 WHERE (k0) = ('a') AND k1 = 1 AND c = 1",
        "UPDATE t SET v = 1 WHERE (k0, k1) IN (('a', 1)) AND c = 1",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND c = 1 IF v = 1",
        "DELETE FROM t WHERE k0 = null AND k1 = 1",
        "DELETE FROM t WHERE k0 = 'a' AND k1 IN (null)",
        "DELETE FROM t WHERE k0 = 'a'",
        "DELETE FROM t WHERE k0 = 'a' AND c > 1",
        "DELETE FROM t WHERE k0 = 'a' AND k1 != 1",
        "DELETE FROM t WHERE k0 = 'a' AND k1 <= 1",
        "DELETE FROM t WHERE token(k0, k1) > 5",
        "DELETE FROM t WHERE (k0, k1) = ('a', 1)",
        "DELETE v FROM t WHERE c = 1",
        "INSERT INTO t JSON '{\"k0\": \"a\", \"c\": 1}'",
        "INSERT INTO t JSON '{\"k0\": \"a\", \"c\": 1}' DEFAULT UNSET",
        "INSERT INTO t JSON '{\"k0\": null, \"k1\": 1, \"c\": 1}'",
    ]
    .map(|text| (text, Vec::new()))
    .into();
    let texts = [
        "INSERT INTO t (k0, k1, c) VALUES ('a', ?, 1)",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND k1 = ? AND c = 1",
        "UPDATE t SET s = 1 WHERE k0 = 'a' AND k1 IN (1, ?)",
        "UPDATE t SET v = 1 WHERE k0 = 'a' AND k1 IN ? AND c = 1",
        "DELETE FROM t WHERE k0 = 'a' AND k1 = ?",
        "DELETE FROM t WHERE k0 = 'a' AND k1 IN ?",
        "INSERT INTO t JSON ?",
    ];
    for text in texts {
        cases.extend([Value::Null, Value::Unset].map(|value| (text, vec![value])));
        // Too few values, and too many.
        cases.push((text, Vec::new()));
        cases.push((text, vec![Value::int(1), Value::int(1)]));
    }
    for null in [-1_i32, -2] {
        let list = [2, 4, 1, null].map(i32::to_be_bytes).concat();
        cases.push((texts[3], vec![Value::Bytes(list.clone())]));
        cases.push((texts[5], vec![Value::Bytes(list)]));
    }
    let long = Value::Bytes(vec![b'a'; 65_536]);
    cases.push((
        "INSERT INTO t (k0, k1, c) VALUES (?, 1, 1)",
        vec![long.clone()],
    ));
    cases.push(("DELETE FROM t WHERE k0 = ? AND k1 = 1", vec![long.clone()]));
    cases.push((
        "UPDATE t SET s = 1 WHERE k0 IN ('a', ?) AND k1 = 1",
        vec![long],
    ));
    cases
}

fn is_refused(reply: &Frame, what: &str) {
    let (code, message) = reply.error().unwrap_or_else(|| panic!("taken: {what}"));
    // Anything else might have been written.
    let refused = [0x2200, 0x2000, 0x000A, 0x0000].contains(&code);
    assert!(refused, "{what}: {code:#x} {message}");
}

/// In a frame, alone and behind a statement that is good.
fn in_batches(client: &mut RawClient, good: &str, text: &str, values: &[Value]) {
    for items in [
        vec![Item::Text(text, values.to_vec())],
        vec![Item::Text(good, vec![]), Item::Text(text, values.to_vec())],
    ] {
        let body = request::batch(Codec::V5, request::LOGGED, &items);
        is_refused(&client.ask(opcode::BATCH, &body), text);
    }
    let batch = format!("BEGIN BATCH {good}; {text}; APPLY BATCH");
    is_refused(&query(client, &batch, values), &batch);
}

fn refuses(cluster: &Cluster) {
    let keyspace = Keyspace::create(cluster, &[&create(TABLE)]);
    let table = Table::new(&keyspace.name, TABLE);
    assert_eq!(KEYS[TABLE], ["text", "int"]);
    let mut client = RawClient::connect(cluster.node(), Codec::V5);
    let named = |text: &str| {
        let (before, after) = text.split_once(" t ").expect("the table's name");
        format!("{before} {} {after}", table.name)
    };
    let good = named("INSERT INTO t (k0, k1, c) VALUES ('good', 1, 1)");
    for (text, values) in cases() {
        let text = named(text);
        let told = told(&table, &text, &values);
        let long = text.contains(" IN ('a', ?) ");
        let none = told.map(|keys| keys.len());
        assert_eq!(none, Some(usize::from(long)), "{text} {values:.60?}");
        is_refused(&query(&mut client, &text, &values), &text);
        let prepare = request::prepare(Codec::V5, &text, None);
        let prepared = client.ask(opcode::PREPARE, &prepare);
        if prepared.error().is_none() {
            let id = prepared.prepared(Codec::V5);
            let body = request::execute(Codec::V5, &id, &Parameters::values(&values));
            is_refused(&client.ask(opcode::EXECUTE, &body), &text);
        }
        in_batches(&mut client, &good, &text, &values);
        let rows = client
            .query(&format!("SELECT * FROM {}", table.name))
            .rows();
        assert!(rows.rows.is_empty(), "written: {text}");
    }
    nothing_is_deleted(&mut client, &table, &named);
}

/// The same deletions take nothing away.
fn nothing_is_deleted(client: &mut RawClient, table: &Table, named: &dyn Fn(&str) -> String) {
    drafts::fill(client, table, 1);
    client.query(&named("INSERT INTO t (k0, k1, c, v) VALUES ('a', 1, 1, 1)"));
    let select = format!("SELECT * FROM {}", table.name);
    let before = client.query(&select).rows();
    for (text, values) in cases() {
        is_refused(&query(client, &named(text), &values), text);
    }
    assert_eq!(before, client.query(&select).rows());
}

#[test]
fn cassandra_5_0_refuses_what_we_expect() {
    refuses(&single_cluster());
}

#[test]
fn cassandra_4_1_refuses_what_we_expect() {
    refuses(&old_cluster());
}
