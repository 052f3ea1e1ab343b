//! Our own paging state: the position of a scan of a split partition. It holds all that any proxy needs to continue.
//!
//! It must never be mistaken for one of Cassandra's, nor one of Cassandra's for ours. A native state begins with the
//! length of a partition key of at most 65535 bytes. In v4 and v5 that is a variable-length integer, whose first byte
//! is then at most 0xC0. In v3 it is two bytes: `FF FF` means that a key of 65535 bytes follows. That is longer than
//! any of our states except one with an enormous mark, and the key would still have to begin with the rest of our
//! prefix. To Cassandra, ours is an invalid state.
//!
//! Format 2 is written; format 1, of version 0.1, is read as well. Table, mark, key and limits are enough to continue
//! at the original. So a later version may add fields at the end of format 2: this one does not understand them, and
//! continues there. `state/golden/` has states of each format, which must be readable for ever.

use thiserror::Error;
use twox_hash::XxHash3_64;

use super::native::Mark;
use crate::protocol::types::{Cursor, Write};

const PREFIX: &[u8] = b"\xFF\xFF\x9Enarrows";
const FORMAT: u8 = 2;
/// Without a fingerprint of the table; its mark is the rest of the state.
const FIRST_FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 8;

mod has {
    pub(super) const MARK: u8 = 0x01;
    pub(super) const LIMIT: u8 = 0x02;
    pub(super) const PARTITION_LIMIT: u8 = 0x04;
    pub(super) const GENERATION: u8 = 0x08;
    pub(super) const KEY: u8 = 0x10;
    /// The other bits are reserved and must be zero.
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
    /// The last row that was sent; `None` at the beginning of the bucket, or of the key.
    pub mark: Option<Mark>,
    /// What is left of LIMIT, if there is one.
    pub limit_left: Option<u32>,
    /// What is left of PER PARTITION LIMIT in this partition, if there is one.
    pub partition_limit_left: Option<u32>,
    /// Fingerprint of the table, the statement and its values.
    pub fingerprint: u64,
    /// Fingerprint of the table alone. `None` in format 1.
    pub table: Option<u64>,
    /// A later version of Narrows wrote more than this one understands. Never encoded.
    pub is_extended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StateError {
    #[error("paging state is damaged")]
    Damaged,
    #[error("paging state has format {0}, but this version knows only formats up to {FORMAT}")]
    Newer(u8),
}

impl PagingState {
    /// A scan of a split of this table, at its beginning.
    #[cfg(test)]
    pub fn of_table(table: u64) -> Self {
        Self {
            generation: Some(1),
            bucket: 0,
            key: None,
            clustering_columns: 1,
            mark: None,
            limit_left: None,
            partition_limit_left: None,
            fingerprint: 1,
            table: Some(table),
            is_extended: false,
        }
    }

    /// Always in the current format.
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
        out.extend_from_slice(&self.table.unwrap_or(0).to_be_bytes());
        let key = self.key.as_ref().map(|(_, key)| key.as_slice());
        out.put_bytes(Some(key.unwrap_or_default()));
        out.put_bytes(Some(self.mark.as_ref().map_or(&[], Mark::as_bytes)));
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
        // A later format may have its checksum elsewhere, so the format is trusted without it.
        let format = match rest.first() {
            Some(&format @ FIRST_FORMAT..=FORMAT) => format,
            Some(&format) if format > FORMAT => return Err(StateError::Newer(format)),
            _ => return Err(StateError::Damaged),
        };
        let content = checked(bytes).ok_or(StateError::Damaged)?;
        let fields = content.get(PREFIX.len() + 1..);
        let state = fields.and_then(|fields| read(format, fields));
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
fn read(format: u8, fields: &[u8]) -> Option<PagingState> {
    let mut cursor = Cursor::new(fields);
    let flags = cursor.byte().ok()?;
    let clustering_columns = cursor.byte().ok()?;
    let generation = cursor.int().ok()?;
    let mut number = || Some(cursor.int().ok()?.cast_unsigned());
    let (bucket, key_number) = (number()?, number()?);
    let (limit, partition_limit) = (number()?, number()?);
    let fingerprint = cursor.long().ok()?.cast_unsigned();
    let table = match format {
        FIRST_FORMAT => None,
        _ => Some(cursor.long().ok()?.cast_unsigned()),
    };
    let key = cursor.bytes().ok()??.to_vec();
    let (mark, is_extended) = match format {
        FIRST_FORMAT => (cursor.rest(), false),
        _ => (cursor.bytes().ok()??, !cursor.rest().is_empty()),
    };
    let mark = Mark::from_bytes(mark);
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
        table,
        is_extended,
    })
}

#[cfg(test)]
mod tests;
