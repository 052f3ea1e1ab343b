//! What a real Cassandra writes, and what it refuses, is in `tests/integration/written.rs`.

use super::*;

const SEVEN: [u8; 4] = 7_i32.to_be_bytes();
const EIGHT: [u8; 4] = 8_i32.to_be_bytes();

/// `plant.reading`: `((sensor text, "Day" int), ts)`, a value `v` and a static `s`.
fn schema() -> Arc<TableSchema> {
    with_key(&[("sensor", CqlType::Text), ("Day", CqlType::Int)])
}

fn with_key(key: &[(&str, CqlType)]) -> Arc<TableSchema> {
    let column = |name: &str, cql_type: &CqlType| Column {
        name: name.to_owned(),
        cql_type: cql_type.clone(),
    };
    let columns = key.iter().map(|(name, cql_type)| column(name, cql_type));
    Arc::new(TableSchema {
        keyspace: "plant".into(),
        table: "reading".into(),
        partition_key: columns.collect(),
        clustering: Vec::new(),
        statics: vec![column("s", &CqlType::Int)],
        regulars: vec![column("ts", &CqlType::Int), column("v", &CqlType::Int)],
        indexed: Vec::new(),
        replication: Vec::new(),
        is_repaired_by_reads: true,
    })
}

fn keys(text: &str, values: &[(Option<&str>, Value<'_>)]) -> Option<Vec<PartitionKey>> {
    Written::parse(text, Some("plant"), &schema())?.keys(values)
}

fn key(sensor: &str, day: [u8; 4]) -> PartitionKey {
    PartitionKey::from_components(&[sensor.as_bytes(), &day]).expect("a key")
}

fn positional<'a>(values: &[Value<'a>]) -> Vec<(Option<&'a str>, Value<'a>)> {
    values.iter().map(|value| (None, *value)).collect()
}

#[test]
fn every_kind_of_write_names_its_partition() {
    let values = positional(&[Value::Bytes(b"a"), Value::Bytes(&SEVEN)]);
    for text in [
        "INSERT INTO reading (sensor, \"Day\", ts, v) VALUES (?, ?, 1, 2)",
        "INSERT INTO plant.reading (sensor, \"Day\", ts) VALUES (?, ?, 1) IF NOT EXISTS USING TTL 5",
        "UPDATE reading SET v = 1 WHERE sensor = ? AND \"Day\" = ? AND ts = 1",
        "UPDATE reading SET s = 1 WHERE sensor = ? AND \"Day\" IN (?, 7, ?)",
        "DELETE FROM reading WHERE sensor IN (?) AND \"Day\" = ? AND ts > 3",
        "DELETE v FROM reading WHERE (sensor = ?) AND \"Day\" = ? AND (ts) > (1) IF v = 1",
    ] {
        let mut values = values.clone();
        values.extend(text.contains("7,").then_some((None, Value::Bytes(&SEVEN))));
        assert_eq!(keys(text, &values), Some(vec![key("a", SEVEN)]), "{text}");
    }
    let text = "INSERT INTO reading (ts, \"Day\", sensor) VALUES (:t, :d, 'a')";
    let named = [(Some("d"), Value::Bytes(&SEVEN)), (Some("t"), Value::Unset)];
    assert_eq!(keys(text, &named), Some(vec![key("a", SEVEN)]));
}

