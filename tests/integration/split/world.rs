//! One watched table with known rows, splits of it made by the independent splitter, and proxies before it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Ask, Clients};
use crate::exactness::control::{Control, SHARDS};
use crate::exactness::data::{Model, Partition};
use crate::exactness::schema::{Column, Schema};
use crate::exactness::seconds_now;
use crate::exactness::splitter::{self, SplitHandle, Splitter};
use crate::exactness::types::{Datum, Type};
use crate::exactness::wire::Wire;
use crate::pipeline::world::replication;
use crate::support::proxy::Builder;
use crate::support::random::Random;
use crate::support::request::Value;
use crate::support::{Cluster, Codec, Keyspace, Proxy, cluster, eventually, single_cluster};
use narrows::schema::names::TableName;

pub(super) const ANSWERED: &str = "narrows_proxy_split_reads_total{outcome=\"answered\"}";
pub(super) const WENT_ON: &str = "narrows_proxy_split_reads_total{outcome=\"went_on_at_original\"}";
pub(super) const REFUSED: &str = "narrows_proxy_split_reads_total{outcome=\"refused\"}";
pub(super) const FALLBACKS: &str = "narrows_proxy_split_fallbacks_total";

/// Microseconds of the first write.
const EPOCH_MICROS: i64 = 1_700_000_000_000_000;
const MONTH: i32 = 30 * 86_400;
/// Each value of `a` has so many rows.
const ROWS_PER_A: i32 = 4;

/// What the proxies of a world are told.
type Settings = &'static [(&'static str, &'static str)];

/// What differs from a plain world.
#[derive(Default)]
struct Options<'a> {
    more: &'a [&'a str],
    expected: &'a [&'static str],
    settings: Settings,
    /// Of each text, at least; three times as many in the second half of a partition.
    text_bytes: usize,
    /// The rows are on every node instead of one.
    everywhere: bool,
}

/// Fields are dropped in this order: the proxy before the keyspaces.
pub(super) struct World {
    pub(super) proxy: Proxy,
    /// Through the proxy.
    pub(super) through: Clients,
    /// On the original.
    pub(super) direct: Clients,
    pub(super) control: Control,
    pub(super) wire: Wire,
    pub(super) schema: Schema,
    pub(super) now: i32,
    /// By key.
    pub(super) partitions: BTreeMap<i32, Partition>,
    pub(super) splits: BTreeMap<i32, SplitHandle>,
    settings: Settings,
    random: Random,
    pub(super) keyspace: Keyspace,
    pub(super) control_keyspace: Keyspace,
    pub(super) cluster: Cluster,
}

/// `events (k, a, b DESC, v, w, x)`, of which x has an index.
fn schema(keyspace: &str) -> Schema {
    let column = |name: &str, of| Column::new(name, Type::Native(of));
    Schema {
        keyspace: keyspace.to_owned(),
        table: "events".to_owned(),
        partition: vec![column("k", "int")],
        clustering: vec![column("a", "int"), column("b", "int")],
        descending: vec![false, true],
        regular: vec![column("v", "int"), column("w", "text"), column("x", "int")],
        since_5: true,
    }
}

impl World {
    /// On one node, with partitions of so many rows. Statements and pages do not depend on the number of nodes, and on
    /// three a test takes twice as long.
    pub(super) fn start(partitions: &[(i32, i32)]) -> Self {
        Self::with(partitions, &[], &[])
    }

    /// On three nodes.
    pub(super) fn on_three(partitions: &[(i32, i32)]) -> Self {
        let cluster = cluster();
        let nodes = cluster.nodes().to_vec();
        Self::on(cluster, &nodes, partitions)
    }

