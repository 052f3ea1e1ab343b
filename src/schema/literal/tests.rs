//! What a real Cassandra stores is in `tests/integration/literals.rs`.

use super::*;

fn hex(bytes: Vec<u8>) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(make: fn(String) -> Literal, cases: &[(CqlType, &str, Option<&str>)]) {
    for (cql_type, text, expected) in cases {
        let encoded = encode(&make((*text).to_owned()), cql_type).map(hex);
        assert_eq!(encoded.as_deref(), *expected, "{cql_type:?} {text}");
    }
}

#[test]
fn integers_fit_or_are_refused() {
    use CqlType::*;
    check(
        Literal::Integer,
        &[
            (TinyInt, "-128", Some("80")),
            (TinyInt, "128", None),
            (SmallInt, "32767", Some("7fff")),
            (SmallInt, "32768", None),
            (Int, "007", Some("00000007")),
            (Int, "-0", Some("00000000")),
            (Int, "2147483648", None),
            (Int, "+1", None),
            (Int, "", None),
            (Int, "-", None),
            (BigInt, "-9223372036854775808", Some("8000000000000000")),
            (BigInt, "9223372036854775808", None),
            (Timestamp, "-1", Some("ffffffffffffffff")),
            (VarInt, "-129", Some("ff7f")),
            (Decimal, "-5", Some("00000000fb")),
            (Float, "16777217", Some("4b800000")),
            (Double, "-0", Some("8000000000000000")),
            (Date, "4294967295", Some("ffffffff")),
            (Date, "-1", None),
            (Time, "86399999999999", Some("00004e94914effff")),
            (Time, "86400000000000", None),
            (Counter, "1", None),
            (Duration, "1", None),
            (Text, "1", None),
            (Boolean, "1", None),
        ],
    );
}

#[test]
fn fractions_keep_their_scale() {
    use CqlType::*;
    check(
        Literal::Float,
        &[
            (Decimal, "1.50", Some("000000020096")),
            (Decimal, "1.", Some("0000000001")),
            (Decimal, "1.5e+3", Some("fffffffe0f")),
            (Decimal, "-12.34E-7", Some("00000009fb2e")),
            (Decimal, "1e400", None),
            (Decimal, "1e99999999999", None),
            (Decimal, "1e-2147483648", None),
            (Decimal, "NaN", None),
            (Decimal, "1e", None),
            (Decimal, ".5", None),
            (Decimal, "1.5.5", None),
            (Float, "1.1", Some("3f8ccccd")),
            (Float, "-nan", Some("7fc00000")),
            (Float, "-Infinity", Some("ff800000")),
            (Float, "1e39", None),
            (Float, "inf", None),
            (Double, "0.1", Some("3fb999999999999a")),
            (Double, "1e-400", Some("0000000000000000")),
            (Double, "1e-2147483648", None),
            (Double, "NaN", Some("7ff8000000000000")),
            (Int, "1.0", None),
        ],
    );
}

#[test]
fn texts_mean_what_their_type_says() {
    use CqlType::*;
    check(
        Literal::Text,
        &[
            (Text, "é", Some("c3a9")),
            (Text, "", Some("")),
            (Ascii, "a", Some("61")),
            (Ascii, "é", None),
            (Inet, "127.0.0.1", Some("7f000001")),
            (Inet, "::ffff:1.2.3.4", Some("01020304")),
            (Inet, "::1", Some("00000000000000000000000000000001")),
            (Inet, "localhost", None),
            (Inet, "127.1", None),
            (Inet, "", None),
            (Int, "1", None),
            (Uuid, "00000000-0000-0000-0000-000000000000", None),
            (Blob, "ab", None),
        ],
    );
}

#[test]
fn moments_are_read_only_where_they_are_clear() {
    use CqlType::*;
    check(
        Literal::Text,
        &[
            (Date, "2024-01-31", Some("80004d29")),
            (Date, "0000-01-01", Some("7ff50558")),
            (Date, "9999-12-31", Some("802cc0a0")),
            (Date, "2023-02-29", None),
            (Date, "2024-13-01", None),
            (Date, "2024-1-31", None),
            (Date, "2024-01-31 ", None),
            (Time, "08:12:54", Some("00001ae5bbc3bc00")),
            (Time, "08:12:54.123456789", Some("00001ae5c31f8915")),
            (Time, "08:12:54.1234567890", None),
            (Time, "08:12:54.", None),
            (Time, "24:00:00", None),
            (Time, "08:12", None),
            (Timestamp, "2024-01-31", None),
            (Timestamp, "2024-01-31T10:11:12", None),
            (Timestamp, "2024-01-31Z", Some("0000018d5cd0bc00")),
            (Timestamp, "2024-01-31 +01:00", Some("0000018d5c99cd80")),
            (Timestamp, "2024-01-31T10:11-0330", Some("0000018d5fc061e0")),
            (
                Timestamp,
                "2024-01-31 10:11:12.123999 +02",
                Some("0000018d5e92717b"),
            ),
            (
                Timestamp,
                "1969-12-31T23:59:59.9995Z",
                Some("ffffffffffffffff"),
            ),
            (Timestamp, "0000-01-01T00:00Z", None),
            (Timestamp, "2024-02-30T00:00Z", None),
            (Timestamp, "2024-01-31T10:11+1801", None),
            (Timestamp, "2024-01-31T10:11+0160", None),
            (Timestamp, "2024-01-31é10:11Z", None),
            (Timestamp, "now", None),
            (Timestamp, "-123", Some("ffffffffffffff85")),
            (Timestamp, "", None),
        ],
    );
}

#[test]
fn the_other_constants_are_for_their_own_type() {
    let version = |version: u8| {
        let mut bytes = [0; 16];
        bytes[6] = version << 4;
        Literal::Uuid(bytes)
    };
    assert!(encode(&version(4), &CqlType::Uuid).is_some());
    assert!(encode(&version(1), &CqlType::TimeUuid).is_some());
    assert_eq!(encode(&version(4), &CqlType::TimeUuid), None);
    assert_eq!(encode(&version(4), &CqlType::Text), None);
    let blob = Literal::Blob(vec![1]);
    assert_eq!(encode(&blob, &CqlType::Blob), Some(vec![1]));
    assert_eq!(encode(&blob, &CqlType::TinyInt), None);
    let yes = Literal::Boolean(true);
    assert_eq!(encode(&yes, &CqlType::Boolean), Some(vec![1]));
    assert_eq!(encode(&yes, &CqlType::Int), None);
    assert_eq!(encode(&Literal::Null, &CqlType::Int), None);
    let week = Literal::Duration("1w".into());
    assert_eq!(encode(&week, &CqlType::Duration), None);
}
