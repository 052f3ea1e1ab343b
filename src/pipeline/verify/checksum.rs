//! Checksums of rows: xxh3-128, each row chained to those before it, so that 16 bytes are all there is to keep. Pure.
//!
//! They are the same for the original and its copy, whenever they are taken: they cover expiries, not remaining TTLs.

use twox_hash::XxHash3_128;

use super::row::Row;
use crate::protocol::types::Write;

pub(super) const BYTES: usize = 16;

/// One checksum of all rows, and one of each bucket.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    whole: [u8; BYTES],
    buckets: Vec<[u8; BYTES]>,
    /// Buffer for the row that is being added, kept to reuse its memory.
    row: Vec<u8>,
}

impl Checksums {
    /// Resumes from earlier checksums.
    pub(super) fn from(whole: [u8; BYTES], buckets: Vec<[u8; BYTES]>) -> Self {
        let row = Vec::new();
        Self {
            whole,
            buckets,
            row,
        }
    }

    pub(super) fn so_far(&self) -> ([u8; BYTES], Vec<[u8; BYTES]>) {
        (self.whole, self.buckets.clone())
    }

    pub(super) fn begin_bucket(&mut self) {
        self.buckets.push([0; BYTES]);
    }

    /// `ttls` are the TTLs of all its cells, read at `now`.
    pub(super) fn add(&mut self, row: &Row<'_>, ttls: &[Option<i32>], now: i64) {
        self.row.clear();
        for value in &row.key {
            self.row.put_bytes(Some(value));
        }
        for cells in &row.columns {
            self.row.put_bytes(cells.value);
            self.row.put_bytes(cells.written);
        }
        for ttl in ttls {
            let expiry = ttl.map_or(i64::MAX, |ttl| now.saturating_add(ttl.into()));
            self.row.extend_from_slice(&expiry.to_be_bytes());
        }
        self.whole = chained(self.whole, &mut self.row);
        if let Some(bucket) = self.buckets.last_mut() {
            *bucket = chained(*bucket, &mut self.row);
        }
    }

    pub(super) fn finish(self) -> ([u8; BYTES], Vec<[u8; BYTES]>) {
        (self.whole, self.buckets)
    }
}

/// The checksum of the row followed by the checksum before it. Leaves the row as it was.
fn chained(before: [u8; BYTES], row: &mut Vec<u8>) -> [u8; BYTES] {
    row.extend_from_slice(&before);
    let checksum = XxHash3_128::oneshot(row);
    row.truncate(row.len() - BYTES);
    checksum.to_be_bytes()
}
