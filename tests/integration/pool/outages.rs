//! Nodes that do not answer, answer late, hang up or refuse.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use narrows::upstream::cluster::Cluster as Seen;
use narrows::upstream::pool::PoolError;
use tokio::task::LocalSet;

use super::{Table, check, pool_and_balance, pool_on, pool_through, prepare, read, reading};
use crate::ring::seen_from;
use crate::support::relay::Relay;
use crate::support::{PATIENCE, cluster};

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_passed_over() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let seen = seen_from(cluster.node()).await;
    let nobody = SocketAddr::from(([127, 0, 77, 9], 9042));
    let test = async {
        let pool = pool_on(seen);
        let prepared = prepare(&pool, &table.text).await;
        for k in 0..10 {
            check(&pool, &prepared, k, &[nobody, cluster.node()]).await;
            check(&pool, &prepared, k, &[nobody]).await;
        }
        assert!(pool.executes().get(&nobody).is_none_or(|count| *count == 0));
        let alone = pool_on(Seen::default());
        let unreachable = alone.prepared(&table.text, &[nobody], PATIENCE).await;
        assert!(matches!(unreachable, Err(PoolError::Unreachable)));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_late_reply_is_nobody_elses() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let relay = Relay::gated(cluster.node());
    let test = async {
        let pool = pool_through(&relay, cluster.node()).await;
        let prepared = prepare(&pool, &table.text).await;
        for round in 0..5 {
            check(&pool, &prepared, round, &[]).await;
            relay.close_gate();
            let key = 50_i32.to_be_bytes();
            let late = pool.execute(&prepared, &reading(&key), &[], SHORT).await;
            assert!(matches!(late, Err(PoolError::Timeout(_))), "{late:?}");
            // More before the late reply comes: each must get its own.
            let (waiting, opened) = (
                join_all((0..20).map(|k| check(&pool, &prepared, k, &[]))),
                async { relay.open_gate() },
            );
            tokio::join!(waiting, opened);
        }
        assert_eq!(relay.connections(), 1);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_connection_without_any_answer_is_replaced() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let relay = Relay::gated(cluster.node());
    let test = async {
        let pool = pool_through(&relay, cluster.node()).await;
        let prepared = prepare(&pool, &table.text).await;
        check(&pool, &prepared, 1, &[]).await;
        relay.close_gate();
        let key = 1_i32.to_be_bytes();
        let request = reading(&key);
        let mut closed = false;
        let deadline = Instant::now() + PATIENCE;
        // Several at once may be slow; only those that go on for seconds tell that nobody is there.
        while !closed {
            let silent = (0..10).map(|_| pool.execute(&prepared, &request, &[], SHORT));
            for result in join_all(silent).await {
                closed |= matches!(result, Err(PoolError::Broken(_)));
                let lost = matches!(result, Err(PoolError::Timeout(_) | PoolError::Broken(_)));
                assert!(lost, "{result:?}");
            }
            assert!(Instant::now() < deadline, "never closed");
        }
        relay.open_gate();
        check(&pool, &prepared, 2, &[]).await;
        assert_eq!(relay.connections(), 2);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_connection_that_breaks_fails_what_is_under_way_at_once() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let relay = Relay::gated(cluster.node());
    let test = async {
        let pool = pool_through(&relay, cluster.node()).await;
        let prepared = prepare(&pool, &table.text).await;
        check(&pool, &prepared, 1, &[]).await;
        relay.close_gate();
        let lost = join_all((0..50).map(|k| read(&pool, &prepared, k, &[])));
        let cut = async { relay.cut() };
        for result in tokio::join!(lost, cut).0 {
            assert!(matches!(result, Err(PoolError::Broken(_))), "{result:?}");
        }
        relay.open_gate();
        check(&pool, &prepared, 1, &[]).await;
        assert_eq!(relay.connections(), 2);
    };
    LocalSet::new().run_until(test).await;
}

/// A node that refuses every STARTUP; says how many there were.
fn refusing() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.77.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            // One small message comes in one piece over loopback.
            let read = stream.read(&mut [0; 4096]).expect("a STARTUP");
            assert!(read > 9);
            counted.fetch_add(1, Ordering::Relaxed);
            let error = [0, 0, 1, 0, 0, 2, b'n', b'o'];
            let header = [0x85, 0, 0, 0, 0, 0, 0, 0, error.len() as u8];
            let reply = [&header[..], &error].concat();
            stream.write_all(&reply).expect("somebody reads");
        }
    });
    (address, count)
}

#[tokio::test]
async fn a_refused_login_is_not_repeated_with_every_request_and_does_not_concern_clients() {
    let cluster = cluster();
    let mut seen = seen_from(cluster.node()).await;
    let (address, logins) = refusing();
    seen.nodes.truncate(1);
    seen.nodes[0].address = address;
    let (pool, balance) = pool_and_balance(seen);
    let test = async {
        for _ in 0..100 {
            let refused = pool.prepared("SELECT", &[address], PATIENCE).await;
            assert!(matches!(refused, Err(PoolError::Unreachable)));
        }
        assert!((1..100).contains(&logins.load(Ordering::Relaxed)));
        assert!(!balance.is_doubtful(address, std::time::Instant::now()));
    };
    LocalSet::new().run_until(test).await;
}