#[test]
fn combinations_multiply_and_are_listed_once() {
    let list = |elements: &[&[u8]]| {
        let mut bytes = (elements.len() as u32).to_be_bytes().to_vec();
        for element in elements {
            bytes.extend((element.len() as u32).to_be_bytes());
            bytes.extend(*element);
        }
        bytes
    };
    let text = "DELETE FROM reading WHERE sensor IN ('b', ?, 'b') AND \"Day\" IN :days";
    let days = list(&[&SEVEN, &EIGHT, &SEVEN]);
    let keys_of = |days: &[u8]| keys(text, &positional(&[Value::Bytes(b"a"), Value::Bytes(days)]));
    let all = [("a", SEVEN), ("a", EIGHT), ("b", SEVEN), ("b", EIGHT)];
    let all: Vec<_> = all.iter().map(|(sensor, day)| key(sensor, *day)).collect();
    assert_eq!(keys_of(&days), Some(all));
    assert_eq!(keys_of(&list(&[])), Some(Vec::new()));
    // Cassandra refuses a null among them; what it makes of other bytes is not known.
    let with_null = [&2_u32.to_be_bytes()[..], &[0, 0, 0, 4], &SEVEN, &[255; 4]].concat();
    assert_eq!(keys_of(&with_null), Some(Vec::new()));
    assert_eq!(keys_of(&list(&[&SEVEN, b""])), None);
    assert_eq!(keys_of(&[0, 0, 0, 9]), None);
    let many = |count: usize| list(&vec![&SEVEN[..]; count]);
    assert!(keys_of(&many(KEYS_MAX / 3)).is_some());
    assert_eq!(keys_of(&many(KEYS_MAX / 3 + 1)), None);
    assert_eq!(keys_of(&many(KEYS_MAX + 1)), None);
}

#[test]
fn a_batch_writes_what_its_statements_do() {
    let text = "BEGIN BATCH USING TIMESTAMP ? \
                INSERT INTO reading (sensor, \"Day\") VALUES (?, ?); \
                INSERT INTO other (sensor, \"Day\") VALUES (?, now()); \
                UPDATE plant.reading SET v = ? WHERE sensor = 'b' AND \"Day\" = ?; \
                DELETE FROM Plant.Reading WHERE sensor = 'b' AND \"Day\" = 8; \
                DELETE FROM elsewhere.reading WHERE sensor = 'c' AND \"Day\" = 8; APPLY BATCH";
    let (a, seven, eight) = (
        Value::Bytes(b"a"),
        Value::Bytes(&SEVEN),
        Value::Bytes(&EIGHT),
    );
    let values = positional(&[eight, a, seven, a, Value::Null, eight]);
    let expected = vec![key("a", SEVEN), key("b", EIGHT)];
    assert_eq!(keys(text, &values), Some(expected));
    let written = Written::parse(text, None, &schema()).expect("understood");
    assert!(!written.is_single() && !written.is_conditional());
    let text = "UPDATE reading SET v = 1 WHERE sensor = 'b' AND \"Day\" = 8 IF v = 2";
    let written = Written::parse(text, None, &schema()).expect("understood");
    assert!(written.is_single() && written.is_conditional());
    assert_eq!(written.keys(&[]), Some(vec![key("b", EIGHT)]));
}

#[test]
fn what_is_for_other_tables_says_so() {
    for text in [
        "UPDATE mill.reading SET v = 1 WHERE sensor = 'b' AND \"Day\" = 8",
        "BEGIN BATCH DELETE FROM other WHERE k = 1; APPLY BATCH",
        "BEGIN BATCH APPLY BATCH",
    ] {
        let written = Written::parse(text, Some("plant"), &schema()).expect("understood");
        assert!(!written.names_table(), "{text}");
        assert_eq!(written.keys(&[]), Some(Vec::new()), "{text}");
    }
}

