//! The values of the types step: an ordinary row and one of empty or extreme values.

use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint,
};

use crate::Outcome;

fn text(value: &str) -> CqlValue {
    CqlValue::Text(value.into())
}

fn udt(keyspace: &str, street: Option<&str>, zip: Option<i32>, tags: Option<&[&str]>) -> CqlValue {
    let tags = tags.map(|tags| CqlValue::Set(tags.iter().map(|t| text(t)).collect()));
    CqlValue::UserDefinedType {
        keyspace: keyspace.into(),
        name: "address".into(),
        fields: vec![
            ("street".into(), street.map(text)),
            ("zip".into(), zip.map(CqlValue::Int)),
            ("tags".into(), tags),
        ],
    }
}

fn ints(values: &[i32]) -> CqlValue {
    CqlValue::List(values.iter().copied().map(CqlValue::Int).collect())
}

pub(crate) fn ordinary(keyspace: &str) -> Outcome<Vec<CqlValue>> {
    let timeuuid: CqlTimeuuid = "2b3bfe00-d6f5-11ee-8000-0123456789ab".parse()?;
    let uuid: CqlTimeuuid = "6f1c2d3e-4b5a-4978-8695-a4b3c2d1e0ff".parse()?;
    let big = [&[1u8][..], &[0; 10]].concat();
    Ok(vec![
        CqlValue::Ascii("ascii".into()),
        CqlValue::BigInt(1 << 40),
        CqlValue::Blob(vec![0, 255]),
        CqlValue::Boolean(true),
        CqlValue::Date(CqlDate((1 << 31) + 19_782)),
        CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(
            123_456_789i32.to_be_bytes().into(),
            4,
        )),
        CqlValue::Double(2.5),
        CqlValue::Duration(CqlDuration {
            months: 14,
            days: 3,
            nanoseconds: 5_000_000_000,
        }),
        CqlValue::Float(1.5),
        CqlValue::Inet("192.168.1.9".parse()?),
        CqlValue::Int(42),
        CqlValue::SmallInt(7),
        text("grüße ✓"),
        CqlValue::Time(CqlTime(3_600_000_000_001)),
        CqlValue::Timestamp(CqlTimestamp(1_709_209_815_123)),
        CqlValue::Timeuuid(timeuuid),
        CqlValue::TinyInt(5),
        CqlValue::Uuid(uuid.into()),
        CqlValue::Varint(CqlVarint::from_signed_bytes_be(big)),
        ints(&[3, 1, 2]),
        CqlValue::Set(vec![text("a"), text("b")]),
        CqlValue::Map(vec![
            (text("one"), CqlValue::Int(1)),
            (text("two"), CqlValue::Int(2)),
        ]),
        CqlValue::Map(vec![(text("x"), ints(&[1, 2])), (text("y"), ints(&[]))]),
        CqlValue::Tuple(vec![
            Some(CqlValue::Int(1)),
            Some(text("two")),
            Some(CqlValue::Boolean(false)),
        ]),
        udt(keyspace, Some("Main St"), Some(12345), Some(&["s", "t"])),
        udt(keyspace, Some("Side St"), None, None),
    ])
}

pub(crate) fn extreme(keyspace: &str) -> Outcome<Vec<CqlValue>> {
    let uuid: CqlTimeuuid = "00000000-0000-1000-8080-808080808080".parse()?;
    let low = [&[0xff, 0x7f][..], &[0xff; 15]].concat();
    Ok(vec![
        CqlValue::Ascii(String::new()),
        CqlValue::BigInt(i64::MIN),
        CqlValue::Blob(vec![]),
        CqlValue::Boolean(false),
        CqlValue::Date(CqlDate(0)),
        CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(
            vec![0xff],
            20,
        )),
        CqlValue::Double(-1e300),
        CqlValue::Duration(CqlDuration {
            months: -1,
            days: -2,
            nanoseconds: -3,
        }),
        CqlValue::Float(-0.5),
        CqlValue::Inet("2001:db8::1".parse()?),
        CqlValue::Int(i32::MIN),
        CqlValue::SmallInt(i16::MIN),
        text(""),
        CqlValue::Time(CqlTime(0)),
        CqlValue::Timestamp(CqlTimestamp(-315_619_200_000)),
        CqlValue::Timeuuid(uuid),
        CqlValue::TinyInt(i8::MIN),
        CqlValue::Uuid(uuid.into()),
        CqlValue::Varint(CqlVarint::from_signed_bytes_be(low)),
        ints(&[]),
        CqlValue::Set(vec![]),
        CqlValue::Map(vec![]),
        CqlValue::Map(vec![]),
        CqlValue::Tuple(vec![None, None, None]),
        udt(keyspace, None, None, None),
        udt(keyspace, Some(""), Some(0), Some(&[])),
    ])
}
