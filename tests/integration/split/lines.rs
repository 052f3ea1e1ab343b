//! Every line of the table of what is rewritten and what is forwarded, by its name, on each protocol version.
//!
//! A rewritten one is answered from the split, page by page; a forwarded one is not even tried there. Both are equal to
//! what Cassandra says of the original.

use narrows::rewrite::Reason;

use super::tables::{FORWARDED, REWRITTEN};
use super::world::{ANSWERED, FALLBACKS, World};
use super::{Ask, CODECS, assert_same};
use crate::support::frame::flag;
use crate::support::request::{SERIAL, Value};
use crate::support::response::Body;
use crate::support::{Codec, Frame, eventually};

const PAGE: i32 = 4;
const LOCAL_SERIAL: u16 = 0x0009;
const NOT_REWRITTEN: &str = "narrows_proxy_not_rewritten_total";

const PINNED: &str = "CREATE TABLE pinned (k int, c int, s int static, v int, PRIMARY KEY (k, c))";

fn split_world(more: &[&str]) -> World {
    let mut world = World::with(&[(1, 30), (2, 10), (4, 10)], more, &[]);
    world.split(1);
    world.split(2);
    world
}

/// Asks both sides; how many of the pages came from the split.
fn compare(world: &mut World, what: &str, ask: &Ask) -> (Vec<Frame>, u64) {
    let direct = ask.all(&mut world.direct);
    compare_with(world, what, ask, &direct)
}

fn compare_with(world: &mut World, what: &str, ask: &Ask, direct: &[Frame]) -> (Vec<Frame>, u64) {
    let before = world.proxy.metric(ANSWERED);
    let through = ask.all(&mut world.through);
    assert_same(&format!("{what}: {ask:?}"), direct, &through);
    (through, world.proxy.metric(ANSWERED) - before)
}

/// Every page from the split. On a busy machine, or while somebody changes a schema, the original helps out: right, but not the
/// question.
fn assert_answered(world: &mut World, what: &str, ask: &Ask) {
    let direct = ask.all(&mut world.direct);
    assert_answered_as(world, what, ask, &direct);
}

/// As QUERY and as EXECUTE, which Cassandra answers alike.
fn assert_both_answered(world: &mut World, what: &str, ask: &Ask) {
    let direct = ask.all(&mut world.direct);
    for is_prepared in [false, true] {
        let ask = ask.clone().prepared(is_prepared);
        assert_answered_as(world, what, &ask, &direct);
    }
}

fn assert_answered_as(world: &mut World, what: &str, ask: &Ask, direct: &[Frame]) {
    eventually(
        &format!("{what} is answered from the split: {ask:?}"),
        || {
            let (pages, answered) = compare_with(world, what, ask, direct);
            assert!(pages[0].error().is_none(), "{what}: {:?}", pages[0].error());
            (answered == pages.len() as u64).then_some(())
        },
    );
}

/// Forwarded untried, for this reason.
fn assert_forwarded(world: &mut World, what: &str, ask: &Ask, reason: &str) {
    // While somebody changes a schema nothing is looked at, and no reason counted.
    eventually(&format!("{what} is {reason}: {ask:?}"), || {
        let fallbacks = world.proxy.metric_sum(FALLBACKS, "");
        let before = reasons(world);
        let (_, answered) = compare(world, what, ask);
        assert_eq!(answered, 0, "{what}: {ask:?}");
        assert_eq!(
            world.proxy.metric_sum(FALLBACKS, ""),
            fallbacks,
            "{what}: {ask:?}"
        );
        let counted = reasons(world).into_iter().zip(before);
        let counted = counted.filter_map(|(after, before)| (after.1 > before.1).then_some(after.0));
        let counted: Vec<_> = counted.collect();
        assert!(
            counted.iter().all(|counted| *counted == reason),
            "{what}: {counted:?}"
        );
        (!counted.is_empty()).then_some(())
    });
}

/// How often each reason was counted.
fn reasons(world: &World) -> Vec<(&'static str, u64)> {
    let page = world.proxy.metrics();
    let count = |reason: Reason| {
        let series = format!("{NOT_REWRITTEN}{{reason=\"{}\"}} ", reason.as_str());
        let value = page.lines().find_map(|line| line.strip_prefix(&series));
        (
            reason.as_str(),
            value.and_then(|value| value.parse().ok()).unwrap_or(0),
        )
    };
    Reason::ALL.map(count).to_vec()
}

