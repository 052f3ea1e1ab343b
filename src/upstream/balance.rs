//! Which node a new connection goes to, and how long a node that failed is left alone.
//!
//! Shared by all threads, but asked mostly when a connection is opened, so one lock is enough.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::cluster::{Cluster, Node};

const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Balance {
    state: Mutex<State>,
    /// Breaks ties differently in every process: a fleet of sidecars must not begin with the same node.
    order: RandomState,
}

#[derive(Default)]
struct State {
    cluster: Arc<Cluster>,
    /// Nodes to try while nothing is known of the cluster.
    contact_points: Vec<SocketAddr>,
    nodes: HashMap<SocketAddr, Health>,
}

#[derive(Default, Clone, Copy)]
struct Health {
    connections: usize,
    failures: u32,
    retry_at: Option<Instant>,
}

/// Counts a connection until dropped.
pub struct Lease {
    balance: Arc<Balance>,
    address: SocketAddr,
}

impl Balance {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave counters half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_contact_points(&self, addresses: Vec<SocketAddr>) {
        self.state().contact_points = addresses;
    }

    pub fn set_cluster(&self, cluster: Arc<Cluster>) {
        let mut state = self.state();
        state.nodes.retain(|address, health| {
            health.connections > 0 || cluster.node_at(*address).is_some()
        });
        state.cluster = cluster;
    }

    pub fn cluster(&self) -> Arc<Cluster> {
        self.state().cluster.clone()
    }

    /// All nodes in the order they should be tried: those believed alive before the others, the preferred data centre
    /// before other ones, then the least used, then at random.
    pub fn candidates(&self, now: Instant) -> Vec<SocketAddr> {
        let state = self.state();
        let rank = |address: SocketAddr, down: bool, remote: bool| {
            let health = state.nodes.get(&address).copied().unwrap_or_default();
            let doubtful = down || health.retry_at.is_some_and(|at| at > now);
            (
                doubtful,
                remote,
                health.connections,
                self.order.hash_one(address),
                address,
            )
        };
        let nodes = state.cluster.nodes.iter();
        let remote = |node: &Node| node.data_center != state.cluster.data_center;
        let mut ranked: Vec<_> = nodes
            .map(|node| rank(node.address, !node.up, remote(node)))
            .collect();
        if ranked.is_empty() {
            ranked = state
                .contact_points
                .iter()
                .map(|&address| rank(address, false, false))
                .collect();
        }
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., address)| address).collect()
    }

    /// Whether a node is believed dead, or failed too recently to be tried again.
    pub fn is_doubtful(&self, address: SocketAddr, now: Instant) -> bool {
        let state = self.state();
        let failed = state.nodes.get(&address).and_then(|health| health.retry_at);
        failed.is_some_and(|at| at > now)
            || state.cluster.node_at(address).is_some_and(|node| !node.up)
    }

    pub fn connected(self: &Arc<Self>, address: SocketAddr) -> Lease {
        let mut state = self.state();
        let health = state.nodes.entry(address).or_default();
        health.failures = 0;
        health.retry_at = None;
        health.connections += 1;
        Lease {
            balance: self.clone(),
            address,
        }
    }

    pub fn failed(&self, address: SocketAddr, now: Instant) {
        let mut state = self.state();
        let health = state.nodes.entry(address).or_default();
        health.retry_at = Some(now + backoff(health.failures));
        health.failures += 1;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(health) = self.balance.state().nodes.get_mut(&self.address) {
            health.connections = health.connections.saturating_sub(1);
        }
    }
}

/// Doubles from a tenth of a second up to ten seconds.
pub fn backoff(failures: u32) -> Duration {
    BACKOFF_MAX.min(BACKOFF_MIN * 2_u32.saturating_pow(failures.min(16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9042))
    }

    fn node(last: u8, data_center: &str) -> Node {
        Node {
            host_id: [last; 16],
            address: address(last),
            advertised: address(last).ip(),
            data_center: data_center.to_owned(),
            rack: "r".to_owned(),
            release_version: "5.0.6".to_owned(),
            tokens: Vec::new(),
            up: true,
        }
    }

    fn balance() -> Arc<Balance> {
        let balance = Arc::new(Balance::default());
        let nodes = vec![node(1, "east"), node(2, "west"), node(3, "west")];
        balance.set_cluster(Arc::new(Cluster {
            name: "c".into(),
            data_center: "west".into(),
            nodes,
        }));
        balance
    }

    #[test]
    fn prefers_the_data_centre_and_the_least_used_node() {
        let (balance, now) = (balance(), Instant::now());
        let before = balance.candidates(now);
        assert_eq!(before[2], address(1), "the other data centre comes last");
        let lease = balance.connected(before[0]);
        assert_eq!(balance.candidates(now), [before[1], before[0], before[2]]);
        drop(lease);
        assert_eq!(balance.candidates(now), before);
    }

    #[test]
    fn leaves_a_failed_node_alone_until_its_time_has_come() {
        let (balance, now) = (balance(), Instant::now());
        balance.failed(address(2), now);
        balance.failed(address(3), now);
        assert_eq!(balance.candidates(now)[0], address(1));
        assert!(balance.is_doubtful(address(2), now));
        assert!(!balance.is_doubtful(address(2), now + BACKOFF_MIN));
        assert!(!balance.is_doubtful(address(1), now));
        assert_eq!(balance.candidates(now + BACKOFF_MIN)[2], address(1));
        balance.failed(address(2), now);
        assert_eq!(balance.candidates(now + BACKOFF_MIN)[0], address(3));
    }

    #[test]
    fn different_processes_begin_with_different_nodes() {
        let firsts: std::collections::HashSet<_> = (0..200)
            .map(|_| balance().candidates(Instant::now())[0])
            .collect();
        assert_eq!(firsts, [address(2), address(3)].into());
    }

    #[test]
    fn knows_the_contact_points_before_the_cluster() {
        let balance = Balance::default();
        balance.set_contact_points(vec![address(9)]);
        assert_eq!(balance.candidates(Instant::now()), [address(9)]);
        balance.set_contact_points(vec![address(8), address(9)]);
        balance.failed(address(8), Instant::now());
        assert_eq!(balance.candidates(Instant::now()), [address(9), address(8)]);
    }

    #[test]
    fn backoff_doubles_and_ends() {
        assert_eq!(backoff(0), BACKOFF_MIN);
        assert_eq!(backoff(1), BACKOFF_MIN * 2);
        assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
    }
}
