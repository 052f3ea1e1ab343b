//! The checksum of a partition as it is read for planning: xxh3-128, row after row. Pure.

use twox_hash::XxHash3_128;

use crate::pipeline::original::cells::Row;
use crate::protocol::types::Write;

/// Each row is hashed together with the checksum of the rows before it, so 16 bytes are enough to resume from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Checksum(pub(super) [u8; 16]);

impl Checksum {
    /// Expiries are hashed as points in time, so it does not matter when they were read.
    pub(super) fn add(&mut self, row: &Row, now: i32) {
        let mut bytes = Vec::with_capacity(row.bytes + 64);
        bytes.extend_from_slice(&self.0);
        for value in &row.clustering {
            bytes.put_bytes(Some(value));
        }
        for cell in &row.cells {
            let expires = match cell.ttl {
                0 => 0,
                ttl => i64::from(now) + i64::from(ttl),
            };
            bytes.extend_from_slice(&(cell.column as u32).to_be_bytes());
            bytes.extend_from_slice(&cell.write_micros.to_be_bytes());
            bytes.extend_from_slice(&expires.to_be_bytes());
            bytes.put_bytes(Some(&cell.value));
        }
        self.0 = XxHash3_128::oneshot(&bytes).to_be_bytes();
    }
}
