//! Looks up layouts: in memory, then in the shared cache if there is one, then in the store.
//!
//! A layout never changes, so whatever a tier remembers stays true and nothing is ever invalidated. That the store has
//! none is remembered only briefly. For one layout one look-up is under way, whichever threads ask. Every tier and the
//! look-up as a whole have deadlines; past them there is an error and the caller reads the original, which is always
//! complete.

mod metrics;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use tokio::time::timeout;

use super::shared_cache::{Fetched, SharedCache};
use crate::wide_row::layout::{Layout, LayoutId};
use metrics::{Metrics, Outcome};

/// How long it is believed that the store has no such layout.
const ABSENT_TTL: Duration = Duration::from_secs(1);
/// A point read that takes longer tells of a cluster in trouble, where the original serves as well.
const STORE_DEADLINE: Duration = Duration::from_millis(500);
/// All tiers together, or as long as somebody else's look-up is waited for.
const LOOKUP_DEADLINE: Duration = Duration::from_millis(600);
/// What the cache itself needs for an entry, about.
const ENTRY_OVERHEAD_BYTES: usize = 200;

/// Why no answer was found. No tier remembers it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LookupError {
    #[error("the layout cannot be read: {0}")]
    Store(Arc<dyn Error + Send + Sync>),
    #[error("the layout was not read in time")]
    StoreTimeout,
    #[error("the store answered with the layout of another partition or generation")]
    Foreign,
    #[error("the layout was not found in time")]
    Timeout,
}

/// Where an answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Here, or by another's look-up that was under way.
    Memory,
    Shared,
    Store,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// `None`: the store has no such layout.
    pub layout: Option<Arc<Layout>>,
    pub tier: Tier,
}

/// What the store said.
type ReadStore = Result<Option<Layout>, Box<dyn Error + Send + Sync>>;

/// The layouts that this process knows, and where it learns of others.
pub struct Layouts {
    memory: Cache<LayoutId, Option<Arc<Layout>>>,
    shared: Option<SharedCache>,
    timing: Timing,
    metrics: Metrics,
}

/// How long what may take, and what is believed. The default is what a proxy runs with.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// For that the store has no such layout.
    pub absent_ttl: Duration,
    pub store: Duration,
    /// For all tiers together; the shared cache has a deadline of its own besides.
    pub lookup: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            absent_ttl: ABSENT_TTL,
            store: STORE_DEADLINE,
            lookup: LOOKUP_DEADLINE,
        }
    }
}

impl Layouts {
    /// Holds about `memory_bytes` in memory.
    pub fn new(memory_bytes: u64, shared: Option<SharedCache>) -> Self {
        Self::with_timing(memory_bytes, shared, Timing::default())
    }

    pub fn with_timing(memory_bytes: u64, shared: Option<SharedCache>, timing: Timing) -> Self {
        let memory = Cache::builder()
            .max_capacity(memory_bytes)
            .weigher(|id, layout: &Option<Arc<Layout>>| weigh(id, layout.as_deref()))
            .expire_after(AbsentExpires(timing.absent_ttl))
            .build();
        Self {
            memory,
            shared,
            timing,
            metrics: Metrics::register(),
        }
    }

    /// What is in memory.
    pub async fn remembered(&self, id: &LayoutId) -> Option<Arc<Layout>> {
        self.memory.get(id).await.flatten()
    }

