//! The state that all sessions of the process share.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::known::service::WideRow;
use crate::upstream::balance::Balance;
use crate::upstream::dial::Dialer;
use crate::upstream::pool::PoolConfig;

use super::metrics::Metrics;
use super::prepared::Registry;
use crate::budget::Budget;

/// One per process.
pub struct Proxy {
    pub config: Config,
    pub balance: Arc<Balance>,
    pub prepared: Registry,
    pub metrics: Metrics,
    /// Asks the control connection to look at the nodes soon.
    pub suspicion: Arc<Notify>,
    /// The addresses of mirrored nodes that have a listener now.
    pub mirrored: watch::Sender<HashSet<SocketAddr>>,
    /// The knowledge about splits, for new sessions. Empty in a relay.
    wide_row: ArcSwapOption<WideRow>,
    /// Memory for writes that wait for a refresh.
    pub(super) held_writes: Arc<Budget>,
    /// Memory for requests that are answered from splits, and for the rows read for them until clients have them.
    pub(super) split_reads: Arc<Budget>,
    pub(super) dialer: Dialer,
    /// How each thread opens connections of its own.
    pub(super) pool: Arc<PoolConfig>,
    connections: AtomicUsize,
    turning_away: AtomicUsize,
    reloadable: Reloadable,
}

/// The settings that SIGHUP may change while sessions run.
struct Reloadable {
    client_tls: RwLock<Option<Arc<rustls::ServerConfig>>>,
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
        wide_row: Option<WideRow>,
    ) -> Self {
        let reloadable = Reloadable {
            client_tls: RwLock::new(client_tls),
            connections_max: AtomicUsize::new(config.limits.connections),
            idle_timeout_ms: AtomicU64::new(millis(config.limits.idle_timeout)),
            drain_timeout_ms: AtomicU64::new(millis(config.limits.drain_timeout)),
        };
        let split_reads = Budget::new(config.limits.split_read_bytes);
        let pool = PoolConfig::new(
            dialer.clone(),
            config.upstream.credentials.clone(),
            balance.clone(),
            suspicion.clone(),
        );
        Self {
            prepared: Registry::new(config.limits.prepared_statements),
            metrics: Metrics::register(),
            mirrored: watch::Sender::new(HashSet::new()),
            connections: AtomicUsize::new(0),
            turning_away: AtomicUsize::new(0),
            held_writes: Budget::new(HELD_WRITES_BYTES_MAX),
            pool: Arc::new(pool.within(split_reads.clone())),
            split_reads,
            dialer,
            wide_row: wide_row.map(Arc::new).into(),
            config,
            balance,
            suspicion,
            reloadable,
        }
    }

    /// The knowledge about splits that a new session works with; `None` in a relay.
    pub(super) fn wide_row(&self) -> Option<Arc<WideRow>> {
        self.wide_row.load_full()
    }

    /// Begins or ends to check requests against what is split. Sessions that run already stay as they are.
    pub fn follow(&self, wide_row: Option<WideRow>) {
        self.wide_row.store(wide_row.map(Arc::new));
    }

    /// Takes over the settings that can change without a restart. TLS and the connection limit apply to new connections
    /// only, the timeouts to all.
    pub fn reload(
        &self,
        config: &Config,
        client_tls: Option<Arc<rustls::ServerConfig>>,
        upstream_tls: Option<Arc<rustls::ClientConfig>>,
    ) {
        *self
            .reloadable
            .client_tls
            .write()
            .unwrap_or_else(PoisonError::into_inner) = client_tls;
        self.dialer.set_tls(upstream_tls);
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

    pub(super) fn client_tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.reloadable
            .client_tls
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.reloadable.idle_timeout_ms.load(Ordering::Relaxed))
    }

    pub fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.reloadable.drain_timeout_ms.load(Ordering::Relaxed))
    }

    /// Counts a connection in. `None`: too many are being turned away already, so this one does not even get an ERROR.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Admission> {
        let limit = self.reloadable.connections_max.load(Ordering::Relaxed);
        if self.connections.fetch_add(1, Ordering::Relaxed) < limit {
            self.metrics.accepted.increment(1);
            self.metrics.connections.increment(1.0);
            return Some(Admission::Client(Arc::clone(self)));
        }
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.metrics.refused.increment(1);
        if self.turning_away.fetch_add(1, Ordering::Relaxed) < TURNING_AWAY_MAX {
            return Some(Admission::TurnedAway {
                proxy: Arc::clone(self),
                limit,
            });
        }
        self.turning_away.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

/// Maximum memory for held writes, of all sessions together.
const HELD_WRITES_BYTES_MAX: usize = 64 << 20;

/// Maximum number of connections over the limit that wait for their ERROR.
const TURNING_AWAY_MAX: usize = 256;

/// A counted client connection; dropping it makes room for another.
pub(super) enum Admission {
    Client(Arc<Proxy>),
    /// A connection over the limit. It gets an ERROR that names the limit.
    TurnedAway {
        proxy: Arc<Proxy>,
        limit: usize,
    },
}

impl Drop for Admission {
    fn drop(&mut self) {
        match self {
            Self::Client(proxy) => {
                proxy.connections.fetch_sub(1, Ordering::Relaxed);
                proxy.metrics.connections.decrement(1.0);
            }
            Self::TurnedAway { proxy, .. } => {
                proxy.turning_away.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
