//! Our own paging state: the position of a scan of a split partition. It holds all that any proxy needs to continue.
//!
//! It must never be mistaken for one of Cassandra's, nor one of Cassandra's for ours. A native state begins with the
//! length of a partition key of at most 65535 bytes. In v4 and v5 that is a variable-length integer, whose first byte
//! is then at most 0xC0. In v3 it is two bytes: `FF FF` means that a key of 65535 bytes follows. That is longer than
//! any of our states except one with an enormous mark, and the key would still have to begin with the rest of our
//! prefix. To Cassandra, ours is an invalid state.

use thiserror::Error;
use twox_hash::XxHash3_64;

use super::native::Mark;
use crate::protocol::types::{Cursor, Write};

const PREFIX: &[u8] = b"\xFF\xFF\x9Enarrows";
const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 8;

mod has {
    pub(super) const MARK: u8 = 0x01;
    pub(super) const LIMIT: u8 = 0x02;
    pub(super) const PARTITION_LIMIT: u8 = 0x04;
    pub(super) const GENERATION: u8 = 0x08;
    pub(super) const KEY: u8 = 0x10;
    pub(super) const ALL: u8 = 0x1F;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagingState {
    /// `None`: the current partition is read from the original, as one of several.
    pub generation: Option<i32>,
    pub bucket: u32,
    /// The current partition key, with its number in the order of the result; `None` if the statement has only one.
    pub key: Option<(u32, Vec<u8>)>,
    /// Number of values in a mark, for a proxy that does not know the table.
    pub clustering_columns: u8,
    /// The last row that was sent; `None` at the beginning of the bucket.
    pub mark: Option<Mark>,
    /// What is left of LIMIT, if there is one.
    pub limit_left: Option<u32>,
    /// What is left of PER PARTITION LIMIT in this partition, if there is one.
    pub partition_limit_left: Option<u32>,
    /// Fingerprint of the statement and its values.
    pub fingerprint: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StateError {
    #[error("paging state is damaged")]
    Damaged,
    #[error("paging state has format {0}, but this version knows only {FORMAT}")]
    Format(u8),
}

impl PagingState {
    pub fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut out = PREFIX.to_vec();
        out.put_byte(FORMAT);
        out.put_byte(
            flag(self.mark.is_some(), has::MARK)
                | flag(self.limit_left.is_some(), has::LIMIT)
                | flag(self.partition_limit_left.is_some(), has::PARTITION_LIMIT)
                | flag(self.generation.is_some(), has::GENERATION)
                | flag(self.key.is_some(), has::KEY),
        );
        out.put_byte(self.clustering_columns);
        out.put_int(self.generation.unwrap_or(0));
        for number in [
            self.bucket,
            self.key.as_ref().map_or(0, |(number, _)| *number),
            self.limit_left.unwrap_or(0),
            self.partition_limit_left.unwrap_or(0),
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.fingerprint.to_be_bytes());
        let key = self.key.as_ref().map(|(_, key)| key.as_slice());
        out.put_bytes(Some(key.unwrap_or_default()));
        out.extend_from_slice(self.mark.as_ref().map_or(&[], Mark::as_bytes));
        let checksum = checksum(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Whether the bytes may contain one of our states: a quick check that saves parsing a request.
    pub fn might_be_in(bytes: &[u8]) -> bool {
        bytes.windows(PREFIX.len()).any(|window| window == PREFIX)
    }

    /// Reads a state. `Ok(None)`: not one of ours.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, StateError> {
        let Some(rest) = bytes.strip_prefix(PREFIX) else {
            return Ok(None);
        };
        // Another format may have its checksum elsewhere, so the format is trusted without it.
        match rest.first() {
            Some(&FORMAT) => {}
            Some(other) => return Err(StateError::Format(*other)),
            None => return Err(StateError::Damaged),
        }
        let content = checked(bytes).ok_or(StateError::Damaged)?;
        let state = content.get(PREFIX.len() + 1..).and_then(read);
        state.map(Some).ok_or(StateError::Damaged)
    }
}

/// The content before the checksum, if the checksum matches it.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (content, stored) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum(content) == *stored).then_some(content)
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    XxHash3_64::oneshot(content).to_be_bytes()
}

/// Reads the fields after the format.
fn read(fields: &[u8]) -> Option<PagingState> {
    let mut cursor = Cursor::new(fields);
    let flags = cursor.byte().ok()?;
    let clustering_columns = cursor.byte().ok()?;
    let generation = cursor.int().ok()?;
    let mut number = || Some(cursor.int().ok()?.cast_unsigned());
    let (bucket, key_number) = (number()?, number()?);
    let (limit, partition_limit) = (number()?, number()?);
    let fingerprint = cursor.long().ok()?.cast_unsigned();
    let key = cursor.bytes().ok()??.to_vec();
    let mark = Mark::from_bytes(cursor.rest());
    if flags & !has::ALL != 0
        || mark.is_some() != (flags & has::MARK != 0)
        || key.is_empty() != (flags & has::KEY == 0)
    {
        return None;
    }
    let if_set = |flag: u8, number: u32| (flags & flag != 0).then_some(number);
    Some(PagingState {
        generation: (flags & has::GENERATION != 0).then_some(generation),
        bucket,
        key: if_set(has::KEY, key_number).map(|number| (number, key)),
        clustering_columns,
        mark,
        limit_left: if_set(has::LIMIT, limit),
        partition_limit_left: if_set(has::PARTITION_LIMIT, partition_limit),
        fingerprint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Version;
    use crate::rewrite::native::{NativeState, UNLIMITED};

    fn states() -> Vec<PagingState> {
        let marks: [&[Option<&[u8]>]; 3] = [
            &[],
            &[Some(b"2026")],
            &[Some(b""), None, Some(&[0xFF; 300])],
        ];
        let mut states = Vec::new();
        for (index, mark) in marks.iter().enumerate() {
            for limit in [None, Some(0), Some(u32::MAX)] {
                states.push(PagingState {
                    generation: [None, Some(-1), Some(i32::MAX)][index],
                    bucket: [0, 7, u32::MAX][index],
                    key: [None, Some((1, vec![7])), Some((u32::MAX, vec![0; 300]))][index].clone(),
                    clustering_columns: [0, 1, 3][index],
                    mark: Mark::from_values(mark),
                    limit_left: limit,
                    partition_limit_left: limit.map(|limit| limit / 2).filter(|_| index != 1),
                    fingerprint: 0xFEDC_BA98_7654_3210 >> index,
                });
            }
        }
        states
    }

    #[test]
    fn reads_what_it_writes() {
        for state in states() {
            assert_eq!(PagingState::decode(&state.encode()), Ok(Some(state)));
        }
    }

    #[test]
    fn no_changed_byte_gives_another_state() {
        for state in states() {
            let encoded = state.encode();
            for at in 0..encoded.len() {
                for change in 1..=255 {
                    let mut changed = encoded.clone();
                    changed[at] ^= change;
                    let decoded = PagingState::decode(&changed);
                    assert!(matches!(decoded, Err(_) | Ok(None)), "{at} {decoded:?}");
                    let ours = at >= PREFIX.len();
                    assert_eq!(decoded.is_err(), ours, "{at}");
                }
            }
        }
    }

    #[test]
    fn no_truncated_or_extended_state_is_one() {
        for state in states() {
            let encoded = state.encode();
            for end in 0..encoded.len() {
                let decoded = PagingState::decode(&encoded[..end]);
                assert!(matches!(decoded, Err(_) | Ok(None)), "{end} {decoded:?}");
            }
            for more in [&[0][..], &[0; 8], &encoded] {
                let longer = [&encoded, more].concat();
                assert_eq!(PagingState::decode(&longer), Err(StateError::Damaged));
            }
        }
    }

    #[test]
    fn another_format_is_named() {
        let mut encoded = states()[0].encode();
        encoded[PREFIX.len()] = 2;
        assert_eq!(PagingState::decode(&encoded), Err(StateError::Format(2)));
    }

    #[test]
    fn ours_are_not_native_and_native_ones_not_ours() {
        for state in states() {
            assert_eq!(NativeState::read(&state.encode()), None);
        }
        for length in [0, 1, 127, 128, 254, 255, 16_383, 16_384, 65_534, 65_535] {
            let native = NativeState {
                key: PREFIX.repeat(length / PREFIX.len() + 1)[..length].to_vec(),
                mark: Mark::from_values(&[Some(PREFIX)]),
                remaining: UNLIMITED,
                remaining_in_partition: UNLIMITED,
            };
            for version in [Version::V3, Version::V4, Version::V5] {
                let bytes = native.encode(version, 1).expect("within the form");
                assert_eq!(
                    PagingState::decode(&bytes),
                    Ok(None),
                    "{version:?} {length}"
                );
            }
        }
    }

    #[test]
    fn noise_is_no_state() {
        let mut seed = 0x2545_F491_4F6C_DD1D_u64;
        for round in 0..5000 {
            let noise: Vec<u8> = (0..round % 90)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 56) as u8
                })
                .collect();
            assert_eq!(PagingState::decode(&noise), Ok(None));
            let prefixed = [PREFIX, &noise].concat();
            assert!(PagingState::decode(&prefixed).is_err(), "{round}");
        }
    }
}
