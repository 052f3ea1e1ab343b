//! The exact set of keys inserted since a shard was built, and of all keys of a shard that has too few for a filter. It
//! is copied on every insert, because readers hold the old one, so it must stay small.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::policy::{HashedKey, Policies, Target};

/// Hashes need no second hashing.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 hashes are stored");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Hashes = HashSet<u64, BuildHasherDefault<Identity>>;

/// A set that is `None` has unknown contents, so it matches everything.
#[derive(Debug, Clone)]
pub(super) struct Overlay {
    /// Hashes of whole keys, which answer for every policy.
    keys: Option<Hashes>,
    /// The hashes of the keys' prefixes, with one set per policy, in their order; empty for most policies.
    prefixes: Vec<Option<Hashes>>,
}

impl Overlay {
    pub(super) fn new(policies: &Policies) -> Self {
        Self {
            keys: Some(Hashes::default()),
            prefixes: policies.iter().map(|_| Some(Hashes::default())).collect(),
        }
    }

    /// Matches everything: more was inserted than is worth holding, or the stored keys are lost.
    pub(super) fn saturated(policies: &Policies) -> Self {
        Self {
            keys: None,
            prefixes: policies.iter().map(|_| None).collect(),
        }
    }

    /// From stored hashes of keys and, per policy, of prefixes.
    pub(super) fn restored(keys: Vec<u64>, prefixes: Vec<Option<Vec<u64>>>) -> Self {
        // Without keys there are no prefixes, whether or not they were stored.
        let none = keys.is_empty().then(Vec::new);
        let prefixes = prefixes.into_iter().map(|set| {
            let hashes = set.or_else(|| none.clone())?;
            Some(hashes.into_iter().collect())
        });
        Self {
            prefixes: prefixes.collect(),
            keys: Some(keys.into_iter().collect()),
        }
    }

    pub(super) fn insert(&mut self, policies: &Policies, key: &HashedKey) {
        if let Some(hashes) = &mut self.keys {
            hashes.insert(key.hash());
        }
        let target = Target::Key(*key);
        for (set, policy) in self.prefixes.iter_mut().zip(policies.iter()) {
            if let (Some(hashes), Some(hash)) = (set, policy.prefix_hash(&target)) {
                hashes.insert(hash);
            }
        }
    }

    /// Adds what another overlay of the same policies holds.
    pub(super) fn absorb(&mut self, other: Self) {
        join(&mut self.keys, other.keys);
        for (set, more) in self.prefixes.iter_mut().zip(other.prefixes) {
            join(set, more);
        }
    }

    #[inline]
    pub(super) fn might_match(&self, policies: &Policies, target: &Target) -> bool {
        match (&self.keys, target) {
            (Some(keys), Target::Key(key)) => keys.contains(&key.hash()),
            (None, Target::Key(_)) => true,
            (Some(keys), Target::Prefix(_)) if keys.is_empty() => false,
            (_, Target::Prefix(_)) => self.might_match_prefix(policies, target),
        }
    }

    fn might_match_prefix(&self, policies: &Policies, target: &Target) -> bool {
        let mut sets = self.prefixes.iter().zip(policies.iter());
        sets.all(|(set, policy)| match (set, policy.prefix_hash(target)) {
            (Some(hashes), Some(hash)) => hashes.contains(&hash),
            _ => true,
        })
    }

    /// 0 when saturated: none are held.
    pub(super) fn keys(&self) -> usize {
        self.keys.as_ref().map_or(0, HashSet::len)
    }

    /// Whether one of its sets matches everything.
    pub(super) fn is_saturated(&self) -> bool {
        self.keys.is_none() || self.prefixes.iter().any(Option::is_none)
    }

    pub(super) fn bytes(&self) -> usize {
        // A slot is a hash and a control byte.
        let set = |hashes: &Hashes| hashes.capacity() * 8 / 7 * 9;
        let sets = self.keys.iter().chain(self.prefixes.iter().flatten());
        sets.map(set).sum()
    }

    /// The hashes of the keys, in a stable order.
    pub(super) fn key_hashes(&self) -> Option<Vec<u64>> {
        self.keys.as_ref().map(sorted)
    }

    /// The hashes of the prefixes per policy, in a stable order.
    pub(super) fn prefix_hashes(&self) -> impl Iterator<Item = Option<Vec<u64>>> {
        self.prefixes.iter().map(|set| set.as_ref().map(sorted))
    }
}

/// If one of them has unknown contents, so has the union.
fn join(set: &mut Option<Hashes>, more: Option<Hashes>) {
    match (set.as_mut(), more) {
        (Some(hashes), Some(more)) => hashes.extend(more),
        (_, None) => *set = None,
        (None, Some(_)) => {}
    }
}

fn sorted(hashes: &Hashes) -> Vec<u64> {
    let mut sorted: Vec<u64> = hashes.iter().copied().collect();
    sorted.sort_unstable();
    sorted
}
