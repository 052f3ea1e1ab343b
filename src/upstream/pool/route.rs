//! Chooses the node for a request: a replica with an open connection, then one that can be connected to, then any other
//! node of our data centre. Nodes that do not answer come behind all of them.

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

/// Whether a node holds what is asked for. Another one coordinates the read as well, with one more hop.
#[derive(Clone, Copy)]
enum Place {
    Replica,
    Elsewhere,
}

/// How good a node is for a request; the best comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Connected, with room.
    Ready,
    /// Connected; requests wait for their turn.
    Crowded,
    Unopened,
    ReadyElsewhere,
    UnopenedElsewhere,
    /// Connected, but it answers nothing at the moment.
    Overdue,
    /// Not connected, and believed dead.
    Doubtful,
}

type Best = Option<(Rc<Node>, Standing)>;

/// The better of two nodes; of equal ones the first.
fn better(
    best: Best,
    (node, standing): (Rc<Node>, Option<Standing>),
    passed: &[SocketAddr],
) -> Best {
    let Some(standing) = standing.filter(|_| !passed.contains(&node.address)) else {
        return best;
    };
    match best {
        Some((_, other)) if other <= standing => best,
        _ => Some((node, standing)),
    }
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
        let (turn, mut passed) = (self.next_turn(), Vec::new());
        while let Some((node, _)) = self.choose(route, turn, &passed) {
            if let Some(link) = node.opened(&self.config, deadline).await {
                return Ok(link);
            }
            if Instant::now() >= deadline {
                break;
            }
            passed.push(node.address);
        }
        Err(PoolError::Unreachable)
    }

    /// Another number for every request: replicas take turns by it.
    pub(super) fn next_turn(&self) -> usize {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        turn
    }

    /// The best node for a request, without those that were passed over. Meanwhile, missing connections to replicas are
    /// opened for later requests.
    pub(super) fn choose(
        &self,
        route: &[SocketAddr],
        turn: usize,
        passed: &[SocketAddr],
    ) -> Option<(Rc<Node>, Standing)> {
        self.look();
        let mut replicas = match route {
            [] => self.local_candidates(),
            route => route.to_vec(),
        };
        let by = turn.checked_rem(replicas.len()).unwrap_or(0);
        replicas.rotate_left(by);
        let mut best = None;
        for address in replicas {
            let node = self.node(address);
            let standing = self.standing(&node, Place::Replica);
            if standing == Some(Standing::Unopened) {
                drop(node.open(&self.config));
            }
            best = better(best, (node, standing), passed);
        }
        if let Some((_, Standing::Ready | Standing::Crowded | Standing::Unopened)) = best {
            return best;
        }
        for address in self.local_candidates() {
            let node = self.node(address);
            let standing = self.standing(&node, Place::Elsewhere);
            best = better(best, (node, standing), passed);
        }
        best
    }

    /// `None`: it failed too recently to be tried again. That holds even if there is no other node.
    fn standing(&self, node: &Node, place: Place) -> Option<Standing> {
        let Some(link) = node.link() else {
            let now = std::time::Instant::now();
            return match place {
                _ if node.is_resting() => None,
                _ if self.config.balance.is_doubtful(node.address, now) => Some(Standing::Doubtful),
                Place::Replica => Some(Standing::Unopened),
                Place::Elsewhere => Some(Standing::UnopenedElsewhere),
            };
        };
        Some(match place {
            _ if link.is_overdue() => Standing::Overdue,
            Place::Replica if link.has_room() => Standing::Ready,
            Place::Replica => Standing::Crowded,
            Place::Elsewhere => Standing::ReadyElsewhere,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9042))
    }

    fn best_of(standings: &[Option<Standing>], passed: &[SocketAddr]) -> Option<SocketAddr> {
        let nodes = (1..).zip(standings);
        let best = nodes.fold(None, |best, (last, standing)| {
            better(best, (Node::new(address(last)), *standing), passed)
        });
        best.map(|(node, _)| node.address)
    }

    #[test]
    fn a_node_that_answers_nothing_comes_behind_all_that_do() {
        use Standing::{Crowded, Doubtful, Overdue, Ready, ReadyElsewhere, UnopenedElsewhere};
        let overdue = Some(Overdue);
        for other in [Ready, Crowded, ReadyElsewhere, UnopenedElsewhere] {
            assert_eq!(best_of(&[overdue, Some(other)], &[]), Some(address(2)));
        }
        // It is better than none, and than one that is believed dead.
        for other in [None, Some(Doubtful), overdue] {
            assert_eq!(best_of(&[overdue, other], &[]), Some(address(1)));
        }
    }

    #[test]
    fn the_first_of_equals_is_taken_and_what_was_passed_over_is_not() {
        let ready = Some(Standing::Ready);
        assert_eq!(best_of(&[None, ready, ready], &[]), Some(address(2)));
        let passed = [address(2)];
        assert_eq!(best_of(&[None, ready, ready], &passed), Some(address(3)));
        assert_eq!(best_of(&[None, ready], &passed), None);
    }
}
