//! Our parser beside Cassandra's: what we accept, it accepts, with the same bind variables.
//!
//! PREPARE does not run anything, and Cassandra checks the text before it looks for tables: error 0x2000 is about the
//! text alone.

use narrows::statement::select::parse_select;
use narrows::statement::term::Marker;
use narrows::statement::write::parse_write;

use crate::support::random::{Random, seed};
use crate::support::{Cluster, Codec, Keyspace, RawClient, opcode, request, scale, single_cluster};

const SYNTAX_ERROR: i32 = 0x2000;
const UNDERSTOOD: &str = include_str!("statements/understood.cql");
/// What came with Cassandra 5.0.
const UNDERSTOOD_SINCE_5: [&str; 3] = [
    "SELECT writetime(m['k']), ttl(s.f), maxwritetime(m['a'..'b']) FROM t",
    "SELECT (vector<float, 2>) [1.5, 2] FROM t",
    "SELECT (frozen<list<vector<int, 3>>>) ? FROM t",
];
const TABLES: &[&str] = &[
    "CREATE TABLE t (k int, c int, d int, v int, a int, b int, x text, m map<text, int>, s map<text, int>, l list<int>, json int, distinct int, count int, key int, PRIMARY KEY (k, c, d))",
];

/// The markers of a text that we understand.
fn markers(text: &str) -> Option<Vec<Marker>> {
    let select = parse_select(text).map(|select| select.markers);
    select.or_else(|| parse_write(text).map(|writes| writes.markers))
}

/// What Cassandra says of a text: the names of its bind variables, or an error code.
fn prepare(client: &mut RawClient, keyspace: &str, text: &str) -> Result<Vec<String>, i32> {
    let body = request::prepare(client.codec, text, Some(keyspace));
    let reply = client.ask(opcode::PREPARE, &body);
    match reply.error() {
        Some((code, _)) => Err(code),
        None => Ok(reply.bind_names(client.codec)),
    }
}

/// Cassandra must not refuse a text that we understand, and find the same markers. Says whether it could prepare it.
fn assert_agrees(client: &mut RawClient, keyspace: &str, text: &str, ours: &[Marker]) -> bool {
    match prepare(client, keyspace, text) {
        Err(code) => {
            assert_ne!(
                code, SYNTAX_ERROR,
                "we understand what Cassandra does not: {text}"
            );
            false
        }
        Ok(names) => {
            assert_eq!(names.len(), ours.len(), "{text}");
            for (name, marker) in names.iter().zip(ours) {
                if let Some(ours) = &marker.name {
                    assert_eq!(name, ours, "{text}");
                }
            }
            true
        }
    }
}

fn agrees_with(cluster: &Cluster, since_5: bool) {
    let keyspace = Keyspace::create(cluster, TABLES);
    let mut client = RawClient::connect(cluster.node(), Codec::V5);
    let newer = UNDERSTOOD_SINCE_5.iter().copied().filter(|_| since_5);
    let mut prepared = 0;
    for text in UNDERSTOOD.lines().chain(newer) {
        let ours = markers(text).unwrap_or_else(|| panic!("not understood: {text}"));
        prepared += usize::from(assert_agrees(&mut client, &keyspace.name, text, &ours));
    }
    assert!(prepared >= 55, "only {prepared} fit the table");
    for text in refused() {
        assert_eq!(markers(text), None, "{text}");
        let said = prepare(&mut client, &keyspace.name, text);
        assert_eq!(said, Err(SYNTAX_ERROR), "{text}");
    }
    random_texts(&mut client, &keyspace.name);
}

fn refused() -> impl Iterator<Item = &'static str> {
    let selects = include_str!("../../src/statement/select/tests/refused.cql");
    let writes = include_str!("../../src/statement/write/tests/refused.cql");
    selects.lines().chain(writes.lines())
}

/// Texts with a few tokens exchanged: most are nonsense, and those that we take for sense Cassandra must too.
fn random_texts(client: &mut RawClient, keyspace: &str) {
    let mut random = Random::new(seed());
    let texts: Vec<&str> = UNDERSTOOD.lines().collect();
    let pool: Vec<&str> = texts.iter().flat_map(|text| text.split(' ')).collect();
    let mut asked = 0;
    while asked < 300 * scale() {
        let mut tokens: Vec<&str> = texts[random.below(texts.len())].split(' ').collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(tokens.len());
            let other = pool[random.below(pool.len())];
            match random.below(4) {
                0 => drop(tokens.remove(at)),
                1 => tokens.insert(at, other),
                2 => tokens[at] = other,
                _ => tokens[at..].rotate_left(1),
            }
            if tokens.is_empty() {
                tokens.push("SELECT");
            }
        }
        let text = tokens.join(" ");
        // What came with 5.0 is tried above.
        let newer = ["vector", "ttl(", "writetime("]
            .iter()
            .any(|word| text.contains(word));
        if let Some(ours) = markers(&text).filter(|_| !newer) {
            assert_agrees(client, keyspace, &text, &ours);
            asked += 1;
        }
    }
}

#[test]
fn what_we_understand_cassandra_5_0_understands() {
    agrees_with(&single_cluster(), true);
}

#[test]
fn what_we_understand_cassandra_4_1_understands() {
    agrees_with(&crate::support::cluster::old_cluster(), false);
}

/// Each keyword without quotes as a column's name.
#[test]
fn the_same_words_are_reserved() {
    let cluster = single_cluster();
    let mut client = RawClient::connect(cluster.node(), Codec::V5);
    for word in include_str!("statements/keywords.txt").split_whitespace() {
        for text in [
            format!("SELECT a AS {word} FROM system.local"),
            format!("SELECT {word}(a) FROM system.local"),
            format!("SELECT ({word}) ? FROM system.local"),
            format!("SELECT a FROM system.local WHERE {word} = 1"),
            format!("SELECT a FROM system.local WHERE a = :{word}"),
        ] {
            let said = prepare(&mut client, "system", &text);
            let refused = said == Err(SYNTAX_ERROR);
            assert_eq!(markers(&text).is_none(), refused, "{text}: {said:?}");
        }
    }
}
