//! A table's filter as bytes, so that a restarted proxy starts warm.
//!
//! `"NFT" version:u8 shards:u32 revision:u64 check:u64`, then per shard a header, the block of its filters and the
//! block of its overlay. Losing a filter part only makes a shard match more, but losing an overlay would lose keys, so
//! the unreadable sets of an overlay match everything. Every check is bound to the table, to the shard and, by the
//! revision, to all contents that it was written with, so pieces of two files are never combined.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::composite::{Composite, check, read_block, write_block};
use super::overlay::Overlay;
use super::policy::{Policies, hash};
use super::snapshot::{Shard, Snapshot};
use super::table::TableFilter;

const MAGIC: [u8; 4] = *b"NFT\x01";
const TABLE_HEADER: usize = 16;

/// What could be read of a stored filter. The filter itself always works; at worst it matches everything.
#[derive(Debug)]
pub struct Restored {
    pub filter: TableFilter,
    /// Stored parts that no configured policy knows.
    pub unknown: BTreeSet<String>,
    /// Number of parts, shards or whole blocks that are cut off or have a wrong checksum. 0 for a file that was written
    /// whole.
    pub damaged: usize,
}

impl TableFilter {
    /// `context` says which table this is (keyspace, table and its id): bytes with another context are not read.
    pub fn encode(&self, context: &[u8]) -> Vec<u8> {
        let snapshot = self.snapshot();
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(snapshot.shards.len() as u32).to_le_bytes());
        out.extend_from_slice(&revision(&snapshot).to_le_bytes());
        let seed = check(hash(context), &out);
        out.extend_from_slice(&seed.to_le_bytes());
        for (index, shard) in snapshot.shards.iter().enumerate() {
            write_shard(index, shard, &snapshot.policies, seed, &mut out);
        }
        out
    }

    /// Reads what can be read. [`TableFilter::needs_rebuild`] of the result names the shards that lack something. If
    /// the bytes have another number of shards, that is all of them.
    pub fn decode(bytes: &[u8], context: &[u8], policies: Policies, shards: usize) -> Restored {
        let empty = Self::new(policies, shards);
        let snapshot = Snapshot::clone(&empty.snapshot());
        let mut reader = Reader {
            snapshot,
            unknown: BTreeSet::new(),
            damaged: 0,
        };
        reader.read_table(bytes, context);
        Restored {
            filter: Self::from_snapshot(reader.snapshot),
            unknown: reader.unknown,
            damaged: reader.damaged,
        }
    }
}

/// The header of a shard, stored as `check:u64` over the three fields, then the fields.
#[derive(Debug, Clone, Copy)]
struct Header {
    index: u64,
    base_len: u64,
    overlay_len: u64,
}

impl Header {
    const BYTES: usize = 24;

    fn fields(self) -> [u8; Self::BYTES] {
        let fields = [self.index, self.base_len, self.overlay_len];
        let mut out = [0; Self::BYTES];
        for (bytes, field) in out.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        out
    }

    fn parse(fields: &[u8; Self::BYTES]) -> Self {
        let (words, _) = fields.as_chunks::<8>();
        let word = |n: usize| u64::from_le_bytes(words[n]);
        Self {
            index: word(0),
            base_len: word(1),
            overlay_len: word(2),
        }
    }

    /// The seed of the checks in this shard's blocks.
    fn bind(self, seed: u64) -> u64 {
        check(seed, &self.index.to_le_bytes())
    }
}

/// A hash of everything the table holds.
fn revision(snapshot: &Snapshot) -> u64 {
    let mut revision = 0;
    let mut shard_bytes = Vec::new();
    for (index, shard) in snapshot.shards.iter().enumerate() {
        shard_bytes.clear();
        write_shard(index, shard, &snapshot.policies, 0, &mut shard_bytes);
        revision = check(revision, &shard_bytes);
    }
    revision
}

fn write_shard(index: usize, shard: &Shard, policies: &Policies, seed: u64, out: &mut Vec<u8>) {
    let mut header = Header {
        index: index as u64,
        base_len: 0,
        overlay_len: 0,
    };
    let bind = header.bind(seed);
    let start = out.len();
    out.resize(start + 8 + Header::BYTES, 0);
    let base_start = out.len();
    match &shard.base {
        Some(base) => base.encode(bind, out),
        None => Composite::default().encode(bind, out),
    }
    let overlay_start = out.len();
    write_overlay(&shard.overlay, policies, bind, out);
    header.base_len = (overlay_start - base_start) as u64;
    header.overlay_len = (out.len() - overlay_start) as u64;
    let fields = header.fields();
    out[start..start + 8].copy_from_slice(&check(seed, &fields).to_le_bytes());
    out[start + 8..base_start].copy_from_slice(&fields);
}

