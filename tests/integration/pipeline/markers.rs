//! Rows whose marker expires before one of their cells: Cassandra hides them from reads of other columns, and a copy, which
//! has no such marker, must not show them.

use narrows::rewrite::Reason;

use super::world::{ANSWERED, Client, World, days_ago, until_answered, until_completed};
use crate::exactness::seconds_now;
use crate::support::cluster::old_cluster;
use crate::support::request::Parameters;
use crate::support::{Cluster, Codec, Keyspace, eventually, single_cluster};

const TABLE: &str = "CREATE TABLE t (k int, c int, v text, w text, PRIMARY KEY (k, c))";
const YEAR: i32 = 365 * 86_400;
/// Of a marker that expires first.
const TTL: i32 = 86_400;
const NOT_REWRITTEN: &str = "narrows_proxy_not_rewritten_total";

fn at(second: i32) -> Parameters {
    Parameters {
        now_in_seconds: Some(second),
        ..Parameters::default()
    }
}

/// A cell that stays, then a marker that does not.
fn hidden_later(table: &str, key: i32, row: i32, time: i64) -> [String; 2] {
    let (before, ttl) = (time - 1, TTL);
    [
        format!(
            "UPDATE {table} USING TIMESTAMP {before} SET v = 'stays' WHERE k = {key} AND c = {row}"
        ),
        format!(
            "INSERT INTO {table} (k, c) VALUES ({key}, {row}) USING TIMESTAMP {time} AND TTL {ttl}"
        ),
    ]
}

/// What `rewrite::queried` knows of Cassandra: by which columns a SELECT finds such a row.
fn cassandra_hides_it(cluster: &Cluster) {
    let keyspace = Keyspace::create(cluster, &[TABLE]);
    let table = format!("{}.t", keyspace.name);
    let mut client = Client::connect(cluster.node(), Codec::V5);
    client.write(&hidden_later(&table, 1, 1, days_ago(1)));
    let later = seconds_now() + YEAR;
    let mut count = |columns: &str, filter: &str| {
        let text = format!("SELECT {columns} FROM {table} WHERE k = 1{filter}");
        client.scan_with(&text, at(later)).len()
    };
    const FILTER: &str = " AND v = 'stays' ALLOW FILTERING";
    for (columns, filter, rows) in [
        ("*", "", 1),
        ("v", "", 1),
        ("c, v", "", 1),
        ("w", "", 0),
        ("c, w", "", 0),
        ("WRITETIME(w)", "", 0),
        // Without a regular column Cassandra looks at all of them, and a filter needs what it compares.
        ("c", "", 1),
        ("k, c", "", 1),
        ("w", FILTER, 1),
        ("c, w", FILTER, 1),
    ] {
        assert_eq!(count(columns, filter), rows, "{columns}{filter}");
    }
    let mut only = |columns: &str| {
        let text = format!("SELECT {columns} FROM {table} WHERE k = 1");
        let rows = client.scan_with(&text, at(later));
        rows[0][0].clone()
    };
    let long = |number: i64| Some(number.to_be_bytes().to_vec());
    assert_eq!(only("COUNT(*)"), long(1));
    assert_eq!(only("COUNT(c)"), long(1));
    assert_eq!(only("COUNT(*), MAX(w)"), long(0));
    assert_eq!(only("COUNT(w)"), long(0));
    assert_eq!(only("MAX(v)"), Some(b"stays".to_vec()));
}

#[test]
fn cassandra_hides_it_from_reads_of_other_columns() {
    cassandra_hides_it(&single_cluster());
}

#[test]
fn cassandra_4_1_hides_it_from_reads_of_other_columns() {
    cassandra_hides_it(&old_cluster());
}

