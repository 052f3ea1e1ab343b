//! Wide partitions are found by what passes: on every version and compression, once each, and only wide ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::cluster::old_cluster;
use crate::support::relay::Relay;
use crate::support::request::{
    Item, Parameters, UNLOGGED, Value, batch, execute, query, query_with,
};
use crate::support::{
    Cluster, Codec, Keyspace, Proxy, RawClient, eventually, opcode, single_cluster,
};

const WIDE_BYTES: usize = 100 << 10;
const TABLE: &str = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
/// On a busy cluster others' statements leave no room for ours, and whoever has prepared one must do it again.
const EVICTED: &str = "not found (either the query was not prepared on this host";
const UNPREPARED: i32 = 0x2500;
const PARTITIONS: &str = "narrows_detect_partitions_total";

struct World {
    /// Dropped first: it reads the keyspaces.
    proxy: Proxy,
    keyspace: Keyspace,
    control: Keyspace,
    node: SocketAddr,
}

impl World {
    fn start(cluster: &Cluster, tables: &[&str], settings: &str, limits: &str) -> Self {
        Self::start_at(cluster.nodes(), cluster, tables, settings, limits)
    }

    /// With a proxy that reaches the cluster at these addresses.
    fn start_at(
        contact_points: &[SocketAddr],
        cluster: &Cluster,
        tables: &[&str],
        settings: &str,
        limits: &str,
    ) -> Self {
        let (keyspace, control) = (
            Keyspace::create(cluster, tables),
            Keyspace::create(cluster, &[]),
        );
        let watched = format!(
            "{limits}[[table]]\nname = '{}.t'\nshards = 4\nwide_bytes = '100KiB'\ntarget_bytes = '10KiB'\n{settings}",
            keyspace.name
        );
        let proxy = Proxy::builder(contact_points)
            .set("control.keyspace", &control.name)
            .toml(&watched)
            .expecting(EVICTED)
            .start();
        Self {
            proxy,
            keyspace,
            control,
            node: cluster.node(),
        }
    }

    fn direct(&self, codec: Codec) -> RawClient {
        RawClient::connect(self.node, codec)
    }

    fn through(&self, codec: Codec) -> RawClient {
        RawClient::connect(self.proxy.address(), codec)
    }

    /// Rows whose bytes compress well: what counts is how large they are to a client.
    fn fill(&self, k: i32, rows: i32, bytes: usize) {
        let mut client = self.direct(Codec::V4);
        for c in 0..rows {
            let text = "x".repeat(bytes);
            let table = &self.keyspace.name;
            client.query(&format!(
                "INSERT INTO {table}.t (k, c, v) VALUES ({k}, {c}, '{text}')"
            ));
        }
    }

    fn select(&self, k: i32) -> String {
        format!("SELECT * FROM {}.t WHERE k = {k}", self.keyspace.name)
    }

    /// Found so far, for whichever reason.
    fn found(&self) -> u64 {
        self.proxy.metric_sum(PARTITIONS, &self.keyspace.name)
    }

    fn found_for(&self, reason: &str) -> u64 {
        self.proxy
            .metric_sum(PARTITIONS, &format!("reason=\"{reason}\""))
    }

    /// What was written down: the bytes of each partition.
    fn written(&self) -> BTreeMap<i32, i64> {
        let text = format!(
            "SELECT partition_key, state, seen_bytes FROM {}.wide_row",
            self.control.name
        );
        let rows = self.direct(Codec::V4).query(&text).rows();
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | i64::from(*byte))
        };
        let mut written = BTreeMap::new();
        for row in rows.rows.iter().filter(|row| row[0].is_some()) {
            assert_eq!(row[1].as_deref(), Some(&b"DETECTED"[..]));
            let key = number(row[0].as_deref().expect("a key"));
            // Only a scan has bytes.
            let bytes = row[2].as_deref().map_or(0, number);
            written.insert(key as i32, bytes);
        }
        written
    }
}

/// The sizes of a scan's pages.
fn scan(client: &mut RawClient, text: &str, page_size: Option<i32>, prepared: bool) -> Vec<usize> {
    let codec = client.codec;
    let mut id = prepared.then(|| client.prepare(text));
    let mut parameters = Parameters {
        page_size,
        ..Parameters::default()
    };
    let mut sizes = Vec::new();
    loop {
        let reply = match &id {
            Some(id) => client.ask(opcode::EXECUTE, &execute(codec, id, &parameters)),
            None => client.ask(opcode::QUERY, &query_with(codec, text, &parameters)),
        };
        if id.is_some() && reply.error().is_some_and(|(code, _)| code == UNPREPARED) {
            id = Some(client.prepare(text));
            continue;
        }
        assert_eq!(reply.error(), None, "{text}");
        sizes.push(reply.body.len());
        parameters.paging_state = reply.rows().paging_state;
        if parameters.paging_state.is_none() {
            return sizes;
        }
    }
}

