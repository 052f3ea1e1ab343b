//! What is said: something of everything that drivers say, in an order that leaves the tables as it found them.

use std::net::SocketAddr;

use super::talk::Talk;
use crate::support::frame::flag;
use crate::support::random::Random;
use crate::support::request::{self, Item, Parameters, Value};
use crate::support::{Codec, RawClient, opcode};

pub(crate) const TABLES: &[&str] = &[
    "CREATE TABLE kv (k int PRIMARY KEY, v text)",
    "CREATE TABLE wide (k int, c int, s text static, v blob, PRIMARY KEY (k, c))",
    "CREATE TABLE nothing (k int PRIMARY KEY)",
    "CREATE TABLE counts (k int PRIMARY KEY, n counter)",
    "CREATE TABLE types (k int PRIMARY KEY, a ascii, b bigint, c boolean, d decimal, e double, f float, g inet, \
     h smallint, i tinyint, j timestamp, l timeuuid, m uuid, n varint, o date, p time, q duration, \
     r list<int>, s set<text>, t map<int, text>, u tuple<int, text>, w frozen<map<int, frozen<list<text>>>>)",
];

const TYPES: &str = "INSERT INTO types (k, a, b, c, d, e, f, g, h, i, j, l, m, n, o, p, q, r, s, t, u, w) VALUES \
     (1, 'a', 2, true, 3.5, 4.5, 5.5, '10.1.2.3', 6, 7, 8000, 00000000-0000-1000-8080-808080808080, \
     00000000-0000-4000-8080-808080808080, 99999999999999999999, '2020-02-29', '12:34:56.789', 1mo2d3s, \
     [1, 2], {'x', 'y'}, {1: 'z'}, (1, 'two'), {3: ['four']})";

/// The row that conditional statements expect.
pub(crate) fn prepare_state(node: SocketAddr, keyspace: &str) {
    let mut client = RawClient::connect(node, Codec::V4);
    client.query(&format!(
        "INSERT INTO {keyspace}.kv (k, v) VALUES (900, 'there') IF NOT EXISTS"
    ));
}

pub(crate) fn say(talk: &mut Talk, keyspace: &str) {
    say_small(talk, keyspace);
    large_values(talk);
    many_at_once(talk);
}

/// Everything but the large.
pub(crate) fn say_small(talk: &mut Talk, keyspace: &str) {
    talk.ask_aside(opcode::OPTIONS, &[]);
    talk.startup();
    talk.ask_aside(opcode::OPTIONS, &[]);
    talk.query(&format!("USE {keyspace}"));
    talk.query(&format!("USE \"{keyspace}\""));
    plain_queries(talk);
    parameters(talk);
    paging(talk);
    conditional(talk);
    prepared(talk);
    batches(talk);
    errors(talk);
    flags(talk);
    talk.ask(
        "REGISTER",
        0,
        opcode::REGISTER,
        &request::register(&["STATUS_CHANGE"]),
    );
}

fn plain_queries(talk: &mut Talk) {
    for text in [
        "INSERT INTO kv (k, v) VALUES (1, 'one')",
        "INSERT INTO kv (k, v) VALUES (2, null)",
        "UPDATE wide SET s = 'static', v = 0xcafe WHERE k = 1 AND c = 1",
        "SELECT * FROM kv WHERE k = 1",
        "SELECT JSON * FROM kv WHERE k IN (1, 2)",
        "SELECT DISTINCT k, s FROM wide WHERE k = 1",
        "INSERT INTO kv (k, v) VALUES (50, 'old') USING TIMESTAMP 1000",
        "SELECT writetime(v), ttl(v), token(k), CAST(k AS text), toJson(v) FROM kv WHERE k = 50",
        // Warns that it reads everything, where the version can say so.
        "SELECT count(*) FROM nothing",
        "DELETE v FROM wide WHERE k = 1 AND c = 1",
        TYPES,
        "SELECT * FROM types WHERE k = 1",
        "UPDATE counts SET n = n + 1 WHERE k = 1",
        "SELECT keyspace_name, table_name FROM system_schema.tables WHERE keyspace_name = 'system_auth'",
        "  -- a comment\n SELECT v /* and another */ FROM kv WHERE k = 1 ;",
    ] {
        talk.query(text);
    }
}

