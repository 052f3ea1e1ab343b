//! The partitions that the proxy expects a text to write are the ones that Cassandra writes; and what the proxy expects
//! Cassandra to refuse, it refuses before it writes anything.

mod drafts;
mod refused;
mod samples;

use std::collections::BTreeSet;
use std::sync::Arc;

use narrows::protocol::types::Value;
use narrows::rewrite::written::Written;
use narrows::schema::{ColumnRow, TableSchema};

use crate::support::cluster::old_cluster;
use crate::support::random::{Random, seed};
use crate::support::request::{self, Parameters};
use crate::support::{Cluster, Codec, Frame, Keyspace, RawClient, opcode, scale, single_cluster};
use drafts::Draft;

/// The types of each table's partition key.
const KEYS: [&[&str]; 18] = [
    &["ascii"],
    &["text"],
    &["tinyint"],
    &["smallint"],
    &["int"],
    &["bigint"],
    &["varint"],
    &["uuid"],
    &["timeuuid"],
    &["timestamp"],
    &["date"],
    &["time"],
    &["boolean"],
    &["blob"],
    &["inet"],
    &["text", "int"],
    &["uuid", "date", "boolean"],
    &["blob", "timestamp", "bigint", "inet"],
];

type Key = Vec<u8>;

/// A table `t<number> ((k0, k1, …), c)` with a value `v` and a static `s`.
struct Table {
    name: String,
    types: &'static [&'static str],
    schema: Arc<TableSchema>,
}

impl Table {
    fn new(keyspace: &str, number: usize) -> Self {
        let types = KEYS[number];
        let column = |name: &str, kind: &str, position: i32, cql_type: &str| ColumnRow {
            name: name.into(),
            kind: kind.into(),
            position,
            clustering_order: if kind == "clustering" { "asc" } else { "none" }.into(),
            cql_type: cql_type.into(),
        };
        let key = types.iter().zip(0..).map(|(cql_type, position)| {
            column(&format!("k{position}"), "partition_key", position, cql_type)
        });
        let mut columns: Vec<_> = key.collect();
        columns.push(column("c", "clustering", 0, "int"));
        columns.push(column("v", "regular", -1, "int"));
        columns.push(column("s", "static", -1, "int"));
        let table = format!("t{number}");
        let schema = TableSchema::from_rows(keyspace, &table, columns, Vec::new(), Vec::new());
        Self {
            name: format!("{keyspace}.{table}"),
            types,
            schema: Arc::new(schema.expect("a table")),
        }
    }

    fn key_names(&self) -> String {
        let names = (0..self.types.len()).map(|position| format!("k{position}"));
        names.collect::<Vec<_>>().join(", ")
    }
}

fn create(number: usize) -> String {
    let columns = KEYS[number].iter().enumerate();
    let defined = columns.map(|(at, cql_type)| format!("k{at} {cql_type}, "));
    let names: Vec<_> = (0..KEYS[number].len()).map(|at| format!("k{at}")).collect();
    format!(
        "CREATE TABLE t{number} ({}c int, v int, s int static, PRIMARY KEY (({}), c))",
        defined.collect::<String>(),
        names.join(", ")
    )
}

fn keyspace(cluster: &Cluster) -> (Keyspace, Vec<Table>) {
    let creates: Vec<String> = (0..KEYS.len()).map(create).collect();
    let creates: Vec<&str> = creates.iter().map(String::as_str).collect();
    let keyspace = Keyspace::create(cluster, &creates);
    let tables = (0..KEYS.len()).map(|number| Table::new(&keyspace.name, number));
    let tables = tables.collect();
    (keyspace, tables)
}

/// What the proxy says of a request.
fn told(table: &Table, text: &str, values: &[request::Value]) -> Option<BTreeSet<Key>> {
    let value = |value: &'_ request::Value| match value {
        request::Value::Null => (None, None, false),
        request::Value::Unset => (None, None, true),
        request::Value::Bytes(bytes) => (None::<&str>, Some(bytes.clone()), false),
    };
    let owned: Vec<_> = values.iter().map(value).collect();
    let values: Vec<(Option<&str>, Value<'_>)> = owned
        .iter()
        .map(|(name, bytes, unset)| match bytes {
            Some(bytes) => (*name, Value::Bytes(bytes)),
            None if *unset => (*name, Value::Unset),
            None => (*name, Value::Null),
        })
        .collect();
    let keys = Written::parse(text, None, &table.schema)?.keys(&values)?;
    let bytes: Vec<Key> = keys.iter().map(|key| key.bytes().to_vec()).collect();
    let set: BTreeSet<Key> = bytes.iter().cloned().collect();
    assert_eq!(set.len(), bytes.len(), "a key twice: {text}");
    Some(set)
}

/// Asks as QUERY.
fn query(client: &mut RawClient, text: &str, values: &[request::Value]) -> Frame {
    let body = request::query_with(client.codec, text, &Parameters::values(values));
    client.ask(opcode::QUERY, &body)
}

/// The keys of rows whose column, `c` or `s`, has this number. Serialized apart from the proxy's own code.
fn keys_with(client: &mut RawClient, table: &Table, column: &str, number: i32) -> BTreeSet<Key> {
    let (names, name) = (table.key_names(), &table.name);
    let rows = client.query(&format!("SELECT {names}, c, s FROM {name}"));
    let rows = rows.rows();
    let number = number.to_be_bytes();
    let matching = (0..rows.rows.len()).filter(|row| rows.get(*row, column) == Some(&number));
    let key = |row: usize| {
        let part = |at: usize| rows.rows[row][at].clone().expect("a key");
        if table.types.len() == 1 {
            return part(0);
        }
        let parts = (0..table.types.len()).map(part).flat_map(|part| {
            let length = u16::try_from(part.len()).expect("short").to_be_bytes();
            [&length[..], &part, &[0]].concat()
        });
        parts.collect()
    };
    matching.map(key).collect()
}

/// Runs one write, and compares.
fn check(client: &mut RawClient, table: &Table, draft: &Draft, what: &str) {
    let text = &draft.text;
    let told = told(table, text, &draft.values);
    let told = told.unwrap_or_else(|| panic!("{what}: not told: {text} {:?}", draft.values));
    if draft.deletes {
        drafts::fill(client, table, draft.number);
    }
    let before = keys_with(client, table, draft.column, draft.number);
    let reply = query(client, text, &draft.values);
    assert_eq!(reply.error(), None, "{what}: {text} {:?}", draft.values);
    let after = keys_with(client, table, draft.column, draft.number);
    let written: BTreeSet<Key> = match draft.deletes {
        true => before.difference(&after).cloned().collect(),
        false => after,
    };
    assert_eq!(told, written, "{what}: {text} {:?}", draft.values);
}

fn compare(cluster: &Cluster) {
    let seed = seed();
    let what = format!("SEED={seed}");
    let mut random = Random::new(seed);
    let (_keyspace, tables) = keyspace(cluster);
    let mut client = RawClient::connect(cluster.node(), Codec::V5);
    for table in &tables {
        for number in 1..=i32::try_from(24 * scale()).expect("an int") {
            let draft = Draft::make(table, number, &mut random);
            check(&mut client, table, &draft, &what);
        }
        for draft in drafts::each_sample_in_json(table, 1_000_000) {
            check(&mut client, table, &draft, &what);
        }
    }
}

#[test]
fn cassandra_5_0_writes_the_partitions_that_we_expect() {
    compare(&single_cluster());
}

#[test]
fn cassandra_4_1_writes_the_partitions_that_we_expect() {
    compare(&old_cluster());
}
