//! A table's filter at one moment: immutable, in shards by hash, so that one shard can be replaced while all others are
//! shared with the previous snapshot. A shard that is not built yet matches everything.

use std::sync::Arc;

use super::composite::Composite;
use super::overlay::Overlay;
use super::policy::{HashedKey, Policies, Target, bits_per_key, shard_of};

/// An overlay may hold one key per this many built ones before its shard needs a rebuild.
const OVERLAY_SHARE: usize = 32;
/// An overlay of up to this many keys is never worth a rebuild.
pub(super) const OVERLAY_KEYS_MIN: usize = 1024;
/// A prefix is looked up in every shard, a key in one. A list of keys is asked for by its prefix where that makes at
/// most this many look-ups per key: with 16 shards always, with 256 if it has 16 keys.
const PROBES_PER_KEY: usize = 16;
/// An overlay this many times too large stops holding keys and matches everything.
const OVERLAY_SATURATED: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Shard {
    /// `None`: unknown, matches everything.
    pub(super) base: Option<Arc<Composite>>,
    /// Every configured policy has its part in the base.
    pub(super) complete: bool,
    pub(super) overlay: Overlay,
}

impl Shard {
    pub(super) fn unknown(policies: &Policies) -> Self {
        Self {
            base: None,
            complete: false,
            overlay: Overlay::new(policies),
        }
    }

    #[inline]
    fn might_match(&self, policies: &Policies, target: &Target) -> bool {
        self.base
            .as_ref()
            .is_none_or(|base| base.might_match(target))
            || self.overlay.might_match(policies, target)
    }

    fn overlay_keys_max(&self) -> usize {
        let built = self.base.as_ref().map_or(0, |base| base.keys());
        (built / OVERLAY_SHARE).max(OVERLAY_KEYS_MIN)
    }

    pub(super) fn needs_rebuild(&self) -> bool {
        !self.complete
            || self.overlay.is_saturated()
            || self.overlay.keys() > self.overlay_keys_max()
    }

    pub(super) fn insert(&mut self, policies: &Policies, key: &HashedKey) {
        self.overlay.insert(policies, key);
        if self.overlay.keys() > self.overlay_keys_max() * OVERLAY_SATURATED {
            self.overlay = Overlay::saturated(policies);
        }
    }
}

/// Cheap to clone: what a request holds while it asks several questions.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) policies: Policies,
    pub(super) shards: Box<[Arc<Shard>]>,
}

impl Snapshot {
    pub(super) fn unknown(policies: Policies, shards: usize) -> Self {
        let shard = Arc::new(Shard::unknown(&policies));
        let shards = vec![shard; shards].into();
        Self { policies, shards }
    }

    /// `false` is a guarantee. A key is looked up in its one shard, a prefix in every shard.
    #[inline]
    pub fn might_match(&self, target: &Target) -> bool {
        match target {
            Target::Key(key) => {
                let shard = &self.shards[shard_of(key.hash(), self.shards.len())];
                shard.might_match(&self.policies, target)
            }
            Target::Prefix(_) => self
                .shards
                .iter()
                .any(|shard| shard.might_match(&self.policies, target)),
        }
    }

    /// The bytes with which all of these keys begin, if a policy answers about them and that is cheap enough.
    pub fn shared_prefix<'a>(
        &self,
        mut keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Option<&'a [u8]> {
        if keys.len() < 2 || keys.len() * PROBES_PER_KEY < self.shards.len() {
            return None;
        }
        let first = keys.next()?;
        let prefix = keys.fold(first, |prefix, key| {
            let same = prefix.iter().zip(key).take_while(|(a, b)| a == b);
            &prefix[..same.count()]
        });
        let target = Target::Prefix(prefix);
        let mut policies = self.policies.iter();
        let answers = policies.any(|policy| policy.prefix_hash(&target).is_some());
        answers.then_some(prefix)
    }

    pub(super) fn with(&self, index: usize, shard: Shard) -> Self {
        let mut next = self.clone();
        next.shards[index] = Arc::new(shard);
        next
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            shards: self.shards.len(),
            ..Stats::default()
        };
        for shard in &self.shards {
            if let Some(base) = &shard.base {
                stats.keys += base.keys();
                stats.bytes += base.bytes();
            }
            let is_known = shard.base.as_ref().is_some_and(|base| !base.is_empty());
            stats.shards_unknown += usize::from(!is_known);
            stats.overlay_keys += shard.overlay.keys();
            stats.bytes += shard.overlay.bytes() + size_of::<Shard>();
        }
        stats.keys += stats.overlay_keys;
        stats
    }
}

/// What metrics tell about a table's filter. The caller counts its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub shards: usize,
    /// Shards that match everything because they were never built, could not be read, or have no policies.
    pub shards_unknown: usize,
    /// Keys built in and inserted; a key inserted again counts twice until its shard is rebuilt.
    pub keys: usize,
    pub overlay_keys: usize,
    /// Memory of filters and overlays.
    pub bytes: usize,
}

impl Stats {
    /// 0 for an empty filter.
    pub fn bits_per_key(&self) -> f64 {
        bits_per_key(self.bytes, self.keys)
    }
}
