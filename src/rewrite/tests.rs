//! SELECTs in, sub-statements, buckets or reasons out.

use std::ops::Range;
use std::sync::Arc;

use super::bind::{Bound, Limits};
use super::render::{From, key_values};
use super::{Readable, Reason, bounds};
use crate::protocol::types::Value;
use crate::schema::bucket::Bucket;
use crate::schema::{ClusteringColumn, Column, CqlType, TableSchema};

fn column(name: &str, cql_type: CqlType) -> Column {
    Column {
        name: name.to_owned(),
        cql_type,
    }
}

/// `((sensor, day), a, b, c)`, of which `b` is descending.
fn schema() -> Arc<TableSchema> {
    let clustering = |name: &str, descending| ClusteringColumn {
        column: column(name, CqlType::Int),
        descending,
    };
    Arc::new(TableSchema {
        keyspace: "plant".into(),
        table: "reading".into(),
        partition_key: vec![column("sensor", CqlType::Text), column("day", CqlType::Int)],
        clustering: vec![
            clustering("a", false),
            clustering("b", true),
            clustering("c", false),
        ],
        statics: Vec::new(),
        regulars: vec![
            column("Mixed", CqlType::Text),
            column("indexed", CqlType::Int),
            column("v", CqlType::Int),
        ],
        indexed: vec!["indexed".into()],
        replication: Vec::new(),
        is_repaired_by_reads: true,
    })
}

fn reason(text: &str) -> Option<Reason> {
    Readable::parse(text, &schema()).err()
}

const KEY: &str = "SELECT * FROM plant.reading WHERE sensor = 's' AND day = 7";

#[test]
fn forwards_what_cannot_be_answered_exactly_and_says_why() {
    for (text, expected) in [
        ("INSERT INTO x (a) VALUES (1)", Reason::NotUnderstood),
        ("SELECT * FROM reading WHERE", Reason::NotUnderstood),
        (
            "SELECT DISTINCT sensor, day FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Distinct,
        ),
        (
            "SELECT a FROM reading WHERE sensor = 's' AND day = 7 GROUP BY a",
            Reason::GroupBy,
        ),
        ("SELECT * FROM reading", Reason::PartitionKey),
        (
            "SELECT * FROM reading WHERE sensor = 's'",
            Reason::PartitionKey,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day > 7",
            Reason::PartitionKey,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 AND day = 8",
            Reason::PartitionKey,
        ),
        (
            "SELECT * FROM reading WHERE token(sensor, day) > 7",
            Reason::Restriction,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 AND nothing = 1",
            Reason::UnknownColumn,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 AND v = 1",
            Reason::Restriction,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 AND v CONTAINS 1",
            Reason::Restriction,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 AND indexed = 1",
            Reason::Indexed,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 AND (a) > (1)",
            Reason::Restriction,
        ),
        (
            "SELECT mine(v) FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Selection,
        ),
        (
            "SELECT narrows_bucket FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Selection,
        ),
        (
            "SELECT v[1] FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Selection,
        ),
        (
            "SELECT plant.abs(v) FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Selection,
        ),
        (
            "SELECT sum(v) FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Selection,
        ),
        (
            "SELECT count(*), v FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Aggregate,
        ),
        (
            "SELECT count(*), avg(v) FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Aggregate,
        ),
        (
            "SELECT JSON count(*) FROM reading WHERE sensor = 's' AND day = 7",
            Reason::Aggregate,
        ),
        (
            "SELECT count(*) FROM reading WHERE sensor = 's' AND day IN (7, 8)",
            Reason::Aggregate,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 ORDER BY a, b",
            Reason::OrderBy,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day = 7 ORDER BY v",
            Reason::OrderBy,
        ),
        (
            "SELECT * FROM reading WHERE sensor = 's' AND day IN (7, 8) ORDER BY a",
            Reason::OrderBy,
        ),
    ] {
        assert_eq!(reason(text), Some(expected), "{text}");
    }
}

