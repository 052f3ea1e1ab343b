//! Reads partition keys as Cassandra prints them, in `system.top_partitions` for example, into the bytes of their
//! columns. Pure.
//!
//! It returns a key only if no other key is printed the same. It returns `None` for types of which different values
//! look alike (booleans, floating-point and variable-length numbers, addresses, collections), and for texts that
//! Cassandra would not print.

use std::borrow::Cow;

use super::{Column, CqlType, literal};
use crate::statement::term::{self, Literal};

/// The serialized values of a key of these columns.
pub fn read(text: &str, columns: &[Column]) -> Option<Vec<Vec<u8>>> {
    if let [only] = columns {
        // Cassandra has no empty key of one column.
        let value = read_value(text, &only.cql_type).filter(|value| !value.is_empty())?;
        return Some(vec![value]);
    }
    let parts = split(text);
    if parts.len() != columns.len() {
        return None;
    }
    let each = parts.iter().zip(columns);
    each.map(|(part, column)| read_value(&unescape(part)?, &column.cql_type))
        .collect()
}

/// Several columns are separated by colons. A colon in a value has a backslash before it, and no column's text ends
/// with a backslash, so there is only one way to split them.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            parts.push(&text[begin..at]);
            begin = at + 1;
        }
    }
    parts.push(&text[begin..]);
    parts
}

fn unescape(part: &str) -> Option<String> {
    let text = part.replace("\\:", ":");
    let text = text.strip_suffix('!').unwrap_or(&text);
    (escape(text) == part).then(|| text.to_owned())
}

/// Escapes a value as Cassandra's composites do.
fn escape(text: &str) -> Cow<'_, str> {
    let mut escaped = Cow::Borrowed(text);
    if text.contains(':') {
        escaped = Cow::Owned(text.replace(':', "\\:"));
    }
    if text.ends_with(['\\', '!']) {
        escaped.to_mut().push('!');
    }
    escaped
}

fn read_value(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    let cql_type = cql_type.unfrozen();
    let literal = match cql_type {
        CqlType::Ascii | CqlType::Text => Literal::Text(text.to_owned()),
        CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt => {
            let number: i64 = text.parse().ok()?;
            Literal::Integer(as_printed(number.to_string(), text)?)
        }
        CqlType::Uuid | CqlType::TimeUuid => {
            let uuid = uuid::Uuid::try_parse(text).ok()?;
            as_printed(uuid.to_string(), text)?;
            Literal::Uuid(uuid.into_bytes())
        }
        // Years BC are printed like years AD, but no real key is that old.
        CqlType::Timestamp => moment(text, "0000-00-00T00:00:00.000Z")?,
        CqlType::Date => moment(text, "0000-00-00")?,
        CqlType::Time => moment(text, "00:00:00.000000000")?,
        CqlType::Blob => return read_hex(text),
        _ => return None,
    };
    literal::encode(&literal, cql_type)
}

/// Accepts only the form that Cassandra prints, of all the ways to write a value.
fn as_printed(printed: String, text: &str) -> Option<String> {
    (printed == text).then_some(printed)
}

/// Accepts a text with digits where `form` has zeros, and with the characters of `form` everywhere else.
fn moment(text: &str, form: &str) -> Option<Literal> {
    let fits = |(byte, form): (u8, u8)| match form {
        b'0' => byte.is_ascii_digit(),
        sign => byte == sign,
    };
    let is_it = text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits);
    is_it.then(|| Literal::Text(text.to_owned()))
}

