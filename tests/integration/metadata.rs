//! Replies composed from those of a table with another name are byte for byte what Cassandra says of the original.

use narrows::protocol::response;
use narrows::protocol::response::result::PreparedColumns;
use narrows::protocol::{Header, Version};
use narrows::rewrite::metadata::Columns;
use narrows::rewrite::rows::{Heading, Page, head};
use narrows::rewrite::warnings::Warnings;

use crate::support::cluster::old_cluster;
use crate::support::request::{self, Parameters, Value};
use crate::support::{Cluster, Codec, Frame, Keyspace, RawClient, opcode, single_cluster};

const CODECS: [Codec; 3] = [Codec::V3, Codec::V4, Codec::V5];

/// Columns behind the key, with a value each.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("v_ascii", "ascii", "'a'"),
    ("v_bigint", "bigint", "1"),
    ("v_blob", "blob", "0x"),
    ("v_boolean", "boolean", "true"),
    (
        "v_custom",
        "'org.apache.cassandra.db.marshal.LexicalUUIDType'",
        "0x000102030405060708090a0b0c0d0e0f",
    ),
    ("v_date", "date", "'2026-11-16'"),
    ("v_decimal", "decimal", "1.5"),
    ("v_double", "double", "1.5"),
    ("v_duration", "duration", "1h"),
    ("v_float", "float", "1.5"),
    ("v_inet", "inet", "'::1'"),
    ("v_int", "int", "7"),
    ("v_list", "list<duration>", "[1h, 2d]"),
    (
        "v_map",
        "map<smallint, frozen<set<tinyint>>>",
        "{1: {2, 3}}",
    ),
    ("v_set", "set<date>", "{'2026-11-16'}"),
    ("v_smallint", "smallint", "3"),
    ("v_text", "text", "''"),
    ("v_time", "time", "'12:00:00'"),
    ("v_timestamp", "timestamp", "0"),
    (
        "v_timeuuid",
        "timeuuid",
        "50554d6e-29bb-11e5-b345-feff819cdc01",
    ),
    ("v_tinyint", "tinyint", "2"),
    (
        "v_tuple",
        "tuple<int, frozen<map<text, duration>>, time>",
        "(1, {'a': 1h}, '12:00:00')",
    ),
    (
        "v_udt",
        "frozen<outer_type>",
        "{a: {day: '2026-11-16', every: 1h}, b: [1]}",
    ),
    ("v_open", "outer_type", "{b: [2, 3]}"),
    ("v_uuid", "uuid", "50554d6e-29bb-11e5-b345-feff819cdc01"),
    ("v_varint", "varint", "12345678901234567890"),
    (
        "v_null",
        "frozen<list<frozen<tuple<duration, smallint>>>>",
        "null",
    ),
];

/// Only 5.0 has these.
const VECTORS: &[(&str, &str, &str)] = &[
    ("w_floats", "vector<float, 3>", "[1, 2, 3]"),
    ("w_nested", "list<frozen<vector<duration, 1>>>", "[[1h]]"),
    ("w_texts", "vector<text, 2>", "['a', 'b']"),
];

const SELECTORS: &[&str] = &[
    "k, day, c",
    "v_int AS other, v_duration AS \"Quoted\"",
    "v_udt.a, v_udt.b",
    "v_map[1], v_set",
    "toTimestamp(v_timeuuid), toDate(v_timeuuid) AS d",
    "CAST(v_int AS text), CAST(v_smallint AS tinyint)",
    "writetime(v_duration), ttl(v_duration) AS t",
    "intAsBlob(v_int), blobAsInt(intAsBlob(v_int))",
    "v_int + 1, v_smallint * 2, -v_tinyint",
    "(duration)2h, (text)'x'",
    "JSON k, v_duration AS e",
    "count(*)",
    "count(v_duration), min(v_date), max(v_smallint)",
    "sum(v_tinyint), avg(v_int)",
    "min(v_time) AS earliest",
];

fn columns(vectors: bool) -> Vec<(&'static str, &'static str, &'static str)> {
    let vectors = if vectors { VECTORS } else { &[] };
    [COLUMNS, vectors].concat()
}