#[test]
fn a_table_with_static_columns_is_left_to_the_original() {
    let mut table = TableSchema::clone(&schema());
    table.statics.push(column("s", CqlType::Int));
    let readable = Readable::parse(KEY, &Arc::new(table));
    assert_eq!(readable.err(), Some(Reason::StaticColumns));
}

/// The parts of a request, where some keys are split: the text and the values of each.
fn parts(text: &str, split: &[usize], first: usize, limit: Option<u32>) -> Vec<String> {
    let readable = Readable::parse(text, &schema()).expect("readable");
    let bound = Bound::new(&[], &[]).expect("no markers");
    let keys = readable.keys(&bound).expect("literals");
    let parts = readable.parts(&keys, first, |number| !split.contains(&number));
    let part = |part: Range<usize>| {
        let keys = &keys[part.clone()];
        let from = From::Run(keys.len(), limit);
        let text = readable.render(&bound, from).expect("renders").text;
        let (_, text) = text.split_once(" WHERE ").expect("a WHERE");
        let values = readable.run_values(keys);
        let values: Vec<String> = values.iter().map(|bytes| shown(bytes)).collect();
        format!("{text}: {}", values.join(" "))
    };
    parts.into_iter().map(part).collect()
}

#[test]
fn neighbouring_keys_of_the_original_are_asked_for_together() {
    let days = "SELECT * FROM reading WHERE sensor = 's' AND day IN (5, 1, 2, 3, 4, 1)";
    assert_eq!(
        parts(days, &[2], 0, None),
        [
            r#""sensor" = ? AND "day" IN (?, ?): s 1 2"#,
            r#""sensor" = ? AND "day" = ?: s 3"#,
            r#""sensor" = ? AND "day" IN (?, ?): s 4 5"#,
        ]
    );
    assert_eq!(
        parts(days, &[0, 1], 1, Some(9)),
        [
            r#""sensor" = ? AND "day" = ? PER PARTITION LIMIT 9: s 2"#,
            r#""sensor" = ? AND "day" IN (?, ?, ?) PER PARTITION LIMIT 9: s 3 4 5"#,
        ]
    );
    let sensors = "SELECT * FROM reading WHERE sensor IN ('a', 'b', 'c') AND day = 7";
    assert_eq!(
        parts(sensors, &[], 0, None),
        [r#""sensor" IN (?, ?, ?) AND "day" = ?: a b c 7"#]
    );
    // Keys that differ in two columns cannot be named by one IN without naming others too.
    let both = "SELECT * FROM reading WHERE sensor IN ('a', 'b') AND day IN (1, 2, 3) AND v = 1 ALLOW FILTERING";
    assert_eq!(
        parts(both, &[4], 0, Some(2)),
        [
            r#""sensor" = ? AND "day" IN (?, ?, ?) AND v = ? PER PARTITION LIMIT 2 ALLOW FILTERING: a 1 2 3"#,
            r#""sensor" = ? AND "day" = ? AND v = ? PER PARTITION LIMIT 2 ALLOW FILTERING: b 1"#,
            r#""sensor" = ? AND "day" = ? AND v = ? PER PARTITION LIMIT 2 ALLOW FILTERING: b 2"#,
            r#""sensor" = ? AND "day" = ? AND v = ? PER PARTITION LIMIT 2 ALLOW FILTERING: b 3"#,
        ]
    );
}

fn shown(bytes: &[u8]) -> String {
    match <[u8; 4]>::try_from(bytes) {
        Ok(int) => i32::from_be_bytes(int).to_string(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The text and the values that a bucket is asked with, as integers where they have four bytes.
fn rendered(text: &str, values: &[Value<'_>]) -> Result<(String, Vec<String>), Reason> {
    let readable = Readable::parse(text, &schema())?;
    let values: Vec<_> = values.iter().map(|value| (None, *value)).collect();
    let bound = Bound::new(&readable.select.markers, &values)?;
    let keys = readable.keys(&bound)?;
    let statement = readable.render(&bound, From::Split("wide_reading_1"))?;
    let mut all = key_values(&keys[0], Some((5, 2)));
    all.extend(statement.values);
    let all = all.iter().map(|bytes| shown(bytes));
    Ok((statement.text, all.collect()))
}

const ALL: &str = r#""sensor", "day", "a", "b", "c", "Mixed", "indexed", "v""#;
const FROM: &str = r#"FROM "plant"."wide_reading_1" WHERE "sensor" = ? AND "day" = ? AND "narrows_generation" = ? AND "narrows_bucket" = ?"#;

#[test]
fn asks_a_bucket_what_the_client_asked() {
    let seven = 7_i32.to_be_bytes();
    let bytes = Value::Bytes(&seven);
    for (text, values, expected, bound) in [
        (KEY.to_owned(), &[][..], format!("SELECT {ALL} {FROM}"), "s 7 5 2"),
        (
            format!("{KEY} AND a = ? AND b > -3 ORDER BY a DESC, b ASC LIMIT 10 ALLOW FILTERING;"),
            &[bytes],
            format!("SELECT {ALL} {FROM} AND a = ? AND b > ? ORDER BY a DESC, b ASC ALLOW FILTERING"),
            "s 7 5 2 7 -3",
        ),
        (
            "SELECT JSON v AS \"W\", writetime(v) /* x */ FROM reading WHERE (a, b) IN ((1, :x), (2, 3)) AND day = ? AND sensor = 's'".to_owned(),
            &[bytes, bytes],
            format!("SELECT JSON v AS \"W\", writetime(v) {FROM} AND (a, b) IN ((?, ?), (?, ?))"),
            "s 7 5 2 1 7 2 3",
        ),
        (
            format!("{KEY} AND a > 3 AND v = 4 ALLOW FILTERING"),
            &[],
            format!("SELECT {ALL} {FROM} AND a > ? AND v = ? ALLOW FILTERING"),
            "s 7 5 2 3 4",
        ),
    ] {
        let (text, values) = rendered(&text, values).expect("readable");
        assert_eq!((text, values.join(" ")), (expected, bound.to_owned()));
    }
}

#[test]
fn null_unset_and_empty_values_are_left_to_the_original() {
    for value in [Value::Null, Value::Unset, Value::Bytes(&[])] {
        for restriction in [
            "a > ?",
            "a = ?",
            "a IN (1, ?)",
            "(a, b) >= (1, ?)",
            "a IN ?",
        ] {
            let text = format!("{KEY} AND {restriction}");
            assert_eq!(rendered(&text, &[value]), Err(Reason::Value), "{text}");
        }
    }
    for restriction in [
        "a > null",
        "a IN (1, null)",
        "(a, b) > (1, '')",
        "a > int_of('x')",
        "v = mine.f(3) ALLOW FILTERING",
        "v = 'text' ALLOW FILTERING",
    ] {
        let text = format!("{KEY} AND {restriction}");
        assert_eq!(rendered(&text, &[]), Err(Reason::Value), "{text}");
    }
    assert_eq!(
        rendered(KEY, &[Value::Null]),
        Err(Reason::Value),
        "too many"
    );
    let text = "SELECT * FROM reading WHERE sensor = ? AND day = 7";
    assert_eq!(rendered(text, &[Value::Null]), Err(Reason::KeyValue));
}

#[test]
fn keys_come_in_the_order_of_their_values() {
    let text = "SELECT * FROM reading WHERE sensor IN ('b', 'a', 'b') AND day IN (300, -5, 2)";
    let readable = Readable::parse(text, &schema()).expect("readable");
    let keys = readable.keys(&Bound::new(&[], &[]).expect("no values"));
    let shown = keys.expect("computed").into_iter().map(|key| {
        let day = i32::from_be_bytes(key.components[1].as_slice().try_into().expect("an int"));
        format!("{}{day}", String::from_utf8_lossy(&key.components[0]))
    });
    let expected = ["a-5", "a2", "a300", "b-5", "b2", "b300"];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn limits_are_positive_numbers() {
    let limits = |text: &str| {
        let readable = Readable::parse(text, &schema())?;
        readable.limits(&Bound::new(&[], &[])?)
    };
    let both = format!("{KEY} PER PARTITION LIMIT 3 LIMIT 4");
    let expected = Limits {
        rows: Some(4),
        per_partition: Some(3),
    };
    assert_eq!(limits(&both), Ok(expected));
    assert_eq!(limits(KEY), Ok(Limits::default()));
    for limit in ["0", "-1", "3000000000"] {
        assert_eq!(limits(&format!("{KEY} LIMIT {limit}")), Err(Reason::Limit));
    }
}

/// Buckets that begin at the start, at (10, 5, 0), at (10, 2, 0) and at (20, 9, 9).
fn buckets() -> Vec<Bucket> {
    let first = |values: &[i32]| Bucket {
        first: values
            .iter()
            .map(|value| value.to_be_bytes().to_vec().into())
            .collect(),
        row_count: 1,
        byte_count: 1,
        home: None,
    };
    vec![
        first(&[]),
        first(&[10, 5, 0]),
        first(&[10, 2, 0]),
        first(&[20, 9, 9]),
    ]
}

#[test]
fn reads_only_buckets_that_can_have_rows() {
    for (restriction, expected) in [
        ("", &[0, 1, 2, 3][..]),
        ("ORDER BY a DESC, b ASC", &[3, 2, 1, 0]),
        ("AND a < 10", &[0]),
        ("AND a <= 10", &[0, 1, 2]),
        ("AND a < 9", &[0]),
        ("AND a > 20", &[3]),
        ("AND a = 10", &[0, 1, 2]),
        ("AND a = 10 AND b = 3", &[1]),
        ("AND a = 10 AND b > 5", &[0]),
        ("AND a = 10 AND b < 2", &[2]),
        ("AND a = 10 AND b <= 2", &[1, 2]),
        ("AND a = 10 AND b = 5 AND c = 0", &[1]),
        ("AND a = 20 AND b = 9 AND c = 8", &[2]),
        ("AND a IN (5, 30)", &[0, 3]),
        ("AND (a, b) IN ((10, 3), (30, 0))", &[1, 3]),
        ("AND a = 10 AND b IN (5, 2) AND c = 0", &[1, 2]),
        // By value, not in clustering order, so that only `a` bounds.
        ("AND (a, b) > (10, 3)", &[0, 1, 2, 3]),
        ("AND (a, b) > (20, 3)", &[2, 3]),
        // What cannot be told does not bound.
        ("AND a > int_of('x') AND a < 9", &[0]),
        ("AND a = int_of('x')", &[0, 1, 2, 3]),
        // Somebody must say that there is nothing.
        ("AND a > 30 AND a < 5", &[0]),
        ("AND v = 1 ALLOW FILTERING", &[0, 1, 2, 3]),
    ] {
        let readable = Readable::parse(&format!("{KEY} {restriction}"), &schema());
        let readable = readable.expect(restriction);
        let bound = Bound::new(&[], &[]).expect("no values");
        let chosen = bounds::buckets(&readable, &bound, &buckets());
        assert_eq!(chosen, expected, "{restriction}");
    }
}

#[test]
fn rows_are_sought_side_by_side_only_where_others_lie_between() {
    for (restriction, filters) in [
        ("AND a = 1 AND b > 2 ALLOW FILTERING", false),
        ("AND a > 1 AND b = 2 ALLOW FILTERING", true),
        ("AND b = 2 ALLOW FILTERING", true),
        ("AND v = 2 ALLOW FILTERING", true),
        ("AND (a, b) > (1, 2)", false),
    ] {
        let readable = Readable::parse(&format!("{KEY} {restriction}"), &schema());
        assert_eq!(
            readable.expect(restriction).filters,
            filters,
            "{restriction}"
        );
    }
}
