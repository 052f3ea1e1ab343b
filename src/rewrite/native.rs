//! Reads and composes Cassandra's own paging states, which hold the position of a scan of one partition.
//!
//! Protocol v4 and v5 have one format, v3 an older one; both were seen on 4.1 and 5.0. Cassandra trusts every state
//! that it can read, whatever the statement. So a composed state must give the position exactly, or not be made.

use super::vint;
use crate::protocol::Version;
use crate::protocol::types::{Cursor, Write};

/// Clustering values come in blocks of this many. A block begins with a header that has two bits for each value.
const BLOCK: usize = 32;
const EMPTY: u64 = 0b01;
const NULL: u64 = 0b10;

/// No limit, as states represent it.
pub const UNLIMITED: i32 = i32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeState {
    /// The current partition if the statement names several; empty if it names one.
    pub key: Vec<u8>,
    /// The last row that was sent; `None` at the beginning of the partition.
    pub mark: Option<Mark>,
    /// What is left of LIMIT, or [`UNLIMITED`].
    pub remaining: i32,
    /// What is left of PER PARTITION LIMIT in this partition, or [`UNLIMITED`].
    pub remaining_in_partition: i32,
}

/// A row's clustering key in the format of v4 and v5 states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(Vec<u8>);

impl NativeState {
    /// Reads a state of v4 or v5, all of it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let key = vint::read_bytes(&mut cursor)?.to_vec();
        let mark = Mark::from_bytes(vint::read_bytes(&mut cursor)?);
        let remaining = i32::try_from(vint::read(&mut cursor)?).ok()?;
        let remaining_in_partition = i32::try_from(vint::read(&mut cursor)?).ok()?;
        cursor.rest().is_empty().then_some(Self {
            key,
            mark,
            remaining,
            remaining_in_partition,
        })
    }

    /// The state for a connection of this version. `None`: it cannot be expressed, for example because a length exceeds
    /// the format, a count is negative, or the mark has another number of clustering columns.
    pub fn encode(&self, version: Version, clustering_columns: usize) -> Option<Vec<u8>> {
        if self.remaining < 0 || self.remaining_in_partition < 0 {
            return None;
        }
        let values = match &self.mark {
            Some(mark) => Some(mark.values(clustering_columns)?),
            None => None,
        };
        match version {
            Version::V3 => self.encode_legacy(values),
            Version::V4 | Version::V5 => Some(self.encode_modern()),
        }
    }

    fn encode_modern(&self) -> Vec<u8> {
        let mut out = Vec::new();
        vint::put_bytes(&mut out, &self.key);
        vint::put_bytes(&mut out, self.mark.as_ref().map_or(&[], Mark::as_bytes));
        vint::put(&mut out, u64::from(self.remaining.unsigned_abs()));
        vint::put(
            &mut out,
            u64::from(self.remaining_in_partition.unsigned_abs()),
        );
        out
    }

    fn encode_legacy(&self, values: Option<Vec<Option<Vec<u8>>>>) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        if let Some(values) = values {
            for value in values {
                put_component(&mut name, &value?)?;
            }
            // A cell's name ends with its column. The server writes the first column that it finds, or the row's marker
            // (a column without a name) if the row has nothing else. It reads neither, so the marker fits every row.
            put_component(&mut name, &[])?;
        }
        let mut out = Vec::new();
        put_short_bytes(&mut out, &self.key)?;
        put_short_bytes(&mut out, &name)?;
        out.put_int(self.remaining);
        out.put_int(self.remaining_in_partition);
        Some(out)
    }
}

/// One component of a Cassandra 2 composite: length, bytes, and a zero that means "exactly this".
fn put_component(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    put_short_bytes(out, bytes)?;
    out.put_byte(0);
    Some(())
}

fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    u16::try_from(bytes.len()).ok()?;
    out.put_short_bytes(bytes);
    Some(())
}

impl Mark {
    /// A mark with these bytes from a state; `None` if there are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The mark of the row with these clustering values. `None`: a row without clustering columns has no mark.
    pub fn from_values<V: AsRef<[u8]>>(values: &[Option<V>]) -> Option<Self> {
        let mut out = Vec::new();
        for block in values.chunks(BLOCK) {
            let bits = |(index, value): (usize, &Option<V>)| match value {
                None => NULL << (2 * index),
                Some(value) if value.as_ref().is_empty() => EMPTY << (2 * index),
                Some(_) => 0,
            };
            let header = block
                .iter()
                .enumerate()
                .map(bits)
                .fold(0, |all, bit| all | bit);
            vint::put(&mut out, header);
            let present = block.iter().flatten().map(AsRef::as_ref);
            for value in present.filter(|value| !value.is_empty()) {
                vint::put_bytes(&mut out, value);
            }
        }
        Self::from_bytes(&out)
    }

    /// The clustering values, `None` for null, if this is the mark of a row with this many clustering columns.
    pub fn values(&self, clustering_columns: usize) -> Option<Vec<Option<Vec<u8>>>> {
        let mut cursor = Cursor::new(&self.0);
        let mut values = Vec::new();
        let mut header = 0;
        for index in 0..clustering_columns {
            let place = index % BLOCK;
            if place == 0 {
                header = vint::read(&mut cursor)?;
                // Bits for values that are not there: the mark was written for another number of clustering columns.
                let used = 2 * (clustering_columns - index).min(BLOCK) as u32;
                if header.checked_shr(used).unwrap_or(0) != 0 {
                    return None;
                }
            }
            values.push(match header >> (2 * place) & 0b11 {
                0 => Some(vint::read_bytes(&mut cursor)?.to_vec()),
                EMPTY => Some(Vec::new()),
                NULL => None,
                _ => return None,
            });
        }
        cursor.rest().is_empty().then_some(values)
    }
}

#[cfg(test)]
mod tests;