fn parameters(talk: &mut Talk) {
    let insert = "INSERT INTO kv (k, v) VALUES (?, ?)";
    let some = Parameters {
        values: vec![Value::int(3), Value::text("three")],
        ..Parameters::default()
    };
    talk.query_with(insert, &some);
    let mut all = Parameters {
        consistency: Some(request::QUORUM),
        serial_consistency: Some(request::SERIAL),
        timestamp: Some(5_000_000_000_000_000),
        page_size: Some(10),
        skip_metadata: true,
        ..some.clone()
    };
    talk.query_with(insert, &all);
    if talk.codec().version == 5 {
        all.keyspace = Some("system_schema".to_owned());
        all.now_in_seconds = Some(1_600_000_000);
        all.values.clear();
        all.timestamp = None;
        talk.query_with(
            "SELECT keyspace_name FROM keyspaces WHERE keyspace_name = 'system'",
            &all,
        );
    }
    let named = Parameters {
        values: vec![Value::text("four"), Value::int(4)],
        names: vec!["text", "key"],
        ..Parameters::default()
    };
    talk.query_with("INSERT INTO kv (k, v) VALUES (:key, :text)", &named);
    talk.query_with(
        "SELECT * FROM kv WHERE k = ?",
        &Parameters::values(&[Value::int(4)]),
    );
    for odd in [Value::Null, Value::Unset, Value::Bytes(Vec::new())] {
        talk.query_with(insert, &Parameters::values(&[Value::int(5), odd.clone()]));
        talk.query_with("SELECT * FROM kv WHERE k = ?", &Parameters::values(&[odd]));
    }
}

fn paging(talk: &mut Talk) {
    for c in 0..7 {
        talk.query(&format!(
            "INSERT INTO wide (k, c, v) VALUES (7, {c}, 0x0{c})"
        ));
    }
    let mut page = Parameters {
        page_size: Some(3),
        ..Parameters::default()
    };
    loop {
        let rows = talk
            .query_with("SELECT * FROM wide WHERE k = 7", &page)
            .rows();
        page.paging_state = rows.paging_state;
        if page.paging_state.is_none() {
            break;
        }
    }
    page.paging_state = Some(b"not a paging state".to_vec());
    talk.query_with("SELECT * FROM wide WHERE k = 7", &page);
}

fn conditional(talk: &mut Talk) {
    for text in [
        "DELETE FROM kv WHERE k = 900 IF EXISTS",
        "INSERT INTO kv (k, v) VALUES (900, 'new') IF NOT EXISTS",
        "INSERT INTO kv (k, v) VALUES (900, 'newer') IF NOT EXISTS",
        "UPDATE kv SET v = 'there' WHERE k = 900 IF v = 'other'",
        "UPDATE kv SET v = 'there' WHERE k = 900 IF v = 'new'",
    ] {
        talk.query(text);
    }
}

fn prepared(talk: &mut Talk) {
    let codec = talk.codec();
    let prepare = |talk: &mut Talk, text: &str| {
        let body = request::prepare(codec, text, None);
        // A node warns about USE when it first meets a statement, and then never again.
        talk.ask_aside(opcode::PREPARE, &body);
        talk.ask(text, 0, opcode::PREPARE, &body).prepared(codec)
    };
    let insert = prepare(talk, "INSERT INTO kv (k, v) VALUES (?, ?)");
    let select = prepare(talk, "SELECT v, k FROM kv WHERE k = :key");
    prepare(
        talk,
        "SELECT * FROM types WHERE k IN ? AND g = ? ALLOW FILTERING",
    );
    let execute = |talk: &mut Talk, label: &str, id, parameters: &Parameters| {
        let body = request::execute(codec, id, parameters);
        talk.ask(label, 0, opcode::EXECUTE, &body);
    };
    let values = [Value::int(6), Value::text("six")];
    execute(
        talk,
        "EXECUTE insert",
        &insert,
        &Parameters::values(&values),
    );
    let mut key = Parameters::values(&values[..1]);
    execute(talk, "EXECUTE select", &select, &key);
    key.skip_metadata = true;
    execute(talk, "EXECUTE without metadata", &select, &key);
    execute(talk, "EXECUTE with too few values", &insert, &key);
    let stale = (select.0.clone(), b"stale metadata id".to_vec());
    execute(talk, "EXECUTE with another metadata id", &stale, &key);
    let unknown = (b"0123456789abcdef".to_vec(), b"0123456789abcdef".to_vec());
    for (label, id) in [
        ("EXECUTE of an unknown id", unknown),
        ("EXECUTE of an empty id", (Vec::new(), Vec::new())),
    ] {
        let body = request::execute(codec, &id, &key);
        talk.ask_unpacked(label, 0, opcode::EXECUTE, &body);
    }
    if codec.version == 5 {
        let body = request::prepare(codec, "SELECT * FROM tables", Some("system_schema"));
        talk.ask_aside(opcode::PREPARE, &body);
        talk.ask("PREPARE with a keyspace", 0, opcode::PREPARE, &body);
    }
}

