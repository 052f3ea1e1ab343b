//! The split pipeline against real Cassandra.

mod again;
mod alter;
mod audit;
mod cleanup;
mod clocks;
mod copies;
mod crash;
mod differs;
mod end_to_end;
mod ends;
mod expiry;
mod later_seconds;
mod markers;
mod planted;
mod random_kills;
mod refused;
mod replicas;
mod rests;
mod scans;
mod survey;
pub(crate) mod verify;
mod workers;
pub(crate) mod world;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows::pipeline::original::requests::Requests;
use narrows::pipeline::original::throttle::Throttle;
use narrows::upstream::balance::Balance;
use narrows::upstream::dial::Dialer;
use narrows::upstream::pool::{Pool, PoolConfig};

use crate::ring::seen_from;

/// Requests of a worker on this cluster.
async fn requests(node: SocketAddr) -> Requests {
    let balance = Arc::new(Balance::default());
    balance.set_cluster(Arc::new(seen_from(node).await));
    let dialer = Dialer::new(Duration::from_secs(10), None);
    let config = PoolConfig::new(dialer, None, balance, Arc::default());
    let pool = Rc::new(Pool::new(Arc::new(config)));
    Requests::new(pool, Rc::new(Throttle::new(false, None)))
}
