//! Split tables belong to Narrows: a client that changes one through a proxy is refused, and what happens to one around the
//! proxies ends its splits within a poll.

use narrows::watched::Mode;
use narrows::wide_row::layout::LayoutId;
use narrows::wide_row::names::Generation;

use super::{CHANGED, Pair, ROWS, TOO_LATE, quick, recently};
use crate::pipeline::world::{PLAIN, split_after_change, until_answered};
use crate::support::request::{self, Item, LOGGED, Parameters};
use crate::support::{Codec, Frame, RawClient, eventually, opcode, single_cluster};

const CHANGED_AROUND: &str = "a split table was changed around the proxies";
const NOT_KNOWN: &str = "the partitions of a write are unknown";
const INVALID: i32 = 0x2200;
const REFRESHES: &str = "narrows_follow_refreshes_total";

/// What a client may not do to `{}`, a split table of `t`.
const REFUSED: [&str; 13] = [
    "INSERT INTO {} (k, narrows_generation, narrows_bucket, c, v) VALUES (1, 1, 0, 1, 'x')",
    "INSERT INTO {} JSON '{\"k\": 1, \"narrows_generation\": 1, \"narrows_bucket\": 0, \"c\": 1}'",
    "UPDATE {} SET v = 'x' WHERE k = 1 AND narrows_generation = 1 AND narrows_bucket = 0 AND c = 1",
    "DELETE FROM {} WHERE k = 1 AND narrows_generation = 1 AND narrows_bucket = 0",
    "BEGIN BATCH DELETE FROM {} WHERE k = 1 AND narrows_generation = 1 AND narrows_bucket = 0; APPLY BATCH",
    "TRUNCATE {}",
    "TRUNCATE TABLE {}",
    "ALTER TABLE {} ADD w int",
    "ALTER TABLE {} WITH comment = 'mine'",
    "DROP TABLE IF EXISTS {}",
    "CREATE INDEX ON {} (v)",
    "CREATE CUSTOM INDEX mine ON {} (v) USING 'org.apache.cassandra.index.sasi.SASIIndex'",
    "CREATE MATERIALIZED VIEW {}_seen AS SELECT k FROM {} WHERE k IS NOT NULL PRIMARY KEY (k)",
];

/// The code and text of an error.
fn error(reply: &Frame) -> (i32, String) {
    reply.error().expect("it is refused")
}

fn is_refused(reply: &Frame) -> bool {
    let refused =
        |(code, text): (i32, String)| code == INVALID && text.contains("only Narrows changes it");
    reply.error().is_some_and(refused)
}

fn query(client: &mut RawClient, text: &str) -> Frame {
    let body = request::query(client.codec, text);
    client.ask_until_forwarded(opcode::QUERY, &body)
}

#[test]
fn whatever_a_client_does_to_a_split_table_is_refused() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, TOO_LATE);
    pair.world.fill(1, ROWS);
    pair.split();
    let before = pair.control.standing(&pair.id());
    let (keyspace, table) = (
        pair.world.keyspace.name.clone(),
        pair.world.name("wide_t_1"),
    );
    for client in &mut pair.writing {
        eventually("the proxy has seen the split table", || {
            let delete = REFUSED[3].replace("{}", &table);
            is_refused(&query(client, &delete)).then_some(())
        });
        for statement in REFUSED {
            let reply = query(client, &statement.replace("{}", &table));
            assert!(is_refused(&reply), "{statement}: {:?}", reply.error());
        }
        // It says whose it is, and what to do.
        let (_, text) = error(&query(client, &format!("TRUNCATE {table}")));
        let original = format!("{keyspace}.t");
        for part in [
            &format!("{table} holds splits of {original}"),
            &format!("narrows splits rollback --all {original}"),
        ] {
            assert!(text.contains(part.as_str()), "{text}");
        }
        // By the connection's keyspace.
        query(client, &format!("USE {keyspace}"));
        assert!(is_refused(&query(client, "TRUNCATE wide_t_1")));
        // Prepared, and in a batch.
        let delete = REFUSED[3].replace("{}", &table);
        let id = client.prepare(&delete);
        let codec = client.codec;
        let execute = request::execute(codec, &id, &Parameters::default());
        let reply = client.ask_until_forwarded(opcode::EXECUTE, &execute);
        assert!(is_refused(&reply), "{:?}", reply.error());
        let harmless = format!("INSERT INTO {keyspace}.t (k, c, v) VALUES (77, 1, 'x')");
        for item in [Item::Prepared(&id.0, vec![]), Item::Text(&delete, vec![])] {
            let items = [Item::Text(&harmless, vec![]), item];
            let batch = request::batch(codec, LOGGED, &items);
            let reply = client.ask_until_forwarded(opcode::BATCH, &batch);
            assert!(is_refused(&reply), "{:?}", reply.error());
        }
        // Reading it is no harm.
        let rows = query(client, &format!("SELECT * FROM {table} LIMIT 1"));
        assert_eq!(rows.rows().rows.len(), 1);
    }
    let none = format!("SELECT c FROM {keyspace}.t WHERE k = 77");
    assert!(pair.world.direct.scan(&none).is_empty(), "whole batches");
    assert_eq!(pair.control.standing(&pair.id()), before);
    pair.assert_same("what nobody has changed", ROWS as usize);
}

