//! Verify on copies that are exact, or become so, and on tables of all kinds.

use std::net::SocketAddr;
use std::time::Duration;

use narrows::pipeline::verify::{
    Checked, DifferenceKind, Patience, Verification, Verified, VerifyError,
};
use narrows::schema::{ColumnRow, TableSchema};
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;
use tokio::task::LocalSet;

use super::copies::{ROWS, SPLIT_TABLE, World, one_replica};
use super::requests;
use crate::exactness::data::{self, Partition};
use crate::exactness::schema::{Column, Schema};
use crate::exactness::splitter::{Copier, create_split_table, split_id, split_table};
use crate::exactness::wire::Wire;
use crate::exactness::{seconds_now, types};
use crate::support::cluster::old_cluster;
use crate::support::random::{self, Random};
use crate::support::{Cluster, Keyspace, scale, single_cluster};

const TABLES: usize = 4;

#[tokio::test]
async fn exact_copies_of_random_tables_pass() {
    pass_random_tables(&single_cluster(), true).await;
}

#[tokio::test]
async fn exact_copies_of_random_tables_pass_on_4_1() {
    pass_random_tables(&old_cluster(), false).await;
}

async fn pass_random_tables(cluster: &Cluster, since_5: bool) {
    let seed = random::seed();
    for round in 0..(TABLES * scale()) as u64 {
        let mut random = Random::new(seed.wrapping_add(round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let keyspace = Keyspace::create(cluster, &[]);
        let schema = Schema::random(&mut random, &keyspace.name, since_5);
        let udt = format!(
            "CREATE TYPE {}.{} (a int, b text)",
            keyspace.name,
            types::UDT
        );
        keyspace.run(&[&udt, &schema.create(), &create_split_table(&schema)]);
        let mut wire = Wire::open(cluster.node());
        let now = seconds_now();
        let key = schema.partition.iter();
        let key = key
            .map(|column| random.pick(&column.pool).clone())
            .collect();
        let partition = data::write(&mut wire, &schema, key, (300, now), &mut random);
        let mut copier = Copier {
            wire: &mut wire,
            schema: &schema,
            now,
        };
        let layout = Layout::new(
            LayoutId {
                table: split_id(&schema, &partition).table,
                key: split_id(&schema, &partition).key,
                generation: Generation(7),
            },
            split_table(&schema),
            "random".to_owned(),
            copier.copy_all(&partition, Generation(7), &mut random),
        );
        let verified = verify(cluster.node(), &schema, &layout, now).await;
        let verified = verified.unwrap_or_else(|error| {
            panic!("{error}: round {round} of seed {seed}, {}", schema.create())
        });
        let rows: u64 = layout.buckets.iter().map(|bucket| bucket.row_count).sum();
        assert_eq!(verified.row_count, rows);
        assert!(rows <= count(&partition));
    }
}

fn count(partition: &Partition) -> u64 {
    partition.rows.len() as u64
}

pub(crate) async fn verify(
    node: SocketAddr,
    schema: &Schema,
    layout: &Layout,
    now: i32,
) -> Result<Verified, VerifyError> {
    let described = described(schema);
    let run = async {
        let verification = Verification {
            requests: &requests(node).await,
            schema: &described,
            key: &layout.key,
            layout,
            now,
            patience: Patience {
                reread: [Duration::ZERO; 3],
                retry: Duration::from_millis(100),
            },
            from: Checked::default(),
            progress: &|_| {},
        };
        verification.run().await
    };
    LocalSet::new().run_until(run).await
}

fn described(schema: &Schema) -> TableSchema {
    let row = |column: &Column, kind: &str, position: usize, order: &str| ColumnRow {
        name: column.name.clone(),
        kind: kind.to_owned(),
        position: if kind == "regular" {
            -1
        } else {
            position as i32
        },
        clustering_order: order.to_owned(),
        cql_type: column.of.cql(),
    };
    let partition = schema.partition.iter().enumerate();
    let mut rows: Vec<ColumnRow> = partition
        .map(|(at, column)| row(column, "partition_key", at, "none"))
        .collect();
    for (at, (column, descending)) in schema.clustering.iter().zip(&schema.descending).enumerate() {
        rows.push(row(
            column,
            "clustering",
            at,
            if *descending { "desc" } else { "asc" },
        ));
    }
    rows.extend(
        schema
            .regular
            .iter()
            .map(|column| row(column, "regular", 0, "none")),
    );
    let made = TableSchema::from_rows(
        &schema.keyspace,
        &schema.table,
        rows,
        Vec::new(),
        one_replica(),
    );
    made.expect("a table")
}

#[tokio::test]
async fn another_clustering_order_is_a_difference() {
    let cluster = single_cluster();
    let world = World::create(&cluster, true);
    let copy = world.copy();
    world
        .writer(&cluster)
        .write_copy("wide_reading_2", &copy, 1);
    let layout = world.layout("wide_reading_2", &copy, 1);
    let test = async {
        let requests = requests(cluster.node()).await;
        world.verify(&requests, &layout, [Duration::ZERO; 3]).await
    };
    match LocalSet::new().run_until(test).await {
        Err(VerifyError::Differs(difference)) => assert_eq!(difference.kind, DifferenceKind::Order),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_equal_when_it_is_read_again_is_no_difference() {
    let cluster = single_cluster();
    let world = World::create(&cluster, true);
    let whole = world.copy();
    let mut partial = world.copy();
    partial
        .writes
        .retain(|write| write.row != 20 && !write.is_of("note"));
    let mut writer = world.writer(&cluster);
    writer.write_copy(SPLIT_TABLE, &partial, 1);
    let layout = world.layout(SPLIT_TABLE, &whole, 1);
    let test = async {
        let requests = requests(cluster.node()).await;
        let early = world.verify(&requests, &layout, [Duration::ZERO; 3]).await;
        assert!(matches!(early, Err(VerifyError::Differs(_))), "{early:?}");
        let later = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_secs(1));
            writer.write_copy(SPLIT_TABLE, &whole, 1);
        });
        let patient = [0, 0, 15].map(Duration::from_secs);
        let verified = world.verify(&requests, &layout, patient).await;
        later.await.expect("written");
        verified
    };
    let verified = LocalSet::new()
        .run_until(test)
        .await
        .expect("equal in the end");
    assert_eq!(verified.row_count, ROWS as u64);
}
