//! The proxy's own connections for split reads, against real Cassandra.

mod hedged;
mod memory;
mod outages;
mod statements;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use narrows::protocol::response::result::{self, Row};
use narrows::protocol::types::{Cursor, Value};
use narrows::upstream::balance::Balance;
use narrows::upstream::cluster::Cluster as Seen;
use narrows::upstream::dial::Dialer;
use narrows::upstream::pool::{Pool, PoolConfig, PoolError, Prepared, SubRead, SubReply};
use tokio::task::LocalSet;

use crate::exactness::wire::ALL;
use crate::ring::seen_from;
use crate::support::cluster::old_cluster;
use crate::support::relay::Relay;
use crate::support::request::{Parameters, query_with};
use crate::support::response::Body;
use crate::support::{Cluster, Codec, Keyspace, PATIENCE, RawClient, cluster, opcode, scale};

const UNPREPARED: i32 = 0x2500;
const INVALID: i32 = 0x2200;
const ROWS: i32 = 60;
/// The key of a large row.
const LARGE: i32 = 1000;
const ONE: [(&str, &str); 2] = [("class", "SimpleStrategy"), ("replication_factor", "1")];

/// A table with some rows, and a statement that reads one of them.
struct Table {
    keyspace: Keyspace,
    node: SocketAddr,
    text: String,
}

impl Table {
    fn create(cluster: &Cluster, copies: usize) -> Self {
        let replication = format!("'class': 'SimpleStrategy', 'replication_factor': {copies}");
        let create = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
        let keyspace = Keyspace::replicated(cluster, &replication, &[create]);
        let table = Self {
            text: format!("SELECT c, v FROM {}.t WHERE k = ?", keyspace.name),
            node: cluster.node(),
            keyspace,
        };
        table.fill();
        table
    }

    fn fill(&self) {
        let mut client = RawClient::connect(self.node, Codec::V4);
        for k in 0..ROWS {
            self.write(&mut client, k, &format!("row {k}"));
        }
    }

    /// On all replicas, since any of them is read.
    fn write(&self, client: &mut RawClient, k: i32, text: &str) {
        let table = &self.keyspace.name;
        let insert = format!("INSERT INTO {table}.t (k, c, v) VALUES ({k}, 1, '{text}')");
        let parameters = Parameters {
            consistency: Some(ALL),
            ..Parameters::default()
        };
        let body = query_with(client.codec, &insert, &parameters);
        assert_eq!(client.ask(opcode::QUERY, &body).error(), None);
    }

    /// A row of more than a megabyte; returns its text.
    fn write_large(&self) -> String {
        let large = "otter ".repeat(200_000);
        let mut client = RawClient::connect(self.node, Codec::V4);
        self.write(&mut client, LARGE, &large);
        large
    }
}

fn pool_on(seen: Seen) -> Rc<Pool> {
    pool_and_balance(seen).0
}

fn pool_and_balance(seen: Seen) -> (Rc<Pool>, Arc<Balance>) {
    let balance = Arc::new(Balance::default());
    balance.set_cluster(Arc::new(seen));
    let dialer = Dialer::new(Duration::from_secs(5), None);
    let config = PoolConfig::new(dialer, None, balance.clone(), Arc::default());
    (Rc::new(Pool::new(Arc::new(config))), balance)
}

/// A pool whose only node is reached through a relay.
async fn pool_through(relay: &Relay, node: SocketAddr) -> Rc<Pool> {
    let mut seen = seen_from(node).await;
    seen.nodes.truncate(1);
    seen.nodes[0].address = relay.address;
    pool_on(seen)
}

fn reading(k: &[u8]) -> SubRead<'_> {
    SubRead {
        values: vec![Value::Bytes(k)],
        consistency: 1,
        ..SubRead::default()
    }
}

fn rows(reply: &SubReply) -> Vec<Row> {
    let mut message = Cursor::new(&reply.body);
    assert_eq!(message.int(), Ok(result::kind::ROWS));
    result::Rows::read(&mut message).expect("rows").rows
}

async fn read(
    pool: &Pool,
    prepared: &Arc<Prepared>,
    k: i32,
    route: &[SocketAddr],
) -> Result<SubReply, PoolError> {
    let key = k.to_be_bytes();
    pool.execute(prepared, &reading(&key), route, PATIENCE)
        .await
}

/// Reads a row and checks that it is the one asked for.
async fn check(pool: &Pool, prepared: &Arc<Prepared>, k: i32, route: &[SocketAddr]) {
    let reply = read(pool, prepared, k, route).await.expect("answered");
    assert_row(&reply, k);
}

/// The same as a split read: another node is asked, too, if one is late.
async fn check_hedged(pool: &Pool, prepared: &Arc<Prepared>, k: i32, route: &[SocketAddr]) {
    let key = k.to_be_bytes();
    let reply = pool.read(prepared, &reading(&key), route, PATIENCE).await;
    assert_row(&reply.expect("answered"), k);
}

fn assert_row(reply: &SubReply, k: i32) {
    let expected = vec![
        Some(1_i32.to_be_bytes().to_vec()),
        Some(format!("row {k}").into_bytes()),
    ];
    assert_eq!(rows(reply), [expected], "{k}");
}

async fn prepare(pool: &Pool, text: &str) -> Arc<Prepared> {
    let prepared = pool.prepared(text, &[], PATIENCE).await;
    prepared.expect("prepared")
}

fn replication(options: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    options.iter().map(owned).collect()
}