/// The original and a table of another name and key with the same columns, with the same two rows.
fn keyspace(cluster: &Cluster, vectors: bool) -> Keyspace {
    let columns = columns(vectors);
    let types: Vec<_> = columns
        .iter()
        .map(|(name, kind, _)| format!("{name} {kind}"))
        .collect();
    let table = |name: &str, hidden: &str, key: &str| {
        format!(
            "CREATE TABLE {name} (k int, day date, c text, {hidden} {}, PRIMARY KEY (({key}), day, c)) \
             WITH CLUSTERING ORDER BY (day DESC, c ASC)",
            types.join(", ")
        )
    };
    let keyspace = Keyspace::create(
        cluster,
        &[
            "CREATE TYPE inner_type (day date, every duration)",
            "CREATE TYPE outer_type (a frozen<inner_type>, b frozen<list<smallint>>)",
            &table("original", "", "k"),
            &table(
                "elsewhere_7",
                "narrows_generation int, narrows_bucket int,",
                "k, narrows_generation, narrows_bucket",
            ),
        ],
    );
    let names: Vec<_> = columns.iter().map(|column| column.0).collect();
    let values: Vec<_> = columns.iter().map(|column| column.2).collect();
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    for (table, hidden, key) in [
        ("original", "", ""),
        (
            "elsewhere_7",
            "narrows_generation, narrows_bucket, ",
            "5, 6, ",
        ),
    ] {
        for c in ["", "x"] {
            client.query(&format!(
                "INSERT INTO {}.{table} (k, day, c, {hidden}{}) VALUES (1, '2026-11-16', '{c}', {key}{}) USING TIMESTAMP 99",
                keyspace.name,
                names.join(", "),
                values.join(", ")
            ));
        }
    }
    keyspace
}

/// What follows the id of a PREPARED reply.
fn prepared(client: &mut RawClient, text: &str) -> ((Vec<u8>, Vec<u8>), Vec<u8>) {
    let reply = client.ask(opcode::PREPARE, &request::prepare(client.codec, text, None));
    assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
    let mut message = reply.message();
    message.int();
    message.short_bytes();
    (reply.prepared(client.codec), message.0.to_vec())
}

fn reply(client: &mut RawClient, opcode: u8, body: &[u8]) -> Frame {
    let reply = client.ask(opcode, body);
    assert_eq!(
        reply.opcode,
        opcode::RESULT,
        "{}: {:?}",
        client.asking,
        reply.error()
    );
    reply
}

/// A SELECT on the other table, read in v5: its columns, their id, and its reply.
struct Source {
    columns: Columns,
    id: Vec<u8>,
    reply: Frame,
}

fn source(client: &mut RawClient, keyspace: &str, selectors: &str, page_size: i32) -> Source {
    let text = format!(
        "SELECT {selectors} FROM {keyspace}.elsewhere_7 WHERE k = ? AND narrows_generation = ? AND narrows_bucket = ?"
    );
    let (id, rest) = prepared(client, &text);
    let described = PreparedColumns::read(&rest).expect("columns");
    assert_eq!(described.result_metadata_id, id.1, "{selectors}");
    let columns = Columns::read(described.result_metadata).expect("columns");
    let parameters = Parameters {
        skip_metadata: true,
        page_size: Some(page_size),
        ..Parameters::values(&[1, 5, 6].map(Value::int))
    };
    let reply = reply(
        client,
        opcode::EXECUTE,
        &request::execute(Codec::V5, &id, &parameters),
    );
    let id = id.1;
    Source { columns, id, reply }
}

impl Source {
    /// The original's reply in the form of `theirs`, of which only the paging state is taken.
    fn compose(
        &self,
        names: (Version, &str),
        theirs: &Frame,
        metadata: bool,
        changed: bool,
    ) -> Vec<u8> {
        let columns = self.columns.encode(names.0, names.1, "original");
        let heading = Heading {
            column_count: self.columns.count(),
            metadata: metadata.then_some(&columns),
            paging_state: Page::read(theirs.message().0).expect("rows").paging_state,
            changed_metadata_id: changed.then_some(&self.id),
        };
        let page = Page::read(self.reply.message().0).expect("rows");
        [&head(&heading, page.row_count), page.rows].concat()
    }
}

