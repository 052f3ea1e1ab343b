//! A layout as bytes, for the store and for the shared cache.
//!
//! The encoding is `"NLT" version:u8`, the identity (keyspace, table, key, generation), split table, strategy and the
//! number of buckets; then for each bucket the number of its values, the values, rows and bytes. Texts and values are
//! preceded by their length; all numbers are little-endian. The last eight bytes are the xxh3-64 of everything before
//! them. Decoding refuses bytes unless version, checksum, identity and buckets are right: a wrong layout would be a
//! wrong answer.

use twox_hash::XxHash3_64;

use super::{BUCKETS_MAX, Bucket, LAYOUT_BYTES_MAX, Layout, LayoutError, LayoutId};
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::names::Generation;

const MAGIC: [u8; 3] = *b"NLT";
const VERSION: u8 = 1;
const CHECK_BYTES: usize = 8;
/// The shortest bucket: no values, only the three counts.
const BUCKET_BYTES_MIN: usize = 4 + 8 + 8;

impl Layout {
    pub fn encode(&self) -> Result<Vec<u8>, LayoutError> {
        if !self.is_sound() {
            return Err(LayoutError::Damaged);
        }
        let mut out = self.body();
        out.extend_from_slice(&XxHash3_64::oneshot(&out).to_le_bytes());
        if out.len() > LAYOUT_BYTES_MAX {
            return Err(LayoutError::TooLarge);
        }
        Ok(out)
    }

    /// Reads the layout that `id` names, and no other.
    pub fn decode(bytes: &[u8], id: &LayoutId) -> Result<Self, LayoutError> {
        if bytes.len() > LAYOUT_BYTES_MAX {
            return Err(LayoutError::TooLarge);
        }
        let rest = bytes.strip_prefix(&MAGIC).ok_or(LayoutError::NotALayout)?;
        match rest.first() {
            Some(&VERSION) => {}
            Some(&other) => return Err(LayoutError::OtherVersion(other)),
            None => return Err(LayoutError::NotALayout),
        }
        let (body, check) = bytes
            .split_last_chunk::<CHECK_BYTES>()
            .ok_or(LayoutError::Damaged)?;
        if u64::from_le_bytes(*check) != XxHash3_64::oneshot(body) {
            return Err(LayoutError::Damaged);
        }
        let fields = body.get(MAGIC.len() + 1..).ok_or(LayoutError::Damaged)?;
        let layout = Reader(fields).layout().ok_or(LayoutError::Damaged)?;
        if !layout.is_of(id) {
            return Err(LayoutError::Foreign);
        }
        Ok(layout)
    }

    /// The checksum of the encoding, which tells two layouts apart.
    pub fn checksum(&self) -> u64 {
        XxHash3_64::oneshot(&self.body())
    }

    /// The encoding without its checksum. Lengths fit into 32 bits: a longer layout is too large for [`Self::encode`]
    /// anyway.
    pub(super) fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes());
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        write_bytes(&mut out, self.table.keyspace.as_bytes());
        write_bytes(&mut out, self.table.table.as_bytes());
        write_bytes(&mut out, self.key.bytes());
        out.extend_from_slice(&self.generation.0.to_le_bytes());
        write_bytes(&mut out, self.split_table.as_bytes());
        write_bytes(&mut out, self.strategy.as_bytes());
        write_length(&mut out, self.buckets.len());
        for bucket in &self.buckets {
            write_length(&mut out, bucket.first.len());
            for value in &bucket.first {
                write_bytes(&mut out, value);
            }
            out.extend_from_slice(&bucket.row_count.to_le_bytes());
            out.extend_from_slice(&bucket.byte_count.to_le_bytes());
        }
        out
    }
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&(length as u32).to_le_bytes());
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The bytes left to read. Anyone can compute the checksum, so even bytes that pass it may hold anything: every length
/// is compared with the bytes that remain before memory is reserved for it.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads a whole, sound layout with nothing behind it.
    fn layout(mut self) -> Option<Layout> {
        let layout = Layout {
            table: TableName::new(self.text()?, self.text()?),
            key: PartitionKey::new(self.bytes()?),
            generation: Generation(i32::from_le_bytes(self.array()?)),
            split_table: self.text()?,
            strategy: self.text()?,
            buckets: self.buckets()?,
        };
        (self.0.is_empty() && layout.is_sound()).then_some(layout)
    }

    fn buckets(&mut self) -> Option<Vec<Bucket>> {
        let count = self.count(BUCKET_BYTES_MIN)?;
        if count > BUCKETS_MAX {
            return None;
        }
        (0..count).map(|_| self.bucket()).collect()
    }

    fn bucket(&mut self) -> Option<Bucket> {
        let values = self.count(4)?;
        let first = (0..values).map(|_| Some(self.bytes()?.into()));
        Some(Bucket {
            first: first.collect::<Option<_>>()?,
            row_count: u64::from_le_bytes(self.array()?),
            byte_count: u64::from_le_bytes(self.array()?),
        })
    }

    fn text(&mut self) -> Option<String> {
        Some(str::from_utf8(self.bytes()?).ok()?.to_owned())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.count(1)?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads a number of items of at least `each` bytes; `None` if the rest cannot hold that many.
    fn count(&mut self, each: usize) -> Option<usize> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        (count <= self.0.len() / each).then_some(count)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }
}
