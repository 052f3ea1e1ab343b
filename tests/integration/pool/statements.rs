//! Statements that the server forgets or understands otherwise after a schema change.

use std::sync::Arc;

use futures::future::join_all;
use narrows::upstream::pool::{PoolError, Prepared};
use tokio::task::LocalSet;

use super::{ROWS, Table, check, pool_on, prepare, read, rows};
use crate::ring::seen_from;
use crate::support::cluster;
use crate::support::cluster::old_cluster;

#[tokio::test]
async fn a_statement_that_the_node_forgot_is_prepared_again() {
    for cluster in [cluster(), old_cluster()] {
        let table = Table::create(&cluster, 1);
        let seen = seen_from(cluster.node()).await;
        let test = async {
            let pool = pool_on(seen);
            let prepared = prepare(&pool, &table.text).await;
            check(&pool, &prepared, 1, &[]).await;
            let name = &table.keyspace.name;
            let again = format!("CREATE TABLE {name}.t (k int, c int, v text, PRIMARY KEY (k, c))");
            table
                .keyspace
                .run(&[&format!("DROP TABLE {name}.t"), &again]);
            table.fill();
            let reads = (0..ROWS).map(|k| check(&pool, &prepared, k, &[]));
            join_all(reads).await;
            let now = prepare(&pool, &table.text).await;
            assert!(Arc::ptr_eq(&prepared, &now));
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn other_columns_than_prepared_are_an_error_until_prepared_anew() {
    for cluster in [cluster(), old_cluster()] {
        let table = Table::create(&cluster, 1);
        let name = &table.keyspace.name;
        let text = format!("SELECT * FROM {name}.t WHERE k = ?");
        let seen = seen_from(cluster.node()).await;
        let test = async {
            let pool = pool_on(seen);
            let before = prepare(&pool, &text).await;
            read(&pool, &before, 1, &[]).await.expect("answered");
            let mut forged = Prepared::clone(&before);
            forged.result_metadata_id = [7; 16].into();
            let forged = read(&pool, &Arc::new(forged), 1, &[]).await;
            assert!(matches!(forged, Err(PoolError::Changed)), "{forged:?}");
            table
                .keyspace
                .run(&[&format!("ALTER TABLE {name}.t ADD extra int")]);
            for _ in 0..3 {
                let changed = read(&pool, &before, 1, &[]).await;
                assert!(matches!(changed, Err(PoolError::Changed)), "{changed:?}");
            }
            let now = prepare(&pool, &text).await;
            assert_ne!(now.result_metadata_id, before.result_metadata_id);
            let reply = read(&pool, &now, 1, &[]).await.expect("answered");
            assert_eq!(rows(&reply)[0].len(), 4);
        };
        LocalSet::new().run_until(test).await;
    }
}