#[test]
fn reads_of_some_columns_find_the_rows_that_cassandra_finds() {
    const SPARSE: i32 = 1;
    const HIDING: i32 = 2;
    const ROWS: i32 = 100;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V5, 1, &[TABLE]);
    let (table, time) = (world.name("t"), days_ago(2));
    // Each row has one of two columns, so that none is in all of them.
    for key in [SPARSE, HIDING] {
        let text = "x".repeat(1_500);
        let insert = |row: i32| {
            let column = ["v", "w"][row as usize % 2];
            format!(
                "INSERT INTO {table} (k, c, {column}) VALUES ({key}, {row}, '{text}') USING TIMESTAMP {time}"
            )
        };
        world
            .direct
            .write(&(0..ROWS).map(insert).collect::<Vec<_>>());
    }
    world
        .direct
        .write(&hidden_later(&table, HIDING, ROWS, time));
    let proxy = world.splitter().start();
    let control = world.control();
    for key in [SPARSE, HIDING] {
        control.nominate(&world.id(key));
        until_completed(&control, &world.id(key));
    }
    let mut through = Client::connect(proxy.address(), Codec::V5);
    for key in [SPARSE, HIDING] {
        for columns in ["c, v", "c, w", "*", "w", "c", "COUNT(*)"] {
            let text = format!("SELECT {columns} FROM {table} WHERE k = {key}");
            for second in [
                None,
                Some(seconds_now() + TTL / 2),
                Some(seconds_now() + YEAR),
            ] {
                let parameters = || second.map_or_else(Parameters::default, at);
                let expected = world.direct.scan_with(&text, parameters());
                let found = through.scan_with(&text, parameters());
                assert!(found == expected, "{text} at {second:?}");
            }
        }
    }
    // Of the sparse rows nothing is left to the original.
    for columns in ["c, w", "w"] {
        let text = format!("SELECT {columns} FROM {table} WHERE k = {SPARSE}");
        let expected = world.direct.scan(&text);
        until_answered(&proxy, &mut through, &text, &expected);
    }
    // Of the others only the bucket with the hidden row is.
    let uneven = format!("{NOT_REWRITTEN}{{reason=\"{}\"}}", Reason::Uneven.as_str());
    let last = format!(
        "SELECT w FROM {table} WHERE k = {HIDING} AND c >= {}",
        ROWS - 1
    );
    let (before, answered) = (proxy.metric(&uneven), proxy.metric(ANSWERED));
    eventually("it is left to the original", || {
        through.scan(&last);
        (proxy.metric(&uneven) > before).then_some(())
    });
    assert_eq!(proxy.metric(ANSWERED), answered);
    let first = format!("SELECT w FROM {table} WHERE k = {HIDING} AND c < 5");
    let expected = world.direct.scan(&first);
    until_answered(&proxy, &mut through, &first, &expected);
}

/// A second before the copy's own is the original's: the copy has nothing that had expired by then.
#[test]
fn reads_of_an_earlier_second_find_what_has_expired_since() {
    const ROWS: i32 = 100;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V5, 1, &[TABLE]);
    let (table, began) = (world.name("t"), seconds_now());
    world.fill(1, ROWS);
    let time = days_ago(2);
    world.direct.write(&[format!(
        "INSERT INTO {table} (k, c, v) VALUES (1, {ROWS}, 'gone soon') USING TIMESTAMP {time} AND TTL 1"
    )]);
    eventually("it has expired", || {
        (seconds_now() > began + 2).then_some(())
    });
    let proxy = world.splitter().start();
    let control = world.control();
    control.nominate(&world.id(1));
    until_completed(&control, &world.id(1));
    let mut through = Client::connect(proxy.address(), Codec::V5);
    let text = format!("SELECT * FROM {table} WHERE k = 1");
    let now = world.direct.scan(&text);
    assert_eq!(now.len() as i32, ROWS);
    until_answered(&proxy, &mut through, &text, &now);
    let before = world.direct.scan_with(&text, at(began));
    assert_eq!(before.len() as i32, ROWS + 1, "it is still on disk");
    assert!(through.scan_with(&text, at(began)) == before);
}
