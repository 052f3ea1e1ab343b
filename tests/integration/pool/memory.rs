//! Replies that do not fit into the memory for them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use narrows::budget::Budget;
use narrows::upstream::balance::Balance;
use narrows::upstream::cluster::Cluster as Seen;
use narrows::upstream::dial::Dialer;
use narrows::upstream::pool::{Pool, PoolConfig, PoolError};
use tokio::task::LocalSet;

use super::{LARGE, Table, check, prepare, read, rows};
use crate::ring::seen_from;
use crate::support::cluster;

fn pool_within(seen: Seen, memory: Arc<Budget>) -> Rc<Pool> {
    let balance = Arc::new(Balance::default());
    balance.set_cluster(Arc::new(seen));
    let dialer = Dialer::new(Duration::from_secs(5), None);
    let config = PoolConfig::new(dialer, None, balance, Arc::default()).within(memory);
    Rc::new(Pool::new(Arc::new(config)))
}

#[tokio::test]
async fn a_reply_counts_until_it_is_dropped_and_one_without_room_is_not_taken() {
    let cluster = cluster();
    let table = Table::create(&cluster, 3);
    let large = table.write_large();
    let seen = seen_from(cluster.node()).await;
    let test = async {
        // One large reply and some small ones.
        let memory = Budget::new(2_000_000);
        let pool = pool_within(seen, memory.clone());
        let prepared = prepare(&pool, &table.text).await;
        for _ in 0..5 {
            let first = read(&pool, &prepared, LARGE, &[]).await.expect("answered");
            let second = read(&pool, &prepared, LARGE, &[]).await;
            assert!(matches!(second, Err(PoolError::NoRoom)), "{second:?}");
            // The connection goes on, behind what was not taken.
            check(&pool, &prepared, 1, &[]).await;
            assert_eq!(rows(&first)[0][1], Some(large.clone().into_bytes()));
        }
        assert!(memory.reserve(2_000_000).is_some(), "all of it came back");
    };
    LocalSet::new().run_until(test).await;
}