/// Name of the part of an overlay that holds its keys; no policy has this name.
const KEYS: &str = "";

fn write_overlay(overlay: &Overlay, policies: &Policies, bind: u64, out: &mut Vec<u8>) {
    let names = policies.iter().map(|policy| policy.name());
    let keys = (KEYS, overlay.key_hashes());
    let parts: Vec<(&str, Vec<u8>)> = [keys]
        .into_iter()
        .chain(names.zip(overlay.prefix_hashes()))
        .filter_map(|(name, hashes)| {
            let bytes = hashes?.into_iter().flat_map(u64::to_le_bytes).collect();
            Some((name, bytes))
        })
        .collect();
    write_block(parts.into_iter(), bind, out);
}

struct Reader {
    snapshot: Snapshot,
    unknown: BTreeSet<String>,
    damaged: usize,
}

impl Reader {
    fn read_table(&mut self, bytes: &[u8], context: &[u8]) {
        let Some((seed, mut rest)) = self.read_table_header(bytes, context) else {
            self.damaged += 1;
            return;
        };
        for index in 0..self.snapshot.shards.len() {
            let Some((shard, behind)) = self.read_shard(index, rest, seed) else {
                // Where the next shard begins is then unknown, too.
                self.damaged += 1;
                return;
            };
            self.snapshot.shards[index] = Arc::new(shard);
            rest = behind;
        }
        self.damaged += usize::from(!rest.is_empty());
    }

    fn read_table_header<'a>(&self, bytes: &'a [u8], context: &[u8]) -> Option<(u64, &'a [u8])> {
        let (header, rest) = bytes.split_at_checked(TABLE_HEADER)?;
        let (stored, rest) = rest.split_first_chunk()?;
        let seed = check(hash(context), header);
        let shards = u32::from_le_bytes(*header.get(4..)?.first_chunk()?) as usize;
        let right = header.starts_with(&MAGIC)
            && shards == self.snapshot.shards.len()
            && u64::from_le_bytes(*stored) == seed;
        right.then_some((seed, rest))
    }

    fn read_shard<'a>(
        &mut self,
        index: usize,
        bytes: &'a [u8],
        seed: u64,
    ) -> Option<(Shard, &'a [u8])> {
        let (stored, rest) = bytes.split_first_chunk()?;
        let (fields, rest) = rest.split_first_chunk()?;
        let header = Header::parse(fields);
        if u64::from_le_bytes(*stored) != check(seed, fields) || header.index != index as u64 {
            return None;
        }
        let (base, rest) = rest.split_at_checked(usize::try_from(header.base_len).ok()?)?;
        let (overlay, rest) = rest.split_at_checked(usize::try_from(header.overlay_len).ok()?)?;
        let bind = header.bind(seed);
        let shard = Shard {
            overlay: self.read_overlay(overlay, bind),
            ..self.read_base(base, bind)
        };
        Some((shard, rest))
    }

    /// The shard with what can be read of its filters.
    fn read_base(&mut self, bytes: &[u8], bind: u64) -> Shard {
        let policies = &self.snapshot.policies;
        let decoded = Composite::decode(bytes, bind, policies);
        self.damaged += decoded.damaged;
        self.unknown.extend(decoded.unknown);
        let base = (!decoded.composite.is_empty()).then(|| Arc::new(decoded.composite));
        Shard {
            complete: base.is_some() && decoded.missing.is_empty(),
            base,
            overlay: Overlay::new(policies),
        }
    }

    /// A set that cannot be read matches everything. A set that can be read is complete, so its `false` counts.
    fn read_overlay(&mut self, bytes: &[u8], bind: u64) -> Overlay {
        let policies = &self.snapshot.policies;
        let block = read_block(bytes, bind);
        self.damaged += block.damaged;
        let hashes = |name: &str| -> Option<Vec<u64>> {
            let part = block.parts.iter().find(|part| part.0 == name)?;
            let (hashes, odd) = part.1.as_chunks();
            let hashes = hashes.iter().map(|hash| u64::from_le_bytes(*hash));
            odd.is_empty().then(|| hashes.collect())
        };
        let Some(keys) = hashes(KEYS) else {
            return Overlay::saturated(policies);
        };
        let prefixes = policies.iter().map(|policy| hashes(policy.name()));
        Overlay::restored(keys, prefixes.collect())
    }
}
