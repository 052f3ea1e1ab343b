//! The filter of one watched table. Readers ask the current snapshot without ever waiting. The follower inserts keys,
//! and a background task rebuilds one shard at a time, in steps that it can spread as it likes: begin, add every key,
//! build (the long step, without a lock), install.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};

use super::composite::{Composite, CompositeBuilder};
use super::overlay::Overlay;
use super::policy::{HashedKey, Policies, Target, shard_of};
use super::snapshot::{OVERLAY_KEYS_MIN, Shard, Snapshot, Stats};

/// More shards than this would only cost memory.
const SHARDS_MAX: usize = 4096;
/// The largest useful `min_filter_keys`: an overlay of more keys asks for a rebuild, and is dear to copy.
pub const MIN_FILTER_KEYS_MAX: usize = OVERLAY_KEYS_MIN;

#[derive(Debug)]
pub struct TableFilter {
    snapshot: ArcSwap<Snapshot>,
    /// Writers take turns; readers never take this lock.
    writers: Mutex<Writers>,
    min_filter_keys: usize,
}

/// What writers share.
#[derive(Debug)]
struct Writers {
    /// One entry per shard.
    rebuilds: Vec<Option<Pending>>,
    /// Replaced snapshots that readers still held. They are kept so that no reader holds the last reference and has to
    /// free a shard.
    retired: Vec<Arc<Snapshot>>,
}

impl Writers {
    /// Frees the snapshots that no reader holds any more. A replaced snapshot gets no new readers, so a count of one
    /// stays one.
    fn retire(&mut self, old: Arc<Snapshot>) {
        self.retired.push(old);
        self.retired.retain(|old| Arc::strong_count(old) > 1);
    }
}

/// A rebuild that has begun and is not installed yet.
#[derive(Debug)]
struct Pending {
    ticket: Arc<()>,
    /// Keys inserted since it began, which may be missing from those that it was given.
    since: Shard,
}

impl TableFilter {
    /// A filter that matches everything until its shards are rebuilt. `shards` is at least 1, at most 4096.
    pub fn new(policies: Policies, shards: usize) -> Self {
        let shards = shards.clamp(1, SHARDS_MAX);
        Self::from_snapshot(Snapshot::unknown(policies, shards))
    }

