//! Values between two values of a clustering column, for reading a range in pieces. Pure.
//!
//! Ranges need not be exact halves: any value strictly between will do. Types whose values cannot be counted have none.

use std::cmp::Ordering;

use crate::schema::CqlType;
use crate::schema::order::compare;

/// As many leading bytes of texts and blobs are counted.
const TEXT_BYTES: usize = 14;

/// A value strictly between two others in ascending order; `None` where there is none, or none can be told.
pub(super) fn between(
    cql_type: &CqlType,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let kind = Kind::of(cql_type)?;
    let from = low.map_or(Some(0), |low| kind.rank(low))?;
    let to = high.map_or(Some(kind.last()), |high| kind.rank(high))?;
    let middle = kind.value(from.checked_add(to.checked_sub(from)? / 2)?)?;
    let above = low.is_none_or(|low| compare(cql_type, low, &middle) == Some(Ordering::Less));
    let below = high.is_none_or(|high| compare(cql_type, &middle, high) == Some(Ordering::Less));
    // What an empty value means as a bound is Cassandra's secret.
    (above && below && !middle.is_empty()).then_some(middle)
}

/// As far behind `to` as twice the way that led from `from` to it, up or down. `None`: beyond the last value, or there was no
/// way that could be seen.
pub(super) fn beyond(cql_type: &CqlType, from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let kind = Kind::of(cql_type)?;
    let (from, to) = (kind.rank(from)?, kind.rank(to)?);
    let far = match to.checked_sub(from) {
        Some(0) => return None,
        Some(way) => to.checked_add(2 * way)?,
        None => to.checked_sub(2 * (from - to))?,
    };
    (far <= kind.last()).then(|| kind.value(far))?
}

/// How the values of a type are counted.
#[derive(Clone, Copy)]
enum Kind {
    Signed(usize),
    Unsigned(usize),
    TimeOfDay,
    TimeUuid,
    Text,
    Blob,
}

const NANOS_OF_DAY: u128 = 86_400_000_000_000;
/// A time-based UUID counts 60 bits.
const UUID_TIMES: u128 = 1 << 60;

impl Kind {
    fn of(cql_type: &CqlType) -> Option<Self> {
        Some(match cql_type {
            CqlType::TinyInt => Self::Signed(1),
            CqlType::SmallInt => Self::Signed(2),
            CqlType::Int => Self::Signed(4),
            CqlType::BigInt | CqlType::Timestamp => Self::Signed(8),
            CqlType::Date => Self::Unsigned(4),
            CqlType::Time => Self::TimeOfDay,
            CqlType::TimeUuid => Self::TimeUuid,
            CqlType::Text | CqlType::Ascii => Self::Text,
            CqlType::Blob => Self::Blob,
            _ => return None,
        })
    }

    fn last(self) -> u128 {
        match self {
            Self::Signed(bytes) | Self::Unsigned(bytes) => (1 << (8 * bytes)) - 1,
            Self::TimeOfDay => NANOS_OF_DAY - 1,
            Self::TimeUuid => UUID_TIMES - 1,
            Self::Text | Self::Blob => (1 << (8 * TEXT_BYTES)) - 1,
        }
    }

    fn rank(self, value: &[u8]) -> Option<u128> {
        match self {
            Self::Signed(bytes) => {
                let number = (value.len() == bytes).then(|| number(value))?;
                Some(number ^ 1 << (8 * bytes - 1))
            }
            Self::Unsigned(bytes) => (value.len() == bytes).then(|| number(value)),
            Self::TimeOfDay => (value.len() == 8).then(|| number(value)),
            Self::TimeUuid => {
                let bytes: [u8; 16] = value.try_into().ok()?;
                let [low, middle, high] = [&bytes[..4], &bytes[4..6], &bytes[6..8]].map(number);
                Some((high & 0x0FFF) << 48 | middle << 32 | low)
            }
            Self::Text | Self::Blob => {
                let mut padded = [0; TEXT_BYTES];
                let count = value.len().min(TEXT_BYTES);
                padded[..count].copy_from_slice(&value[..count]);
                Some(number(&padded))
            }
        }
    }

    fn value(self, rank: u128) -> Option<Vec<u8>> {
        let bytes = rank.to_be_bytes();
        let tail = |count: usize| bytes[bytes.len() - count..].to_vec();
        Some(match self {
            Self::Signed(count) => {
                let mut value = tail(count);
                value[0] ^= 0x80;
                value
            }
            Self::Unsigned(count) => tail(count),
            Self::TimeOfDay => tail(8),
            Self::TimeUuid => {
                let time = tail(8);
                let mut value = [&time[4..], &time[2..4], &time[..2]].concat();
                value[6] = value[6] & 0x0F | 0x10;
                // The last one of its time.
                value.extend_from_slice(&[0x7F; 8]);
                value
            }
            Self::Text => {
                let mut value = without_zeros(tail(TEXT_BYTES));
                // What is no text is no value; a shorter one comes before it.
                let valid = value.iter().position(|byte| !byte.is_ascii());
                value.truncate(valid.unwrap_or(value.len()));
                (!value.is_empty()).then_some(value)?
            }
            Self::Blob => without_zeros(tail(TEXT_BYTES)),
        })
    }
}

fn number(bytes: &[u8]) -> u128 {
    let add = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
    bytes.iter().fold(0, add)
}

fn without_zeros(mut value: Vec<u8>) -> Vec<u8> {
    while value.last() == Some(&0) {
        value.pop();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [CqlType; 9] = [
        CqlType::TinyInt,
        CqlType::SmallInt,
        CqlType::Int,
        CqlType::BigInt,
        CqlType::Timestamp,
        CqlType::Date,
        CqlType::Time,
        CqlType::TimeUuid,
        CqlType::Blob,
    ];

    #[test]
    fn what_is_between_is_between_until_nothing_is() {
        for cql_type in &TYPES {
            let mut high = between(cql_type, None, None).expect("a value");
            let low = between(cql_type, None, Some(&high)).expect("a value");
            let mut steps = 0;
            while let Some(middle) = between(cql_type, Some(&low), Some(&high)) {
                assert_eq!(compare(cql_type, &low, &middle), Some(Ordering::Less));
                assert_eq!(compare(cql_type, &middle, &high), Some(Ordering::Less));
                (high, steps) = (middle, steps + 1);
                assert!(steps <= 8 * TEXT_BYTES, "{cql_type:?}");
            }
            assert!(steps > 4, "{cql_type:?}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        let middle = between(&CqlType::Text, Some(b"a"), Some(b"c")).expect("a value");
        assert_eq!(middle, b"b");
        let wide = between(&CqlType::Text, None, None);
        assert!(wide.is_none_or(|text| std::str::from_utf8(&text).is_ok()));
    }

    #[test]
    fn the_next_range_is_twice_as_long_in_the_same_direction() {
        let int = |number: i32| number.to_be_bytes().to_vec();
        let next = |from, to| beyond(&CqlType::Int, &int(from), &int(to));
        assert_eq!(next(-5, 5), Some(int(25)));
        assert_eq!(next(5, -5), Some(int(-25)));
        assert_eq!(next(7, 7), None);
        assert_eq!(next(0, i32::MAX), None);
        assert_eq!(next(0, i32::MIN), None);
    }

    #[test]
    fn types_that_cannot_be_counted_have_nothing_between() {
        assert_eq!(between(&CqlType::Inet, None, None), None);
        assert_eq!(between(&CqlType::Int, Some(b"no"), None), None);
    }
}
