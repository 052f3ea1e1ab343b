//! The order of values, as Cassandra sorts rows by clustering columns and the partitions of an `IN` by their keys.
//!
//! It compares serialized values. It returns `None` if Cassandra's order is not proven or the bytes are not a value of
//! the type; the caller then forwards the request. It must never guess, since a wrong order is a wrong answer.

use std::cmp::Ordering;
use std::net::Ipv6Addr;

use super::{ClusteringColumn, Column, CqlType, composite, varint};

/// Compares two values of a type in its ascending order.
pub fn compare(cql_type: &CqlType, a: &[u8], b: &[u8]) -> Option<Ordering> {
    let cql_type = cql_type.unfrozen();
    if a.is_empty() || b.is_empty() {
        return compare_empty(cql_type, a, b);
    }
    Some(match cql_type {
        // Their order does not depend on whether the bytes are valid text.
        CqlType::Ascii | CqlType::Text | CqlType::Blob => a.cmp(b),
        CqlType::Inet => address(a)?.cmp(address(b)?),
        CqlType::TinyInt => i8::from_be_bytes(fixed(a)?).cmp(&i8::from_be_bytes(fixed(b)?)),
        CqlType::SmallInt => i16::from_be_bytes(fixed(a)?).cmp(&i16::from_be_bytes(fixed(b)?)),
        CqlType::Int => i32::from_be_bytes(fixed(a)?).cmp(&i32::from_be_bytes(fixed(b)?)),
        CqlType::BigInt | CqlType::Timestamp => {
            i64::from_be_bytes(fixed(a)?).cmp(&i64::from_be_bytes(fixed(b)?))
        }
        CqlType::Date => fixed::<4>(a)?.cmp(&fixed(b)?),
        CqlType::Time => fixed::<8>(a)?.cmp(&fixed(b)?),
        // Every byte but 0 is true.
        CqlType::Boolean => (fixed::<1>(a)? != [0]).cmp(&(fixed::<1>(b)? != [0])),
        CqlType::Float => {
            let float = |bytes| Some(f64::from(f32::from_be_bytes(fixed(bytes)?)));
            compare_floats(float(a)?, float(b)?)
        }
        CqlType::Double => {
            compare_floats(f64::from_be_bytes(fixed(a)?), f64::from_be_bytes(fixed(b)?))
        }
        CqlType::VarInt => varint::compare(a, b),
        CqlType::Decimal => return compare_decimals(a, b),
        CqlType::Uuid => uuid_rank(fixed(a)?).cmp(&uuid_rank(fixed(b)?)),
        CqlType::TimeUuid => timeuuid_rank(fixed(a)?)?.cmp(&timeuuid_rank(fixed(b)?)?),
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Vector(..) => return composite::compare(cql_type, a, b),
        CqlType::Counter
        | CqlType::Duration
        | CqlType::User(_)
        | CqlType::Frozen(_)
        | CqlType::Other(_) => return None,
    })
}

/// Compares two clustering keys, or prefixes of them, in the order in which the table keeps its rows. If their lengths
/// differ, only the columns that both have are compared.
pub fn compare_clustering(
    clustering: &[ClusteringColumn],
    a: &[&[u8]],
    b: &[&[u8]],
) -> Option<Ordering> {
    if a.len().max(b.len()) > clustering.len() {
        return None;
    }
    for (column, (a, b)) in clustering.iter().zip(a.iter().zip(b)) {
        match compare(&column.column.cql_type, a, b)? {
            Ordering::Equal => {}
            different if column.descending => return Some(different.reverse()),
            different => return Some(different),
        }
    }
    Some(Ordering::Equal)
}

/// Compares two whole partition keys in the order in which `IN` returns their partitions.
pub fn compare_keys(partition_key: &[Column], a: &[Vec<u8>], b: &[Vec<u8>]) -> Option<Ordering> {
    if a.len() != partition_key.len() || b.len() != partition_key.len() {
        return None;
    }
    for (column, (a, b)) in partition_key.iter().zip(a.iter().zip(b)) {
        match compare(&column.cql_type, a, b)? {
            Ordering::Equal => {}
            different => return Some(different),
        }
    }
    Some(Ordering::Equal)
}