#[test]
fn what_cassandra_refuses_writes_nothing() {
    for text in [
        "INSERT INTO reading (sensor, \"Day\") VALUES (null, 7)",
        "INSERT INTO reading (sensor, v) VALUES ('a', 7)",
        "INSERT INTO reading (sensor, sensor, \"Day\") VALUES ('a', 'b', 7)",
        "UPDATE reading SET v = 1 WHERE sensor = 'a'",
        "UPDATE reading SET v = 1 WHERE sensor = 'a' AND \"Day\" > 7",
        "UPDATE reading SET v = 1 WHERE sensor = 'a' AND \"Day\" IN (7, null)",
        "UPDATE reading SET v = 1 WHERE token(sensor, \"Day\") = 7",
        "DELETE FROM reading WHERE (sensor, \"Day\") = ('a', 7)",
        "DELETE FROM reading WHERE sensor = 'a' AND \"Day\" = 7 AND \"Day\" = 8",
        "INSERT INTO reading JSON '{\"sensor\": \"a\"}'",
        "INSERT INTO reading JSON '{\"sensor\": null, \"\\\"Day\\\"\": 7}'",
    ] {
        assert_eq!(keys(text, &[]), Some(Vec::new()), "{text}");
    }
    let text = "INSERT INTO reading (sensor, \"Day\") VALUES (?, 7)";
    for value in [Value::Null, Value::Unset, Value::Bytes(&[0; 65_536])] {
        assert_eq!(keys(text, &positional(&[value])), Some(Vec::new()));
    }
    for count in [0, 2] {
        let values = positional(&vec![Value::Bytes(b"a"); count]);
        assert_eq!(keys(text, &values), Some(Vec::new()), "{count}");
    }
}

#[test]
fn doubt_is_none() {
    for text in [
        "",
        "TRUNCATE reading",
        "INSERT INTO reading (sensor, \"Day\") VALUES ('a', 1 + 6)",
        "INSERT INTO reading (sensor, \"Day\") VALUES ('a', (int) 7)",
        "INSERT INTO reading (sensor, \"Day\") VALUES ('a', '7')",
        // The column may have another name since.
        "INSERT INTO reading (sensor, d) VALUES ('a', 7)",
        "UPDATE reading SET v = 1 WHERE sensor = 'a' AND d = 7",
        "INSERT INTO reading JSON '{\"sensor\": \"a\", \"d\": 7}'",
        // What was no UTF-8 is another number of characters to Cassandra.
        "INSERT INTO reading (sensor, \"Day\") VALUES ('a\u{fffd}', 7)",
        "DELETE FROM reading WHERE sensor IN ('a', '\u{fffd}') AND \"Day\" = 7",
        "INSERT INTO reading JSON '{\"sensor\": \"\u{fffd}\", \"\\\"Day\\\"\": 7}'",
    ] {
        assert_eq!(keys(text, &[]), None, "{text}");
    }
    let text = "INSERT INTO reading (sensor, \"Day\") VALUES (:s, 7)";
    let a = Value::Bytes(b"a");
    assert_eq!(keys(text, &[(Some("x"), a)]), None);
    assert_eq!(keys(text, &[(Some("s"), a), (Some("s"), a)]), None);
    let set = CqlType::parse("frozen<set<int>>");
    let text = "INSERT INTO reading (k) VALUES (?)";
    assert_eq!(Written::parse(text, None, &with_key(&[("k", set)])), None);
}

#[test]
fn empty_values_are_parts_of_a_key() {
    let text = "INSERT INTO reading (sensor, \"Day\") VALUES ('', ?)";
    let expected = PartitionKey::from_components(&[b"", b""]);
    let found = keys(text, &positional(&[Value::Bytes(b"")]));
    assert_eq!(found.and_then(|mut keys| keys.pop()), expected);
}

/// The bytes of one key column of a type, in hexadecimal. `None`: not told.
fn in_json(cql_type: CqlType, document: &str) -> Option<Vec<String>> {
    let schema = with_key(&[("k", cql_type)]);
    let text = "INSERT INTO reading JSON ?";
    let written = Written::parse(text, None, &schema).expect("understood");
    let values = positional(&[Value::Bytes(document.as_bytes())]);
    let literal = format!(
        "INSERT INTO reading JSON '{}'",
        document.replace('\'', "''")
    );
    let of_literal = Written::parse(&literal, None, &schema).and_then(|written| written.keys(&[]));
    let found = written.keys(&values);
    assert_eq!(found, of_literal, "{document}");
    let hex = |key: &PartitionKey| key.bytes().iter().map(|b| format!("{b:02x}")).collect();
    Some(found?.iter().map(hex).collect())
}

