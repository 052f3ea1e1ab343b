//! What tests of whole splits stand on: watched tables with rows that are old enough to be split, proxies and workers that
//! split them, and clients that read them in pages.

use std::net::SocketAddr;
use std::time::Duration;

use narrows::schema::names::TableName;
use narrows::wide_row::names::Generation;
use narrows::wide_row::state::{Standing, State};
use narrows::wide_row::store::{Split, SplitId};

use crate::exactness::control::{Control, SHARDS};
use crate::exactness::wire::{ALL, Row};
use crate::support::proxy::Builder;
use crate::support::request::{Parameters, query_with};
use crate::support::response::Rows;
use crate::support::{
    Cluster, Codec, Keyspace, Proxy, RawClient, eventually, eventually_within, opcode,
};

pub(crate) const ANSWERED: &str = "narrows_proxy_split_reads_total{outcome=\"answered\"}";
pub(crate) const COPIED_ROWS: &str = "narrows_pipeline_copied_rows_total";
pub(crate) const TAKEOVERS: &str = "narrows_pipeline_lease_takeovers_total";
/// A split is a few seconds of work; on a busy machine it may take more than a minute.
pub(crate) const SPLIT_PATIENCE: Duration = Duration::from_secs(240);
const DAY_MICROS: i64 = 86_400_000_000;

/// What [`World::fill`] fills, and what [`World::fill_series`] does.
pub(crate) const PLAIN: &str = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
pub(crate) const SERIES: &str = "CREATE TABLE series (time_series_id text, time_bucket int, event_bucket int, \
    event_time timestamp, event_item_key text, event_value blob, PRIMARY KEY ((time_series_id, time_bucket, event_bucket), \
    event_time, event_item_key))";

/// Rows of one partition are one mutation, so that no limit of batches holds for them.
const ROWS_PER_BATCH: usize = 50;
const ROWS_PER_PAGE: i32 = 150;

/// Made before its proxies and workers, so that it goes after them.
pub(crate) struct World {
    /// On the original.
    pub(crate) direct: Client,
    pub(crate) keyspace: Keyspace,
    pub(crate) control_keyspace: Keyspace,
    nodes: Vec<SocketAddr>,
    tables: Vec<TableName>,
    /// Of every `[[table]]`.
    settings: String,
}

impl World {
    /// `tables` are `CREATE TABLE name …`, all of them watched. What is larger than 64 KiB is wide, and so are buckets.
    pub(crate) fn create(
        cluster: &Cluster,
        codec: Codec,
        replicas: usize,
        tables: &[&str],
    ) -> Self {
        let replicas = replication(replicas);
        let keyspaces = Keyspace::with_control(cluster, [&replicas, &replicas], tables);
        Self::around(cluster, codec, keyspaces, tables)
    }

    /// The same in keyspaces that exist: that of the tables, and the control keyspace.
    pub(crate) fn around(
        cluster: &Cluster,
        codec: Codec,
        [keyspace, control_keyspace]: [Keyspace; 2],
        tables: &[&str],
    ) -> Self {
        let table = |create: &&str| {
            let name = create.split_whitespace().nth(2).expect("a table's name");
            TableName::new(&keyspace.name, name)
        };
        Self {
            direct: Client::connect(cluster.node(), codec),
            nodes: cluster.nodes().to_vec(),
            tables: tables.iter().map(table).collect(),
            keyspace,
            control_keyspace,
            settings: "wide_bytes = '64KiB'\ntarget_bytes = '64KiB'\n".to_owned(),
        }
    }

    /// Other settings of all tables than these sizes.
    pub(crate) fn with_settings(mut self, settings: &str) -> Self {
        self.settings = settings.to_owned();
        self
    }

    /// A proxy that knows the tables and splits nothing.
    pub(crate) fn proxy(&self) -> Builder {
        self.proxy_at(&self.nodes)
    }

    /// One that reaches the cluster at these addresses.
    pub(crate) fn proxy_at(&self, nodes: &[SocketAddr]) -> Builder {
        let settings = &self.settings;
        let watched = |table: &TableName| {
            format!("[[table]]\nname = '{table}'\nshards = {SHARDS}\n{settings}")
        };
        Proxy::builder(nodes)
            .set("control.keyspace", &self.control_keyspace.name)
            .toml(&self.tables.iter().map(watched).collect::<String>())
    }