fn batches(talk: &mut Talk) {
    let codec = talk.codec();
    let text = "INSERT INTO kv (k, v) VALUES (?, 'b')";
    let body = request::prepare(codec, text, None);
    talk.ask_aside(opcode::PREPARE, &body);
    let (id, _) = talk.ask(text, 0, opcode::PREPARE, &body).prepared(codec);
    let mixed = || {
        [
            Item::Text("INSERT INTO kv (k, v) VALUES (10, 'a')", Vec::new()),
            Item::Text(text, vec![Value::int(11)]),
            Item::Prepared(&id, vec![Value::int(12)]),
        ]
    };
    let count = || {
        [Item::Text(
            "UPDATE counts SET n = n + 1 WHERE k = 2",
            Vec::new(),
        )]
    };
    let many: Vec<Item<'_>> = (1000..1200)
        .map(|k| Item::Prepared(&id, vec![Value::int(k)]))
        .collect();
    let unknown = [Item::Prepared(b"fedcba9876543210", Vec::new())];
    for (label, kind, items) in [
        ("logged", request::LOGGED, &mixed()[..]),
        ("unlogged", request::UNLOGGED, &mixed()),
        ("counter", request::COUNTER, &count()),
        ("counters in a logged one", request::LOGGED, &count()),
        ("no counters in a counter one", request::COUNTER, &mixed()),
        ("empty", request::LOGGED, &[]),
        ("of many, with a warning", request::UNLOGGED, &many),
        ("with an unknown id", request::LOGGED, &unknown),
        ("of an unknown kind", 9, &mixed()),
    ] {
        let body = request::batch(codec, kind, items);
        talk.ask_unpacked(&format!("BATCH {label}"), 0, opcode::BATCH, &body);
    }
}

fn errors(talk: &mut Talk) {
    for text in [
        "SELEC * FROM kv",
        "",
        ";",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM kv",
        "SELECT * FROM kv WHERE v = 'unindexed'",
        "SELECT * FROM \"Nowhere\".kv",
        "CREATE TABLE kv (k int PRIMARY KEY)",
        "CREATE TABLE bad (k int)",
        "DROP TABLE nowhere",
        "ALTER TABLE kv ADD v text",
        "USE nowhere",
        "INSERT INTO kv (k) VALUES ('text')",
        "SELECT * FROM kv WHERE k = ?",
        "TRUNCATE nowhere",
        "GRANT SELECT ON kv TO nobody",
        "LIST ROLES",
    ] {
        talk.query(text);
    }
    for consistency in [0x02, 0x03, 0x06, 0x08, 0x0A, 0x0B] {
        let asked = Parameters {
            consistency: Some(consistency),
            ..Parameters::default()
        };
        talk.query_with("SELECT * FROM kv WHERE k = 1", &asked);
        talk.query_with("INSERT INTO kv (k, v) VALUES (1, 'one')", &asked);
    }
    // The second STARTUP of a connection is refused, and changes nothing.
    let body = request::startup(talk.codec().compression_name());
    talk.ask("another STARTUP", 0, opcode::STARTUP, &body);
    let body = request::startup(None);
    talk.ask(
        "another STARTUP without compression",
        0,
        opcode::STARTUP,
        &body,
    );
    talk.query("SELECT * FROM kv WHERE k = 1");
}