#[test]
fn a_table_that_only_has_such_a_name_is_its_owners() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, TOO_LATE);
    pair.world.fill(1, ROWS);
    pair.split();
    let table = pair.world.name("wide_t_99");
    let create = format!("CREATE TABLE {table} (k int PRIMARY KEY, narrows_bucket int, v int)");
    pair.world.keyspace.run(&[&create]);
    for (number, client) in (1..).zip(&mut pair.writing) {
        for statement in [
            format!("INSERT INTO {table} (k, v) VALUES ({number}, 1)"),
            format!("UPDATE {table} SET v = 2 WHERE k = {number}"),
            format!("ALTER TABLE {table} ADD w{number} int"),
            format!("ALTER TABLE {table} WITH comment = 'mine'"),
            format!("CREATE INDEX IF NOT EXISTS ON {table} (v)"),
            format!("TRUNCATE {table}"),
        ] {
            let reply = query(client, &statement);
            assert_eq!(reply.error(), None, "{statement}");
        }
    }
    pair.writing[0].query(&format!("DROP TABLE {table}"));
    pair.assert_same("another table", ROWS as usize);
}

/// Splits partition 1, has something happen to its table around the proxies, and awaits that all read the original again.
fn happens_around(what: &str, statements: &[&str]) {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, CHANGED_AROUND);
    pair.world.fill(1, ROWS);
    let first = pair.split();
    let table = pair.world.name("wide_t_1");
    let statements: Vec<String> = statements
        .iter()
        .map(|statement| statement.replace("{}", &table))
        .collect();
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    pair.world.keyspace.run(&statements);
    let (id, text) = (pair.id(), pair.world.select(1));
    eventually("it is out of service", || {
        let standing = pair.control.standing(&id).expect("there is one");
        (!standing.is_in_service()).then_some(())
    });
    let expected = pair.world.direct.scan(&text);
    assert_eq!(expected.len(), ROWS as usize);
    for through in &mut pair.through {
        assert!(through.scan(&text) == expected, "{what}");
    }
    // Whatever is there by this name, nothing is copied into it again.
    let second = split_after_change(&pair.control, &id);
    assert!(second > first);
    for (proxy, through) in pair.proxies.iter().zip(&mut pair.through) {
        until_answered(proxy, through, &text, &expected);
    }
    let split_table = |generation: Generation| {
        let (table, key) = (id.table.clone(), id.key.clone());
        let layout = pair.control.layout(&LayoutId {
            table,
            key,
            generation,
        });
        layout.expect("a layout").split_table
    };
    assert_eq!(split_table(second), "wide_t_2", "{what}");
    // Once is enough: what was given up ends nothing again.
    let settled = pair.control.standing(&id);
    let [proxy, _] = &pair.proxies;
    let before = proxy.metric_sum(REFRESHES, "\"ok\"");
    eventually("some polls have passed", || {
        (proxy.metric_sum(REFRESHES, "\"ok\"") > before + 20).then_some(())
    });
    assert_eq!(pair.control.standing(&id), settled, "{what}");
    pair.assert_same(what, ROWS as usize);
}

