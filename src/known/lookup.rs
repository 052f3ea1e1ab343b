//! Tells whether a partition is split, and how. Asked after the filter said "maybe".
//!
//! The rule: a question that cannot be answered in time is a doubt, and in doubt the original answers the read, because
//! it is always complete. An answer is never older than the request: a read that was sent after the request arrived
//! validates the shard's version, and what is remembered of the key counts only if nothing changed since.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, counter};
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use tokio::time::timeout;

use super::cache::Layouts;
use super::slot::StoreSlot;
use super::view::{Judged, SeenKey, Served};
use crate::known::Watched;
use crate::schema::names::PartitionKey;
use crate::wide_row::layout::{Layout, LayoutId};
use crate::wide_row::store::{ShardReading, SplitId, StoreError};

const ANSWERS_TOTAL: &str = "narrows_lookup_answers_total";

/// The shard may change between its validation and the read of the key. After three changes in a row the look-up gives
/// up.
const ATTEMPTS_MAX: usize = 3;
const KEY_DEADLINE: Duration = Duration::from_millis(500);
/// Approximate memory of a remembered key, without the key and the table's name.
const ENTRY_BYTES: usize = 250;

/// Whether a partition is split now.
#[derive(Debug, Clone, PartialEq)]
pub enum LookupAnswer {
    Split(Arc<Layout>),
    NotSplit,
    Doubt(Doubt),
}

/// Why that could not be determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// No proxy has looked at the original since it became watched.
    Unseen,
    /// The shard could not be read in time.
    Validation,
    /// The key could not be read in time.
    Key,
    /// The shard kept changing.
    Moving,
    /// The layout could not be read in time, or does not exist.
    Layout,
}

/// Counts the look-ups of one table by their answers.
pub struct LookupMetrics {
    split: Counter,
    not_split: Counter,
    doubt: Counter,
}

impl LookupMetrics {
    pub fn register(table: &str) -> Self {
        let answer = |answer: &'static str| counter!(ANSWERS_TOTAL, "table" => table.to_owned(), "answer" => answer);
        Self {
            split: answer("split"),
            not_split: answer("not_split"),
            doubt: answer("doubt"),
        }
    }

    fn count(&self, standing: &LookupAnswer) {
        let counter = match standing {
            LookupAnswer::Split(_) => &self.split,
            LookupAnswer::NotSplit => &self.not_split,
            LookupAnswer::Doubt(_) => &self.doubt,
        };
        counter.increment(1);
    }
}

pub struct Lookup {
    store: Arc<StoreSlot>,
    keys: Cache<SplitId, SeenKey>,
    layouts: Layouts,
}

impl Lookup {
    pub fn new(store: Arc<StoreSlot>, key_bytes: u64, layouts: Layouts) -> Self {
        let weigh = |id: &SplitId, _: &SeenKey| {
            let names = id.table.keyspace.len() + id.table.table.len();
            u32::try_from(ENTRY_BYTES + names + id.key.bytes().len()).unwrap_or(u32::MAX)
        };
        let keys = Cache::builder().max_capacity(key_bytes).weigher(weigh);
        Self {
            store,
            keys: keys.build(),
            layouts,
        }
    }

    /// The partition's layout as of the last look-up. It must not be trusted until [`Self::find`] returns the same.
    pub async fn remembered(&self, watched: &Watched, key: &PartitionKey) -> Option<Arc<Layout>> {
        let id = watched.split_id(key.clone());
        let served = self.keys.get(&id).await?.served()?;
        let id = layout_id(id, served);
        self.layouts.remembered(&id, served.seal).await
    }

    /// The partition's standing, no older than this call.
    pub async fn find(&self, watched: &Watched, key: &PartitionKey) -> LookupAnswer {
        let standing = self.find_uncounted(watched, key).await;
        watched.lookups.count(&standing);
        standing
    }

    async fn find_uncounted(&self, watched: &Watched, key: &PartitionKey) -> LookupAnswer {
        if !watched.is_seen() {
            return LookupAnswer::Doubt(Doubt::Unseen);
        }
        let id = watched.split_id(key.clone());
        match self.served(watched, &id).await {
            Ok(Some(served)) => self.layout(id, served).await,
            Ok(None) => LookupAnswer::NotSplit,
            Err(doubt) => LookupAnswer::Doubt(doubt),
        }
    }

    /// The generation in service.
    async fn served(&self, watched: &Watched, id: &SplitId) -> Result<Option<Served>, Doubt> {
        for _ in 0..ATTEMPTS_MAX {
            let shard = watched.validations.validate(id.shard).await;
            let shard = shard.map_err(|_| Doubt::Validation)?;
            let remembered = self.keys.get(id).await;
            let current = |seen: &SeenKey| seen.judged_by(&shard) != Judged::Outdated;
            let seen = match remembered.filter(current) {
                Some(seen) => Some(seen),
                None => self.read_key(id, &shard).await?,
            };
            match seen.map(|seen| (seen.judged_by(&shard), seen)) {
                Some((Judged::InService(served), _)) => return Ok(Some(served)),
                Some((Judged::NotInService, seen)) => {
                    if !seen.is_guarded() {
                        watched.filter_metrics.count_false_positive();
                    }
                    return Ok(None);
                }
                Some((Judged::Outdated, _)) | None => {}
            }
        }
        Err(Doubt::Moving)
    }

    /// Reads the key, or waits for another request's read: each key has at most one in progress. `None` if something
    /// changed between the reads of shard and key.
    async fn read_key(&self, id: &SplitId, shard: &ShardReading) -> Result<Option<SeenKey>, Doubt> {
        let computed = self
            .keys
            .entry_by_ref(id)
            .and_try_compute_with(async |before| {
                let known =
                    before.is_some_and(|entry| entry.value().judged_by(shard) != Judged::Outdated);
                if known {
                    return Ok::<_, StoreError>(Op::Nop);
                }
                let reading = self.store.get()?.read_key(id).await?;
                Ok(match SeenKey::new(&reading, shard) {
                    Some(seen) => Op::Put(seen),
                    None => Op::Remove,
                })
            });
        match timeout(KEY_DEADLINE, computed).await {
            Ok(Ok(
                CompResult::Inserted(entry)
                | CompResult::ReplacedWith(entry)
                | CompResult::Unchanged(entry),
            )) => Ok(Some(entry.into_value())),
            Ok(Ok(CompResult::Removed(_) | CompResult::StillNone(_))) => Ok(None),
            Ok(Err(_)) | Err(_) => Err(Doubt::Key),
        }
    }

    async fn layout(&self, id: SplitId, served: Served) -> LookupAnswer {
        let id = layout_id(id, served);
        let read = async || self.store.get()?.read_layout(&id).await;
        match self.layouts.get(&id, served.seal, read).await {
            Ok(found) => match found.layout {
                Some(layout) => LookupAnswer::Split(layout),
                None => LookupAnswer::Doubt(Doubt::Layout),
            },
            Err(_) => LookupAnswer::Doubt(Doubt::Layout),
        }
    }
}

fn layout_id(id: SplitId, served: Served) -> LayoutId {
    LayoutId {
        table: id.table,
        key: id.key,
        generation: served.generation,
    }
}
