//! A set of 64-bit hashes as a filter, and the policy parts that `fuse16`, `bloom` and `prefix` share:
//! they differ only in which hashes a key has and in the structure that holds the hashes.

use std::fmt::Debug;
use std::sync::Arc;

use bloomfilter::Bloom;
use xorf::{BinaryFuse16, Filter as _};

use super::bloom::{self, Probed, Sizing};
use super::fuse;
use super::policy::{DecodeError, Filter, FilterBuilder, HashedKey, Target, hash};
use super::prefix::PrefixExtractor;

/// Which hashes a key is stored under, and by which one a target is asked for.
#[derive(Debug, Clone)]
pub(super) struct Keying {
    /// Whether whole keys are stored.
    whole_key: bool,
    /// Whether prefixes are stored, and which.
    extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl Keying {
    /// Whole keys only; nothing can be said about prefixes.
    pub(super) fn whole_key() -> Self {
        Self {
            whole_key: true,
            extractor: None,
        }
    }

    /// Prefixes, beside whole keys or instead of them. Without whole keys, a key is asked for by its prefix.
    pub(super) fn prefix(extractor: Arc<dyn PrefixExtractor>, whole_key: bool) -> Self {
        Self {
            whole_key,
            extractor: Some(extractor),
        }
    }

    /// `None`: nothing can be said about the target.
    #[inline]
    fn probe(&self, target: &Target) -> Option<u64> {
        match target {
            Target::Key(key) if self.whole_key => Some(key.hash()),
            _ => self.prefix_hash(target),
        }
    }

    /// The hash of the target's prefix, if it has one. A prefix that has a hash cannot be the start of a key without
    /// one: by the second invariant of extractors, all keys that start with it have a prefix, too.
    pub(super) fn prefix_hash(&self, target: &Target) -> Option<u64> {
        let length = self.extractor.as_ref()?.prefix_len(target)?;
        let bytes = match target {
            Target::Key(key) => key.bytes(),
            Target::Prefix(prefix) => prefix,
        };
        Some(hash(bytes.get(..length)?))
    }
}

/// The structure a policy wants. Fuse falls back to bloom, and bloom to matching everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Structure {
    Fuse,
    Bloom(Sizing),
}

/// The structure that was built.
pub(super) enum HashSet {
    Fuse(BinaryFuse16),
    Bloom(Bloom<Probed>),
    /// Matches everything: the last resort of a build whose re-check failed.
    Everything,
}

const FUSE: u8 = 1;
const BLOOM: u8 = 2;
const EVERYTHING: u8 = 3;

impl HashSet {
    /// `hashes` are distinct. Every one of them is contained in the result.
    fn build(structure: Structure, hashes: &[u64]) -> Self {
        let wanted = match structure {
            // An empty fuse filter matches one hash in 65,536, an empty bloom filter none.
            _ if hashes.is_empty() => None,
            Structure::Fuse => fuse::build(hashes).map(Self::Fuse),
            Structure::Bloom(sizing) => bloom::build(sizing, hashes).map(Self::Bloom),
        };
        Self::or_fallback(wanted, hashes)
    }

    fn or_fallback(wanted: Option<Self>, hashes: &[u64]) -> Self {
        wanted
            .filter(|set| set.contains_all(hashes))
            .or_else(|| bloom::build(Sizing::FALLBACK, hashes).map(Self::Bloom))
            .filter(|set| set.contains_all(hashes))
            .unwrap_or(Self::Everything)
    }

    fn contains_all(&self, hashes: &[u64]) -> bool {
        hashes.iter().all(|hash| self.contains(*hash))
    }

    #[inline]
    fn contains(&self, hash: u64) -> bool {
        match self {
            Self::Fuse(fuse) => fuse.contains(&hash),
            Self::Bloom(bloom) => bloom::check(bloom, hash),
            Self::Everything => true,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Fuse(fuse) => size_of_val(&*fuse.fingerprints),
            Self::Bloom(bloom) => bloom.as_slice().len(),
            Self::Everything => 0,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Fuse(set) => {
                out.push(FUSE);
                fuse::encode(set, out);
            }
            Self::Bloom(set) => {
                out.push(BLOOM);
                out.extend_from_slice(set.as_slice());
            }
            Self::Everything => out.push(EVERYTHING),
        }
    }

    fn decode(bytes: &[u8], policy: &str) -> Result<Self, DecodeError> {
        let (structure, body) = bytes.split_first().ok_or(DecodeError::Truncated(0))?;
        match *structure {
            FUSE => fuse::decode(body).map(Self::Fuse),
            BLOOM => bloom::decode(body).map(Self::Bloom),
            EVERYTHING => Ok(Self::Everything),
            other => Err(DecodeError::Structure(other, policy.into())),
        }
    }
}