fn flags(talk: &mut Talk) {
    let codec = talk.codec();
    let query = request::query(codec, "SELECT * FROM kv WHERE k = 1");
    talk.ask_unpacked("QUERY with tracing", flag::TRACING, opcode::QUERY, &query);
    let wrong = request::query(codec, "SELECT * FROM nowhere");
    talk.ask_unpacked(
        "QUERY with tracing and an error",
        flag::TRACING,
        opcode::QUERY,
        &wrong,
    );
    let prepare = request::prepare(codec, "SELECT * FROM kv WHERE k = 1", None);
    talk.ask_aside(opcode::PREPARE, &prepare);
    talk.ask_unpacked(
        "PREPARE with tracing",
        flag::TRACING,
        opcode::PREPARE,
        &prepare,
    );
    if codec.version > 3 {
        let mut payload = Vec::new();
        request::short(&mut payload, 2);
        request::string(&mut payload, "key");
        request::long_string(&mut payload, b"value");
        request::string(&mut payload, "null");
        request::int(&mut payload, -1);
        for (label, opcode, body) in [
            ("QUERY", opcode::QUERY, &query),
            ("PREPARE", opcode::PREPARE, &prepare),
        ] {
            let body = [&payload[..], body].concat();
            let label = format!("{label} with a custom payload");
            talk.ask(&label, flag::CUSTOM_PAYLOAD, opcode, &body);
        }
    }
}

/// Longer than a segment, both ways, with and without what compression can do.
fn large_values(talk: &mut Talk) {
    let noise = Random::new(1).bytes(700_000);
    let zeros = vec![0; 1_000_000];
    let edges = [131_000, 131_062, 131_063, 131_071, 131_072, 262_142];
    let insert = "INSERT INTO wide (k, c, v) VALUES (8, 0, ?)";
    let bodies = edges.iter().map(|length| noise[..*length].to_vec());
    for value in bodies.chain([noise.clone(), zeros]) {
        talk.query_with(insert, &Parameters::values(&[Value::Bytes(value)]));
        talk.query("SELECT v FROM wide WHERE k = 8 AND c = 0");
    }
    let text = format!(
        "SELECT v FROM kv WHERE k = 1 /* {} */",
        "long ".repeat(60_000)
    );
    talk.query(&text);
}

fn many_at_once(talk: &mut Talk) {
    let codec = talk.codec();
    let unknown = (b"0123456789abcdef".to_vec(), Vec::new());
    let select = request::prepare(codec, "SELECT v FROM kv WHERE k = ?", None);
    talk.ask_aside(opcode::PREPARE, &select);
    let requests: Vec<(u8, Vec<u8>)> = (0..150)
        .map(|number| match number % 5 {
            // One that the proxy answers itself, among others that it does not.
            0 => (
                opcode::EXECUTE,
                request::execute(codec, &unknown, &Parameters::default()),
            ),
            1 => (
                opcode::QUERY,
                request::query(codec, "SELECT * FROM nowhere"),
            ),
            2 => (opcode::PREPARE, select.clone()),
            _ => (
                opcode::QUERY,
                request::query(codec, "SELECT * FROM kv WHERE k = 1"),
            ),
        })
        .collect();
    talk.ask_together("many at once", &requests);
}

pub(crate) fn fill_wide_row(node: SocketAddr, keyspace: &str) {
    let mut client = RawClient::connect(node, Codec::V4);
    for c in 0..20 {
        let text = format!("INSERT INTO {keyspace}.wide (k, c, v) VALUES (9, {c}, ?)");
        let values = Parameters::values(&[Value::Bytes(vec![c; 1 << 20])]);
        let reply = client.ask(
            opcode::QUERY,
            &request::query_with(Codec::V4, &text, &values),
        );
        assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
    }
}

/// 20 MiB in one reply.
pub(crate) fn say_huge_page(talk: &mut Talk, keyspace: &str) {
    talk.startup();
    let text = format!("SELECT c, v FROM {keyspace}.wide WHERE k = 9");
    let body = request::query(talk.codec(), &text);
    let reply = talk.ask("a huge page", 0, opcode::QUERY, &body);
    assert_eq!(reply.rows().rows.len(), 20);
}
