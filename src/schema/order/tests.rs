//! Each row of a table here is in ascending order; what a real Cassandra says is in `tests/integration/order.rs`.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    let pair = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// Every value compares with every other as their places do.
fn assert_ascending(cql_type: &str, values: &[&str]) {
    let parsed = CqlType::parse(cql_type);
    let values: Vec<Vec<u8>> = values
        .iter()
        .map(|value| bytes(&value.replace('-', "")))
        .collect();
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            assert_eq!(
                compare(&parsed, a, b),
                Some(i.cmp(&j)),
                "{cql_type} {i} {j}"
            );
        }
    }
}

#[test]
fn numbers_and_texts_are_in_cassandras_order() {
    for (cql_type, values) in [
        ("tinyint", vec!["80", "ff", "00", "7f"]),
        ("smallint", vec!["8000", "ffff", "0000", "7fff"]),
        (
            "int",
            vec!["", "80000000", "ffffffff", "00000000", "7fffffff"],
        ),
        (
            "timestamp",
            vec!["", "ffffffffffffffff", "0000000000000000"],
        ),
        ("date", vec!["00000000", "7fffffff", "80000000", "ffffffff"]),
        ("boolean", vec!["", "00", "01"]),
        ("text", vec!["", "00", "61", "6161", "62", "c3a9"]),
        (
            "inet",
            vec![
                "",
                "01020304",
                "01020304 00000000 00000000 00000000",
                "ff000000",
            ],
        ),
        (
            "float",
            vec![
                "", "ff800000", "bf800000", "80000000", "00000000", "00000001", "7f800000",
                "7fc00000",
            ],
        ),
        (
            "varint",
            vec!["", "ff7f", "80", "ff", "00", "7f", "0080", "0100"],
        ),
        (
            "decimal",
            vec![
                "",
                "fffffffb ff",
                "00000000 ff",
                "00000001 ff",
                "00000005 00",
                "7fffffff 7fffffffffffffff",
                "00000009 01",
                "00000001 01",
                "00000002 0b",
                "00000000 01",
                "00000000 7f",
                "fffffffb 01",
            ],
        ),
        (
            "uuid",
            vec![
                "",
                "ffffffff-ffff-0fff-ffff-ffffffffffff",
                "ffffffff-0000-1000-0000-000000000000",
                "00000000-0001-1000-0000-000000000000",
                "00000000-0001-1000-8000-000000000000",
                "00000000-0000-1001-0000-000000000000",
                "00000000-0000-4000-0000-000000000000",
                "ffffffff-0000-4000-0000-000000000000",
            ],
        ),
    ] {
        assert_ascending(cql_type, &values);
    }
}

#[test]
fn uuids_and_composed_values_are_in_cassandras_order() {
    for (cql_type, values) in [
        (
            "timeuuid",
            vec![
                "ffffffff-0000-1000-8000-000000000000",
                "ffffffff-0000-1000-ff00-000000000000",
                "ffffffff-0000-1000-0080-000000000000",
                "ffffffff-0000-1000-007f-000000000000",
                "ffffffff-0000-1000-7f00-000000000000",
                "00000000-0001-1000-0000-000000000000",
                "00000000-0000-1001-0000-000000000000",
            ],
        ),
        (
            "frozen<list<int>>",
            vec![
                "00000000",
                "00000001 00000004 ffffffff",
                "00000001 00000004 00000001",
                "00000002 00000004 00000001 00000004 00000000",
                "00000001 00000004 00000002",
            ],
        ),
        (
            "frozen<map<text, int>>",
            vec![
                "00000000",
                "00000001 00000000 00000004 00000000",
                "00000001 00000000 00000004 00000001",
                "00000001 00000001 61 00000004 00000000",
            ],
        ),
        (
            "frozen<tuple<int, text>>",
            vec![
                "",
                "ffffffff",
                "ffffffff 00000000",
                "00000004 ffffffff",
                "00000004 00000000",
                "00000004 00000000 00000000",
                "00000004 00000000 00000001 61",
            ],
        ),
        (
            "vector<float, 2>",
            vec![
                "bf800000 00000000",
                "00000000 80000000",
                "00000000 00000000",
            ],
        ),
    ] {
        assert_ascending(cql_type, &values);
    }
}

#[test]
fn different_bytes_may_be_one_value() {
    for (cql_type, a, b) in [
        ("decimal", "00000001 0a", "00000002 64"),
        ("decimal", "00000001 00", "fffffff0 00"),
        ("decimal", "00000000 f6", "ffffffff ff"),
        ("varint", "0001", "01"),
        ("boolean", "01", "80"),
        ("float", "7fc00000", "ffffffff"),
        ("double", "7ff8000000000000", "7ff0000000000001"),
        (
            "tuple<int, int>",
            "00000004 00000001",
            "00000004 00000001 ffffffff",
        ),
        (
            "frozen<list<varint>>",
            "00000001 00000001 05",
            "00000001 00000002 0005",
        ),
    ] {
        let order = compare(&CqlType::parse(cql_type), &bytes(a), &bytes(b));
        assert_eq!(order, Some(Ordering::Equal), "{cql_type} {a} {b}");
    }
}