/// The scan's sizes by which it may have been found wide. It is seen from its beginning, unless the schema is not known just
/// then, which happens on a busy cluster; so reads are repeated here until they are seen.
fn crossings(sizes: &[usize]) -> Vec<i64> {
    let crossing = |from: usize| {
        let sums = sizes[from..].iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        });
        sums.into_iter().find(|sum| *sum >= WIDE_BYTES)
    };
    let crossings: Vec<i64> = (0..sizes.len())
        .filter_map(|from| Some(crossing(from)? as i64))
        .collect();
    assert!(!crossings.is_empty(), "the partition is wide");
    crossings
}

fn finds_every_wide_scan_once(cluster: &Cluster, codecs: &[Codec]) {
    let world = World::start(cluster, &[TABLE], "", "");
    let mut expected = BTreeMap::new();
    for (number, codec) in codecs.iter().enumerate() {
        let mut client = world.through(*codec);
        for (k, page_size) in [(2 * number, Some(10)), (2 * number + 1, None)] {
            let k = k as i32;
            world.fill(k, 40, 4_000);
            for round in 0..3 {
                // Prepared and not, in pages and all at once.
                let prepared = (number + round) % 2 == 0;
                let sizes = scan(&mut client, &world.select(k), page_size, prepared);
                assert_eq!(sizes.len() > 1, page_size.is_some());
                let found = || (*codec, page_size, crossings(&sizes));
                expected.entry(k).or_insert_with(found);
            }
        }
    }
    let written = eventually("all were written down", || {
        let written = world.written();
        for (k, (codec, page_size, _)) in &expected {
            if !written.contains_key(k) {
                let mut client = world.through(*codec);
                scan(&mut client, &world.select(*k), *page_size, false);
            }
        }
        Some(written).filter(|written| written.len() == expected.len())
    });
    for (k, bytes) in written {
        assert!(expected[&k].2.contains(&bytes), "{bytes} of {k}");
    }
    assert_eq!(world.found_for("size"), expected.len() as u64);
    assert_eq!(world.found(), expected.len() as u64, "and nothing else");
    let dropped = "narrows_detect_sightings_dropped_total";
    assert_eq!(world.proxy.metric(dropped), 0);
}

#[test]
fn a_wide_scan_is_found_once_with_its_bytes() {
    finds_every_wide_scan_once(&single_cluster(), &Codec::ALL);
}

#[test]
fn a_wide_scan_is_found_with_cassandra_4_1() {
    finds_every_wide_scan_once(&old_cluster(), &[Codec::V4_LZ4, Codec::V5]);
}

#[test]
fn a_hot_narrow_partition_is_not_wide() {
    let cluster = single_cluster();
    let world = World::start(&cluster, &[TABLE], "", "");
    world.fill(1, 30, 1_000);
    world.fill(2, 40, 4_000);
    let codecs = [Codec::V3, Codec::V4_LZ4, Codec::V5, Codec::V5_LZ4];
    for codec in codecs {
        let mut client = world.through(codec);
        for round in 0..250 {
            let page_size = [Some(10), Some(20), None][round % 3];
            scan(&mut client, &world.select(1), page_size, round % 2 == 0);
        }
    }
    // What was seen before this was dealt with before it.
    eventually("the wide one is found", || {
        scan(&mut world.through(Codec::V4), &world.select(2), None, false);
        (world.found_for("size") == 1).then_some(())
    });
    eventually("it is written down", || {
        world.written().keys().eq([&2]).then_some(())
    });
    assert_eq!(world.found(), 1);
}

#[test]
fn what_is_not_answered_from_a_split_is_seen_whatever_it_selects() {
    let cluster = single_cluster();
    let world = World::start(
        &cluster,
        &[TABLE],
        "",
        "[limits]\nmax_page_bytes = '1MiB'\n",
    );
    let mut client = world.through(Codec::V5_LZ4);
    let selects = [
        (1, "v FROM {}.t WHERE k = 1 AND c >= 0"),
        (2, "JSON * FROM {}.t WHERE k = 2"),
        (3, "c, max(v) FROM {}.t WHERE k = 3 GROUP BY c"),
        (4, "* FROM {}.t WHERE k = 4 AND v = 'none' ALLOW FILTERING"),
        (5, "* FROM {}.t WHERE k = 5 LIMIT 3"),
        (6, "* FROM {}.t WHERE k IN (6, 7)"),
        (8, "* FROM {}.t WHERE k = 8"),
    ];
    for (k, _) in selects {
        world.fill(k, 40, 4_000);
    }
    eventually("the wide ones are written down", || {
        for (k, clauses) in selects {
            let text = format!("SELECT {clauses}").replace("{}", &world.keyspace.name);
            // Pages of one size are cut, others are not.
            let page_size = (k % 2 == 0).then_some(15);
            scan(&mut client, &text, page_size, k > 2);
        }
        // Of the others not enough was read, or of several together. A filter that took long on a busy machine is told
        // apart by its reason.
        let by_size = |(k, bytes): (i32, i64)| (bytes > 0).then_some(k);
        let found: Vec<i32> = world.written().into_iter().filter_map(by_size).collect();
        found
            .iter()
            .all(|k| [1, 2, 3, 8].contains(k))
            .then_some(())?;
        (found.len() + world.found_for("long") as usize >= 4).then_some(())
    });
    let others = ["warning", "tombstones", "timeouts", "failures", "slow"];
    assert_eq!(others.map(|reason| world.found_for(reason)), [0; 5]);
}