    /// One that splits, too, as fast as it can.
    pub(crate) fn splitter(&self) -> Builder {
        self.proxy()
            .set("pipeline.enabled", "true")
            .set("pipeline.settle", "0s")
            .set("pipeline.throttle", "false")
            .set("pipeline.lease", "3s")
    }

    /// The control keyspace, once a proxy has made it and seen the tables.
    pub(crate) fn control(&self) -> Control {
        let control = Control::open(&self.nodes, &self.control_keyspace.name);
        for table in &self.tables {
            eventually("the table is seen", || control.is_seen(table).then_some(()));
        }
        control
    }

    /// Lets the next thing to do with a split be due now. Whoever starts afterwards knows.
    pub(super) fn make_due(&mut self, id: &SplitId) {
        self.set(id, "not_before = 1000");
    }

    /// Changes columns of a split that no follower needs to know.
    pub(super) fn set(&mut self, id: &SplitId, columns: &str) {
        let SplitId { table, shard, key } = id;
        let key: String = key
            .bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.direct.write(&[format!(
            "UPDATE {}.wide_row SET {columns} WHERE keyspace_name = '{}' AND table_name = '{}' \
             AND shard = {shard} AND partition_key = 0x{key}",
            self.control_keyspace.name, table.keyspace, table.table
        )]);
    }

    /// The full name of a table.
    pub(crate) fn name(&self, table: &str) -> String {
        format!("{}.{table}", self.keyspace.name)
    }

    /// A partition of the first table, which has an int for its key.
    pub(crate) fn id(&self, key: i32) -> SplitId {
        Control::id(self.tables[0].clone(), &[&key.to_be_bytes()])
    }

    /// The names of all tables, watched as they are.
    pub(crate) fn tables(&self) -> &[TableName] {
        &self.tables
    }

    /// All rows of a partition of `t`.
    pub(crate) fn select(&self, key: i32) -> String {
        let table = self.name("t");
        format!("SELECT c, v, WRITETIME(v) FROM {table} WHERE k = {key}")
    }

    /// Writes rows of a kilobyte into a partition of `t`, two days old; some of them expire in ten days.
    pub(crate) fn fill(&mut self, key: i32, rows: i32) {
        self.fill_at(key, rows, days_ago(2));
    }

    /// The same, written at this time, in microseconds.
    pub(crate) fn fill_at(&mut self, key: i32, rows: i32, written: i64) {
        let table = self.name("t");
        let text = "x".repeat(900);
        let insert = |row: i32| {
            let ttl = if row % 7 == 3 { " AND TTL 864000" } else { "" };
            format!(
                "INSERT INTO {table} (k, c, v) VALUES ({key}, {row}, '{key} {row} {text}') USING TIMESTAMP {}{ttl}",
                written + i64::from(row)
            )
        };
        let inserts: Vec<String> = (0..rows).map(insert).collect();
        self.direct.write(&inserts);
    }

    /// The same for the series `a`; each event bucket has other rows.
    pub(crate) fn fill_series(&mut self, event_bucket: i32, rows: i32) {
        let (table, written) = (self.name("series"), days_ago(2));
        let text = "x".repeat(900);
        let insert = |row: i32| {
            let time = 1_700_000_000_000 + i64::from(row * 10 + event_bucket) * 1000;
            format!(
                "INSERT INTO {table} (time_series_id, time_bucket, event_bucket, event_time, event_item_key, event_value) \
                 VALUES ('a', 1, {event_bucket}, {time}, 'item {row}', textAsBlob('{event_bucket} {text}')) \
                 USING TIMESTAMP {}",
                written + i64::from(row)
            )
        };
        let inserts: Vec<String> = (0..rows).map(insert).collect();
        self.direct.write(&inserts);
    }

    /// All rows of some event buckets of the series `a`.
    pub(crate) fn select_series(&self, event_buckets: &str) -> String {
        format!(
            "SELECT * FROM {} WHERE time_series_id = 'a' AND time_bucket = 1 AND event_bucket {event_buckets}",
            self.name("series")
        )
    }