    /// `read_store` asks Cassandra, if nobody else knows and nobody else is asking.
    pub async fn get<Read, Reading, E>(
        &self,
        id: &LayoutId,
        read_store: Read,
    ) -> Result<Found, LookupError>
    where
        Read: FnOnce() -> Reading,
        Reading: Future<Output = Result<Option<Layout>, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start = Instant::now();
        if let Some(layout) = self.memory.get(id).await {
            self.metrics.count(Tier::Memory, Outcome::Hit, start);
            let tier = Tier::Memory;
            return Ok(Found { layout, tier });
        }
        let mut tier = Tier::Memory;
        let look_further = async {
            self.metrics.count(Tier::Memory, Outcome::Miss, start);
            let read = async { read_store().await.map_err(Into::into) };
            let found = self.look_further(id, read).await?;
            tier = found.tier;
            Ok(found.layout)
        };
        let entry = self
            .memory
            .entry_by_ref(id)
            .or_try_insert_with(look_further);
        let entry = timeout(self.timing.lookup, entry).await;
        match entry {
            Ok(Ok(entry)) => {
                self.settle(tier, start).await;
                let layout = entry.into_value();
                Ok(Found { layout, tier })
            }
            Ok(Err(error)) => Err(LookupError::clone(&error)),
            Err(_) => {
                self.metrics.count(Tier::Memory, Outcome::Failed, start);
                Err(LookupError::Timeout)
            }
        }
    }

    async fn look_further(
        &self,
        id: &LayoutId,
        read_store: impl Future<Output = ReadStore>,
    ) -> Result<Found, LookupError> {
        if let Some(layout) = self.ask_shared(id).await {
            return Ok(Found {
                layout: Some(Arc::new(layout)),
                tier: Tier::Shared,
            });
        }
        let start = Instant::now();
        let checked = check(id, timeout(self.timing.store, read_store).await);
        let outcome = match &checked {
            Ok(Some(_)) => Outcome::Hit,
            Ok(None) => Outcome::Miss,
            Err(_) => Outcome::Failed,
        };
        self.metrics.count(Tier::Store, outcome, start);
        let layout = checked?;
        if let (Some(shared), Some(layout)) = (&self.shared, &layout) {
            shared.put(layout);
        }
        Ok(Found {
            layout: layout.map(Arc::new),
            tier: Tier::Store,
        })
    }

    async fn ask_shared(&self, id: &LayoutId) -> Option<Layout> {
        let shared = self.shared.as_ref()?;
        let start = Instant::now();
        let fetched = shared.get(id).await;
        let outcome = match &fetched {
            Fetched::Hit(_) => Outcome::Hit,
            Fetched::Miss => Outcome::Miss,
            Fetched::Ignored(_) => Outcome::Ignored,
            Fetched::Failed(_) => Outcome::Failed,
            Fetched::Skipped => Outcome::Skipped,
        };
        self.metrics.count(Tier::Shared, outcome, start);
        match fetched {
            Fetched::Hit(layout) => return Some(layout),
            Fetched::Ignored(reason) => {
                tracing::debug!(table = %id.table, %reason, "a value of the shared cache is ignored");
            }
            Fetched::Failed(reason) => tracing::debug!(%reason, "the shared cache fails"),
            Fetched::Miss | Fetched::Skipped => {}
        }
        None
    }

    /// After an entry came in, evictions are due and the gauges move.
    async fn settle(&self, tier: Tier, start: Instant) {
        if tier == Tier::Memory {
            self.metrics.count(Tier::Memory, Outcome::Hit, start);
            return;
        }
        self.memory.run_pending_tasks().await;
        let (bytes, entries) = (self.memory.weighted_size(), self.memory.entry_count());
        self.metrics.cache_bytes.set(bytes as f64);
        self.metrics.cache_entries.set(entries as f64);
    }
}

/// Takes over what the store said only if it is about this layout.
fn check(
    id: &LayoutId,
    read: Result<ReadStore, tokio::time::error::Elapsed>,
) -> Result<Option<Layout>, LookupError> {
    match read {
        Ok(Ok(Some(layout))) if !layout.is_of(id) => Err(LookupError::Foreign),
        Ok(Ok(layout)) => Ok(layout),
        Ok(Err(error)) => Err(LookupError::Store(error.into())),
        Err(_) => Err(LookupError::StoreTimeout),
    }
}

fn weigh(id: &LayoutId, layout: Option<&Layout>) -> u32 {
    let bytes = ENTRY_OVERHEAD_BYTES + id.bytes() + layout.map_or(0, Layout::bytes);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Layouts stay until there is no room; that there is none is believed for this long.
struct AbsentExpires(Duration);

impl Expiry<LayoutId, Option<Arc<Layout>>> for AbsentExpires {
    fn expire_after_create(
        &self,
        _: &LayoutId,
        layout: &Option<Arc<Layout>>,
        _: Instant,
    ) -> Option<Duration> {
        layout.is_none().then_some(self.0)
    }
}