    /// With more tables, which are watched, too, and with what the proxy may log.
    pub(super) fn with(
        partitions: &[(i32, i32)],
        more: &[&str],
        expected: &[&'static str],
    ) -> Self {
        let cluster = single_cluster();
        let nodes = cluster.nodes().to_vec();
        let options = Options {
            more,
            expected,
            ..Options::default()
        };
        Self::create(cluster, &nodes, partitions, &options)
    }

    /// With texts of so many bytes or three times as many, and proxies that are told more.
    pub(super) fn large(partitions: &[(i32, i32)], text_bytes: usize, settings: Settings) -> Self {
        let cluster = single_cluster();
        let nodes = cluster.nodes().to_vec();
        let options = Options {
            settings,
            text_bytes,
            ..Options::default()
        };
        Self::create(cluster, &nodes, partitions, &options)
    }

    /// On another cluster, which the proxy reaches at these addresses.
    pub(super) fn on(cluster: Cluster, nodes: &[SocketAddr], partitions: &[(i32, i32)]) -> Self {
        Self::create(cluster, nodes, partitions, &Options::default())
    }

    /// The same with rows on every node.
    pub(super) fn everywhere(cluster: Cluster, partitions: &[(i32, i32)]) -> Self {
        let nodes = cluster.nodes().to_vec();
        let options = Options {
            everywhere: true,
            ..Options::default()
        };
        Self::create(cluster, &nodes, partitions, &options)
    }

    fn create(
        cluster: Cluster,
        nodes: &[SocketAddr],
        partitions: &[(i32, i32)],
        options: &Options<'_>,
    ) -> Self {
        let replicas = cluster.nodes().len();
        let everywhere = replication(replicas);
        let of_rows = replication(if options.everywhere { replicas } else { 1 });
        let [keyspace, control_keyspace] =
            Keyspace::with_control(&cluster, [&of_rows, &everywhere], &[]);
        let schema = schema(&keyspace.name);
        let using = format!("USE {}", keyspace.name);
        let (create, buckets) = (schema.create(), splitter::create_split_table(&schema));
        let mut statements = vec![
            using.as_str(),
            create.as_str(),
            "CREATE INDEX ON events (x)",
            buckets.as_str(),
        ];
        statements.extend(options.more);
        keyspace.run(&statements);
        let mut wire = Wire::open(cluster.node());
        let now = seconds_now();
        let partitions = partitions.iter().map(|(key, rows)| {
            (
                *key,
                write(&mut wire, &schema, (*key, *rows, options.text_bytes), now),
            )
        });
        let partitions = partitions.collect();
        let names = [control_keyspace.name.as_str(), &keyspace.name];
        let builder = builder(nodes, names, options.more, options.settings);
        let expecting = options
            .expected
            .iter()
            .fold(builder, |builder, text| builder.expecting(text));
        let proxy = expecting.start();
        let world = Self {
            through: Clients::new(proxy.address()),
            direct: Clients::new(cluster.node()),
            control: Control::open(cluster.nodes(), &control_keyspace.name),
            proxy,
            wire,
            schema,
            now,
            partitions,
            splits: BTreeMap::new(),
            settings: options.settings,
            random: Random::new(7),
            keyspace,
            control_keyspace,
            cluster,
        };
        let table = world.table();
        eventually("a proxy has seen the table", || {
            world.control.is_seen(&table).then_some(())
        });
        world
    }

    pub(super) fn table(&self) -> TableName {
        TableName::new(&self.schema.keyspace, &self.schema.table)
    }

    /// A further proxy, or the same again.
    pub(super) fn builder(&self) -> Builder {
        let names = [self.control_keyspace.name.as_str(), &self.keyspace.name];
        builder(self.cluster.nodes(), names, &[], self.settings)
    }

    /// The proxy crashes and comes back.
    pub(super) fn restart(self) -> Self {
        let builder = self.builder();
        let proxy = self.proxy.restart(builder);
        Self {
            through: Clients::new(proxy.address()),
            proxy,
            ..self
        }
    }

    /// Makes a new generation and waits until the proxy serves it.
    pub(super) fn split(&mut self, key: i32) {
        self.make(key);
        self.await_served(key);
    }

    /// Makes a new generation.
    pub(super) fn make(&mut self, key: i32) {
        let mut splitter = Splitter {
            wire: &mut self.wire,
            control: &self.control,
            schema: &self.schema,
            now: self.now,
        };
        let handle = splitter.split(&self.partitions[&key], &mut self.random);
        self.splits.insert(key, handle);
    }

    pub(super) fn rollback(&mut self, key: i32) {
        let handle = self.splits.remove(&key).expect("it is split");
        assert!(self.control.invalidate(&handle.id, handle.generation));
    }

    /// Until the proxy answers a read of the key from its split.
    pub(super) fn await_served(&mut self, key: i32) {
        let read = self.read_one(key);
        await_served(&self.proxy, &mut self.through, &read);
    }

    pub(super) fn read_one(&self, key: i32) -> Ask {
        let text = format!(
            "SELECT v FROM {} WHERE k = {key} LIMIT 1",
            self.schema.name()
        );
        Ask::new(Codec::V4, text)
    }

    /// `{}` in a statement is the table.
    pub(super) fn text(&self, statement: &str) -> String {
        statement.replace("{}", &self.schema.name())
    }

    /// Changes one cell of the original, or of the bucket that holds it, past the proxy.
    pub(super) fn mark(&mut self, (k, a, b): (i32, i32, i32), v: i32, in_bucket: bool) {
        let set = |table: &str, hidden: String| {
            format!("UPDATE {table} SET v = {v} WHERE k = {k} AND a = {a} AND b = {b}{hidden}")
        };
        if !in_bucket {
            self.wire
                .write(&set(&self.schema.name(), String::new()), vec![], self.now);
            return self.wire.settle();
        }
        let handle = self.splits[&k].clone();
        let table = format!("{}.wide_events_1", self.keyspace.name);
        for bucket in 0..handle.buckets {
            let hidden = format!(
                " AND narrows_generation = {} AND narrows_bucket = {bucket}",
                handle.generation.0
            );
            let found =
                format!("SELECT v FROM {table} WHERE k = {k} AND a = {a} AND b = {b}{hidden}");
            if !self.wire.read(&found, vec![], self.now).is_empty() {
                self.wire.write(&set(&table, hidden), vec![], self.now);
            }
        }
        self.wire.settle();
    }
}

/// Until a read is answered from a split.
pub(super) fn await_served(proxy: &Proxy, through: &mut Clients, read: &Ask) {
    eventually("the proxy serves the split", || {
        let before = proxy.metric(ANSWERED);
        read.once(through);
        (proxy.metric(ANSWERED) > before).then_some(())
    });
}

/// Until a read is not answered from a split.
pub(super) fn await_unserved(proxy: &Proxy, through: &mut Clients, read: &Ask) {
    eventually("the proxy serves the original", || {
        // On a busy machine one that serves the split falls back now and then.
        let counts = || (proxy.metric(ANSWERED), proxy.metric_sum(FALLBACKS, ""));
        let before = counts();
        read.once(through);
        (counts() == before).then_some(())
    });
}

fn builder(
    nodes: &[SocketAddr],
    [control, keyspace]: [&str; 2],
    more: &[&str],
    settings: Settings,
) -> Builder {
    let mut builder = Proxy::builder(nodes)
        .set("control.keyspace", control)
        .set("control.poll_interval", "200ms");
    for (key, value) in settings {
        builder = builder.set(key, value);
    }
    let others = more
        .iter()
        .filter_map(|statement| statement.strip_prefix("CREATE TABLE ")?.split(' ').next());
    for table in others.chain(["events"]) {
        builder = builder.toml(&format!(
            "[[table]]\nname = '{keyspace}.{table}'\nshards = {SHARDS}\n"
        ));
    }
    builder
}

/// Rows with and without a marker, of keys alone, with nulls, with and without TTL, each of its own time.
fn write(
    wire: &mut Wire,
    schema: &Schema,
    (key, rows, text_bytes): (i32, i32, usize),
    now: i32,
) -> Partition {
    let datum = |value: i32| Datum::new(value.to_be_bytes(), value.to_string());
    let insert = format!(
        "INSERT INTO {} (k, a, b, v, w, x) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?",
        schema.name()
    );
    let update = format!(
        "UPDATE {} USING TIMESTAMP ? AND TTL ? SET v = ?, w = ?, x = ? WHERE k = ? AND a = ? AND b = ?",
        schema.name()
    );
    let mut models = Vec::new();
    for number in 0..rows {
        let (a, b) = (number / ROWS_PER_A, number % ROWS_PER_A);
        let written = EPOCH_MICROS + i64::from(number) * 1000;
        let ttl = if number % 6 == 1 { MONTH } else { 0 };
        let width = text_bytes * if number < rows / 2 { 1 } else { 3 };
        let text = Value::text(&format!("row {number:<width$}"));
        let key_values = [key, a, b].map(Value::int).to_vec();
        let times = vec![Value::long(written), Value::int(ttl)];
        // All columns or none: with some, reads of the others might be the original's.
        let cells = match number % 5 {
            4 => vec![Value::Unset, Value::Unset, Value::Unset],
            _ => vec![Value::int(number * 10), text, Value::int(number % 2)],
        };
        let has_marker = number % 7 != 6 || number % 5 == 4;
        match has_marker {
            true => wire.write(&insert, [key_values, cells, times].concat(), now),
            false => wire.write(&update, [times, cells, key_values].concat(), now),
        }
        models.push(Model {
            clustering: vec![datum(a), datum(b)],
            inserts: has_marker.then_some((written, ttl)).into_iter().collect(),
            deletes: Vec::new(),
        });
    }
    wire.settle();
    Partition {
        key: vec![datum(key)],
        rows: models,
    }
}
