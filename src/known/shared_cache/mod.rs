//! Layouts in a Redis that a fleet of proxies shares. This tier saves reads of Cassandra, and may vanish at any time.
//!
//! Callers never get an error: whatever Redis does, within the deadline the answer is a layout that is proven to be the
//! right one, or the reason why there is none. `link` is the connection, `error` says what failed. No key and no
//! credential reaches a log.

mod error;
mod link;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Gauge, gauge};
use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

pub use error::SharedCacheError;

use crate::config::RedisSettings;
use crate::known::breaker::{Admission, Breaker, Change};
use crate::tls::{self, TlsError};
use crate::wide_row::layout::{LAYOUT_BYTES_MAX, Layout, LayoutError, LayoutId, Seal};
use link::Link;

pub(super) const BREAKER_OPEN: &str = "narrows_redis_breaker_open";

/// Maximum number of layouts on their way to Redis. More are dropped, since the next proxy that misses one offers it
/// again.
const PUTS_MAX: usize = 64;

/// What the shared cache answered.
#[derive(Debug, PartialEq)]
pub enum Fetched {
    Hit(Layout),
    Miss,
    /// There is a value, but it is not this layout.
    Ignored(LayoutError),
    Failed(SharedCacheError),
    /// Redis was not asked: it has failed too often lately, or the cluster is not known yet.
    Skipped,
}

/// Clones share one connection.
#[derive(Clone)]
pub struct SharedCache {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    breaker: Mutex<Breaker>,
    breaker_open: Gauge,
    runtime: Handle,
    puts: Arc<Semaphore>,
    timeout: Duration,
    entry_ttl: Duration,
    /// Cluster and control keyspace, which a Redis may serve several of.
    scope: OnceLock<String>,
}

impl SharedCache {
    /// Reads the TLS files, but does not connect yet. `runtime` runs the connection, so it must outlive all other
    /// runtimes.
    pub fn new(settings: RedisSettings, runtime: Handle) -> Result<Self, TlsError> {
        let tls = settings.tls.as_ref().map(tls::load_upstream).transpose()?;
        let inner = Inner {
            breaker: Mutex::default(),
            breaker_open: gauge!(BREAKER_OPEN),
            puts: Arc::new(Semaphore::new(PUTS_MAX)),
            timeout: settings.timeout,
            entry_ttl: settings.entry_ttl,
            scope: OnceLock::new(),
            link: Link::new(settings, tls, runtime.clone()),
            runtime,
        };
        inner.breaker_open.set(0);
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Sets the TLS configuration for new connections.
    pub fn set_tls(&self, tls: Option<Arc<ClientConfig>>) {
        self.inner.link.set_tls(tls);
    }

    /// Names the cluster and control keyspace whose layouts this process shares. Redis is not asked before.
    pub fn set_scope(&self, scope: &str) {
        self.inner.scope.get_or_init(|| scope.to_owned());
    }

    /// The layout with this seal. Answers within the configured time, from any runtime.
    pub async fn get(&self, id: &LayoutId, seal: &Seal) -> Fetched {
        let Some(scope) = self.inner.scope.get() else {
            return Fetched::Skipped;
        };
        let Some(question) = Question::start(&self.inner) else {
            return Fetched::Skipped;
        };
        let fetched = question.ask(self.inner.fetch(&id.shared_key(scope))).await;
        match fetched {
            // GETRANGE returns an empty string for a key that does not exist.
            Ok(bytes) if bytes.is_empty() => Fetched::Miss,
            Ok(bytes) => match Layout::decode(&bytes, id, seal).and_then(Layout::served) {
                Ok(layout) => Fetched::Hit(layout),
                Err(error) => Fetched::Ignored(error),
            },
            Err(SharedCacheError::OtherType) => Fetched::Ignored(LayoutError::NotALayout),
            Err(error) => Fetched::Failed(error),
        }
    }

    /// Offers a layout to the fleet. Returns at once; it does not matter whether the layout arrives.
    pub fn put(&self, layout: &Layout) {
        // Only a question that somebody waits for may probe whether Redis is back.
        if self.inner.breaker().is_open() {
            return;
        }
        let Ok(permit) = self.inner.puts.clone().try_acquire_owned() else {
            return;
        };
        // Without a seal nobody could trust it; the other tiers still serve it.
        let (Some(bytes), Some(scope)) = (layout.encode(), self.inner.scope.get()) else {
            return;
        };
        let (inner, key) = (self.inner.clone(), layout.id().shared_key(scope));
        self.inner.runtime.spawn(async move {
            let _permit = permit;
            if let Some(question) = Question::start(&inner) {
                let stored = question.ask(inner.store(&key, &bytes)).await;
                if let Err(reason) = stored {
                    tracing::debug!(%reason, "a layout did not reach the shared cache");
                }
            }
        });
    }
}

impl Inner {
    /// Reads a range and not the whole value: whatever the key holds, it takes no more memory than the largest layout.
    async fn fetch(&self, key: &str) -> Result<Vec<u8>, SharedCacheError> {
        let mut connection = self.link.connection().await?;
        let mut command = redis::cmd("GETRANGE");
        command.arg(key).arg(0).arg(LAYOUT_BYTES_MAX);
        Ok(command.query_async(&mut connection).await?)
    }

    async fn store(&self, key: &str, bytes: &[u8]) -> Result<(), SharedCacheError> {
        let mut connection = self.link.connection().await?;
        let seconds = self.entry_ttl.as_secs().max(1);
        let mut command = redis::cmd("SET");
        command.arg(key).arg(bytes).arg("EX").arg(seconds);
        Ok(command.query_async(&mut connection).await?)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, admission: Admission, failure: Option<&SharedCacheError>) {
        let mut breaker = self.breaker();
        let change = match failure {
            None => breaker.succeeded(admission),
            Some(_) => breaker.failed(admission, Instant::now()),
        };
        self.breaker_open
            .set(f64::from(u8::from(breaker.is_open())));
        drop(breaker);
        let reason = failure.map(ToString::to_string).unwrap_or_default();
        match change {
            Change::Unchanged => return,
            Change::Closed => tracing::info!("the shared cache answers again"),
            Change::StaysOpen => tracing::debug!(reason, "the shared cache is still failing"),
            Change::Opened => {
                tracing::warn!(
                    reason,
                    "the shared cache is failing; layouts are read from Cassandra"
                );
            }
        }
        if failure.is_some() {
            self.link.drop_connection();
        }
    }
}

/// One question that the breaker admitted. The breaker always learns how it ended, even if nobody waits for it any
/// more.
struct Question<'a> {
    inner: &'a Inner,
    admission: Admission,
    reported: bool,
}

impl<'a> Question<'a> {
    fn start(inner: &'a Inner) -> Option<Self> {
        let admission = inner.breaker().admit(Instant::now())?;
        Some(Self {
            inner,
            admission,
            reported: false,
        })
    }

    async fn ask<T>(
        mut self,
        answer: impl Future<Output = Result<T, SharedCacheError>>,
    ) -> Result<T, SharedCacheError> {
        let answer = tokio::time::timeout(self.inner.timeout, answer).await;
        let answer = answer.unwrap_or(Err(SharedCacheError::Timeout));
        let failure = answer.as_ref().err();
        let failure = failure.filter(|error| **error != SharedCacheError::OtherType);
        self.inner.report(self.admission, failure);
        self.reported = true;
        answer
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.reported {
            let mut breaker = self.inner.breaker();
            breaker.abandoned(self.admission, Instant::now());
        }
    }
}
