//! What cannot be copied exactly is refused with a reason that people understand, and its reads stay right.

use narrows::schema::names::TableName;
use narrows::wide_row::state::State;

use crate::exactness::control::{Control, SHARDS};
use crate::pipeline::world::SPLIT_PATIENCE;
use crate::support::cluster::old_cluster;
use crate::support::{
    Cluster, Codec, Keyspace, Proxy, RawClient, eventually, eventually_within, single_cluster,
};

/// A table, a write to its partition 1, and what the reason says.
struct Case {
    name: &'static str,
    create: &'static str,
    write: &'static str,
    says: &'static str,
}

const NEW: [Case; 8] = [
    Case {
        name: "counted",
        create: "CREATE TABLE counted (k int, c int, n counter, PRIMARY KEY (k, c))",
        write: "UPDATE counted SET n = n + 5 WHERE k = 1 AND c = 1",
        says: "it has counters",
    },
    Case {
        name: "statics",
        create: "CREATE TABLE statics (k int, c int, s int static, v int, PRIMARY KEY (k, c))",
        write: "INSERT INTO statics (k, c, s, v) VALUES (1, 1, 2, 3)",
        says: "static columns",
    },
    Case {
        name: "lists",
        create: "CREATE TABLE lists (k int, c int, l list<int>, PRIMARY KEY (k, c))",
        write: "INSERT INTO lists (k, c, l) VALUES (1, 1, [1, 2])",
        says: "is a list that is not frozen",
    },
    Case {
        name: "pairs",
        create: "CREATE TABLE pairs (k int, c int, p pair, PRIMARY KEY (k, c))",
        write: "INSERT INTO pairs (k, c, p) VALUES (1, 1, {a: 1, b: 2})",
        says: "user-defined type that is not frozen",
    },
    Case {
        name: "masked",
        create: "CREATE TABLE masked (k int, c int, v text MASKED WITH DEFAULT, PRIMARY KEY (k, c))",
        write: "INSERT INTO masked (k, c, v) VALUES (1, 1, 'secret')",
        says: "masked columns",
    },
    Case {
        name: "viewed",
        create: "CREATE TABLE viewed (k int, c int, v int, PRIMARY KEY (k, c))",
        write: "INSERT INTO viewed (k, c, v) VALUES (1, 1, 2)",
        says: "materialized views",
    },
    Case {
        name: "ahead",
        create: "CREATE TABLE ahead (k int, c int, v blob, PRIMARY KEY (k, c))",
        write: "INSERT INTO ahead (k, c, v) VALUES (1, 1, LARGE) USING TIMESTAMP 4000000000000000",
        says: "in the future",
    },
    Case {
        name: "single",
        create: "CREATE TABLE single (k int PRIMARY KEY, v int)",
        write: "INSERT INTO single (k, v) VALUES (1, 2)",
        says: "one row each",
    },
];

const OLD: [Case; 1] = [Case {
    name: "maps",
    create: "CREATE TABLE maps (k int, c int, m map<int, int>, PRIMARY KEY (k, c))",
    write: "INSERT INTO maps (k, c, m) VALUES (1, 1, {1: 2})",
    says: "from cassandra 5.0 on",
}];

fn refuses(cluster: &Cluster, cases: &[Case], before: &[&str], after: &[&str]) {
    let tables = cases.iter().map(|case| case.create);
    let statements: Vec<&str> = before
        .iter()
        .copied()
        .chain(tables)
        .chain(after.iter().copied())
        .collect();
    let keyspace = Keyspace::create(cluster, &statements);
    let control_keyspace = Keyspace::create(cluster, &[]);
    let mut direct = RawClient::connect(cluster.node(), Codec::V4);
    direct.query(&format!("USE {}", keyspace.name));
    for case in cases {
        let large = format!("0x{}", "ab".repeat(2000));
        direct.query(&case.write.replace("LARGE", &large));
    }
    let table = |case: &Case| {
        format!(
            "[[table]]\nname = '{}.{}'\nshards = {SHARDS}\nwide_bytes = '1KiB'\ntarget_bytes = '1KiB'\n",
            keyspace.name, case.name
        )
    };
    let proxy = Proxy::builder(cluster.nodes())
        .set("control.keyspace", &control_keyspace.name)
        .set("pipeline.enabled", "true")
        .set("pipeline.settle", "0s")
        .set("pipeline.throttle", "false")
        .toml(&cases.iter().map(table).collect::<String>())
        .start();
    let control = Control::open(cluster.nodes(), &control_keyspace.name);
    let mut through = RawClient::connect(proxy.address(), Codec::V4);
    for case in cases {
        let name = TableName::new(&keyspace.name, case.name);
        eventually("the table is seen", || control.is_seen(&name).then_some(()));
        let id = Control::id(name, &[&1_i32.to_be_bytes()]);
        control.nominate(&id);
        let split = eventually_within(SPLIT_PATIENCE, case.name, || {
            let split = control.split(&id)?;
            (split.standing.state != State::Detected).then_some(split)
        });
        assert_eq!(split.standing.state, State::Refused, "{}", case.name);
        let reason = split.reason.unwrap_or_default();
        assert!(reason.contains(case.says), "{}: {reason}", case.name);
        assert!(split.not_before.is_some(), "{}", case.name);
        let read = format!("SELECT * FROM {}.{} WHERE k = 1", keyspace.name, case.name);
        let (one, other) = (direct.query(&read), through.query(&read));
        assert_eq!(one.rows().rows, other.rows().rows, "{read}");
    }
}

#[test]
fn what_cannot_be_copied_exactly_is_refused_with_its_reason() {
    let view = "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM viewed WHERE v IS NOT NULL AND k IS NOT NULL \
        AND c IS NOT NULL PRIMARY KEY (v, k, c)";
    refuses(
        &single_cluster(),
        &NEW,
        &["CREATE TYPE pair (a int, b int)"],
        &[view],
    );
}

#[test]
fn collections_are_refused_below_5_0() {
    refuses(&old_cluster(), &OLD, &[], &[]);
}
