//! Comparison, lifetimes, checksums and ranges, without a cluster.

use std::rc::Rc;

use super::checksum::Checksums;
use super::compare::compare;
use super::difference::DifferenceKind::{self, *};
use super::restriction::Restriction;
use super::row::{Block, Cells, Key, Row, RowAt};
use crate::protocol::types::Write;
use crate::rewrite::rows::{Heading, head};
use crate::schema::{ClusteringColumn, Column, CqlType, TableSchema};

fn column(name: &str, cql_type: &str) -> Column {
    Column {
        name: name.to_owned(),
        cql_type: CqlType::parse(cql_type),
    }
}

fn clustering(columns: &[(&str, bool)]) -> Vec<ClusteringColumn> {
    let columns = columns.iter().map(|(name, descending)| ClusteringColumn {
        column: column(name, "int"),
        descending: *descending,
    });
    columns.collect()
}

fn schema() -> TableSchema {
    TableSchema {
        keyspace: "ks".to_owned(),
        table: "t".to_owned(),
        partition_key: vec![column("k", "int")],
        clustering: clustering(&[("c", false)]),
        statics: Vec::new(),
        regulars: vec![column("m", "map<text, int>"), column("v", "text")],
        indexed: Vec::new(),
        replication: Vec::new(),
        is_repaired_by_reads: true,
    }
}

type Values = [Option<Vec<u8>>; 7];

fn bytes(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn list(items: &[Option<&[u8]>]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.put_int(items.len() as i32);
    items.iter().for_each(|item| out.put_bytes(*item));
    Some(out)
}

const TIME: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 9];
const TTL: &[u8] = &[0, 0, 0, 5];

/// The key, then a map of one element and a text, each with write time and TTL.
fn values() -> Values {
    [
        Some(7_i32.to_be_bytes().to_vec()),
        list(&[Some(b"key"), Some(b"1234")]),
        list(&[Some(TIME)]),
        list(&[None]),
        bytes("text"),
        Some(TIME.to_vec()),
        Some(TTL.to_vec()),
    ]
}

fn block(rows: &[Values]) -> Rc<Block> {
    let mut out = Vec::new();
    rows.iter()
        .flatten()
        .for_each(|value| out.put_bytes(value.as_deref()));
    let heading = Heading {
        column_count: 7,
        ..Heading::default()
    };
    let message = [head(&heading, rows.len()), out].concat();
    Rc::new(Block::read(message, 7, 10).unwrap())
}

fn row(values: &Values) -> RowAt {
    block(std::slice::from_ref(values)).row(0).unwrap()
}

