//! A survey of a whole table finds the wide partitions and no others, as planning counts them, also beside partitions with
//! more tombstones than Cassandra reads at a time.

use std::collections::BTreeMap;

use crate::exactness::seconds_now;
use narrows::pipeline::original::survey::{Counted, Survey, Surveyed};
use narrows::schema::names::PartitionKey;
use tokio::task::LocalSet;

use super::requests;
use super::scans::{create, fill, schema};
use crate::support::cluster::old_cluster;
use crate::support::{Cluster, Codec, Keyspace, RawClient, cluster};

/// A row of a hundred columns, most of them null, takes about 1,220 bytes; so of partition 1 both parts are needed.
const WIDE: u64 = 200_000;
const WIDE_ROWS: i32 = 180;

fn insert(client: &mut RawClient, k: i32, rows: i32) {
    for c in 0..rows {
        client.query(&format!(
            "INSERT INTO up (k, c, v00) VALUES ({k}, {c}, {c})"
        ));
    }
}

/// What a survey finds: the wide ones with their rows, those that cannot be read, and what it counted.
async fn survey(cluster: &Cluster, keyspace: &str) -> (BTreeMap<i32, u64>, usize, Counted) {
    let requests = requests(cluster.node()).await;
    let schema = schema(keyspace, "up", "asc");
    let mut survey = Survey::new(&requests, &schema, WIDE, seconds_now());
    let (mut wide, mut unreadable) = (BTreeMap::new(), 0);
    while let Some(page) = survey.next().await.expect("readable") {
        for found in page {
            match found {
                Surveyed::Wide(found) => {
                    wide.insert(number(&found.key), found.rows);
                }
                Surveyed::Unreadable { .. } => unreadable += 1,
            }
        }
    }
    assert!((survey.share() - 1.0).abs() < 1e-9);
    (wide, unreadable, survey.counted())
}

fn number(key: &PartitionKey) -> i32 {
    i32::from_be_bytes(key.bytes().try_into().expect("an int"))
}

fn run(cluster: &Cluster) {
    let [table, copy] = create("up", "ASC");
    let keyspace = Keyspace::create(cluster, &[&table, &copy]);
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    client.query(&format!("USE {}", keyspace.name));
    for k in 10..40 {
        insert(&mut client, k, 2);
    }
    insert(&mut client, 7, WIDE_ROWS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let look = || LocalSet::new().block_on(&runtime, survey(cluster, &keyspace.name));
    let (wide, unreadable, counted) = look();
    assert_eq!(wide.keys().collect::<Vec<_>>(), [&7]);
    assert_eq!((unreadable, counted.partitions), (0, 31));
    assert!(counted.largest_bytes >= WIDE);
    // Partition 1 has rows on both sides of its graves, which are more than one page can pass.
    fill(&mut client, "up", "asc");
    let (wide, unreadable, _) = look();
    assert_eq!(wide.keys().collect::<Vec<_>>(), [&1, &7]);
    assert_eq!(unreadable, 0);
}

#[test]
fn wide_partitions_are_found_also_beside_tombstones() {
    run(&cluster());
    run(&old_cluster());
}