/// Partitions of 101,000 tombstones: rows with 100 columns that are null.
fn fill_with_tombstones(world: &World, k: i32) {
    let names: Vec<String> = (0..100).map(|n| format!("v{n}")).collect();
    let markers = vec!["?"; 102].join(", ");
    let (keyspace, names) = (&world.keyspace.name, names.join(", "));
    let insert = format!("INSERT INTO {keyspace}.t (k, c, {names}) VALUES ({markers})");
    let mut client = world.direct(Codec::V4);
    for first in (0..1_010).step_by(20) {
        eventually("a batch finds its statement prepared", || {
            let (id, _) = client.prepare(&insert);
            let row = |c: i32| {
                let mut values = vec![Value::int(k), Value::int(c)];
                values.resize(102, Value::Null);
                Item::Prepared(&id, values)
            };
            let rows: Vec<Item<'_>> = (first..(first + 20).min(1_010)).map(row).collect();
            let reply = client.ask(opcode::BATCH, &batch(Codec::V4, UNLOGGED, &rows));
            let error = reply.error().map(|(code, _)| code);
            assert!([None, Some(UNPREPARED)].contains(&error), "{error:?}");
            error.is_none().then_some(())
        });
    }
}

#[test]
fn a_head_full_of_tombstones_is_found_and_in_mode_detect_only_told() {
    let columns: Vec<String> = (0..100).map(|n| format!("v{n} int")).collect();
    let table = format!(
        "CREATE TABLE t (k int, c int, {}, PRIMARY KEY (k, c))",
        columns.join(", ")
    );
    let cluster = single_cluster();
    let world = World::start(&cluster, &[&table], "mode = 'detect'\n", "");
    let codecs = [
        Codec::V3,
        Codec::V4,
        Codec::V4_LZ4,
        Codec::V5,
        Codec::V5_LZ4,
    ];
    for k in 0..codecs.len() {
        fill_with_tombstones(&world, k as i32);
    }
    eventually("they are found", || {
        for (k, codec) in (0..).zip(codecs) {
            let read = query_with(codec, &world.select(k), &Parameters::default());
            let reply = world.through(codec).ask(opcode::QUERY, &read);
            let (code, _) = reply.error().expect("Cassandra gives up");
            // To v3 every failure is a timeout, and one of those says nothing.
            assert_eq!(code, if codec.version == 3 { 0x1200 } else { 0x1300 });
        }
        (world.found_for("tombstones") == 4).then_some(())
    });
    assert_eq!(world.found(), 4);
    assert_eq!(world.written(), BTreeMap::new());
    let log = world.proxy.log();
    let told = log.lines().filter(|line| line.contains("seems to be wide"));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), 4, "{told:#?}");
    for line in told {
        for part in [
            "\"token\":",
            "\"reason\":\"tombstones\"",
            "\"mode\":\"detect\"",
        ] {
            assert!(line.contains(part), "{part} is missing in {line}");
        }
    }
}

/// Aggregates and filters read much and return little: only their time tells. Nobody reads anything else.
#[test]
fn what_takes_long_to_return_little_is_found() {
    let cluster = single_cluster();
    let relay = Relay::before(cluster.node(), 3);
    let world = World::start_at(&[relay.address], &cluster, &[TABLE], "", "");
    let table = format!("{}.t", world.keyspace.name);
    let reads = [
        (1, format!("SELECT * FROM {table} WHERE k = 1"), 0),
        (2, format!("SELECT count(*) FROM {table} WHERE k = 2"), 1),
    ];
    for (k, text, expected) in reads {
        world.fill(k, 3, 100);
        eventually("it takes long, and is seen", || {
            let mut client = world.through(Codec::V3);
            relay.close_gate();
            client.send(1, opcode::QUERY, &query(Codec::V3, &text));
            let held = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                relay.holds_replies()
            });
            std::thread::sleep(Duration::from_millis(550));
            relay.open_gate();
            let reply = client.receive();
            assert_eq!(reply.error(), None, "{text}");
            // On a busy cluster the schema may not be known just then.
            let found = world.found_for("long");
            assert!(found <= expected, "{text}");
            (held && (found == expected)).then_some(())
        });
    }
    eventually("it is written down", || {
        world.written().keys().eq([&2]).then_some(())
    });
}