/// Two lower-case hex digits for each byte.
fn read_hex(text: &str) -> Option<Vec<u8>> {
    let is_printed = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.bytes().all(is_printed).then(|| term::hex(text))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(types: &[&str]) -> Vec<Column> {
        let column = |cql_type: &&str| Column {
            name: "k".to_owned(),
            cql_type: CqlType::parse(cql_type),
        };
        types.iter().map(column).collect()
    }

    fn one(text: &str, cql_type: &str) -> Option<Vec<u8>> {
        let values = read(text, &columns(&[cql_type]))?;
        assert_eq!(values.len(), 1);
        values.into_iter().next()
    }

    fn texts(text: &str, count: usize) -> Option<Vec<String>> {
        let values = read(text, &columns(&vec!["text"; count]))?;
        let text = |value| String::from_utf8(value).expect("a text");
        Some(values.into_iter().map(text).collect())
    }

    #[test]
    fn a_value_is_read_as_it_is_printed() {
        let uuid = "8d6c4f2e-5b1a-11d3-9c77-000102030405";
        let bytes = b"\x8d\x6c\x4f\x2e\x5b\x1a\x11\xd3\x9c\x77\x00\x01\x02\x03\x04\x05";
        for (cql_type, text, bytes) in [
            ("text", "pump:7!", &b"pump:7!"[..]),
            ("text", "größe", "größe".as_bytes()),
            ("ascii", "7", b"7"),
            ("tinyint", "-128", &[0x80]),
            ("smallint", "256", &[1, 0]),
            ("int", "-1", &[0xff; 4]),
            ("bigint", "-9223372036854775808", &i64::MIN.to_be_bytes()),
            ("uuid", uuid, bytes),
            ("timeuuid", uuid, bytes),
            (
                "timestamp",
                "2023-11-14T22:13:20.123Z",
                &1_700_000_000_123_i64.to_be_bytes(),
            ),
            (
                "timestamp",
                "1969-12-31T23:59:59.999Z",
                &(-1_i64).to_be_bytes(),
            ),
            (
                "date",
                "2025-10-30",
                &((1_u32 << 31) + 20_391).to_be_bytes(),
            ),
            (
                "time",
                "01:02:03.000000004",
                &3_723_000_000_004_u64.to_be_bytes(),
            ),
            ("blob", "00cafe", &[0, 0xca, 0xfe]),
        ] {
            assert_eq!(one(text, cql_type).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_cassandra_would_not_print_so_is_no_key() {
        for (cql_type, text) in [
            ("text", ""),
            ("ascii", "é"),
            ("int", ""),
            ("int", "007"),
            ("int", "+7"),
            ("int", "-0"),
            ("int", "2147483648"),
            ("tinyint", "128"),
            ("uuid", "8D6C4F2E-5B1A-11D3-9C77-000102030405"),
            ("uuid", "8d6c4f2e5b1a11d39c77000102030405"),
            ("timeuuid", "8d6c4f2e-5b1a-41d3-9c77-000102030405"),
            ("timestamp", "1700000000123"),
            ("timestamp", "2023-11-14 22:13:20.123Z"),
            ("timestamp", "2023-11-14T22:13:20Z"),
            ("timestamp", "2023-11-31T22:13:20.123Z"),
            ("timestamp", "+12023-11-14T22:13:20.123Z"),
            ("timestamp", "0000-11-14T22:13:20.123Z"),
            ("date", "2147483648"),
            ("date", "2025-02-29"),
            ("time", "01:02:03"),
            ("time", "24:02:03.000000004"),
            ("blob", "0xcafe"),
            ("blob", "CAFE"),
            ("blob", "caf"),
        ] {
            assert_eq!(one(text, cql_type), None, "{text}");
        }
    }

    #[test]
    fn types_whose_values_look_alike_are_left_alone() {
        for (cql_type, text) in [
            ("boolean", "true"),
            ("varint", "1"),
            ("decimal", "1.0"),
            ("float", "1.0"),
            ("double", "NaN"),
            ("inet", "10.0.0.1"),
            ("frozen<list<int>>", "[1]"),
            ("frozen<tuple<int, int>>", "1:2"),
            ("'org.example.Type'", "1"),
        ] {
            assert_eq!(one(text, cql_type), None, "{cql_type}");
        }
    }

    #[test]
    fn columns_are_taken_apart_where_cassandra_put_them_together() {
        let key = read(
            "pump-7:2023-11-14T22\\:13\\:20.123Z:-3",
            &columns(&["text", "timestamp", "int"]),
        );
        let time = 1_700_000_000_123_i64.to_be_bytes().to_vec();
        assert_eq!(
            key,
            Some(vec![b"pump-7".to_vec(), time, vec![0xff, 0xff, 0xff, 0xfd]])
        );
        for (printed, values) in [
            ("a:b", ["a", "b"]),
            (":", ["", ""]),
            (":b", ["", "b"]),
            ("a\\:b:c", ["a:b", "c"]),
            ("\\::\\:", [":", ":"]),
            ("a\\!:b", ["a\\", "b"]),
            ("a!!:b!!", ["a!", "b!"]),
            ("a\\\\:b:c", ["a\\:b", "c"]),
            ("a!b:_", ["a!b", "_"]),
        ] {
            let read = texts(printed, 2);
            assert_eq!(read, Some(values.map(str::to_owned).to_vec()), "{printed}");
        }
    }

    #[test]
    fn every_pair_of_texts_is_read_back() {
        let letters = ['a', ':', '\\', '!', '_'];
        let mut all = vec![String::new()];
        for length in 0..4 {
            let longest: Vec<String> = all.iter().filter(|t| t.len() == length).cloned().collect();
            for text in longest {
                all.extend(letters.map(|letter| format!("{text}{letter}")));
            }
        }
        for (one, other) in all.iter().zip(all.iter().rev()) {
            let printed = format!("{}:{}", escape(one), escape(other));
            let both = vec![one.clone(), other.clone()];
            assert_eq!(texts(&printed, 2), Some(both), "{printed}");
        }
    }

    #[test]
    fn another_number_of_columns_is_no_key() {
        for text in ["", "a", "a:b:c", "a:b:!", "a:b:_", "a!:b", "a:b\\"] {
            assert_eq!(texts(text, 2), None, "{text}");
        }
        assert_eq!(read("a", &[]), None);
    }
}
