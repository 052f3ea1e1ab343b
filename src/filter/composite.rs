//! Several policies ANDed, and the block in which they are stored.
//!
//! A block is `"NFB" version:u8 parts:u16 check:u64`, then per part `check:u64 name_len:u16 data_len:u64 name data`,
//! little-endian. A check is xxh3-64 of what follows it in its part (in the header, of what precedes it), seeded with a
//! value that binds the block to the place it belongs to. Parts with unknown names are skipped, so a new version can be
//! rolled out and back safely. Damaged parts are skipped and reported. An AND of fewer parts says `true` more often,
//! never less.

use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::policy::{Filter, FilterPolicy, HashedKey, Policies, Target, bits_per_key};

/// The filters of one set of keys. All must agree that a target might match; an empty composite matches everything.
#[derive(Debug, Clone, Default)]
pub struct Composite {
    parts: Vec<(String, Arc<dyn Filter>)>,
}

impl Composite {
    /// Builds one filter per policy over the same keys.
    pub fn build<'a>(
        policies: &[Arc<dyn FilterPolicy>],
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let mut builder = CompositeBuilder::new(policies);
        keys.for_each(|key| builder.add(&HashedKey::new(key)));
        builder.build()
    }

    #[inline]
    pub fn might_match(&self, target: &Target) -> bool {
        self.parts
            .iter()
            .all(|(_, filter)| filter.might_match(target))
    }

    pub fn bytes(&self) -> usize {
        let names = self
            .parts
            .iter()
            .map(|(name, _)| size_of::<(String, Arc<dyn Filter>)>() + name.len());
        names.sum::<usize>()
            + self
                .parts
                .iter()
                .map(|(_, filter)| filter.bytes())
                .sum::<usize>()
    }

    /// Number of keys held. Prefix filters hold fewer entries than keys, so the largest part counts.
    pub fn keys(&self) -> usize {
        self.parts
            .iter()
            .map(|(_, filter)| filter.keys())
            .max()
            .unwrap_or(0)
    }

    pub fn bits_per_key(&self) -> f64 {
        bits_per_key(self.bytes(), self.keys())
    }

    pub fn encode(&self, bind: u64, out: &mut Vec<u8>) {
        let parts = self.parts.iter().map(|(name, filter)| {
            let mut data = Vec::new();
            filter.encode(&mut data);
            (name.as_str(), data)
        });
        write_block(parts, bind, out);
    }

    /// Reads what can be read of `bytes` with these policies. `bind` must be the value that they were written with.
    pub fn decode(bytes: &[u8], bind: u64, policies: &[Arc<dyn FilterPolicy>]) -> Decoded {
        let mut block = read_block(bytes, bind);
        let mut decoded = Decoded::default();
        for policy in policies {
            let found = block.parts.iter().position(|part| part.0 == policy.name());
            let part = found.map(|at| block.parts.swap_remove(at));
            match part.map(|(_, data)| policy.decode(data)) {
                Some(Ok(filter)) => decoded.composite.parts.push((policy.name().into(), filter)),
                // The checksum was right, so another version wrote it: as good as damaged.
                Some(Err(_)) => {
                    block.damaged += 1;
                    decoded.missing.push(policy.name().into());
                }
                None => decoded.missing.push(policy.name().into()),
            }
        }
        decoded.damaged = block.damaged;
        decoded.unknown = block.parts.into_iter().map(|part| part.0.into()).collect();
        decoded
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// What was read of a block.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The AND of the parts that could be read.
    pub composite: Composite,
    /// Configured policies without a usable part: the keys must be read again and a new block built.
    pub missing: Vec<String>,
    /// Stored parts that no configured policy knows.
    pub unknown: Vec<String>,
    /// Parts with a wrong checksum, cut off, or refused by their policy.
    pub damaged: usize,
}

/// One builder per policy.
#[derive(Debug)]
pub(super) struct CompositeBuilder {
    builders: Vec<(String, Box<dyn super::FilterBuilder>)>,
}

impl CompositeBuilder {
    pub(super) fn new(policies: &[Arc<dyn FilterPolicy>]) -> Self {
        let builders = policies
            .iter()
            .map(|policy| (policy.name().into(), policy.builder()));
        Self {
            builders: builders.collect(),
        }
    }

    pub(super) fn add(&mut self, key: &HashedKey) {
        for (_, builder) in &mut self.builders {
            builder.add(key);
        }
    }

    pub(super) fn build(self) -> Composite {
        let parts = self
            .builders
            .into_iter()
            .map(|(name, builder)| (name, builder.build()));
        Composite {
            parts: parts.collect(),
        }
    }
}

/// Policies in the form that tables share.
pub fn policies(policies: impl IntoIterator<Item = Arc<dyn FilterPolicy>>) -> Policies {
    policies.into_iter().collect()
}

const MAGIC: [u8; 4] = *b"NFB\x01";
const HEADER: usize = 6;

/// The parts of a block, in order, that passed their checksum.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) parts: Vec<(&'a str, &'a [u8])>,
    pub(super) damaged: usize,
}

pub(super) fn write_block<'a>(
    parts: impl ExactSizeIterator<Item = (&'a str, Vec<u8>)>,
    bind: u64,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let count = u16::try_from(parts.len()).expect("a table has a handful of policies");
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&count.to_le_bytes());
    let check = check(bind, &out[start..]);
    out.extend_from_slice(&check.to_le_bytes());
    for (name, data) in parts {
        write_part(name, &data, bind, out);
    }
}

fn write_part(name: &str, data: &[u8], bind: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let name_len = u16::try_from(name.len()).expect("policy names are short");
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&name_len.to_le_bytes());
    out.extend_from_slice(&(data.len() as u64).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(data);
    let check = check(bind, &out[start + 8..]);
    out[start..start + 8].copy_from_slice(&check.to_le_bytes());
}

pub(super) fn read_block(bytes: &[u8], bind: u64) -> Block<'_> {
    let mut block = Block::default();
    let Some((count, mut rest)) = read_header(bytes, bind) else {
        block.damaged = 1;
        return block;
    };
    for _ in 0..count {
        let Some((part, behind)) = split_part(rest) else {
            // A length points beyond the end, so no later part can be found.
            block.damaged += 1;
            return block;
        };
        match read_part(part, bind) {
            Some(part) => block.parts.push(part),
            None => block.damaged += 1,
        }
        rest = behind;
    }
    block.damaged += usize::from(!rest.is_empty());
    block
}

fn read_header(bytes: &[u8], bind: u64) -> Option<(u16, &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let (stored, rest) = rest.split_first_chunk()?;
    let right = header.starts_with(&MAGIC) && u64::from_le_bytes(*stored) == check(bind, header);
    right.then_some((u16::from_le_bytes([header[4], header[5]]), rest))
}

/// Splits a part off by its lengths. The checksum over them is verified afterwards.
fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_len = u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let data_len = u64::from_le_bytes(*bytes.get(10..)?.first_chunk()?);
    let length = usize::try_from(data_len)
        .ok()?
        .checked_add(18 + usize::from(name_len))?;
    bytes.split_at_checked(length)
}

fn read_part(part: &[u8], bind: u64) -> Option<(&str, &[u8])> {
    let (stored, checked) = part.split_first_chunk()?;
    if u64::from_le_bytes(*stored) != check(bind, checked) {
        return None;
    }
    let name_len = u16::from_le_bytes(*checked.first_chunk()?);
    let (name, data) = checked.get(10..)?.split_at_checked(name_len.into())?;
    Some((std::str::from_utf8(name).ok()?, data))
}

pub(super) fn check(bind: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(bind, bytes)
}