#[test]
fn a_split_table_truncated_around_the_proxies_answers_no_more() {
    happens_around("truncated", &["TRUNCATE {}"]);
}

#[test]
fn a_split_table_dropped_around_the_proxies_is_not_used_again() {
    happens_around("dropped", &["DROP TABLE {}"]);
}

#[test]
fn a_split_table_replaced_around_the_proxies_answers_no_more() {
    let create = "CREATE TABLE {} (k int, narrows_generation int, narrows_bucket int, c int, v text, PRIMARY KEY \
        ((k, narrows_generation, narrows_bucket), c)) WITH comment = 'Narrows: buckets of t'";
    happens_around("replaced", &["DROP TABLE {}", create]);
}

#[test]
fn options_of_an_original_end_no_split() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, CHANGED);
    pair.world.fill(1, ROWS);
    pair.split();
    let before = pair.control.standing(&pair.id());
    for (at, options) in [
        "comment = 'mine'",
        "gc_grace_seconds = 100000 AND default_time_to_live = 5000000",
        "compression = {'enabled': 'false'}",
        "caching = {'keys': 'ALL', 'rows_per_partition': '10'}",
    ]
    .iter()
    .enumerate()
    {
        pair.write(at % 2, &format!("ALTER TABLE {{}} WITH {options}"));
    }
    let table = pair.world.name("t");
    let around = format!("ALTER TABLE {table} WITH comment = 'around'");
    pair.world.keyspace.run(&[&around]);
    let text = pair.world.select(1);
    let expected = pair.world.direct.scan(&text);
    for (proxy, through) in pair.proxies.iter().zip(&mut pair.through) {
        let polls = proxy.metric_sum(REFRESHES, "\"ok\"");
        eventually("some polls have passed", || {
            (proxy.metric_sum(REFRESHES, "\"ok\"") > polls + 8).then_some(())
        });
        until_answered(proxy, through, &text, &expected);
    }
    assert_eq!(pair.control.standing(&pair.id()), before);
    // A column is another matter.
    pair.write(1, "ALTER TABLE {} ADD w int");
    let standing = pair.control.standing(&pair.id()).expect("was split");
    assert!(!standing.is_in_service());
}

#[test]
fn a_key_that_nobody_can_compute_ends_the_splits_and_not_the_splitting() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, NOT_KNOWN);
    pair.world.fill(1, ROWS);
    let first = pair.split();
    let (id, late) = (pair.id(), recently());
    pair.write(
        0,
        &format!(
            "INSERT INTO {{}} (k, c, v) VALUES (blobAsInt(0x00000001), 5000, 'late') USING TIMESTAMP {late}"
        ),
    );
    let standing = pair.control.standing(&id).expect("was split");
    assert!(!standing.is_in_service(), "{standing:?}");
    pair.assert_same("a key from a function", ROWS as usize + 1);
    assert_eq!(pair.control.mode(&id.table), Mode::Serve);
    let second = split_after_change(&pair.control, &id);
    assert!(second > first);
    let text = pair.world.select(1);
    let expected = pair.world.direct.scan(&text);
    for (proxy, through) in pair.proxies.iter().zip(&mut pair.through) {
        until_answered(proxy, through, &text, &expected);
    }
}

#[test]
fn a_proxy_that_has_just_started_protects_split_tables_as_well() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, TOO_LATE);
    pair.world.fill(1, ROWS);
    pair.split();
    let table = pair.world.name("wide_t_1");
    for _ in 0..3 {
        let proxy = quick(pair.world.proxy()).start();
        let mut client = RawClient::connect(proxy.address(), Codec::V5);
        let reply = query(&mut client, &format!("TRUNCATE {table}"));
        assert!(is_refused(&reply), "{:?}", reply.error());
    }
    pair.assert_same("what nobody has truncated", ROWS as usize);
}
