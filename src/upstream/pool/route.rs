//! Chooses the connection for a request: an open one to a replica, then one to a replica that can be opened, then one
//! to any other node of our data centre.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::link::Link;
use super::node::Node;
use super::{Pool, PoolError};
use crate::upstream::cluster::Cluster;
use crate::upstream::ring::Ring;

/// How often a thread checks whether the cluster has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The cluster as this thread last saw it.
#[derive(Default)]
pub(super) struct Known {
    cluster: Arc<Cluster>,
    ring: Rc<Ring>,
    looked: Option<Instant>,
}

impl Pool {
    /// The nodes of our data centre that hold a partition; empty if that is not known, which means any.
    pub fn replicas(&self, replication: &[(String, String)], key: &[u8]) -> Vec<SocketAddr> {
        self.look();
        let ring = self.known.borrow().ring.clone();
        ring.replicas(replication, key)
    }

    /// Brings the ring up to date, and drops nodes that have left.
    fn look(&self) {
        let mut known = self.known.borrow_mut();
        let now = Instant::now();
        if known.looked.is_some_and(|at| now - at < LOOK_EVERY) {
            return;
        }
        known.looked = Some(now);
        let cluster = self.config.balance.cluster();
        if Arc::ptr_eq(&cluster, &known.cluster) {
            return;
        }
        if cluster != known.cluster {
            known.ring = Rc::new(Ring::new(&cluster));
            let is_known = |address: SocketAddr| cluster.node_at(address).is_some();
            self.nodes
                .borrow_mut()
                .retain(|address, _| is_known(*address));
        }
        known.cluster = cluster;
    }

    /// A connection for one request.
    pub(super) async fn link(
        &self,
        route: &[SocketAddr],
        deadline: Instant,
    ) -> Result<Rc<Link>, PoolError> {
        self.look();
        let everybody;
        let route = match route {
            [] => {
                everybody = self.local_candidates();
                &everybody[..]
            }
            route => route,
        };
        let replicas = self.in_turn(route);
        if let Some(link) = self.open_replica(&replicas) {
            return Ok(link);
        }
        let willing = replicas
            .iter()
            .filter(|address| !self.is_doubtful(**address));
        let willing: Vec<SocketAddr> = willing.copied().collect();
        if let Some(link) = self.first_opened(&willing, deadline).await {
            return Ok(link);
        }
        let others = self.local_candidates();
        if let Some(link) = others.iter().find_map(|address| self.node(*address).link()) {
            return Ok(link);
        }
        let opened = self.first_opened(&others, deadline).await;
        opened.ok_or(PoolError::Unreachable)
    }

    /// The nodes, rotated so that another one comes first each time.
    fn in_turn(&self, route: &[SocketAddr]) -> Vec<SocketAddr> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let mut route = route.to_vec();
        let by = turn.checked_rem(route.len()).unwrap_or(0);
        route.rotate_left(by);
        route
    }

    /// The first open connection; one with room is preferred. Meanwhile, missing connections are opened for later
    /// requests.
    fn open_replica(&self, replicas: &[SocketAddr]) -> Option<Rc<Link>> {
        let (mut found, mut crowded) = (None, None);
        for &address in replicas {
            let node = self.node(address);
            match node.link() {
                Some(link) if link.has_room() => found = found.or(Some(link)),
                Some(link) => crowded = crowded.or(Some(link)),
                None if !self.is_doubtful(address) => drop(node.open(&self.config)),
                None => {}
            }
        }
        found.or(crowded)
    }

    async fn first_opened(&self, nodes: &[SocketAddr], deadline: Instant) -> Option<Rc<Link>> {
        for node in nodes.iter().map(|address| self.node(*address)) {
            if node.is_resting() {
                continue;
            }
            let link = node.opened(&self.config, deadline).await;
            if link.is_some() || Instant::now() >= deadline {
                return link;
            }
        }
        None
    }

    fn is_doubtful(&self, address: SocketAddr) -> bool {
        let now = std::time::Instant::now();
        self.node(address).is_resting() || self.config.balance.is_doubtful(address, now)
    }

    /// The nodes of our data centre, the best first; the contact points while no node is known.
    fn local_candidates(&self) -> Vec<SocketAddr> {
        let candidates = self.config.balance.candidates(std::time::Instant::now());
        let cluster = self.known.borrow().cluster.clone();
        let is_local = |address: &SocketAddr| {
            let node = cluster.node_at(*address);
            node.is_none_or(|node| node.data_center == cluster.data_center)
        };
        candidates.into_iter().filter(is_local).collect()
    }

    pub(super) fn node(&self, address: SocketAddr) -> Rc<Node> {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.entry(address);
        node.or_insert_with(|| Node::new(address)).clone()
    }
}