#[test]
fn nothing_is_said_of_what_is_no_value_or_has_no_proven_order() {
    for (cql_type, value) in [
        ("int", "000000"),
        ("bigint", "00000000"),
        ("tinyint", ""),
        ("date", ""),
        ("boolean", "0101"),
        ("inet", "0102030405"),
        ("decimal", "00000001"),
        ("decimal", "0001"),
        ("timeuuid", "00000000000040008000000000000000"),
        ("uuid", "00"),
        ("duration", "000000"),
        ("counter", "0000000000000001"),
        ("frozen<address>", "00000000"),
        ("'org.example.Type'", "00"),
        ("frozen<list<int>>", "00000001"),
        ("frozen<list<int>>", "00000001 00000003 000000"),
        ("frozen<list<int>>", "00000001 ffffffff"),
        ("frozen<list<int>>", "7fffffff 00000004 00000001"),
        ("frozen<list<int>>", ""),
        ("frozen<list<int>>", "ffffffff"),
        ("frozen<list<int>>", "00000001 00000000"),
        ("frozen<list<int>>", "00000000 00"),
        ("frozen<list<duration>>", "00000001 00000003 000000"),
        (
            "frozen<set<int>>",
            "00000002 00000004 00000002 00000004 00000001",
        ),
        (
            "frozen<set<int>>",
            "00000002 00000004 00000001 00000004 00000001",
        ),
        ("frozen<map<int, int>>", "00000001 00000004 00000001"),
        ("tuple<int>", "00000004 00000001 00000004 00000001"),
        ("tuple<int>", "00000004 0000"),
        ("tuple<int>", "00"),
        ("vector<float, 2>", "00000000"),
        ("vector<text, 1>", "0161"),
        ("vector<float, 0>", ""),
    ] {
        let value = bytes(value);
        let order = compare(&CqlType::parse(cql_type), &value, &value);
        assert_eq!(order, None, "{cql_type} {value:02x?}");
    }
    let long = [&[0; 4][..], &[1; 5000]].concat();
    assert_eq!(compare(&CqlType::Decimal, &long, &[0, 0, 0, 1, 1]), None);
}

fn clustering(columns: &[(&str, bool)]) -> Vec<ClusteringColumn> {
    let column = |(cql_type, descending): &(&str, bool)| ClusteringColumn {
        column: Column {
            name: "c".into(),
            cql_type: CqlType::parse(cql_type),
        },
        descending: *descending,
    };
    columns.iter().map(column).collect()
}

#[test]
fn clustering_keys_follow_their_columns_directions() {
    let columns = clustering(&[("tinyint", false), ("tinyint", true)]);
    let order = |a: &[&[u8]], b: &[&[u8]]| compare_clustering(&columns, a, b);
    assert_eq!(order(&[&[1], &[9]], &[&[2], &[1]]), Some(Ordering::Less));
    assert_eq!(order(&[&[1], &[9]], &[&[1], &[1]]), Some(Ordering::Less));
    assert_eq!(order(&[&[1], &[0]], &[&[1], &[1]]), Some(Ordering::Greater));
    assert_eq!(order(&[&[1]], &[&[1], &[1]]), Some(Ordering::Equal));
    assert_eq!(order(&[&[2]], &[&[1], &[1]]), Some(Ordering::Greater));
    assert_eq!(order(&[], &[&[1], &[1]]), Some(Ordering::Equal));
    assert_eq!(order(&[&[1], &[1], &[1]], &[&[1]]), None);
    assert_eq!(order(&[&[1], &[]], &[&[1], &[1]]), None);
}

#[test]
fn keys_are_compared_column_by_column() {
    let columns: Vec<Column> = clustering(&[("int", false), ("tinyint", false)])
        .into_iter()
        .map(|column| column.column)
        .collect();
    let key = |a: i32, b: i8| vec![a.to_be_bytes().to_vec(), b.to_be_bytes().to_vec()];
    let order = |a: Vec<Vec<u8>>, b: Vec<Vec<u8>>| compare_keys(&columns, &a, &b);
    assert_eq!(order(key(-1, 5), key(1, 0)), Some(Ordering::Less));
    assert_eq!(order(key(1, -5), key(1, 0)), Some(Ordering::Less));
    assert_eq!(order(key(1, 0), key(1, 0)), Some(Ordering::Equal));
    assert_eq!(order(key(1, 0), vec![vec![0; 4]]), None);
}

#[test]
fn canonical_values_are_the_ones_that_cassandra_writes() {
    for (cql_type, value, expected) in [
        ("int", "00000001", true),
        ("int", "", false),
        ("int", "01", false),
        ("text", "", true),
        ("text", "61", true),
        ("text", "ff", false),
        ("ascii", "c3a9", false),
        ("blob", "ff", true),
        ("boolean", "01", true),
        ("boolean", "02", false),
        ("float", "7fc00000", true),
        ("float", "7fc00001", false),
        ("double", "fff8000000000000", false),
        ("double", "8000000000000000", true),
        ("varint", "00", true),
        ("varint", "0080", true),
        ("varint", "0005", false),
        ("varint", "ffff", false),
        ("decimal", "00000002 64", true),
        ("decimal", "00000002 0064", false),
        ("decimal", "00000002", false),
        ("inet", "00000000000000000000ffff01020304", false),
        ("inet", "00000000000000000000000001020304", true),
        ("timeuuid", "00000000000010008000000000000000", true),
        ("timeuuid", "00000000000040008000000000000000", false),
        ("frozen<list<int>>", "00000000", false),
        ("frozen<address>", "00000000", false),
    ] {
        let canonical = is_canonical(&CqlType::parse(cql_type), &bytes(value));
        assert_eq!(canonical, expected, "{cql_type} {value}");
    }
}