#[test]
fn every_part_of_a_row_is_compared() {
    let schema = schema();
    let original = row(&values());
    type Case = (usize, Option<Vec<u8>>, DifferenceKind, Option<&'static str>);
    let cases: [Case; 11] = [
        (0, Some(8_i32.to_be_bytes().to_vec()), Key, None),
        (1, None, MissingCell, Some("m")),
        (1, list(&[]), Value, Some("m")),
        (2, list(&[Some(TTL)]), WriteTime, Some("m")),
        (3, list(&[Some(TTL)]), Expiry, Some("m")),
        (3, None, Expiry, Some("m")),
        (4, None, MissingCell, Some("v")),
        (4, bytes(""), Value, Some("v")),
        (4, bytes("texu"), Value, Some("v")),
        (5, Some(vec![0; 8]), WriteTime, Some("v")),
        (6, None, Expiry, Some("v")),
    ];
    for (place, value, kind, name) in cases {
        let mut changed = values();
        changed[place] = value;
        let copy = row(&changed);
        let (a, b) = (original.read(1).unwrap(), copy.read(1).unwrap());
        assert_eq!(compare(&schema, &a, &a), None);
        assert_eq!(compare(&schema, &a, &b), Some((kind, name)), "{place}");
        let back = compare(&schema, &b, &a).unwrap();
        let expected = if kind == MissingCell { ExtraCell } else { kind };
        assert_eq!(back, (expected, name), "{place}");
    }
}

#[test]
fn ttls_of_all_cells_and_elements_are_read() {
    let schema = schema();
    let ttls = |change: fn(&mut Values)| {
        let mut values = values();
        change(&mut values);
        row(&values).read(1).unwrap().ttls(&schema)
    };
    assert_eq!(ttls(|_| {}), Some(vec![vec![None], vec![Some(5)]]));
    assert_eq!(
        ttls(|row| row[3] = list(&[Some(TTL)])),
        Some(vec![vec![Some(5)], vec![Some(5)]])
    );
    let unset = ttls(|row| row[3] = None);
    assert_eq!(unset, Some(vec![vec![None], vec![Some(5)]]));
    let unset = ttls(|row| row[6] = None);
    assert_eq!(unset, Some(vec![vec![None], vec![None]]));
    let no_cell = ttls(|row| row[4] = None);
    assert_eq!(no_cell, Some(vec![vec![None], vec![]]));
    let no_cells = ttls(|row| (row[1], row[4]) = (None, None));
    assert_eq!(no_cells, Some(vec![vec![], vec![]]));
    // What is not a list, a list of other things, or not as long as the other one.
    assert_eq!(ttls(|row| row[2] = None), None);
    assert_eq!(ttls(|row| row[2] = bytes("\x7f\x7f\x7f\x7f1234")), None);
    assert_eq!(ttls(|row| row[3] = list(&[])), None);
    assert_eq!(ttls(|row| row[3] = list(&[Some(b"long one")])), None);
    assert_eq!(ttls(|row| row[3] = bytes("x")), None);
    assert_eq!(ttls(|row| row[6] = bytes("x")), None);
}

#[test]
fn rows_are_cut_out_of_pages() {
    let mut other = values();
    other[0] = Some(8_i32.to_be_bytes().to_vec());
    let block = block(&[values(), other]);
    let keys: Vec<Key> = (0..block.row_count())
        .filter_map(|index| Some(block.row(index)?.read(1)?.owned_key()))
        .collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(*keys[1][0], 8_i32.to_be_bytes());
    assert!(block.row(2).is_none());
    // A null in the key, and columns that are not in threes.
    let mut wrong = values();
    wrong[0] = None;
    assert_eq!(row(&wrong).read(1), None);
    assert_eq!(row(&values()).read(2), None);
    assert_eq!(row(&values()).read(8), None);
}

/// Of an original that always has the same row, and of these rows as its copy.
fn checksums(rows: &[(&Values, i64)]) -> Checksums {
    let mut checksums = Checksums::default();
    checksums.begin_bucket();
    let first = row(&values());
    let first = first.read(1).unwrap();
    let first_ttls = first.ttls(&schema()).unwrap().concat();
    for (values, now) in rows {
        let row = row(values);
        let row = row.read(1).unwrap();
        let ttls = row.ttls(&schema()).unwrap().concat();
        checksums.add((&first, &first_ttls), (&row, &ttls), *now);
    }
    checksums.begin_bucket();
    checksums
}

#[test]
fn checksums_tell_rows_apart_and_not_when_they_were_read() {
    let one = values();
    let Checksums {
        original,
        copy: whole,
        buckets,
    } = checksums(&[(&one, 100)]);
    assert_eq!(buckets, [whole, [0; 16]]);
    assert_eq!(original, whole, "one formula for both sides");
    let mut later = values();
    later[6] = Some(vec![0, 0, 0, 3]);
    assert_eq!(checksums(&[(&later, 102)]).copy, whole);
    assert_ne!(checksums(&[(&later, 100)]).copy, whole);
    for place in [0, 1, 4, 5] {
        let mut other = values();
        let last = other[place].as_mut().unwrap().last_mut().unwrap();
        *last ^= 1;
        let found = checksums(&[(&other, 100)]);
        assert_ne!(found.copy, whole, "{place}");
        assert_eq!(found.original, whole, "{place}");
    }
    let both = checksums(&[(&one, 100), (&later, 100)]).copy;
    assert_ne!(checksums(&[(&later, 100), (&one, 100)]).copy, both);
    assert_ne!(checksums(&[(&one, 100), (&one, 100)]).copy, whole);
}

fn key(values: &[i32]) -> Key {
    let values = values.iter().map(|value| value.to_be_bytes().into());
    values.collect()
}

/// As text, with the values in place of their markers.
fn shown(restrictions: &[Restriction]) -> Vec<String> {
    let shown = restrictions.iter().map(|restriction| {
        let mut text = restriction.text.replace('"', "");
        for value in &restriction.values {
            let value = i32::from_be_bytes((**value).try_into().unwrap());
            text = text.replacen('?', &value.to_string(), 1);
        }
        text.trim_start_matches(" AND ").to_owned()
    });
    shown.collect()
}

#[test]
fn rows_between_two_keys_are_said_prefix_by_prefix() {
    let ascending = [("a", false), ("b", false), ("c", false)];
    let mixed = [("a", true), ("b", false), ("c", true)];
    type Case<'a> = (&'a [(&'a str, bool)], &'a [i32], &'a [i32], &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        (&ascending[..1], &[1], &[5], &["a >= 1 AND a <= 5"]),
        (&mixed[..1], &[5], &[1], &["a <= 5 AND a >= 1"]),
        (
            &ascending,
            &[1, 2, 3],
            &[1, 2, 9],
            &["a = 1 AND b = 2 AND c >= 3 AND c <= 9"],
        ),
        (
            &ascending,
            &[1, 2, 3],
            &[1, 4, 5],
            &[
                "a = 1 AND b = 2 AND c >= 3",
                "a = 1 AND b > 2 AND b < 4",
                "a = 1 AND b = 4 AND c <= 5",
            ],
        ),
        (
            &ascending,
            &[1, 2, 3],
            &[4, 5, 6],
            &[
                "a = 1 AND b = 2 AND c >= 3",
                "a = 1 AND b > 2",
                "a > 1 AND a < 4",
                "a = 4 AND b < 5",
                "a = 4 AND b = 5 AND c <= 6",
            ],
        ),
        (
            &mixed,
            &[4, 2, 3],
            &[1, 5, 6],
            &[
                "a = 4 AND b = 2 AND c <= 3",
                "a = 4 AND b > 2",
                "a < 4 AND a > 1",
                "a = 1 AND b < 5",
                "a = 1 AND b = 5 AND c >= 6",
            ],
        ),
    ];
    for (columns, from, to, expected) in cases {
        let clustering = clustering(columns);
        let found = Restriction::between(&clustering, &key(from), &key(to)).unwrap();
        assert_eq!(shown(&found), expected);
        // Backwards, and of one key only, there is nothing to say.
        assert_eq!(
            Restriction::between(&clustering, &key(to), &key(from)),
            None
        );
        assert_eq!(Restriction::between(&clustering, &key(to), &key(to)), None);
    }
}

#[test]
fn what_has_no_certain_bounds_has_no_ranges() {
    let columns = clustering(&[("a", false), ("b", false)]);
    let empty: Key = vec![Box::from([]), 1_i32.to_be_bytes().into()];
    assert_eq!(Restriction::between(&columns, &empty, &key(&[1, 1])), None);
    assert_eq!(Restriction::between(&columns, &key(&[1]), &key(&[2])), None);
    assert_eq!(Restriction::between(&[], &Key::new(), &Key::new()), None);
    let one = Restriction::row(&columns, &key(&[3, 4]));
    assert_eq!(shown(&[one]), ["a = 3 AND b = 4"]);
}

#[test]
fn a_row_is_as_large_as_its_values() {
    let row = Row {
        key: vec![b"key"],
        columns: vec![
            Cells {
                value: Some(b"four"),
                written: Some(TIME),
                ttl: Some(TTL),
            },
            Cells {
                value: None,
                written: None,
                ttl: None,
            },
        ],
    };
    assert_eq!(row.byte_count(), 7);
}
