//! A layout as bytes, for the shared cache and for its seal; and the proof alone, for the store.
//!
//! The encoding is `"NLT" version:u8`, the identity (keyspace, table, key, generation), split table, strategy, horizon,
//! the number of buckets, for each bucket the number of its values, the values, rows, bytes and home, and at last the
//! proof. Texts and values are preceded by their length, optional parts by a byte that is 0 or 1; all numbers are
//! little-endian. Only proven layouts are encoded, and decoding asks for their seal: a wrong layout would be a wrong
//! answer.

use aws_lc_rs::digest;
use twox_hash::XxHash3_64;

use super::{
    BUCKETS_MAX, Bucket, BucketProof, LAYOUT_BYTES_MAX, Layout, LayoutError, LayoutId, Proof,
    Proven, Seal,
};
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::names::Generation;

const MAGIC: [u8; 3] = *b"NLT";
const VERSION: u8 = 2;
/// Versions before 2 knew neither horizon nor home nor proof. Their checksum is still in the store, where they look for
/// it.
const FIRST_VERSION: u8 = 1;
const PROOF_VERSION: u8 = 1;
/// The shortest bucket: no values, three counts, no home.
const BUCKET_BYTES_MIN: usize = 4 + 8 + 8 + 1;
/// Stands for "never" where a second is optional.
const NEVER: i64 = i64::MAX;

impl Layout {
    /// Adds what verify found out, and with it the seal.
    pub fn prove(self, proof: Proof) -> Result<Self, LayoutError> {
        if !self.is_sound() || !proof.fits(self.buckets.len()) {
            return Err(LayoutError::Damaged);
        }
        let unproven = self.unproven();
        let seal = sealed(&unproven.body(&proof));
        Ok(Self {
            proven: Some(Box::new(Proven { proof, seal })),
            ..unproven
        })
    }

    /// `None`: the layout is not proven, or too large to be shared.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let bytes = self.body(self.proof()?);
        (bytes.len() <= LAYOUT_BYTES_MAX).then_some(bytes)
    }

    /// Reads the layout that `id` names and `seal` proves, and no other.
    pub fn decode(bytes: &[u8], id: &LayoutId, seal: &Seal) -> Result<Self, LayoutError> {
        if bytes.len() > LAYOUT_BYTES_MAX {
            return Err(LayoutError::TooLarge);
        }
        let rest = bytes.strip_prefix(&MAGIC).ok_or(LayoutError::NotALayout)?;
        let fields = match rest.split_first() {
            Some((&VERSION, fields)) => fields,
            Some((&other, _)) => return Err(LayoutError::OtherVersion(other)),
            None => return Err(LayoutError::NotALayout),
        };
        if sealed(bytes) != *seal {
            return Err(LayoutError::OtherSeal);
        }
        let layout = Reader(fields).layout(*seal).ok_or(LayoutError::Damaged)?;
        if !layout.is_of(id) {
            return Err(LayoutError::Foreign);
        }
        Ok(layout)
    }

    /// The checksum in the store of what every version knows of a layout.
    pub fn checksum(&self) -> u64 {
        let mut out = self.heading(FIRST_VERSION);
        write_length(&mut out, self.buckets.len());
        for bucket in &self.buckets {
            write_bucket(&mut out, bucket);
        }
        // Earlier versions must not read what they do not understand.
        if self.horizon.is_some() || self.buckets.iter().any(|bucket| bucket.home.is_some()) {
            out.push(VERSION);
        }
        XxHash3_64::oneshot(&out)
    }

    fn heading(&self, version: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes());
        out.extend_from_slice(&MAGIC);
        out.push(version);
        write_bytes(&mut out, self.table.keyspace.as_bytes());
        write_bytes(&mut out, self.table.table.as_bytes());
        write_bytes(&mut out, self.key.bytes());
        out.extend_from_slice(&self.generation.0.to_le_bytes());
        write_bytes(&mut out, self.split_table.as_bytes());
        write_bytes(&mut out, self.strategy.as_bytes());
        out
    }

    /// Lengths fit into 32 bits: a longer layout is too large for [`Self::encode`] anyway.
    fn body(&self, proof: &Proof) -> Vec<u8> {
        let mut out = self.heading(VERSION);
        out.push(u8::from(self.horizon.is_some()));
        if let Some(horizon) = &self.horizon {
            write_bytes(&mut out, horizon);
        }
        write_length(&mut out, self.buckets.len());
        for bucket in &self.buckets {
            write_bucket(&mut out, bucket);
            out.push(u8::from(bucket.home.is_some()));
            if let Some((generation, number)) = bucket.home {
                out.extend_from_slice(&generation.to_le_bytes());
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out.extend_from_slice(&proof.encode());
        out
    }
}

impl Proof {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![PROOF_VERSION];
        out.extend_from_slice(&self.as_of.to_le_bytes());
        write_length(&mut out, self.anchors.len());
        for anchor in &self.anchors {
            write_bytes(&mut out, anchor.as_bytes());
        }
        write_length(&mut out, self.buckets.len());
        for bucket in &self.buckets {
            out.extend_from_slice(&bucket.row_count.to_le_bytes());
            for second in [bucket.first_expiry, bucket.uneven_from] {
                out.extend_from_slice(&second.unwrap_or(NEVER).to_le_bytes());
            }
            out.extend_from_slice(&bucket.checksum);
        }
        out
    }

    /// `None`: the bytes are no proof, or one of a later version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let proof = reader.proof()?;
        reader.0.is_empty().then_some(proof)
    }
}