#[test]
fn rewritten_lines_are_answered_from_the_split() {
    let mut world = split_world(&[]);
    every_rewritten_line_is_answered_from_the_split(&mut world);
    markers_names_and_skipped_metadata_are_answered_from_the_split(&mut world);
    ttls_are_answered_from_the_split_at_the_clients_time(&mut world);
    the_union_of_split_and_unsplit_partitions_is_joined(&mut world);
}

fn every_rewritten_line_is_answered_from_the_split(world: &mut World) {
    for (name, statement) in REWRITTEN {
        for codec in CODECS {
            let ask = Ask::new(codec, world.text(statement)).paged(PAGE);
            assert_both_answered(world, name, &ask);
        }
    }
}

fn markers_names_and_skipped_metadata_are_answered_from_the_split(world: &mut World) {
    let int = Value::int;
    let cases: [(&str, &str, Vec<Value>); 5] = [
        ("key", "SELECT * FROM {} WHERE k = ?", vec![int(1)]),
        (
            "slice",
            "SELECT * FROM {} WHERE k = ? AND a > ? AND a <= ?",
            vec![int(1), int(2), int(6)],
        ),
        (
            "IN",
            "SELECT * FROM {} WHERE k = ? AND a IN (?, ?)",
            vec![int(1), int(6), int(2)],
        ),
        (
            "LIMIT ?",
            "SELECT * FROM {} WHERE k = ? LIMIT ?",
            vec![int(1), int(9)],
        ),
        (
            "PER PARTITION LIMIT ?",
            "SELECT * FROM {} WHERE k = ? PER PARTITION LIMIT ?",
            vec![int(1), int(9)],
        ),
    ];
    for (name, statement, values) in cases {
        for codec in CODECS {
            let mut ask = Ask::new(codec, world.text(statement))
                .with(&values)
                .paged(PAGE);
            assert_answered(world, name, &ask);
            ask.parameters.skip_metadata = true;
            assert_both_answered(world, name, &ask);
        }
    }
    for codec in CODECS {
        let mut ask = Ask::new(
            codec,
            world.text("SELECT * FROM {} WHERE k = :key AND a > :low"),
        );
        ask.parameters.values = vec![int(2), int(1)];
        ask.parameters.names = vec!["low", "key"];
        assert_answered(world, "named values", &ask.paged(PAGE));
    }
}

fn ttls_are_answered_from_the_split_at_the_clients_time(world: &mut World) {
    let text = world.text("SELECT a, b, TTL(v), TTL(w), v FROM {} WHERE k = 1");
    let mut ask = Ask::new(Codec::V5, text).paged(PAGE);
    // Before, at and after the expiry of some rows, and now.
    for later in [0, 1, 30 * 86_400 - 1, 30 * 86_400, 31 * 86_400] {
        ask.parameters.now_in_seconds = Some(world.now + later);
        assert_answered(world, "TTL", &ask);
    }
}

fn the_union_of_split_and_unsplit_partitions_is_joined(world: &mut World) {
    let lines = [
        ("IN", "SELECT * FROM {} WHERE k IN (4, 1, -7, 2)"),
        (
            "IN with LIMIT",
            "SELECT * FROM {} WHERE k IN (4, 1, 2) LIMIT 37",
        ),
        (
            "IN with PER PARTITION LIMIT",
            "SELECT * FROM {} WHERE k IN (4, 1, 2) PER PARTITION LIMIT 4",
        ),
        (
            "IN with both",
            "SELECT * FROM {} WHERE k IN (4, 1, 2) PER PARTITION LIMIT 6 LIMIT 14",
        ),
        (
            "IN with a slice",
            "SELECT * FROM {} WHERE k IN (4, 2, 1) AND a > 0",
        ),
        ("IN of one", "SELECT * FROM {} WHERE k IN (1)"),
        ("IN of the same", "SELECT * FROM {} WHERE k IN (2, 1, 2)"),
    ];
    for (name, statement) in lines {
        for codec in [Codec::V4, Codec::V5] {
            for size in [3, PAGE, 5, 10, 1000, -1] {
                let ask = Ask::new(codec, world.text(statement)).paged(size);
                assert_both_answered(world, name, &ask);
            }
        }
        let ask = Ask::new(Codec::V3, world.text(statement)).paged(PAGE);
        compare(world, name, &ask);
    }
    // None of them is split: the filter knows.
    let ask = Ask::new(Codec::V4, world.text("SELECT * FROM {} WHERE k IN (4, -7)")).paged(PAGE);
    assert_eq!(compare(world, "IN of unsplit ones", &ask).1, 0);
    for statement in [
        "SELECT * FROM {} WHERE k IN (4, 1) ORDER BY a ASC, b DESC",
        "SELECT * FROM {} WHERE k IN (4, 1) ORDER BY a DESC, b ASC",
    ] {
        for size in [-1, PAGE] {
            let ask = Ask::new(Codec::V4, world.text(statement)).paged(size);
            assert_forwarded(world, "IN with ORDER BY", &ask, "order_by");
        }
    }
}

