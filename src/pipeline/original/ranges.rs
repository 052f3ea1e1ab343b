//! Finds values between two values of a clustering column, so that a range can be read in pieces. Pure.
//!
//! The pieces need not be exact halves: any value strictly in between will do. Nothing is found for types whose values
//! cannot be counted.

use std::cmp::Ordering;

use crate::schema::CqlType;
use crate::schema::order::compare;

/// Number of leading bytes of a blob that are counted.
const BLOB_BYTES: usize = 14;
/// The same for texts, as digits of seven bits, so that every number is a valid text.
const TEXT_BYTES: usize = 18;
const TEXT_BITS: usize = 7;
const TEXT_LAST: u8 = 0x7F;

/// A value strictly between two others in ascending order; `None` if there is none, or none can be computed.
pub(in crate::pipeline) fn between(
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
    // It is not known how Cassandra treats an empty value as a bound.
    (above && below && !middle.is_empty()).then_some(middle)
}

/// The value that is twice as far beyond `to` as `to` is from `from`, in the same direction. `None` if that is past the
/// last value, or if there is no measurable distance.
pub(in crate::pipeline) fn beyond(cql_type: &CqlType, from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let kind = Kind::of(cql_type)?;
    let direction = compare(cql_type, from, to)?;
    let (first, last) = (kind.rank(from)?, kind.rank(to)?);
    let far = match last.checked_sub(first) {
        Some(0) => return None,
        Some(way) => last.checked_add(2 * way)?,
        None => last.checked_sub(2 * (first - last))?,
    };
    let value = (far <= kind.last()).then(|| kind.value(far))??;
    // A range that changed direction would never end.
    (compare(cql_type, to, &value) == Some(direction)).then_some(value)
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
/// A time-based UUID has a timestamp of 60 bits.
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
            Self::Text => (1 << (TEXT_BITS * TEXT_BYTES)) - 1,
            Self::Blob => (1 << (8 * BLOB_BYTES)) - 1,
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
            Self::Text => {
                let mut rank = 0;
                let mut is_ascii = true;
                for at in 0..TEXT_BYTES {
                    let byte = value.get(at).copied().unwrap_or(0);
                    // A non-ASCII byte ranks after all ASCII, whatever follows it.
                    is_ascii &= byte <= TEXT_LAST;
                    let digit = if is_ascii { byte } else { TEXT_LAST };
                    rank = rank << TEXT_BITS | u128::from(digit);
                }
                Some(rank)
            }
            Self::Blob => {
                let mut padded = [0; BLOB_BYTES];
                let count = value.len().min(BLOB_BYTES);
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
                // The last UUID with this timestamp.
                value.extend_from_slice(&[0x7F; 8]);
                value
            }
            Self::Text => {
                let digit = |at: usize| {
                    let shift = TEXT_BITS * (TEXT_BYTES - 1 - at);
                    (rank >> shift) as u8 & TEXT_LAST
                };
                let value = without_zeros((0..TEXT_BYTES).map(digit).collect());
                (!value.is_empty()).then_some(value)?
            }
            Self::Blob => without_zeros(tail(BLOB_BYTES)),
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

    const TYPES: [CqlType; 11] = [
        CqlType::Text,
        CqlType::Ascii,
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
                assert!(steps <= 128, "{cql_type:?}");
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
    fn texts_with_a_common_beginning_have_something_between() {
        let between = |low: &str, high: &str| {
            between(&CqlType::Text, Some(low.as_bytes()), Some(high.as_bytes()))
        };
        for (low, high) in [
            ("evt-1*", "evt-2\x1a"),
            ("evt-1", "evt-2"),
            ("x", "x\u{e9}"),
        ] {
            let middle = between(low, high).expect("a value");
            let middle = String::from_utf8(middle).expect("a text");
            assert!(low < middle.as_str() && middle.as_str() < high, "{middle}");
        }
        assert_eq!(between("\u{e9}", "\u{ea}"), None);
    }

    #[test]
    fn a_range_of_texts_never_turns_round() {
        for (from, to) in [
            ("evt-5", "evt-6"),
            ("evt-6", "evt-5"),
            ("a\u{e9}", "b"),
            ("b", "a\u{e9}"),
        ] {
            let (mut from, mut to) = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
            let direction = from.cmp(&to);
            let mut steps = 0;
            while let Some(next) = beyond(&CqlType::Text, &from, &to) {
                assert_eq!(to.cmp(&next), direction);
                (from, to, steps) = (to, next, steps + 1);
                assert!(steps < 128);
            }
        }
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
