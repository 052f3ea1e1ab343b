//! Reads of a node that does not answer are answered by others, and it is used again once it does.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows::upstream::pool::{Pool, PoolError, Prepared};
use tokio::task::LocalSet;

use super::{ROWS, Table, check_hedged, pool_on, prepare, reading};
use crate::ring::seen_from;
use crate::support::relay::Relay;
use crate::support::{Cluster, PATIENCE, cluster, cluster_alone};

const SHORT: Duration = Duration::from_millis(500);
/// So often all rows are read while one node of three does not answer.
const ROUNDS: i32 = 10;

/// One node of three is reached through a relay, which can hold back replies.
struct Gated {
    cluster: Cluster,
    table: Table,
    relay: Relay,
}

impl Gated {
    fn new() -> Self {
        let cluster = cluster();
        Self {
            table: Table::create(&cluster, 3),
            relay: Relay::gated(cluster.node()),
            cluster,
        }
    }

    /// A pool on all nodes, each of which has answered, a statement, and the nodes; the first does not answer any more.
    async fn closed(&self) -> (Rc<Pool>, Arc<Prepared>, Vec<SocketAddr>) {
        let (pool, route) = pool_behind(&self.relay, &self.cluster).await;
        let prepared = prepare(&pool, &self.table.text).await;
        until_all_asked(&pool, &prepared, &route).await;
        self.relay.close_gate();
        (pool, prepared, route)
    }
}

/// A pool that reaches one node of three through a relay, and the addresses that it knows, that one first.
async fn pool_behind(relay: &Relay, cluster: &Cluster) -> (Rc<Pool>, Vec<SocketAddr>) {
    let mut seen = seen_from(cluster.node()).await;
    let through = |node: &&mut narrows::upstream::cluster::Node| node.address == cluster.node();
    let node = seen.nodes.iter_mut().find(through);
    node.expect("it knows itself").address = relay.address;
    let others = cluster
        .nodes()
        .iter()
        .filter(|node| **node != cluster.node());
    let route = std::iter::once(relay.address).chain(others.copied());
    (pool_on(seen), route.collect())
}

fn executes(pool: &Pool, node: SocketAddr) -> u64 {
    pool.executes().get(&node).copied().unwrap_or_default()
}

/// Reads until this node was asked, too.
async fn until_asked(
    pool: &Pool,
    prepared: &Arc<Prepared>,
    route: &[SocketAddr],
    node: SocketAddr,
) {
    let before = executes(pool, node);
    let asked = async {
        while executes(pool, node) == before {
            check_hedged(pool, prepared, 1, route).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    asked.expect("the node is asked");
}

async fn until_all_asked(pool: &Pool, prepared: &Arc<Prepared>, route: &[SocketAddr]) {
    for node in route {
        until_asked(pool, prepared, route, *node).await;
    }
}

/// Reads all rows many times. Returns how often the first node of the route was asked; its turn is every third time.
async fn read_all(pool: &Pool, prepared: &Arc<Prepared>, route: &[SocketAddr]) -> u64 {
    let before = executes(pool, route[0]);
    for k in 0..ROUNDS * ROWS {
        check_hedged(pool, prepared, k % ROWS, route).await;
    }
    executes(pool, route[0]) - before
}

/// A node that does not answer is asked a few times until that is noticed; after that it is not.
fn assert_avoided(asked: u64) {
    let turns = (ROUNDS * ROWS / 3) as u64;
    assert!(asked < turns / 2, "asked {asked} times of {turns}");
}

#[tokio::test]
async fn a_node_that_does_not_answer_holds_up_no_read_and_is_used_again() {
    let world = Gated::new();
    let relay = &world.relay;
    let test = async {
        let (pool, prepared, route) = world.closed().await;
        assert_avoided(read_all(&pool, &prepared, &route).await);
        // Even where it is the only replica.
        for k in 0..ROWS {
            check_hedged(&pool, &prepared, k, &route[..1]).await;
        }
        relay.open_gate();
        until_asked(&pool, &prepared, &route, relay.address).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_paused_node_holds_up_no_read_and_is_used_again() {
    const PAUSED: usize = 3;
    let cluster = cluster_alone();
    let table = Table::create(&cluster, 3);
    let mut route = cluster.nodes().to_vec();
    route.rotate_left(PAUSED - 1);
    let test = async {
        let pool = pool_on(seen_from(cluster.node()).await);
        let prepared = prepare(&pool, &table.text).await;
        until_all_asked(&pool, &prepared, &route).await;
        let paused = cluster.pause_node(PAUSED);
        assert_avoided(read_all(&pool, &prepared, &route).await);
        drop(paused);
        until_asked(&pool, &prepared, &route, route[0]).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_statement_is_prepared_elsewhere_if_a_node_does_not_answer() {
    let world = Gated::new();
    let relay = &world.relay;
    let test = async {
        let (pool, _, route) = world.closed().await;
        for column in ["c", "v"] {
            let text = format!(
                "SELECT {column} FROM {}.t WHERE k = ?",
                world.table.keyspace.name
            );
            let prepared = pool.prepared(&text, &route[..1], PATIENCE).await;
            assert_eq!(&*prepared.expect("prepared").text, text);
        }
        let asked_first = async {
            while !relay.holds_replies() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let asked_first = tokio::time::timeout(PATIENCE, asked_first).await;
        asked_first.expect("it was asked first");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_connection_that_breaks_costs_a_read_nothing() {
    let world = Gated::new();
    let relay = &world.relay;
    let test = async {
        let (pool, prepared, route) = world.closed().await;
        let reads = (0..ROWS).map(|k| check_hedged(&pool, &prepared, k, &route[..1]));
        let cut = async { relay.cut() };
        tokio::join!(futures::future::join_all(reads), cut);
        relay.open_gate();
        until_asked(&pool, &prepared, &route, relay.address).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_is_not_a_read_is_sent_once() {
    let world = Gated::new();
    let relay = &world.relay;
    let test = async {
        let (pool, prepared, route) = world.closed().await;
        let before: u64 = pool.executes().values().sum();
        let key = 1_i32.to_be_bytes();
        let request = reading(&key);
        let late = pool.execute(&prepared, &request, &route[..1], SHORT).await;
        assert!(matches!(late, Err(PoolError::Timeout(_))), "{late:?}");
        assert_eq!(pool.executes().values().sum::<u64>(), before + 1);
        relay.open_gate();
    };
    LocalSet::new().run_until(test).await;
}
