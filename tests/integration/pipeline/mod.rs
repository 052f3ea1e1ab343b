//! The split pipeline against real Cassandra.

mod again;
mod alter;
mod audit;
mod checksums;
mod cleanup;
mod clocks;
mod copies;
mod crash;
mod differs;
mod end_to_end;
mod ends;
mod expiry;
mod filters;
mod hurts;
mod later_seconds;
mod markers;
mod open;
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
use narrows::schema::{ColumnRow, TableSchema};
use narrows::upstream::balance::Balance;
use narrows::upstream::dial::Dialer;
use narrows::upstream::pool::{Pool, PoolConfig};

use crate::ring::seen_from;

/// Requests of a worker on this cluster.
/// Table `t`, by name, kind, position, order and type of its columns.
fn schema_of(
    keyspace: &str,
    columns: &[(&str, &str, i32, &str, &str)],
    replicas: usize,
) -> TableSchema {
    let column = |(name, kind, position, order, of): &(&str, &str, i32, &str, &str)| ColumnRow {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        position: *position,
        clustering_order: (*order).to_owned(),
        cql_type: (*of).to_owned(),
    };
    let columns = columns.iter().map(column).collect();
    let replication = [
        ("class", "SimpleStrategy".to_owned()),
        ("replication_factor", replicas.to_string()),
    ];
    let replication = replication.map(|(name, value)| (name.to_owned(), value));
    TableSchema::from_rows(keyspace, "t", columns, Vec::new(), replication.to_vec())
        .expect("a table")
}

async fn requests(node: SocketAddr) -> Requests {
    let balance = Arc::new(Balance::default());
    balance.set_cluster(Arc::new(seen_from(node).await));
    let dialer = Dialer::new(Duration::from_secs(10), None);
    let config = PoolConfig::new(dialer, None, balance, Arc::default());
    let pool = Rc::new(Pool::new(Arc::new(config)));
    Requests::new(pool, Rc::new(Throttle::new(false, None)))
}