    /// An event bucket of the series `a`.
    pub(crate) fn series_id(&self, event_bucket: i32) -> SplitId {
        let key: [&[u8]; 3] = [b"a", &1_i32.to_be_bytes(), &event_bucket.to_be_bytes()];
        Control::id(TableName::new(&self.keyspace.name, "series"), &key)
    }
}

pub(crate) fn replication(replicas: usize) -> String {
    format!("'class': 'SimpleStrategy', 'replication_factor': {replicas}")
}

/// Microseconds since 1970. What was written so long ago is closed.
pub(crate) fn days_ago(days: i64) -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    since.as_micros() as i64 - days * DAY_MICROS
}

/// Waits until a split is in service, with one checksum for both sides; one that ends otherwise fails the test.
pub(crate) fn until_completed(control: &Control, id: &SplitId) -> Split {
    let split = eventually_within(SPLIT_PATIENCE, "it is split", || {
        let split = control.split(id)?;
        let state = split.standing.state;
        assert!(!state.is_end(), "{state:?}: {:?}", split.reason);
        (state == State::Completed).then_some(split)
    });
    let original = split.pre_split_data.as_ref().map(|data| &data.checksum);
    let copy = split.post_split_data.as_ref().map(|data| &data.checksum);
    assert!(copy.is_some_and(|checksum| checksum.len() == 16) && original == copy);
    split
}

/// Splits a partition of a table that was changed a moment ago. Every process that notices the change takes all splits of the
/// table out of service, so that an attempt which began between two of them must begin again.
pub(crate) fn split_after_change(control: &Control, id: &SplitId) -> Generation {
    eventually_within(SPLIT_PATIENCE, "it is split after the change", || {
        let standing = control.standing(id);
        if let Some(standing) = standing.filter(|standing| standing.is_in_service()) {
            return Some(standing.generation);
        }
        let is_worked_on =
            |standing: Standing| standing.row_epoch == standing.epoch && !standing.state.is_end();
        if !standing.is_some_and(is_worked_on) {
            control.try_nominate(id);
        }
        None
    })
}

/// Reads until the split has answered. Whoever answers, it is with these rows.
pub(crate) fn until_answered(proxy: &Proxy, through: &mut Client, text: &str, expected: &[Row]) {
    eventually_within(SPLIT_PATIENCE, "it is read from the split", || {
        let before = proxy.metric(ANSWERED);
        assert!(through.scan(text) == expected, "{text}");
        (proxy.metric(ANSWERED) > before).then_some(())
    });
}

/// A connection that writes to all replicas, since others read one of them, and reads in pages.
pub(crate) struct Client {
    wire: RawClient,
    codec: Codec,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, codec: Codec) -> Self {
        Self {
            wire: RawClient::connect(address, codec),
            codec,
        }
    }

    /// Statements of one partition, a few at a time.
    pub(crate) fn write(&mut self, statements: &[String]) {
        let parameters = Parameters {
            consistency: Some(ALL),
            ..Parameters::default()
        };
        for some in statements.chunks(ROWS_PER_BATCH) {
            let text = format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", some.join("; "));
            let body = query_with(self.codec, &text, &parameters);
            let reply = self.wire.ask(opcode::QUERY, &body);
            assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
        }
    }

    pub(crate) fn scan(&mut self, text: &str) -> Vec<Row> {
        self.scan_with(text, Parameters::default())
    }

    /// All rows, in pages.
    pub(crate) fn scan_with(&mut self, text: &str, parameters: Parameters) -> Vec<Row> {
        let mut parameters = Parameters {
            page_size: Some(ROWS_PER_PAGE),
            ..parameters
        };
        let mut rows = Vec::new();
        loop {
            let page = self.page(text, &parameters);
            rows.extend(page.rows);
            parameters.paging_state = page.paging_state;
            if parameters.paging_state.is_none() {
                return rows;
            }
        }
    }

    pub(crate) fn page(&mut self, text: &str, parameters: &Parameters) -> Rows {
        let body = query_with(self.codec, text, parameters);
        let reply = self.wire.ask(opcode::QUERY, &body);
        assert_eq!(reply.error(), None, "{text}");
        reply.rows()
    }
}
