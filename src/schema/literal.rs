//! The bytes of a constant in a statement's text, as a value of a column's type.
//!
//! It returns bytes only if Cassandra would store exactly these. It returns `None` where Cassandra would refuse the
//! constant, would interpret it by the node's own clock, time zone or name service, or is lenient in ways that are not
//! proven.

use std::net::IpAddr;

use super::{CqlType, moment, varint};
use crate::statement::term::Literal;

/// The serialized value of a literal, or `None` where only Cassandra can tell.
pub fn encode(literal: &Literal, cql_type: &CqlType) -> Option<Vec<u8>> {
    match literal {
        Literal::Null | Literal::Duration(_) => None,
        Literal::Boolean(value) => (*cql_type == CqlType::Boolean).then(|| vec![u8::from(*value)]),
        Literal::Integer(text) => encode_integer(text, cql_type),
        Literal::Float(text) => encode_float(text, cql_type),
        Literal::Text(text) => encode_text(text, cql_type),
        Literal::Uuid(bytes) => match cql_type {
            CqlType::Uuid => Some(bytes.to_vec()),
            // Its version must be 1.
            CqlType::TimeUuid => (bytes[6] >> 4 == 1).then(|| bytes.to_vec()),
            _ => None,
        },
        Literal::Blob(bytes) => (*cql_type == CqlType::Blob).then(|| bytes.clone()),
    }
}

fn encode_integer(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    let (negative, digits) = signed(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match cql_type {
        CqlType::TinyInt => Some(text.parse::<i8>().ok()?.to_be_bytes().to_vec()),
        CqlType::SmallInt => Some(text.parse::<i16>().ok()?.to_be_bytes().to_vec()),
        CqlType::Int => Some(text.parse::<i32>().ok()?.to_be_bytes().to_vec()),
        CqlType::BigInt | CqlType::Timestamp => {
            Some(text.parse::<i64>().ok()?.to_be_bytes().to_vec())
        }
        CqlType::VarInt => varint::from_digits(negative, digits),
        CqlType::Decimal => encode_decimal(text),
        CqlType::Float | CqlType::Double => encode_number(text, cql_type),
        CqlType::Date if !negative => moment::raw_date(digits),
        CqlType::Time if !negative => moment::raw_time(digits),
        _ => None,
    }
}

fn encode_float(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    let (negative, name) = signed(text);
    let named = match name.to_ascii_lowercase().as_str() {
        // Cassandra drops the sign of NaN.
        "nan" => Some((f64::NAN, f32::NAN)),
        "infinity" if negative => Some((f64::NEG_INFINITY, f32::NEG_INFINITY)),
        "infinity" => Some((f64::INFINITY, f32::INFINITY)),
        _ => None,
    };
    match (named, cql_type) {
        (Some((double, _)), CqlType::Double) => Some(double.to_be_bytes().to_vec()),
        (Some((_, float)), CqlType::Float) => Some(float.to_be_bytes().to_vec()),
        (Some(_), _) => None,
        (None, CqlType::Decimal) => encode_decimal(text),
        (None, CqlType::Float | CqlType::Double) => encode_number(text, cql_type),
        (None, _) => None,
    }
}

/// A number in digits as a float or double. One that would be infinite is left to Cassandra.
fn encode_number(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    Number::read(text)?;
    if *cql_type == CqlType::Double {
        let value: f64 = text.parse().ok()?;
        return value.is_finite().then(|| value.to_be_bytes().to_vec());
    }
    let value: f32 = text.parse().ok()?;
    value.is_finite().then(|| value.to_be_bytes().to_vec())
}

/// The scale, then the digits as a whole number: `1.50` is 150 with scale 2.
fn encode_decimal(text: &str) -> Option<Vec<u8>> {
    let number = Number::read(text)?;
    let unscaled = varint::from_digits(number.negative, &number.digits)?;
    Some([&number.scale.to_be_bytes()[..], &unscaled].concat())
}

/// A number as it is written: its digits, and the scale that follows from its point and exponent.
struct Number {
    negative: bool,
    digits: String,
    scale: i32,
}

impl Number {
    /// Cassandra reads every such constant both as a decimal and as a double, whatever its column's type, and refuses
    /// one that either cannot hold.
    fn read(text: &str) -> Option<Self> {
        /// Far more than anybody writes, and far below the limit of decimals.
        const SCALE_MAX: i64 = 1_000_000;
        let (negative, rest) = signed(text);
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let fits = scale.abs() <= SCALE_MAX && text.parse::<f64>().ok()?.is_finite();
        fits.then_some(Self {
            negative,
            digits,
            scale: i32::try_from(scale).ok()?,
        })
    }
}

fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // An int, as in Cassandra's own decimals.
    let exponent: i32 = is_number.then(|| text.parse().ok())??;
    Some(exponent.into())
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

fn encode_text(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    match cql_type {
        CqlType::Text => Some(text.as_bytes().to_vec()),
        CqlType::Ascii => text.is_ascii().then(|| text.as_bytes().to_vec()),
        CqlType::Inet => encode_address(text),
        CqlType::Date => moment::date(text),
        CqlType::Time => moment::time(text),
        CqlType::Timestamp => moment::timestamp(text),
        _ => None,
    }
}

/// A complete IP address. A shortened or bracketed one is left to Cassandra, and so is a host name, which it looks up.
fn encode_address(text: &str) -> Option<Vec<u8>> {
    Some(match text.parse().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        // Java turns an IPv4-mapped address into an IPv4 address.
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(older) => older.octets().to_vec(),
            None => address.octets().to_vec(),
        },
    })
}

#[cfg(test)]
mod tests;
