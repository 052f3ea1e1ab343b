//! Looks up layouts: in memory, then in the shared cache if there is one, then in the store.
//!
//! A layout never changes, so whatever a tier remembers stays true and nothing is ever invalidated; but each must have
//! the seal that the key's own row names, and layouts without a seal are not shared. The absence of a layout is
//! remembered only briefly. Threads that ask for the same layout share one look-up. Every tier and
//! the look-up as a whole have deadlines; past them the caller gets an error and reads the original, which is always
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
use crate::wide_row::layout::{Layout, LayoutId, Seal};
use metrics::{Metrics, Outcome};

/// How long the absence of a layout from the store is remembered.
const ABSENT_TTL: Duration = Duration::from_secs(1);
/// A point read that takes longer indicates a cluster in trouble; the original then serves as well.
const STORE_DEADLINE: Duration = Duration::from_millis(500);
/// Deadline for all tiers together, and for waiting for another caller's look-up.
const LOOKUP_DEADLINE: Duration = Duration::from_millis(600);
/// Approximate overhead of the cache per entry.
const ENTRY_OVERHEAD_BYTES: usize = 200;

/// Why a look-up failed. No tier remembers failures.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LookupError {
    #[error("the layout cannot be read: {0}")]
    Store(Arc<dyn Error + Send + Sync>),
    #[error("the layout was not read in time")]
    StoreTimeout,
    #[error("the store answered with another layout than the one that was proven")]
    Foreign,
    #[error("the layout was not found in time")]
    Timeout,
}

/// Where an answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// In memory, or by another caller's look-up that was in progress.
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

/// What the store answered.
type ReadStore = Result<Option<Layout>, Box<dyn Error + Send + Sync>>;

/// The layouts that this process remembers, and the tiers where it finds others.
pub struct Layouts {
    memory: Cache<LayoutId, Option<Arc<Layout>>>,
    shared: Option<SharedCache>,
    timing: Timing,
    metrics: Metrics,
}

/// Deadlines, and the lifetime of an absence. A proxy runs with the default.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long the absence of a layout is remembered.
    pub absent_ttl: Duration,
    pub store: Duration,
    /// Deadline for all tiers together; the shared cache also has its own.
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

    /// The layout with this seal, if it is in memory.
    pub async fn remembered(&self, id: &LayoutId, seal: Option<Seal>) -> Option<Arc<Layout>> {
        let layout = self.memory.get(id).await.flatten();
        layout.filter(|layout| layout.seal() == seal)
    }

    /// `read_store` asks Cassandra. It runs only if no other tier has the layout and no other caller is asking for it.
    pub async fn get<Read, Reading, E>(
        &self,
        id: &LayoutId,
        seal: Option<Seal>,
        read_store: Read,
    ) -> Result<Found, LookupError>
    where
        Read: FnOnce() -> Reading,
        Reading: Future<Output = Result<Option<Layout>, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start = Instant::now();
        match self.memory.get(id).await {
            Some(Some(layout)) if layout.seal() != seal => {
                // It was proven anew since.
                self.memory.invalidate(id).await;
            }
            Some(layout) => {
                self.metrics.count(Tier::Memory, Outcome::Hit, start);
                let tier = Tier::Memory;
                return Ok(Found { layout, tier });
            }
            None => {}
        }
        let mut tier = Tier::Memory;
        let look_further = async {
            self.metrics.count(Tier::Memory, Outcome::Miss, start);
            let read = async { read_store().await.map_err(Into::into) };
            let found = self.look_further(id, seal, read).await?;
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
        seal: Option<Seal>,
        read_store: impl Future<Output = ReadStore>,
    ) -> Result<Found, LookupError> {
        if let Some(layout) = self.ask_shared(id, seal).await {
            return Ok(Found {
                layout: Some(Arc::new(layout)),
                tier: Tier::Shared,
            });
        }
        let start = Instant::now();
        let checked = check(id, seal, timeout(self.timing.store, read_store).await);
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

    async fn ask_shared(&self, id: &LayoutId, seal: Option<Seal>) -> Option<Layout> {
        let (shared, seal) = (self.shared.as_ref()?, seal?);
        let start = Instant::now();
        let fetched = shared.get(id, &seal).await;
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
                tracing::debug!(table = %id.table, %reason, "ignored a value in the shared cache");
            }
            Fetched::Failed(reason) => tracing::debug!(%reason, "the shared cache failed"),
            Fetched::Miss | Fetched::Skipped => {}
        }
        None
    }

    /// Runs evictions and updates the gauges after an insert; otherwise counts the hit.
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

/// Accepts the store's answer only if it is this layout.
fn check(
    id: &LayoutId,
    seal: Option<Seal>,
    read: Result<ReadStore, tokio::time::error::Elapsed>,
) -> Result<Option<Layout>, LookupError> {
    match read {
        Ok(Ok(None)) => Ok(None),
        Ok(Ok(Some(layout))) => {
            // A proof counts from its seal on.
            let layout = if seal.is_none() {
                layout.unproven()
            } else {
                layout
            };
            let is_it = layout.is_of(id) && layout.seal() == seal;
            is_it.then_some(Some(layout)).ok_or(LookupError::Foreign)
        }
        Ok(Err(error)) => Err(LookupError::Store(error.into())),
        Err(_) => Err(LookupError::StoreTimeout),
    }
}

fn weigh(id: &LayoutId, layout: Option<&Layout>) -> u32 {
    let bytes = ENTRY_OVERHEAD_BYTES + id.bytes() + layout.map_or(0, Layout::bytes);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Layouts stay until they are evicted; an absence expires after this time.
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
