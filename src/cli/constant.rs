//! Stored values as CQL literals, and back. Pure.
//!
//! Commands accept what they print. Values with no exact CQL literal are printed as hex (`0x…`), which means these
//! bytes whatever the type. So are texts with characters that a terminal would act on instead of showing.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::explain::values::constant;
use super::moment;
use crate::schema::{CqlType, literal};
use crate::statement::term::Literal;

/// The bytes that a literal stands for in a column of this type.
pub(super) fn read(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    // The statement parser does not accept an empty blob.
    if text.trim() == "0x" {
        return Some(Vec::new());
    }
    match constant(text)? {
        Literal::Blob(bytes) => Some(bytes),
        literal => literal::encode(&literal, cql_type.unfrozen()),
    }
}

/// The literal that stands for exactly these bytes, or hex.
pub(super) fn show(bytes: &[u8], cql_type: &CqlType) -> String {
    native(bytes, cql_type.unfrozen())
        .filter(|text| read(text, cql_type).as_deref() == Some(bytes))
        .unwrap_or_else(|| hex(bytes))
}

/// The bytes as a blob literal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// A literal that looks right for the type; the caller checks that it means the same bytes.
fn native(bytes: &[u8], cql_type: &CqlType) -> Option<String> {
    Some(match cql_type {
        CqlType::Ascii | CqlType::Text => text(bytes)?,
        CqlType::Boolean => (bytes == [1]).to_string(),
        CqlType::TinyInt => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::SmallInt => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::Int => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::BigInt => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        CqlType::VarInt => whole(bytes)?.to_string(),
        CqlType::Decimal => decimal(bytes)?,
        CqlType::Float => format!("{:?}", f32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Double => format!("{:?}", f64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Date => date(u32::from_be_bytes(bytes.try_into().ok()?))?,
        CqlType::Time => time(u64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Timestamp => timestamp(i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Uuid | CqlType::TimeUuid => uuid::Uuid::from_slice(bytes).ok()?.to_string(),
        CqlType::Inet => format!("'{}'", address(bytes)?),
        _ => return None,
    })
}

/// `None` for text with control or direction characters: a terminal would act on them.
fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let turns = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let seen = !text.chars().any(|c| c.is_control() || turns(c));
    seen.then(|| format!("'{}'", text.replace('\'', "''")))
}

/// A number of up to 16 bytes; longer ones are printed as hex.
fn whole(bytes: &[u8]) -> Option<i128> {
    let first = bytes.first().filter(|_| bytes.len() <= 16)?;
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Some(
        bytes
            .iter()
            .fold(sign, |number, byte| number << 8 | i128::from(*byte)),
    )
}

/// The unscaled digits, with the decimal point where the scale puts it.
fn decimal(bytes: &[u8]) -> Option<String> {
    let (scale, unscaled) = bytes.split_first_chunk()?;
    let (scale, number) = (i32::from_be_bytes(*scale), whole(unscaled)?);
    Some(match usize::try_from(scale) {
        Ok(0) => number.to_string(),
        Ok(places @ 1..=20) => {
            let sign = if number < 0 { "-" } else { "" };
            let digits = format!("{:0>1$}", number.unsigned_abs(), places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{number}E{}", -i64::from(scale)),
    })
}

/// Cassandra stores 1970-01-01 as 2^31.
fn date(number: u32) -> Option<String> {
    let days = i64::from(number) - (1 << 31);
    match moment::day(days) {
        Some(day) => Some(format!("'{day}'")),
        None => Some(number.to_string()),
    }
}

fn time(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "'{hours:02}:{minutes:02}:{seconds:02}.{:09}'",
        nanos % 1_000_000_000
    )
}

fn timestamp(millis: i64) -> String {
    match moment::day(millis.div_euclid(86_400_000)) {
        Some(day) => {
            let millis = millis.rem_euclid(86_400_000);
            let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
            let (seconds, millis) = (millis / 1000 % 60, millis % 1000);
            format!("'{day}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z'")
        }
        None => millis.to_string(),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(older) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(older).to_string());
    }
    let newer = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(newer).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_people_write_them() {
        let uuid = [
            0x8d, 0x6c, 0x4f, 0x2e, 0x5b, 0x1a, 0x41, 0xd3, 0x9c, 0x77, 0, 1, 2, 3, 4, 5,
        ];
        for (cql_type, bytes, text) in [
            ("text", &b"it's"[..], "'it''s'"),
            ("text", b"", "''"),
            ("text", "größe".as_bytes(), "'größe'"),
            ("ascii", b"s1", "'s1'"),
            ("boolean", &[1], "true"),
            ("boolean", &[0], "false"),
            ("tinyint", &[0xff], "-1"),
            ("smallint", &[1, 0], "256"),
            ("int", &7_i32.to_be_bytes(), "7"),
            ("bigint", &i64::MIN.to_be_bytes(), "-9223372036854775808"),
            ("varint", &[0xfe, 0x00], "-512"),
            ("varint", &[0], "0"),
            ("decimal", &[0, 0, 0, 2, 0xfb], "-0.05"),
            ("decimal", &[0, 0, 0, 0, 5], "5"),
            ("decimal", &[0xff, 0xff, 0xff, 0xfe, 5], "5E2"),
            ("double", &0.1_f64.to_be_bytes(), "0.1"),
            ("double", &f64::NAN.to_be_bytes(), "NaN"),
            ("float", &1e30_f32.to_be_bytes(), "1e30"),
            (
                "date",
                &((1_u32 << 31) + 20_391).to_be_bytes(),
                "'2025-10-30'",
            ),
            ("date", &0_u32.to_be_bytes(), "0"),
            (
                "time",
                &3_723_000_000_004_u64.to_be_bytes(),
                "'01:02:03.000000004'",
            ),
            (
                "timestamp",
                &1_700_000_000_123_i64.to_be_bytes(),
                "'2023-11-14T22:13:20.123Z'",
            ),
            (
                "timestamp",
                &(-1_i64).to_be_bytes(),
                "'1969-12-31T23:59:59.999Z'",
            ),
            ("timestamp", &i64::MAX.to_be_bytes(), "9223372036854775807"),
            ("uuid", &uuid, "8d6c4f2e-5b1a-41d3-9c77-000102030405"),
            ("inet", &[10, 0, 0, 1], "'10.0.0.1'"),
            (
                "inet",
                &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
                "'1::2'",
            ),
            ("blob", &[0xca, 0xfe], "0xcafe"),
            ("frozen<list<int>>", &[0, 0, 0, 0], "0x00000000"),
        ] {
            let cql_type = CqlType::parse(cql_type);
            assert_eq!(show(bytes, &cql_type), text, "{cql_type:?}");
            assert_eq!(
                read(text, &cql_type).as_deref(),
                Some(bytes),
                "{cql_type:?}"
            );
        }
    }

    #[test]
    fn what_no_constant_means_is_shown_as_its_bytes() {
        let long = [1; 40];
        for (cql_type, bytes) in [
            // A terminal would obey it.
            ("text", &b"\x1b[2J"[..]),
            ("text", "a\u{202e}b".as_bytes()),
            ("text", &[0xff]),
            ("ascii", "é".as_bytes()),
            ("int", &[1, 2, 3]),
            ("int", b""),
            ("boolean", &[7]),
            ("varint", &[0, 0, 1]),
            ("varint", &long),
            ("decimal", &[0x7f, 0xff, 0xff, 0xff, 1]),
            ("decimal", &[0, 0]),
            ("double", &0xfff8_0000_0000_0001_u64.to_be_bytes()),
            ("time", &u64::MAX.to_be_bytes()),
            ("timeuuid", &[4; 16]),
            ("inet", &[1]),
        ] {
            let cql_type = CqlType::parse(cql_type);
            let text = show(bytes, &cql_type);
            assert!(text.starts_with("0x"), "{text}");
            assert_eq!(read(&text, &cql_type).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn only_constants_are_read() {
        for (cql_type, text) in [
            ("text", "s1"),
            ("text", "7"),
            ("int", "'7'"),
            ("int", "2147483648"),
            ("int", "?"),
            ("int", "1 AND b = 2"),
            ("int", "null"),
            ("int", ""),
            ("uuid", "now()"),
        ] {
            assert_eq!(read(text, &CqlType::parse(cql_type)), None, "{text}");
        }
    }
}