#[test]
fn forwarded_lines_reach_the_original() {
    let mut world = split_world(&[PINNED]);
    static_columns_reach_the_original(&mut world);
    every_forwarded_line_reaches_the_original(&mut world);
    values_that_only_cassandra_understands_reach_the_original(&mut world);
    tracing_reaches_the_original(&mut world);
    a_rewritten_read_shows_the_buckets_and_a_forwarded_one_the_original(&mut world);
    serial_reads_reach_the_original(&mut world);
}

fn every_forwarded_line_reaches_the_original(world: &mut World) {
    let function = format!(
        "CREATE FUNCTION {}.twice (n int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return n;'",
        world.keyspace.name
    );
    let reply = Ask::new(Codec::V4, function).once(&mut world.direct);
    if let Some((_, text)) = reply.error() {
        // They may be switched off on this cluster; the statement is then refused, by both.
        assert!(text.contains("disabled"), "{text}");
    }
    for (name, statement, reason) in FORWARDED {
        let text = world.text(&statement.replace("{ks}", &world.keyspace.name));
        for codec in CODECS {
            let ask = Ask::new(codec, &text).paged(PAGE);
            assert_forwarded(world, name, &ask, reason);
        }
    }
}

fn values_that_only_cassandra_understands_reach_the_original(world: &mut World) {
    let slice = "SELECT * FROM {} WHERE k = 1 AND a > ?";
    let limit = "SELECT * FROM {} WHERE k = 1 LIMIT ?";
    let empty = || Value::Bytes(Vec::new());
    let cases = [
        ("null in a bound", slice, vec![Value::Null]),
        ("unset in a bound", slice, vec![Value::Unset]),
        ("empty bytes in a bound", slice, vec![empty()]),
        (
            "null in a tuple",
            "SELECT * FROM {} WHERE k = 1 AND (a, b) > (?, ?)",
            vec![Value::int(1), Value::Null],
        ),
        (
            "null in IN",
            "SELECT * FROM {} WHERE k = 1 AND a IN (?, 3)",
            vec![Value::Null],
        ),
        ("too short a value", slice, vec![Value::Bytes(vec![1, 2])]),
        ("too few values", slice, vec![]),
        ("null LIMIT", limit, vec![Value::Null]),
        (
            "literal LIMIT 0",
            "SELECT * FROM {} WHERE k = 1 LIMIT 0",
            vec![],
        ),
        ("LIMIT 0", limit, vec![Value::int(0)]),
        ("LIMIT below 0", limit, vec![Value::int(-1)]),
        (
            "null key",
            "SELECT * FROM {} WHERE k = ?",
            vec![Value::Null],
        ),
        ("empty key", "SELECT * FROM {} WHERE k = ?", vec![empty()]),
        (
            "unset key",
            "SELECT * FROM {} WHERE k = ?",
            vec![Value::Unset],
        ),
        (
            "null among keys",
            "SELECT * FROM {} WHERE k IN (1, ?)",
            vec![Value::Null],
        ),
    ];
    for (name, statement, values) in cases {
        for codec in CODECS {
            let ask = Ask::new(codec, world.text(statement))
                .with(&values)
                .paged(PAGE);
            assert_eq!(compare(world, name, &ask).1, 0, "{name} {codec:?}");
        }
    }
}

