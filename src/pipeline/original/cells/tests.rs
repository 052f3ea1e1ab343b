//! Cells of all forms, from the reply that has them to the writes that make them.

use super::*;
use crate::schema::ColumnRow;

fn schema() -> TableSchema {
    let row = |name: &str, kind: &str, position, cql_type: &str| ColumnRow {
        name: name.into(),
        kind: kind.into(),
        position,
        clustering_order: if kind == "clustering" { "asc" } else { "none" }.into(),
        cql_type: cql_type.into(),
    };
    let rows = vec![
        row("k", "partition_key", 0, "text"),
        row("c", "clustering", 0, "int"),
        row("m", "regular", -1, "map<int, text>"),
        row("s", "regular", -1, "set<int>"),
        row("v", "regular", -1, "int"),
        row("w", "regular", -1, "frozen<set<int>>"),
    ];
    TableSchema::from_rows("ks", "t", rows, Vec::new(), Vec::new()).expect("a table")
}

fn collection(items: &[Option<&[u8]>], count: i32) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_int(count);
    items.iter().for_each(|item| out.put_bytes(*item));
    out
}

/// One row: a map of two elements with two times, a null set, a value with a TTL, and a frozen set.
fn values() -> Vec<Option<Vec<u8>>> {
    let long = |number: i64| number.to_be_bytes();
    let map = collection(&[Some(b"1"), Some(b"a"), Some(b"2"), Some(b"b")], 2);
    vec![
        Some(vec![0, 0, 0, 7]),
        Some(map),
        Some(collection(&[Some(&long(10)), Some(&long(20))], 2)),
        Some(collection(&[None, Some(&[0, 0, 0, 9])], 2)),
        None,
        None,
        None,
        Some(vec![0, 0, 0, 5]),
        Some(long(20).to_vec()),
        Some(vec![0, 0, 0, 9]),
        Some(collection(&[], 0)),
        Some(long(20).to_vec()),
        None,
    ]
}

fn rows(values: &[Option<Vec<u8>>]) -> Option<Vec<Row>> {
    let mut bytes = Vec::new();
    values
        .iter()
        .for_each(|value| bytes.put_bytes(value.as_deref()));
    let page = Page {
        paging_state: None,
        column_count: values.len(),
        columns: &[],
        row_count: 1,
        rows: &bytes,
    };
    Forms::new(&schema()).rows(&page)
}

#[test]
fn a_row_becomes_one_write_for_each_time_and_expiry() {
    let rows = rows(&values()).expect("a row");
    let [row] = rows.as_slice() else {
        panic!("one row");
    };
    assert_eq!(row.clustering, [Box::from([0, 0, 0, 7])]);
    assert_eq!(row.cells.len(), 4);
    assert_eq!((row.cells_ttl(), row.newest_write()), (None, Some(20)));
    let writes = Forms::new(&schema()).writes(row);
    let times: Vec<_> = writes
        .iter()
        .map(|write| (write.write_micros, write.ttl))
        .collect();
    assert_eq!(times, [(10, 0), (20, 0), (20, 9)]);
    let values: Vec<Vec<Value<'_>>> = writes
        .iter()
        .map(|write| write.values().collect())
        .collect();
    let first = collection(&[Some(b"1"), Some(b"a")], 1);
    let second = collection(&[Some(b"2"), Some(b"b")], 1);
    let unset = Value::Unset;
    assert_eq!(values[0], [Value::Bytes(&first), unset, unset, unset]);
    let frozen = collection(&[], 0);
    assert_eq!(values[1], [unset, unset, unset, Value::Bytes(&frozen)]);
    assert_eq!(
        values[2],
        [
            Value::Bytes(&second),
            unset,
            Value::Bytes(&[0, 0, 0, 5]),
            unset
        ]
    );
}

#[test]
fn what_does_not_add_up_is_no_row() {
    type Break = fn(&mut Vec<Option<Vec<u8>>>);
    let broken: [(&str, Break); 6] = [
        ("a column less", |values| drop(values.pop())),
        ("no clustering value", |values| values[0] = None),
        ("fewer times than elements", |values| {
            values[2] = Some(collection(&[Some(&[0; 8])], 1))
        }),
        ("more elements than bytes", |values| {
            values[1] = Some(vec![0x7F, 0xFF, 0xFF, 0xFF])
        }),
        ("more times than bytes", |values| {
            values[2] = Some(vec![0x7F, 0xFF, 0xFF, 0xFF])
        }),
        ("a time too short", |values| values[8] = Some(vec![1, 2])),
    ];
    for (what, change) in broken {
        let mut values = values();
        change(&mut values);
        assert_eq!(rows(&values), None, "{what}");
    }
}

#[test]
fn rows_without_lasting_cells_say_how_long_they_have() {
    let cell = |ttl| Cell {
        column: 0,
        value: Box::default(),
        write_micros: 1,
        ttl,
    };
    let row = |ttls: &[i32]| Row {
        clustering: Vec::new(),
        cells: ttls.iter().map(|ttl| cell(*ttl)).collect(),
        bytes: 0,
    };
    assert_eq!(row(&[]).cells_ttl(), Some(0));
    assert_eq!(row(&[5, 9]).cells_ttl(), Some(9));
    assert_eq!(row(&[5, 0]).cells_ttl(), None);
}

#[test]
fn statements_name_every_column_where_its_value_is_bound() {
    assert_eq!(
        selection(&schema()),
        "\"c\", \"m\", WRITETIME(\"m\"), TTL(\"m\"), \"s\", WRITETIME(\"s\"), TTL(\"s\"), \
         \"v\", WRITETIME(\"v\"), TTL(\"v\"), \"w\", WRITETIME(\"w\"), TTL(\"w\")"
    );
    assert_eq!(
        update(&schema(), "wide_t_1").expect("has regular columns"),
        "UPDATE \"ks\".\"wide_t_1\" USING TIMESTAMP ? AND TTL ? SET \"m\" = \"m\" + ?, \"s\" = \"s\" + ?, \
         \"v\" = ?, \"w\" = ? WHERE \"k\" = ? AND narrows_generation = ? AND narrows_bucket = ? AND \"c\" = ?"
    );
    assert_eq!(
        insert_marker(&schema(), "wide_t_1"),
        "INSERT INTO \"ks\".\"wide_t_1\" (\"k\", narrows_generation, narrows_bucket, \"c\") VALUES (?, ?, ?, ?) \
         USING TIMESTAMP ? AND TTL ?"
    );
}
