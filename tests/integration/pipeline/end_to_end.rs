//! A wide partition is read through a proxy, found, split and read again from the split, with nobody's help.

use std::time::Duration;

use crate::exactness::wire::ALL;
use crate::support::cluster::old_cluster;
use crate::support::request::{Parameters, query_with};
use crate::support::{
    Cluster, Codec, Keyspace, Proxy, RawClient, cluster, eventually, eventually_within, opcode,
};

const ANSWERED: &str = "narrows_proxy_split_reads_total{outcome=\"answered\"}";
const COMPLETED: &str = "narrows_pipeline_transitions_total{state=\"COMPLETED\"}";
/// A split is a few seconds of work; on a busy machine it may take more than a minute.
const SPLIT_PATIENCE: Duration = Duration::from_secs(240);
const DAY_MICROS: i64 = 86_400_000_000;
const ROWS: i64 = 300;

/// The table of a service that nobody can change any more, and one made for time series.
const LEGACY: &str = "CREATE TABLE legacy (sensor text, day int, ts timestamp, value double, note text, \
    PRIMARY KEY ((sensor, day), ts)) WITH CLUSTERING ORDER BY (ts DESC)";
const SERIES: &str = "CREATE TABLE series (time_series_id text, time_bucket int, event_bucket int, event_time timestamp, \
    event_item_key text, event_value blob, PRIMARY KEY ((time_series_id, time_bucket, event_bucket), event_time, \
    event_item_key))";

struct World {
    codec: Codec,
    proxy: Proxy,
    direct: RawClient,
    through: RawClient,
    keyspace: Keyspace,
    _control: Keyspace,
}

impl World {
    fn start(cluster: &Cluster, codec: Codec) -> Self {
        let replicas = cluster.nodes().len();
        let everywhere = format!("'class': 'SimpleStrategy', 'replication_factor': {replicas}");
        let keyspace = Keyspace::replicated(cluster, &everywhere, &[LEGACY, SERIES]);
        let control = Keyspace::replicated(cluster, &everywhere, &[]);
        let table = |name: &str| {
            format!(
                "[[table]]\nname = '{}.{name}'\nshards = 1\nwide_bytes = '64KiB'\ntarget_bytes = '64KiB'\n",
                keyspace.name
            )
        };
        let proxy = Proxy::builder(cluster.nodes())
            .set("control.keyspace", &control.name)
            .set("pipeline.enabled", "true")
            .set("pipeline.settle", "0s")
            .set("pipeline.throttle", "false")
            .set("pipeline.splits_at_a_time", "4")
            .toml(&(table("legacy") + &table("series")))
            .start();
        Self {
            codec,
            direct: RawClient::connect(cluster.node(), codec),
            through: RawClient::connect(proxy.address(), codec),
            proxy,
            keyspace,
            _control: control,
        }
    }

    /// On all replicas: a read of one of them must find it.
    fn write(&mut self, text: &str) {
        let parameters = Parameters {
            consistency: Some(ALL),
            ..Parameters::default()
        };
        let body = query_with(self.codec, text, &parameters);
        let reply = self.direct.ask(opcode::QUERY, &body);
        assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
    }

    /// Rows of about a kilobyte, two days old.
    fn fill(&mut self) {
        let name = self.keyspace.name.clone();
        let written = now_micros() - 2 * DAY_MICROS;
        let text = "x".repeat(900);
        for row in 0..ROWS {
            let time = 1_700_000_000_000 + row * 1000;
            let written = written + row;
            for bucket in [3, 4] {
                self.write(&format!(
                    "INSERT INTO {name}.series (time_series_id, time_bucket, event_bucket, event_time, event_item_key, \
                     event_value) VALUES ('a', 1, {bucket}, {time}, 'item {row}', textAsBlob('{text}')) \
                     USING TIMESTAMP {written}"
                ));
            }
            self.write(&format!(
                "INSERT INTO {name}.legacy (sensor, day, ts, value, note) VALUES ('s1', 7, {time}, {row}.5, '{text}') \
                 USING TIMESTAMP {written}"
            ));
        }
        self.write(&format!(
            "UPDATE {name}.legacy USING TIMESTAMP {written} AND TTL 864000 SET note = 'expires' WHERE sensor = 's1' \
             AND day = 7 AND ts = 5"
        ));
    }
}

fn now_micros() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    since.as_micros() as i64
}

type Row = Vec<Option<Vec<u8>>>;

/// All rows, in pages.
fn scan(client: &mut RawClient, codec: Codec, text: &str) -> Vec<Row> {
    let mut parameters = Parameters {
        page_size: Some(70),
        ..Parameters::default()
    };
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let reply = client.ask(opcode::QUERY, &query_with(codec, text, &parameters));
        assert_eq!(reply.error(), None, "{text}");
        let page = reply.rows();
        rows.extend(page.rows);
        parameters.paging_state = page.paging_state;
        if parameters.paging_state.is_none() {
            return rows;
        }
    }
}

fn splits_with_nobodys_help(cluster: &Cluster, codec: Codec) {
    let mut world = World::start(cluster, codec);
    world.fill();
    let name = &world.keyspace.name;
    let reads = [
        format!("SELECT * FROM {name}.legacy WHERE sensor = 's1' AND day = 7"),
        format!(
            "SELECT * FROM {name}.series WHERE time_series_id = 'a' AND time_bucket = 1 AND event_bucket = 3"
        ),
        format!(
            "SELECT * FROM {name}.series WHERE time_series_id = 'a' AND time_bucket = 1 AND event_bucket = 4"
        ),
    ];
    let splits = reads.len() as u64;
    eventually_within(SPLIT_PATIENCE, "all are split", || {
        // A read is not looked at while the proxy does not know the table yet.
        for read in &reads {
            let rows = scan(&mut world.through, codec, read);
            assert!(rows == scan(&mut world.direct, codec, read), "{read}");
            assert!(rows.len() as i64 >= ROWS, "{read}");
        }
        (world.proxy.metric(COMPLETED) == splits).then_some(())
    });
    for read in &reads {
        eventually("it is read from the split", || {
            let before = world.proxy.metric(ANSWERED);
            let rows = scan(&mut world.through, codec, read);
            assert!(rows == scan(&mut world.direct, codec, read), "{read}");
            (world.proxy.metric(ANSWERED) > before).then_some(())
        });
    }
    // Write times and expiries are those of the original, too.
    let times = format!(
        "SELECT ts, WRITETIME(note), TTL(note) FROM {name}.legacy WHERE sensor = 's1' AND day = 7 AND ts < 1000"
    );
    eventually("both are read in one second", || {
        let (one, other) = (
            scan(&mut world.through, codec, &times),
            scan(&mut world.direct, codec, &times),
        );
        assert_eq!(one.len(), 1);
        (one == other).then_some(())
    });
}

#[test]
fn wide_partitions_are_split_with_nobodys_help() {
    splits_with_nobodys_help(&cluster(), Codec::V5);
}

#[test]
fn wide_partitions_are_split_with_nobodys_help_on_4_1() {
    splits_with_nobodys_help(&old_cluster(), Codec::V4);
}