fn static_columns_reach_the_original(world: &mut World) {
    for insert in [
        "(k, c, s, v) VALUES (1, 1, 7, 1)",
        "(k, c, v) VALUES (1, 2, 2)",
    ] {
        let text = format!("INSERT INTO {}.pinned {insert}", world.keyspace.name);
        world.wire.write(&text, vec![], world.now);
    }
    world.wire.settle();
    let table = narrows::schema::names::TableName::new(&world.keyspace.name, "pinned");
    eventually("it is seen", || world.control.is_seen(&table).then_some(()));
    // Somebody claims that it is split, which nobody should.
    let id = crate::exactness::control::Control::id(table, &[&1_i32.to_be_bytes()]);
    let known = world.proxy.metric_sum("narrows_filter_keys", "");
    let begun = world.control.begin(&id);
    let bucket = narrows::schema::bucket::Bucket {
        first: Vec::new(),
        row_count: 2,
        byte_count: 10,
        home: None,
    };
    use crate::exactness::control::Control;
    let layout = Control::unproven(&id, begun.0, "wide_pinned_1", vec![bucket]);
    let layout = crate::redis::proven(layout);
    world.control.complete(&id, &begun, &layout);
    eventually("the claim is known", || {
        (world.proxy.metric_sum("narrows_filter_keys", "") > known).then_some(())
    });
    for selection in ["*", "s", "v", "COUNT(*)"] {
        let text = format!(
            "SELECT {selection} FROM {}.pinned WHERE k = 1",
            world.keyspace.name
        );
        let ask = Ask::new(Codec::V4, text).paged(PAGE);
        assert_forwarded(world, "static columns", &ask, "static_columns");
    }
}

fn tracing_reaches_the_original(world: &mut World) {
    for codec in CODECS {
        let ask =
            Ask::new(codec, world.text("SELECT * FROM {} WHERE k = 1")).flagged(flag::TRACING);
        let before = world.proxy.metric(ANSWERED);
        let [direct, through] = [&mut world.direct, &mut world.through].map(|side| ask.once(side));
        assert_eq!(world.proxy.metric(ANSWERED), before);
        // A trace id of its own, and then the same.
        assert_eq!(through.flags, direct.flags);
        assert_eq!(through.message().0, direct.message().0);
    }
}

fn serial_reads_reach_the_original(world: &mut World) {
    for consistency in [SERIAL, LOCAL_SERIAL] {
        for codec in CODECS {
            let ask = Ask::new(codec, world.text("SELECT * FROM {} WHERE k = 1"))
                .consistency(consistency);
            assert_eq!(compare(world, "serial", &ask).1, 0);
        }
    }
}

/// `v` of the first row.
fn first_v(page: &Frame) -> i32 {
    Body(page.rows().get(0, "v").expect("a value")).int()
}

fn a_rewritten_read_shows_the_buckets_and_a_forwarded_one_the_original(world: &mut World) {
    // Never so in truth: the bucket says one thing, the original another.
    world.mark((1, 0, 3), -1, true);
    world.mark((1, 0, 3), -2, false);
    let cases = [
        ("SELECT v, a FROM {} WHERE k = 1", -1),
        ("SELECT v, a FROM {} WHERE k = 1 AND a = 0 AND b = 3", -1),
        ("SELECT MIN(v) AS v FROM {} WHERE k = 1", -1),
        ("SELECT v FROM {} WHERE k IN (1, 4)", -1),
        ("SELECT v FROM {} WHERE k = 1 AND v < 0 ALLOW FILTERING", -1),
        ("SELECT v FROM {} WHERE k = 1 AND x = 1", -2),
        ("SELECT v FROM {} WHERE k = 1 GROUP BY a", -2),
    ];
    for (statement, expected) in cases {
        let text = world.text(statement);
        let ask = Ask::new(Codec::V4, &text);
        assert_eq!(first_v(&ask.once(&mut world.direct)), -2, "{text}");
        eventually(&format!("{expected} is shown by {text}"), || {
            let before = world.proxy.metric(ANSWERED);
            let found = first_v(&ask.once(&mut world.through));
            let from_split = world.proxy.metric(ANSWERED) > before;
            assert_eq!(found, if from_split { -1 } else { -2 }, "{text}");
            (found == expected).then_some(())
        });
    }
}
