//! The read path: from a client's connection to upstream and back, in the order a request meets the files.
//!
//! `listener` accepts and hands over to a `worker` thread; `session` is one client connection and the file to read
//! first; `request` decides about what clients say, `response` about what upstream answers.

mod agreement;
mod events;
pub mod listener;
mod metrics;
pub mod mirror;
mod opening;
mod own;
mod pending;
mod prepared;
mod request;
mod response;
mod session;
mod system_tables;
mod topology;
pub mod worker;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::upstream::balance::Balance;
use crate::upstream::dial::Dialer;

pub use metrics::{Close, Metrics};
pub use prepared::Registry;
pub use topology::Presented;

/// What all sessions of the process share.
pub struct Proxy {
    pub config: Config,
    pub balance: Arc<Balance>,
    pub prepared: Registry,
    pub metrics: Metrics,
    /// Asks the control connection to look at the nodes soon.
    pub suspicion: Arc<Notify>,
    /// Addresses that mirrored nodes listen on now.
    pub mirrored: watch::Sender<HashSet<SocketAddr>>,
    connections: AtomicUsize,
    reloadable: Reloadable,
}

/// What SIGHUP may change under running sessions.
struct Reloadable {
    client_tls: RwLock<Option<Arc<rustls::ServerConfig>>>,
    dialer: RwLock<Dialer>,
    connections_max: AtomicUsize,
    idle_timeout_ms: AtomicU64,
    drain_timeout_ms: AtomicU64,
}

impl Proxy {
    pub fn new(
        config: Config,
        balance: Arc<Balance>,
        suspicion: Arc<Notify>,
        client_tls: Option<Arc<rustls::ServerConfig>>,
        dialer: Dialer,
    ) -> Self {
        let reloadable = Reloadable {
            client_tls: RwLock::new(client_tls),
            dialer: RwLock::new(dialer),
            connections_max: AtomicUsize::new(config.limits.connections),
            idle_timeout_ms: AtomicU64::new(millis(config.limits.idle_timeout)),
            drain_timeout_ms: AtomicU64::new(millis(config.limits.drain_timeout)),
        };
        Self {
            prepared: Registry::new(config.limits.prepared_statements),
            metrics: Metrics::register(),
            mirrored: watch::Sender::new(HashSet::new()),
            connections: AtomicUsize::new(0),
            config,
            balance,
            suspicion,
            reloadable,
        }
    }

    /// Takes over what can change without a restart; connections made from now on see it.
    pub fn reload(
        &self,
        config: &Config,
        client_tls: Option<Arc<rustls::ServerConfig>>,
        dialer: Dialer,
    ) {
        *self
            .reloadable
            .client_tls
            .write()
            .unwrap_or_else(PoisonError::into_inner) = client_tls;
        *self
            .reloadable
            .dialer
            .write()
            .unwrap_or_else(PoisonError::into_inner) = dialer;
        self.reloadable
            .connections_max
            .store(config.limits.connections, Ordering::Relaxed);
        self.reloadable
            .idle_timeout_ms
            .store(millis(config.limits.idle_timeout), Ordering::Relaxed);
        self.reloadable
            .drain_timeout_ms
            .store(millis(config.limits.drain_timeout), Ordering::Relaxed);
    }

    fn client_tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.reloadable
            .client_tls
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn dialer(&self) -> Dialer {
        self.reloadable
            .dialer
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.reloadable.idle_timeout_ms.load(Ordering::Relaxed))
    }

    pub fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.reloadable.drain_timeout_ms.load(Ordering::Relaxed))
    }

    /// Counts a connection in, or says what the limit is.
    fn admit(self: &Arc<Self>) -> Result<Admission, usize> {
        let limit = self.reloadable.connections_max.load(Ordering::Relaxed);
        if self.connections.fetch_add(1, Ordering::Relaxed) >= limit {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return Err(limit);
        }
        self.metrics.connections.increment(1.0);
        Ok(Admission(self.clone()))
    }
}

/// One admitted client connection; dropping it makes room for another.
struct Admission(Arc<Proxy>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.connections.decrement(1.0);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
