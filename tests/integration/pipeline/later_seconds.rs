//! Why reads of later seconds are at ONE: at ALL, read repair would delete what only some replicas have.

use narrows::pipeline::copy::lifetime::{Lifetimes, Marker};
use narrows::pipeline::original::cells::{Cell, Row};
use narrows::pipeline::original::partition::Partition;
use narrows::schema::TableSchema;
use narrows::schema::names::PartitionKey;
use tokio::task::LocalSet;

use super::world::replication;
use super::{requests, schema_of};
use crate::exactness::seconds_now;
use crate::exactness::wire::Wire;
use crate::support::{Cluster, Keyspace, cluster};

const TABLE: &str = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
const TTL: i32 = 1000;
/// The partition that is read at ALL, and the one that we read.
const THEIRS: i32 = 1;
const OURS: i32 = 2;

/// A keyspace in which each of two partitions has one row, which two of its three replicas miss.
fn with_missing_rows(cluster: &Cluster, now: i32) -> Keyspace {
    let keyspace = Keyspace::create(cluster, &[TABLE]);
    let replicate = |replicas: usize| {
        let (name, of) = (&keyspace.name, replication(replicas));
        keyspace.run(&[&format!(
            "ALTER KEYSPACE {name} WITH replication = {{{of}}}"
        )]);
    };
    replicate(1);
    let mut wire = Wire::open(cluster.node());
    for key in [THEIRS, OURS] {
        let text = format!(
            "INSERT INTO {}.t (k, c, v) VALUES ({key}, 1, 'alive') USING TTL {TTL}",
            keyspace.name
        );
        wire.write(&text, Vec::new(), now);
    }
    wire.settle();
    replicate(3);
    keyspace
}

fn schema(keyspace: &str) -> TableSchema {
    let columns = [
        ("k", "partition_key", 0, "none", "int"),
        ("c", "clustering", 0, "asc", "int"),
        ("v", "regular", -1, "none", "text"),
    ];
    schema_of(keyspace, &columns, 3)
}

#[tokio::test]
async fn a_read_of_a_later_second_deletes_at_all_and_ours_deletes_nothing() {
    let cluster = cluster();
    let now = seconds_now();
    let keyspace = with_missing_rows(&cluster, now);
    let schema = schema(&keyspace.name);
    let partition = Partition::new(&schema, &PartitionKey::new(OURS.to_be_bytes()));
    let row = Row {
        clustering: vec![1_i32.to_be_bytes().into()],
        cells: vec![Cell {
            column: 0,
            value: (*b"alive").into(),
            write_micros: i64::from(now) * 1_000_000,
            ttl: TTL,
        }],
        bytes: 5,
    };
    let test = async {
        let lifetimes = Lifetimes {
            requests: &requests(cluster.node()).await,
            schema: &schema,
            partition: &partition.expect("a key"),
            now,
        };
        lifetimes.markers(&[row]).await
    };
    let markers = LocalSet::new().run_until(test).await.expect("answered");
    assert_eq!(markers, [Marker::None]);

    let mut wire = Wire::open(cluster.node());
    let mut read = |columns: &str, key: i32, second: i32| {
        let text = format!("SELECT {columns} FROM {}.t WHERE k = {key}", keyspace.name);
        wire.read(&text, Vec::new(), second)
    };
    // At ALL, as Wire reads.
    assert!(read("c", THEIRS, now + TTL + 10).is_empty());
    let alive = Some(b"alive".to_vec());
    let lost = read("v", THEIRS, now);
    assert_ne!(lost, [[alive.clone()]], "Cassandra deleted nothing");
    assert_eq!(read("v", OURS, now), [[alive]], "we deleted a cell");
}