#[derive(Debug)]
pub(super) struct HashBuilder {
    keying: Keying,
    structure: Structure,
    /// One for each key, by which it is asked for.
    hashes: Vec<u64>,
    /// Prefixes that are stored beside whole keys.
    prefixes: Vec<u64>,
    /// Keys without a hash.
    unhashed: usize,
}

impl HashBuilder {
    pub(super) fn new(keying: Keying, structure: Structure) -> Self {
        Self {
            keying,
            structure,
            hashes: Vec::new(),
            prefixes: Vec::new(),
            unhashed: 0,
        }
    }
}

impl FilterBuilder for HashBuilder {
    fn add(&mut self, key: &HashedKey) {
        let target = Target::Key(*key);
        match self.keying.probe(&target) {
            Some(hash) => push(&mut self.hashes, hash),
            // The policy answers `true` about a key without a hash: see `might_match`.
            None => self.unhashed += 1,
        }
        if self.keying.whole_key
            && let Some(hash) = self.keying.prefix_hash(&target)
        {
            push(&mut self.prefixes, hash);
        }
    }

    fn build(mut self: Box<Self>) -> Arc<dyn Filter> {
        // With duplicates, a fuse construction fails every time.
        sort_distinct(&mut self.hashes);
        let keys = self.hashes.len() + self.unhashed;
        if !self.prefixes.is_empty() {
            self.hashes.append(&mut self.prefixes);
            sort_distinct(&mut self.hashes);
        }
        Arc::new(HashFilter {
            set: HashSet::build(self.structure, &self.hashes),
            keys,
            keying: self.keying,
        })
    }
}

/// Keys with the same prefix mostly come in a row.
fn push(hashes: &mut Vec<u64>, hash: u64) {
    if hashes.last() != Some(&hash) {
        hashes.push(hash);
    }
}

fn sort_distinct(hashes: &mut Vec<u64>) {
    hashes.sort_unstable();
    hashes.dedup();
}

pub(super) struct HashFilter {
    keying: Keying,
    set: HashSet,
    keys: usize,
}

impl HashFilter {
    pub(super) fn decode(keying: Keying, bytes: &[u8], policy: &str) -> Result<Self, DecodeError> {
        let (keys, set) = bytes
            .split_first_chunk()
            .ok_or(DecodeError::Truncated(bytes.len()))?;
        let keys = usize::try_from(u64::from_le_bytes(*keys))
            .map_err(|_| DecodeError::Dimensions("more keys than memory can hold"))?;
        let set = HashSet::decode(set, policy)?;
        Ok(Self { keying, set, keys })
    }
}

impl Filter for HashFilter {
    #[inline]
    fn might_match(&self, target: &Target) -> bool {
        self.keying
            .probe(target)
            .is_none_or(|hash| self.set.contains(hash))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.keys as u64).to_le_bytes());
        self.set.encode(out);
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.set.bytes()
    }

    fn keys(&self) -> usize {
        self.keys
    }
}

impl Debug for HashFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let structure = match self.set {
            HashSet::Fuse(_) => "fuse",
            HashSet::Bloom(_) => "bloom",
            HashSet::Everything => "everything",
        };
        write!(f, "{structure} of {} by {:?}", self.keys, self.keying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_construction_and_one_that_lost_a_key_become_a_bloom() {
        let hashes: Vec<u64> = (0..1000).map(|n: u64| hash(&n.to_le_bytes())).collect();
        let lossy = fuse::build(&hashes[1..]).map(HashSet::Fuse);
        assert!(!lossy.as_ref().unwrap().contains_all(&hashes));
        for failed in [None, lossy] {
            let set = HashSet::or_fallback(failed, &hashes);
            assert!(matches!(set, HashSet::Bloom(_)) && set.contains_all(&hashes));
        }
    }

    #[test]
    fn every_size_of_fuse_contains_its_keys() {
        for size in (1..300).chain([1_000, 4_095, 4_097, 20_000]) {
            let mut hashes: Vec<u64> = (0..size).map(|n: u64| hash(&n.to_le_bytes())).collect();
            hashes.sort_unstable();
            let set = HashSet::build(Structure::Fuse, &hashes);
            assert!(matches!(set, HashSet::Fuse(_)), "{size} keys fell back");
            assert!(set.contains_all(&hashes), "{size} keys");
        }
    }
}
