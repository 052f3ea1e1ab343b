//! Rows whose marker expires before one of their cells: Cassandra hides them from reads of other columns, and a copy, which
//! has no such marker, must not show them.

use narrows::rewrite::Reason;

use super::world::{ANSWERED, Client, World, days_ago, until_answered, until_completed};
use crate::exactness::seconds_now;
use crate::support::cluster::old_cluster;
use crate::support::request::Parameters;
use crate::support::{Cluster, Codec, Keyspace, Proxy, eventually, single_cluster};

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
fn hidden_later(table: &str, key: i32, row: i32, (time, ttl): (i64, i32)) -> [String; 2] {
    let before = time - 1;
    [
        format!(
            "UPDATE {table} USING TIMESTAMP {before} SET v = 'stays' WHERE k = {key} AND c = {row}"
        ),
        format!(
            "INSERT INTO {table} (k, c) VALUES ({key}, {row}) USING TIMESTAMP {time} AND TTL {ttl}"
        ),
    ]
}

/// Splits the first partition; returns a proxy and a client of it.
fn split(world: &World) -> (Proxy, Client) {
    let proxy = world.splitter().start();
    let control = world.control();
    control.nominate(&world.id(1));
    until_completed(&control, &world.id(1));
    let through = Client::connect(proxy.address(), Codec::V5);
    (proxy, through)
}

/// What `rewrite::queried` knows of Cassandra: by which columns a SELECT finds such a row.
fn cassandra_hides_it(cluster: &Cluster) {
    let keyspace = Keyspace::create(cluster, &[TABLE]);
    let table = format!("{}.t", keyspace.name);
    let mut client = Client::connect(cluster.node(), Codec::V5);
    client.write(&hidden_later(&table, 1, 1, (days_ago(1), TTL)));
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
    const ROWS: i32 = 100;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V5, 1, &[TABLE]);
    let (table, time) = (world.name("t"), days_ago(2));
    let flush = || cluster.nodetool(&["flush", &world.keyspace.name, "t"]);
    // Each row has one of two columns, so that none is in all of them.
    let text = "x".repeat(1_500);
    let insert = |row: i32| {
        let column = ["v", "w"][row as usize % 2];
        format!(
            "INSERT INTO {table} (k, c, {column}) VALUES (1, {row}, '{text}') USING TIMESTAMP {time}"
        )
    };
    let inserts: Vec<String> = (0..ROWS).map(insert).collect();
    world.direct.write(&inserts);
    let hidden = hidden_later(&table, 1, ROWS, (time, TTL));
    world.direct.write(&hidden);
    // This one is found as long as its cell and its marker, which has expired, are in two files.
    let [cell, marker] = hidden_later(&table, 1, ROWS + 1, (time, 1));
    world.direct.write(&[cell]);
    flush();
    world.direct.write(&[marker]);
    flush();
    let began = seconds_now();
    eventually("the marker has expired", || {
        (seconds_now() > began + 1).then_some(())
    });
    let (proxy, mut through) = split(&world);
    let one = format!("SELECT w FROM {table} WHERE k = 1 AND c = 1");
    let expected = world.direct.scan(&one);
    until_answered(&proxy, &mut through, &one, &expected);

    let mut compare = |direct: &mut Client| {
        for columns in [
            "c, v",
            "c, w",
            "*",
            "w",
            "c",
            "COUNT(*)",
            "COUNT(*), MAX(w)",
        ] {
            for rows in [
                "",
                " AND c = 100",
                " AND c = 101",
                " AND c > 98",
                " AND c IN (1, 101)",
            ] {
                let text = format!("SELECT {columns} FROM {table} WHERE k = 1{rows}");
                for second in [None, Some(began + TTL / 2), Some(began + YEAR)] {
                    let parameters = || second.map_or_else(Parameters::default, at);
                    let expected = direct.scan_with(&text, parameters());
                    let found = through.scan_with(&text, parameters());
                    assert!(found == expected, "{text} at {second:?}");
                }
            }
        }
    };
    let text = format!("SELECT w FROM {table} WHERE k = 1 AND c > {ROWS}");
    let before = world.direct.scan(&text).len();
    compare(&mut world.direct);
    cluster.nodetool(&["compact", &world.keyspace.name, "t"]);
    let after = world.direct.scan(&text).len();
    assert_eq!(
        (before, after),
        (1, 0),
        "Cassandra hides it when the files are one"
    );
    compare(&mut world.direct);
    assert!(proxy.metric(ANSWERED) > 100);

    // A row with a value is certain; at one without, the original answers.
    let uneven = format!("{NOT_REWRITTEN}{{reason=\"{}\"}}", Reason::Uneven.as_str());
    let (before, answered) = (proxy.metric(&uneven), proxy.metric(ANSWERED));
    let none = format!("SELECT w FROM {table} WHERE k = 1 AND c = 2");
    eventually("it is left to the original", || {
        through.scan(&none);
        (proxy.metric(&uneven) > before).then_some(())
    });
    assert_eq!(proxy.metric(ANSWERED), answered);
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
    let (proxy, mut through) = split(&world);
    let text = format!("SELECT * FROM {table} WHERE k = 1");
    let now = world.direct.scan(&text);
    assert_eq!(now.len() as i32, ROWS);
    until_answered(&proxy, &mut through, &text, &now);
    let before = world.direct.scan_with(&text, at(began));
    assert_eq!(before.len() as i32, ROWS + 1, "it is still on disk");
    assert!(through.scan_with(&text, at(began)) == before);
}