/// Whether Cassandra itself would write this value in these bytes. Other bytes may compare equal, but as keys they are
/// other partitions; `IN ?` converts them to these bytes, while `=` and `IN (?, …)` do not. Always `false` for
/// collections and tuples.
pub fn is_canonical(cql_type: &CqlType, value: &[u8]) -> bool {
    match cql_type {
        CqlType::Blob => true,
        CqlType::Text => std::str::from_utf8(value).is_ok(),
        CqlType::Ascii => value.is_ascii(),
        _ if value.is_empty() => false,
        CqlType::Boolean => matches!(value, [0 | 1]),
        CqlType::VarInt => varint::is_shortest(value),
        CqlType::Decimal => decimal(value).is_some_and(|(_, whole)| varint::is_shortest(whole)),
        CqlType::Float => {
            fixed(value).is_some_and(|bytes| bytes == canonical_float(f32::from_be_bytes(bytes)))
        }
        CqlType::Double => {
            fixed(value).is_some_and(|bytes| bytes == canonical_double(f64::from_be_bytes(bytes)))
        }
        CqlType::Inet => {
            let mapped = fixed(value).and_then(|bytes| Ipv6Addr::from(bytes).to_ipv4_mapped());
            address(value).is_some() && mapped.is_none()
        }
        CqlType::Frozen(_)
        | CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Vector(..) => false,
        _ => compare(cql_type, value, value).is_some(),
    }
}

/// Empty values come first, in the types that allow them.
fn compare_empty(cql_type: &CqlType, a: &[u8], b: &[u8]) -> Option<Ordering> {
    match cql_type {
        CqlType::Counter
        | CqlType::Duration
        | CqlType::User(_)
        | CqlType::Frozen(_)
        | CqlType::Other(_)
        | CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Date
        | CqlType::Time
        | CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Vector(..) => return None,
        _ => {}
    }
    // A value that is not empty must be valid.
    for value in [a, b] {
        if !value.is_empty() {
            compare(cql_type, value, value)?;
        }
    }
    Some(b.is_empty().cmp(&a.is_empty()))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn address(bytes: &[u8]) -> Option<&[u8]> {
    matches!(bytes.len(), 4 | 16).then_some(bytes)
}

/// As in Java: -0.0 comes before 0.0, and all NaNs are equal and come after infinity.
fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

fn canonical_float(value: f32) -> [u8; 4] {
    let value = if value.is_nan() { f32::NAN } else { value };
    value.to_be_bytes()
}

fn canonical_double(value: f64) -> [u8; 8] {
    let value = if value.is_nan() { f64::NAN } else { value };
    value.to_be_bytes()
}

/// A decimal is a scale and an unscaled number: `1.0` and `1.00` are equal.
fn compare_decimals(a: &[u8], b: &[u8]) -> Option<Ordering> {
    let (a_scale, a) = decimal(a)?;
    let (b_scale, b) = decimal(b)?;
    if a_scale == b_scale {
        return Some(varint::compare(a, b));
    }
    let (negative, b_negative) = (varint::is_negative(a), varint::is_negative(b));
    if negative != b_negative {
        return Some(b_negative.cmp(&negative));
    }
    let (a, b) = (varint::digits(a)?, varint::digits(b)?);
    if a.is_empty() || b.is_empty() {
        // Zero is not negative, and the signs are equal, so the other number is zero or larger.
        let by_presence = b.is_empty().cmp(&a.is_empty());
        return Some(directed(by_presence, negative));
    }
    // Number of digits before the point; negative when zeros follow it.
    let places = |digits: &[u8], scale: i32| digits.len() as i64 - i64::from(scale);
    let by_size = places(&a, a_scale).cmp(&places(&b, b_scale));
    let magnitude = by_size.then_with(|| significant(&a).cmp(significant(&b)));
    Some(directed(magnitude, negative))
}

fn decimal(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (scale, unscaled) = bytes.split_first_chunk()?;
    (!unscaled.is_empty()).then_some((i32::from_be_bytes(*scale), unscaled))
}

fn directed(magnitude: Ordering, negative: bool) -> Ordering {
    match negative {
        true => magnitude.reverse(),
        false => magnitude,
    }
}

/// Without trailing zeros, so that digits compare like fractions.
fn significant(digits: &[u8]) -> &[u8] {
    let end = digits.iter().rposition(|digit| *digit != 0);
    digits.get(..end.map_or(0, |end| end + 1)).unwrap_or(digits)
}

/// Sorts by version, then version 1 by its time and others by their first half, then by the second half.
fn uuid_rank(bytes: [u8; 16]) -> (u8, u64, u64) {
    let (high, low) = halves(bytes);
    let version = (high >> 12 & 0xF) as u8;
    let first = match version {
        1 => time_first(high),
        _ => high,
    };
    (version, first, low)
}

/// Sorts by time, then by the other bytes, each of them signed as in the first implementation.
fn timeuuid_rank(bytes: [u8; 16]) -> Option<(u64, [i8; 8])> {
    let (high, low) = halves(bytes);
    let is_time_based = high >> 12 & 0xF == 1;
    let rest = low.to_be_bytes().map(u8::cast_signed);
    is_time_based.then(|| (time_first(high), rest))
}

fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(bytes);
    ((whole >> 64) as u64, whole as u64)
}

/// The fields of a time-based UUID with the most significant first: version, high, middle, low.
fn time_first(high: u64) -> u64 {
    high << 48 | (high << 16 & 0xFFFF_0000_0000) | high >> 32
}

#[cfg(test)]
mod tests;
