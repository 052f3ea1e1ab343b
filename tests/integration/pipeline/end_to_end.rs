//! A wide partition is read through a proxy, found, split and read again from the split, with nobody's help. It is a real
//! driver that reads.

use std::net::SocketAddr;

use futures::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Statement;
use scylla::value::Row;
use tokio::runtime::{Builder, Runtime};

use super::world::{ANSWERED, Client, SERIES, SPLIT_PATIENCE, World, days_ago, until_answered};
use crate::support::cluster::{old_cluster, single_cluster};
use crate::support::{Cluster, Codec, cluster, eventually, eventually_within};

const COMPLETED: &str = "narrows_pipeline_transitions_total{state=\"COMPLETED\"}";
const ROWS: i32 = 300;

/// The table of a service that nobody can change any more.
const LEGACY: &str = "CREATE TABLE legacy (sensor text, day int, ts timestamp, value double, note text, \
    PRIMARY KEY ((sensor, day), ts)) WITH CLUSTERING ORDER BY (ts DESC)";

/// Rows of about a kilobyte, two days old, and one that expires.
fn fill_legacy(world: &mut World) {
    let (table, written) = (world.name("legacy"), days_ago(2));
    let text = "x".repeat(900);
    let insert = |row: i32| {
        let time = 1_700_000_000_000 + i64::from(row) * 1000;
        format!(
            "INSERT INTO {table} (sensor, day, ts, value, note) VALUES ('s1', 7, {time}, {row}.5, '{text}') \
             USING TIMESTAMP {}",
            written + i64::from(row)
        )
    };
    let mut writes: Vec<String> = (0..ROWS).map(insert).collect();
    writes.push(format!(
        "UPDATE {table} USING TIMESTAMP {written} AND TTL 864000 SET note = 'expires' WHERE sensor = 's1' \
         AND day = 7 AND ts = 5"
    ));
    world.direct.write(&writes);
}

/// What an application has.
struct Driver {
    session: Session,
    runtime: Runtime,
}

impl Driver {
    fn connect(address: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let builder = SessionBuilder::new().known_node_addr(address);
        Self {
            session: runtime.block_on(builder.build()).expect("somebody answers"),
            runtime,
        }
    }

    /// All rows, in pages.
    fn scan(&self, text: &str) -> Vec<Row> {
        let statement = Statement::new(text).with_page_size(100);
        self.runtime.block_on(async {
            let pager = self.session.query_iter(statement, ()).await;
            let rows = pager
                .expect("rows")
                .rows_stream::<Row>()
                .expect("of any type");
            rows.try_collect().await.expect("every page")
        })
    }
}

fn splits_with_nobodys_help(cluster: &Cluster, codec: Codec) {
    let replicas = cluster.nodes().len();
    let mut world = World::create(cluster, codec, replicas, &[LEGACY, SERIES]);
    fill_legacy(&mut world);
    world.fill_series(3, ROWS);
    world.fill_series(4, ROWS);
    let legacy = world.name("legacy");
    let reads = [
        format!("SELECT * FROM {legacy} WHERE sensor = 's1' AND day = 7"),
        world.select_series("= 3"),
        world.select_series("= 4"),
    ];
    let expected = reads.each_ref().map(|read| world.direct.scan(read));
    assert_eq!(expected.each_ref().map(Vec::len), [301, 300, 300]);
    let proxy = world
        .splitter()
        .set("pipeline.splits_at_a_time", "4")
        .start();
    let mut through = Client::connect(proxy.address(), codec);
    let (direct, driver) = (
        Driver::connect(cluster.node()),
        Driver::connect(proxy.address()),
    );
    let driven = reads.each_ref().map(|read| direct.scan(read));
    eventually_within(SPLIT_PATIENCE, "all are split", || {
        // A read is not looked at while the proxy does not know the table yet.
        for (read, expected) in reads.iter().zip(&driven) {
            assert!(driver.scan(read) == *expected, "{read}");
        }
        (proxy.metric(COMPLETED) == reads.len() as u64).then_some(())
    });
    for (read, expected) in reads.iter().zip(&expected) {
        until_answered(&proxy, &mut through, read, expected);
    }
    for (read, expected) in reads.iter().zip(&driven) {
        eventually("the driver reads from the split", || {
            let before = proxy.metric(ANSWERED);
            assert!(driver.scan(read) == *expected, "{read}");
            (proxy.metric(ANSWERED) > before).then_some(())
        });
    }
    // Write times and expiries are those of the original, too.
    let times = format!(
        "SELECT ts, WRITETIME(note), TTL(note) FROM {legacy} WHERE sensor = 's1' AND day = 7 AND ts < 1000"
    );
    eventually("both are read in one second", || {
        let (one, other) = (through.scan(&times), world.direct.scan(&times));
        assert_eq!(one.len(), 1);
        (one == other).then_some(())
    });
}

#[test]
fn wide_partitions_are_split_with_nobodys_help() {
    splits_with_nobodys_help(&cluster(), Codec::V5);
}

#[test]
fn wide_partitions_are_split_with_nobodys_help_on_one_node() {
    splits_with_nobodys_help(&single_cluster(), Codec::V5);
}

#[test]
fn wide_partitions_are_split_with_nobodys_help_on_4_1() {
    splits_with_nobodys_help(&old_cluster(), Codec::V4);
}
