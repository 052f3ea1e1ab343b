//! Checksums of rows: xxh3-128, each row chained to those before it, so that 16 bytes are all there is to keep. Pure.
//!
//! One formula for both sides, each from the bytes that were read of it: clustering values, then value and write time of
//! each column, then the expiry of each cell. A checksum is the same whenever it is taken, until a cell expires: it
//! covers expiries, not remaining TTLs.

use twox_hash::XxHash3_128;

use super::row::Row;
use crate::protocol::types::{Cursor, Write};

const BYTES: usize = 16;

pub(super) type Checksum = [u8; BYTES];

/// The checksums of the rows so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Checksums {
    pub(super) original: Checksum,
    pub(super) copy: Checksum,
    /// Of the copy's buckets that were begun.
    pub(super) buckets: Vec<Checksum>,
}

impl Checksums {
    pub(super) fn begin_bucket(&mut self) {
        self.buckets.push([0; BYTES]);
    }

    /// Adds a row as it was read from both sides. Each comes with the TTLs of all its cells, read at `now`.
    pub(super) fn add(&mut self, original: Timed<'_>, copy: Timed<'_>, now: i64) {
        let mut row = Vec::with_capacity(2 * original.0.byte_count());
        write_row(original, now, &mut row);
        self.original = chained(self.original, &mut row);
        row.clear();
        write_row(copy, now, &mut row);
        self.copy = chained(self.copy, &mut row);
        if let Some(bucket) = self.buckets.last_mut() {
            *bucket = chained(*bucket, &mut row);
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.original);
        out.extend_from_slice(&self.copy);
        out.put_int(i32::try_from(self.buckets.len()).unwrap_or(i32::MAX));
        for checksum in &self.buckets {
            out.extend_from_slice(checksum);
        }
    }

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (original, copy) = (read_one(cursor)?, read_one(cursor)?);
        let buckets = cursor.count("bucket count").ok()?;
        let buckets = (0..buckets).map(|_| read_one(cursor));
        Some(Self {
            original,
            copy,
            buckets: buckets.collect::<Option<_>>()?,
        })
    }
}

/// A row with the TTLs of all its cells.
pub(super) type Timed<'a> = (&'a Row<'a>, &'a [Option<i32>]);

fn write_row((row, ttls): Timed<'_>, now: i64, out: &mut Vec<u8>) {
    for value in &row.key {
        out.put_bytes(Some(value));
    }
    for cells in &row.columns {
        out.put_bytes(cells.value);
        out.put_bytes(cells.written);
    }
    for ttl in ttls {
        let expiry = ttl.map_or(i64::MAX, |ttl| now.saturating_add(ttl.into()));
        out.extend_from_slice(&expiry.to_be_bytes());
    }
}

/// The checksum of the row followed by the checksum before it. Leaves the row as it was.
fn chained(before: Checksum, row: &mut Vec<u8>) -> Checksum {
    row.extend_from_slice(&before);
    let checksum = XxHash3_128::oneshot(row);
    row.truncate(row.len() - BYTES);
    checksum.to_be_bytes()
}

fn read_one(cursor: &mut Cursor<'_>) -> Option<Checksum> {
    cursor.take(BYTES, "checksum").ok()?.try_into().ok()
}
