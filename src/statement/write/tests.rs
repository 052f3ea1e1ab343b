//! What is understood of writes, and what is not. Every text here was tried on Cassandra.

use super::*;
use crate::statement::term::{Literal, TermKind};

fn parse(text: &str) -> Writes {
    parse_write(text).unwrap_or_else(|| panic!("not understood: {text}"))
}

fn one(text: &str) -> Write {
    let writes = parse(text);
    assert_eq!((writes.batch, writes.writes.len()), (None, 1), "{text}");
    writes.writes.into_iter().next().expect("one")
}

fn shown<'a>(text: &'a str, term: &Option<Term>) -> Option<&'a str> {
    term.as_ref().map(|term| &text[term.span.clone()])
}

#[test]
fn an_insert_has_columns_and_values() {
    let text = "INSERT INTO Ks.\"T\" (k, \"C\", v) VALUES (?, 'x', f(:y)) IF NOT EXISTS USING TTL ? AND TIMESTAMP 5;";
    let write = one(text);
    assert_eq!(write.kind, WriteKind::Insert);
    assert_eq!(write.table.keyspace.as_deref(), Some("ks"));
    assert_eq!(write.table.table, "T");
    assert_eq!(write.assigned, ["k", "C", "v"]);
    let Keys::Values(values) = &write.keys else {
        panic!("values");
    };
    let kinds: Vec<_> = values
        .iter()
        .map(|(column, term)| (&**column, &term.kind))
        .collect();
    let text_literal = TermKind::Literal(Literal::Text("x".into()));
    assert_eq!(
        kinds,
        [
            ("k", &TermKind::Marker(0)),
            ("C", &text_literal),
            ("v", &TermKind::Other)
        ]
    );
    assert!(write.conditional && write.json.is_none());
    assert_eq!(shown(text, &write.ttl), Some("?"));
    assert_eq!(shown(text, &write.timestamp), Some("5"));
    assert_eq!(parse(text).markers.len(), 3);
}

#[test]
fn an_insert_of_json_has_its_keys_in_there() {
    for (text, json) in [
        ("INSERT INTO t JSON '{\"a\": 1}'", "'{\"a\": 1}'"),
        ("INSERT INTO t JSON ? DEFAULT UNSET", "?"),
        (
            "INSERT INTO t JSON :x DEFAULT NULL IF NOT EXISTS USING TIMESTAMP 5",
            ":x",
        ),
    ] {
        let write = one(text);
        assert_eq!(shown(text, &write.json), Some(json));
        assert_eq!(write.keys, Keys::Values(Vec::new()));
        assert_eq!(write.conditional, text.contains("IF"));
    }
}

#[test]
fn an_update_has_relations_and_assigned_columns() {
    for (text, assigned) in [
        ("UPDATE t SET a = 1 WHERE k = 1", &["a"][..]),
        (
            "UPDATE t USING TTL 5 SET a = ?, \"B\" = null WHERE k = 1 AND c IN (1, 2)",
            &["a", "B"],
        ),
        (
            "UPDATE t SET a = a + 1, b = b -1, c = c - ? WHERE k = 1",
            &["a", "b", "c"],
        ),
        (
            "UPDATE t SET a = [1] + a, b = f(1) + 2 WHERE k = 1",
            &["a", "b"],
        ),
        ("UPDATE t SET a += 1, a -= ? WHERE k = 1", &["a", "a"]),
        (
            "UPDATE t SET a[1] = 2, b.c = 3, a['x'] = ? WHERE k = 1",
            &["a", "b", "a"],
        ),
        ("UPDATE t SET a-=1 WHERE k = 1 IF EXISTS", &["a"]),
        (
            "UPDATE t SET a = 1 WHERE k = 1 IF exists = 1 AND b[1] IN ? AND c.d != null",
            &["a"],
        ),
        ("UPDATE t SET a = 1 WHERE k = 1 IF a CONTAINS KEY 1", &["a"]),
    ] {
        let write = one(text);
        assert_eq!(write.kind, WriteKind::Update);
        assert_eq!(write.assigned, assigned, "{text}");
        assert_eq!(write.conditional, text.contains("IF"), "{text}");
        let Keys::Relations(relations) = &write.keys else {
            panic!("relations");
        };
        assert_eq!(&text[relations[0].span.clone()], "k = 1");
    }
}

#[test]
fn a_delete_has_relations_and_deleted_columns() {
    let text =
        "DELETE a, b[1], c.d FROM t USING TIMESTAMP ? WHERE k = 1 AND (c, d) > (1, 2) IF a = 1";
    let write = one(text);
    assert_eq!(write.kind, WriteKind::Delete);
    assert_eq!(write.deleted, ["a", "b", "c"]);
    assert_eq!(shown(text, &write.timestamp), Some("?"));
    assert!(write.conditional);
    let write = one("DELETE FROM t WHERE k = 1;");
    assert!(write.deleted.is_empty() && !write.conditional);
}

#[test]
fn a_batch_has_writes_with_the_markers_of_the_whole_text() {
    let text = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (a) VALUES (?); UPDATE u SET a = 1 WHERE k = ? IF EXISTS \
                DELETE FROM v WHERE k = :x; APPLY BATCH;";
    let writes = parse(text);
    let batch = writes.batch.expect("a batch");
    assert_eq!(batch.kind, BatchKind::Unlogged);
    assert_eq!(shown(text, &batch.timestamp), Some("?"));
    let tables: Vec<_> = writes
        .writes
        .iter()
        .map(|write| &*write.table.table)
        .collect();
    assert_eq!(tables, ["t", "u", "v"]);
    assert_eq!(writes.markers.len(), 4);
    assert_eq!(writes.markers[3].name.as_deref(), Some("x"));
    let Keys::Values(values) = &writes.writes[0].keys else {
        panic!("values");
    };
    assert_eq!(values[0].1.kind, TermKind::Marker(1));
    let kind = |text| parse(text).batch.map(|batch| batch.kind);
    assert_eq!(kind("BEGIN BATCH APPLY BATCH"), Some(BatchKind::Logged));
    assert_eq!(
        kind("begin counter batch update t set a = a + 1 where k = 1 apply batch"),
        Some(BatchKind::Counter)
    );
}

#[test]
fn what_cassandra_refuses_is_not_understood() {
    for text in include_str!("tests/refused.cql").lines() {
        assert_eq!(parse_write(text), None, "{text}");
    }
}

#[test]
fn other_statements_are_no_writes() {
    for text in [
        "",
        "SELECT a FROM t",
        "TRUNCATE t",
        "USE ks",
        "DROP TABLE t",
        "INSERT INTO t (a, b) VALUES (1)",
    ] {
        assert_eq!(parse_write(text), None, "{text}");
    }
}