/// Says `selectors` of the original in every way that a client can, and composes each answer from the other table's.
fn compare(cluster: &Cluster, keyspace: &str, selectors: &str) {
    let mut ours = RawClient::connect(cluster.node(), Codec::V5);
    let [first, all] = [1, 100].map(|size| (size, source(&mut ours, keyspace, selectors, size)));
    let text = format!("SELECT {selectors} FROM {keyspace}.original WHERE k = ?");
    for codec in CODECS {
        let names = (Version::from_byte(codec.version).expect("ours"), keyspace);
        let mut client = RawClient::connect(cluster.node(), codec);
        client.asking = format!("{codec:?} {text}");
        let (id, _) = prepared(&mut client, &text);
        for (size, source) in [&first, &all] {
            for (skip, wrong) in [(false, false), (true, false), (false, true), (true, true)] {
                // Only v5 has ids of metadata, and so wrong ones.
                if wrong && codec.version < 5 {
                    continue;
                }
                let id = (id.0.clone(), if wrong { vec![7; 16] } else { id.1.clone() });
                let theirs = execute(&mut client, &id, skip, *size);
                let composed = source.compose(names, &theirs, !skip || wrong, wrong);
                let what = format!("{codec:?} by {size}, skip {skip}, wrong {wrong}: {text}");
                assert_eq!(composed, theirs.message().0, "{what}");
            }
        }
        // A QUERY has its own way through the server.
        let query = request::query(codec, &text.replace('?', "1"));
        let theirs = reply(&mut client, opcode::QUERY, &query);
        let composed = all.1.compose(names, &theirs, true, false);
        assert_eq!(composed, theirs.message().0, "{codec:?} {text}");
    }
}

fn execute(client: &mut RawClient, id: &(Vec<u8>, Vec<u8>), skip: bool, size: i32) -> Frame {
    let parameters = Parameters {
        skip_metadata: skip,
        page_size: Some(size),
        ..Parameters::values(&[Value::int(1)])
    };
    let body = request::execute(client.codec, id, &parameters);
    reply(client, opcode::EXECUTE, &body)
}

fn every_selector(cluster: &Cluster, vectors: bool) {
    let keyspace = keyspace(cluster, vectors);
    let mut names: Vec<_> = columns(vectors).iter().map(|column| column.0).collect();
    names.sort_unstable();
    let every = format!("k, day, c, {}", names.join(", "));
    let single = names.iter().map(|name| name.to_string());
    let others = SELECTORS.iter().map(|selectors| selectors.to_string());
    for selectors in single
        .chain(others)
        .chain([every.clone(), format!("JSON {every}")])
    {
        compare(cluster, &keyspace.name, &selectors);
    }
}

#[test]
fn composed_replies_are_those_of_cassandra_5_0() {
    every_selector(&single_cluster(), true);
}

#[test]
fn composed_replies_are_those_of_cassandra_4_1() {
    every_selector(&old_cluster(), false);
}

#[test]
fn warnings_are_written_as_cassandra_does() {
    for cluster in [single_cluster(), old_cluster()] {
        for codec in CODECS {
            let mut client = RawClient::connect(cluster.node(), codec);
            let text = "SELECT count(*) FROM system_schema.tables";
            let theirs = reply(&mut client, opcode::QUERY, &request::query(codec, text));
            let header = Header {
                version: theirs.version,
                flags: theirs.flags,
                stream: theirs.stream,
                opcode: theirs.opcode,
                length: 0,
            };
            let mut warnings = Warnings::default();
            let parts = response::warnings_and_message(header, &theirs.body);
            let (texts, _) = parts.expect("as its header says");
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            warnings.add(texts.clone());
            warnings.add(texts);
            assert_eq!(
                warnings == Warnings::default(),
                codec.version == 3,
                "{codec:?}"
            );
            let version = Version::from_byte(codec.version).expect("ours");
            let (flags, body) = warnings.before(version, theirs.message().0.to_vec());
            assert_eq!((flags, body), (theirs.flags, theirs.body), "{codec:?}");
        }
    }
}