#[tokio::test]
async fn every_row_is_read_from_its_replica_many_at_a_time() {
    let cluster = cluster();
    let table = Table::create(&cluster, 1);
    let seen = seen_from(cluster.node()).await;
    let test = async {
        let pool = pool_on(seen);
        let prepared = prepare(&pool, &table.text).await;
        let mut expected = HashMap::new();
        let mut reads = Vec::new();
        for round in 0..80 * scale() as i32 {
            for k in 0..ROWS {
                let route = pool.replicas(&replication(&ONE), &k.to_be_bytes());
                assert_eq!(route.len(), 1);
                *expected.entry(route[0]).or_insert(0_u64) += 1;
                let (pool, prepared) = (pool.clone(), prepared.clone());
                // More than may be under way on one connection at a time.
                reads
                    .push(async move { check(&pool, &prepared, (k + round) % ROWS, &route).await });
            }
        }
        join_all(reads).await;
        let sent = pool.executes();
        assert_eq!(expected.len(), 3);
        for (node, count) in expected {
            assert_eq!(sent[&node], count, "{node}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn replicas_take_turns() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let seen = seen_from(cluster.node()).await;
    let test = async {
        let pool = pool_on(seen);
        let prepared = prepare(&pool, &table.text).await;
        // Connections are opened beside the requests; at some time all three are.
        let all_open = || pool.executes().values().filter(|count| **count > 0).count() == 3;
        let warm_up = async {
            while !all_open() {
                check(&pool, &prepared, 1, &[]).await;
            }
        };
        let opened = tokio::time::timeout(PATIENCE, warm_up).await;
        opened.expect("all nodes answer");
        let before = pool.executes();
        for k in 0..ROWS {
            check(&pool, &prepared, k, cluster.nodes()).await;
        }
        for node in cluster.nodes() {
            assert_eq!(pool.executes()[node] - before[node], ROWS as u64 / 3);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn replies_of_many_segments_and_single_bytes_arrive_whole() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let large = table.write_large();
    let relay = Relay::one_by_one(cluster.node());
    let test = async {
        let slow = pool_through(&relay, cluster.node()).await;
        let prepared = prepare(&slow, &table.text).await;
        join_all((0..ROWS).map(|k| check(&slow, &prepared, k, &[]))).await;
        let pool = pool_on(seen_from(cluster.node()).await);
        for _ in 0..3 {
            let (reply, ()) = tokio::join!(
                read(&pool, &prepared, LARGE, &[]),
                check(&pool, &prepared, 7, &[])
            );
            let rows = rows(&reply.expect("answered"));
            assert_eq!(rows[0][1].as_deref(), Some(large.as_bytes()));
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn parameters_reach_the_server() {
    for cluster in [cluster(), old_cluster()] {
        let table = Table::create(&cluster, 1);
        let name = &table.keyspace.name;
        let mut client = RawClient::connect(cluster.node(), Codec::V4);
        for c in 0..10 {
            client.query(&format!(
                "INSERT INTO {name}.t (k, c, v) VALUES (7, {c}, 'x') USING TTL 1000"
            ));
        }
        let seen = seen_from(cluster.node()).await;
        let test = async {
            let pool = pool_on(seen);
            let text = format!("SELECT c FROM {name}.t WHERE k = ? LIMIT ?");
            let prepared = prepare(&pool, &text).await;
            let key = 7_i32.to_be_bytes();
            let mut request = SubRead {
                values: vec![Value::Bytes(&key), Value::Unset],
                consistency: 6,
                serial_consistency: Some(9),
                page_size: 4,
                timestamp: Some(5),
                custom_payload: Some(&[0, 1, 0, 1, b'k', 0, 0, 0, 1, b'p']),
                ..SubRead::default()
            };
            let ask = async |request: &SubRead<'_>| {
                let reply = pool.execute(&prepared, request, &[], PATIENCE).await;
                reply.expect("answered")
            };
            let first = ask(&request).await;
            assert_eq!(rows(&first).len(), 4);
            let mut message = Body(&first.body);
            let (_, flags, columns) = (message.int(), message.int(), message.int());
            assert_eq!((flags, columns), (0x01 | 0x02 | 0x04, 1), "no metadata");
            request.paging_state = message.bytes();
            let second = ask(&request).await;
            assert_eq!(rows(&second)[0], [Some(4_i32.to_be_bytes().to_vec())]);
            // All of them have expired by then.
            request.paging_state = None;
            request.now_in_seconds = Some(i32::MAX - 1);
            assert_eq!(rows(&ask(&request).await).len(), 0);
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn warnings_are_passed_on_and_errors_leave_the_connection_alone() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let relay = Relay::gated(cluster.node());
    let test = async {
        let pool = pool_through(&relay, cluster.node()).await;
        let count = format!("SELECT count(*) FROM {}.t", table.keyspace.name);
        let count = prepare(&pool, &count).await;
        let all = SubRead {
            consistency: 1,
            ..SubRead::default()
        };
        let reply = pool.execute(&count, &all, &[], PATIENCE).await;
        let warnings = reply.expect("answered").warnings;
        assert!(warnings[0].contains("Aggregation"), "{warnings:?}");
        let prepared = prepare(&pool, &table.text).await;
        let short = reading(&[1, 2, 3]);
        let refused = pool.execute(&prepared, &short, &[], PATIENCE).await;
        assert!(
            matches!(&refused, Err(PoolError::Refused { code: INVALID, .. })),
            "{refused:?}"
        );
        let nonsense = pool.prepared("SELECT FROM", &[], PATIENCE).await;
        assert!(matches!(nonsense, Err(PoolError::Refused { code, .. }) if code != UNPREPARED));
        check(&pool, &prepared, 3, &[]).await;
        assert_eq!(relay.connections(), 1);
    };
    LocalSet::new().run_until(test).await;
}