fn sealed(bytes: &[u8]) -> Seal {
    let mut seal = [0; 32];
    seal.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    Seal(seal)
}

fn write_bucket(out: &mut Vec<u8>, bucket: &Bucket) {
    write_length(out, bucket.first.len());
    for value in &bucket.first {
        write_bytes(out, value);
    }
    out.extend_from_slice(&bucket.row_count.to_le_bytes());
    out.extend_from_slice(&bucket.byte_count.to_le_bytes());
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&(length as u32).to_le_bytes());
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The bytes left to read. Every length is compared with the bytes that remain before memory is reserved for it.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads a whole, sound layout with nothing behind it.
    fn layout(mut self, seal: Seal) -> Option<Layout> {
        let mut layout = Layout {
            table: TableName::new(self.text()?, self.text()?),
            key: PartitionKey::new(self.bytes()?),
            generation: Generation(i32::from_le_bytes(self.array()?)),
            split_table: self.text()?,
            strategy: self.text()?,
            horizon: match self.flag()? {
                true => Some(self.bytes()?.into()),
                false => None,
            },
            buckets: self.buckets()?,
            proven: None,
        };
        let proof = self.proof()?;
        let is_sound = self.0.is_empty() && layout.is_sound() && proof.fits(layout.buckets.len());
        layout.proven = Some(Box::new(Proven { proof, seal }));
        is_sound.then_some(layout)
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
            home: match self.flag()? {
                true => Some((
                    i32::from_le_bytes(self.array()?),
                    i32::from_le_bytes(self.array()?),
                )),
                false => None,
            },
        })
    }

    fn proof(&mut self) -> Option<Proof> {
        if self.array()? != [PROOF_VERSION] {
            return None;
        }
        let as_of = i64::from_le_bytes(self.array()?);
        let anchors = (0..self.count(4)?)
            .map(|_| self.text())
            .collect::<Option<_>>()?;
        let count = self.count(8 + 8 + 8 + 16)?;
        let buckets = (0..count).map(|_| self.bucket_proof());
        Some(Proof {
            as_of,
            anchors,
            buckets: buckets.collect::<Option<_>>()?,
        })
    }

    fn bucket_proof(&mut self) -> Option<BucketProof> {
        Some(BucketProof {
            row_count: u64::from_le_bytes(self.array()?),
            first_expiry: self.second()?,
            uneven_from: self.second()?,
            checksum: self.array()?,
        })
    }

    fn second(&mut self) -> Option<Option<i64>> {
        let second = i64::from_le_bytes(self.array()?);
        Some(Some(second).filter(|second| *second != NEVER))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
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