#[test]
fn values_in_json_mean_what_their_type_says() {
    use CqlType::*;
    for (cql_type, value, expected) in [
        (Int, "7", Some("00000007")),
        (Int, "-0", Some("00000000")),
        (Int, "\"-7\"", Some("fffffff9")),
        (Int, "\"+7\"", None),
        (Int, "7.0", None),
        (Int, "7e0", None),
        (Int, "07", None),
        (Int, "2147483648", None),
        (BigInt, "2147483648", Some("0000000080000000")),
        (Double, "1", None),
        (Decimal, "1", None),
        (Date, "1", None),
        (Date, "\"2024-01-31\"", Some("80004d29")),
        (Timestamp, "4294967296", Some("0000000100000000")),
        (Timestamp, "\"2024-01-31Z\"", Some("0000018d5cd0bc00")),
        (Boolean, "true", Some("01")),
        (Boolean, "\"FALSE\"", Some("00")),
        (Boolean, "\"\"", None),
        (Blob, "\"0xABcd\"", Some("abcd")),
        (Blob, "\"abcd\"", None),
        (Inet, "\"::1\"", Some("00000000000000000000000000000001")),
        (
            Uuid,
            "\"00112233-4455-6677-8899-AABBCCDDEEFF\"",
            Some("00112233445566778899aabbccddeeff"),
        ),
        (Uuid, "\"00112233445566778899aabbccddeeff\"", None),
        (TimeUuid, "\"00112233-4455-6677-8899-aabbccddeeff\"", None),
        (Text, "\"é\\u00e9\\n\\/\\\"\"", Some("c3a9c3a90a2f22")),
        (Text, "\"\\ud83d\\uDE00\"", Some("f09f9880")),
        (Text, "\"\\ud83d\"", None),
        (Text, "\"\\ud83dx\"", None),
        (Text, "\"\\ude00\\ud83d\"", None),
        (Text, "\"\\ud83d\\u0041\"", None),
        (Text, "\"\\x\"", None),
        (Text, "\"\n\"", None),
        (Text, "7", None),
        (Text, "[\"a\"]", None),
        (Text, "{}", None),
    ] {
        let document = format!("{{\"k\": {value}}}");
        let expected = expected.map(|hex| vec![hex.to_owned()]);
        assert_eq!(in_json(cql_type, &document), expected, "{document}");
    }
}

#[test]
fn names_in_json_are_folded_as_cassandra_does() {
    let deep = |depth: usize| {
        format!(
            "{{\"k\": 7, \"v\": {}{}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let seven = Some("00000007");
    for (document, expected) in [
        ("{\"k\":7}", seven),
        (
            " { \"K\" :\t7 , \"v\" : [1, {\"k\": 8, \"x\": []}, -1.5e+3] } \r\n",
            seven,
        ),
        ("{\"\\\"k\\\"\": 7}", seven),
        ("{\"\\u006b\": 7}", seven),
        ("{\"k\": 7, \"v\": null, \"v\": 1}", seven),
        (&deep(50), seven),
        (&deep(100_000), None),
        ("{\"k\": 7, \"k\": 7}", None),
        ("{\"k\": null, \"K\": 7}", None),
        ("{\"\\\"K\\\"\": 7, \"k\": 7}", None),
        ("{\"\\\"k\": 7, \"k\": 7}", None),
        ("{\"\u{212a}\": 7}", None),
        ("{\"\\\"\": 1, \"k\": 7}", None),
        ("{\"k\": 7} {}", None),
        ("{\"k\": 7,}", None),
        ("{k: 7}", None),
        ("[7]", None),
        ("null", None),
        ("", None),
    ] {
        let expected = expected.map(|hex| vec![hex.to_owned()]);
        assert_eq!(in_json(CqlType::Int, document), expected, "{document:.60}");
    }
    for document in ["{}", "{\"k\": null}", "{\"v\": 1}"] {
        assert_eq!(
            in_json(CqlType::Int, document),
            Some(Vec::new()),
            "{document}"
        );
    }
}