    pub(super) fn from_snapshot(snapshot: Snapshot) -> Self {
        let writers = Writers {
            rebuilds: snapshot.shards.iter().map(|_| None).collect(),
            retired: Vec::new(),
        };
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            writers: Mutex::new(writers),
            min_filter_keys: 0,
        }
    }

    /// From the next rebuild on, a shard with fewer keys than this gets no filter: its keys are held exactly, beside
    /// those that are inserted later. At most [`MIN_FILTER_KEYS_MAX`].
    pub fn with_min_filter_keys(mut self, keys: usize) -> Self {
        self.min_filter_keys = keys.min(MIN_FILTER_KEYS_MAX);
        self
    }

    /// `false` is a guarantee: no key that was built in or inserted matches.
    #[inline]
    pub fn might_match(&self, target: &Target) -> bool {
        self.snapshot.load().might_match(target)
    }

    /// The current snapshot, for several questions in a row.
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    pub fn shards(&self) -> usize {
        self.snapshot.load().shards.len()
    }

    pub fn shard_of(&self, key: &[u8]) -> usize {
        shard_of(super::hash(key), self.shards())
    }

    pub fn stats(&self) -> Stats {
        self.snapshot.load().stats()
    }

    pub fn insert(&self, key: &[u8]) {
        self.insert_all([key]);
    }

    /// Every check that starts after the return sees the keys. Each call copies the overlays it touches, so many keys
    /// belong in one call.
    pub fn insert_all<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) {
        let mut writers = self.lock();
        let mut next = Snapshot::clone(&self.snapshot.load());
        for key in keys {
            let key = HashedKey::new(key.as_ref());
            let index = shard_of(key.hash(), next.shards.len());
            Arc::make_mut(&mut next.shards[index]).insert(&next.policies, &key);
            if let Some(pending) = &mut writers.rebuilds[index] {
                pending.since.insert(&next.policies, &key);
            }
        }
        writers.retire(self.snapshot.swap(Arc::new(next)));
    }

    /// Shards that match too much: never built, unreadable, without a part for a policy, or with an overlay that has
    /// grown too large. Those that match everything come first.
    pub fn needs_rebuild(&self) -> Vec<usize> {
        let snapshot = self.snapshot.load();
        let mut shards: Vec<usize> = (0..snapshot.shards.len())
            .filter(|index| snapshot.shards[*index].needs_rebuild())
            .collect();
        shards.sort_by_key(|index| snapshot.shards[*index].base.is_some());
        shards
    }

    /// Starts to rebuild one of the [`Self::shards`]. The keys to add must be read *after* this returns: keys that are
    /// inserted from now on are kept beside them, keys that were inserted before are not. A new rebuild of a shard
    /// supersedes an earlier one.
    pub fn begin_rebuild(&self, shard: usize) -> Rebuild {
        let mut writers = self.lock();
        let snapshot = self.snapshot.load();
        let ticket = Arc::new(());
        // Without a base, its overlay has the smallest limit there is.
        let since = Shard::unknown(&snapshot.policies);
        writers.rebuilds[shard] = Some(Pending {
            ticket: Arc::clone(&ticket),
            since,
        });
        Rebuild {
            shard,
            shards: snapshot.shards.len(),
            ticket,
            builder: CompositeBuilder::new(&snapshot.policies),
            few: Few::new(&snapshot.policies, self.min_filter_keys),
        }
    }

    /// Replaces the shard. Readers that hold a snapshot keep the old one.
    pub fn install(&self, built: BuiltShard) -> Installed {
        let mut writers = self.lock();
        let current = writers.rebuilds[built.shard]
            .take_if(|pending| Arc::ptr_eq(&pending.ticket, &built.ticket))
            .map(|pending| pending.since.overlay);
        let Some(mut overlay) = current else {
            return Installed::Superseded;
        };
        if let Some(few) = built.few {
            overlay.absorb(few);
        }
        let shard = Shard {
            base: Some(Arc::new(built.composite)),
            complete: true,
            overlay,
        };
        let next = self.snapshot.load().with(built.shard, shard);
        writers.retire(self.snapshot.swap(Arc::new(next)));
        Installed::Yes
    }

    /// All steps at once. The iterator must not read the keys before it is asked for them.
    pub fn rebuild_shard<K: AsRef<[u8]>>(
        &self,
        shard: usize,
        keys: impl IntoIterator<Item = K>,
    ) -> Installed {
        let mut rebuild = self.begin_rebuild(shard);
        for key in keys {
            rebuild.add(key.as_ref());
        }
        self.install(rebuild.build())
    }

    /// A panic leaves nothing half-done in here: the snapshot is stored last.
    fn lock(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A shard being rebuilt: give it every key of the shard, then build.
#[derive(Debug)]
pub struct Rebuild {
    shard: usize,
    shards: usize,
    ticket: Arc<()>,
    builder: CompositeBuilder,
    few: Option<Few>,
}

/// The keys of a shard, as long as they are too few for a filter.
#[derive(Debug)]
struct Few {
    policies: Policies,
    min_filter_keys: usize,
    keys: Overlay,
}

impl Few {
    /// `None` where no number is too small, or where there is no filter anyway.
    fn new(policies: &Policies, min_filter_keys: usize) -> Option<Self> {
        let is_wanted = min_filter_keys > 0 && !policies.is_empty();
        is_wanted.then(|| Self {
            policies: policies.clone(),
            min_filter_keys,
            keys: Overlay::new(policies),
        })
    }

    /// `None`: there are enough now.
    fn with(mut self, key: &HashedKey) -> Option<Self> {
        self.keys.insert(&self.policies, key);
        (self.keys.keys() < self.min_filter_keys).then_some(self)
    }
}

impl Rebuild {
    /// Adds a key if it belongs to this shard, and returns whether it does.
    pub fn add(&mut self, key: &[u8]) -> bool {
        let key = HashedKey::new(key);
        let ours = shard_of(key.hash(), self.shards) == self.shard;
        if ours {
            self.builder.add(&key);
            self.few = self.few.take().and_then(|few| few.with(&key));
        }
        ours
    }

    /// The long step: builds every policy's filter and re-checks every key in it.
    pub fn build(self) -> BuiltShard {
        let (builder, few) = match self.few {
            Some(few) => (CompositeBuilder::new(&few.policies), Some(few.keys)),
            None => (self.builder, None),
        };
        BuiltShard {
            shard: self.shard,
            ticket: self.ticket,
            composite: builder.build(),
            few,
        }
    }
}

/// A shard ready to be installed.
#[derive(Debug)]
pub struct BuiltShard {
    shard: usize,
    ticket: Arc<()>,
    /// Empty if there are few keys.
    composite: Composite,
    few: Option<Overlay>,
}

/// What became of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Installed {
    Yes,
    /// Another rebuild of the shard has begun or was installed since; this one changed nothing.
    Superseded,
}

#[cfg(test)]
mod tests {
    use super::super::FusePolicy;
    use super::*;

    #[test]
    fn a_replaced_snapshot_is_freed_by_a_writer_and_not_by_its_last_reader() {
        let policies: Policies = Arc::new([Arc::new(FusePolicy)]);
        let filter = TableFilter::new(policies, 1);
        let retired = || filter.lock().retired.len();
        let key = b"a key".as_slice();
        assert_eq!(filter.rebuild_shard(0, [key]), Installed::Yes);
        assert_eq!(retired(), 0, "nobody held the first one");

        let reader = filter.snapshot();
        let watched = Arc::downgrade(&reader);
        assert_eq!(filter.rebuild_shard(0, [key]), Installed::Yes);
        assert_eq!(retired(), 1);
        drop(reader);
        assert!(watched.upgrade().is_some(), "the reader freed it");
        filter.insert(key);
        assert_eq!(retired(), 0);
        assert!(watched.upgrade().is_none());
    }
}
