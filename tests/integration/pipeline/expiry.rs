//! Rows that end, split by the pipeline: in every second the split has the rows that the original has, with what is left of
//! their lives. The future is asked for, not waited for.

use super::world::{ANSWERED, Client, World, days_ago, until_completed};
use crate::exactness::seconds_now;
use crate::support::cluster::old_cluster;
use crate::support::request::Parameters;
use crate::support::{Cluster, Codec, eventually, single_cluster};

const TABLE: &str = "CREATE TABLE t (k int, c int, v text, w int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)";
const ROWS: i32 = 160;
/// Seconds in which the original is asked alone: clocks may differ by so much, and what has expired may be gone on one side.
const SKEW: i32 = 60;
/// Seconds; the last row ends so long after it was written.
const LONGEST: i32 = 2 * SKEW + ROWS;

/// The writes of a row, each with what its time is more than the row's, its TTL (0: it stays), and what it sets.
fn writes(c: i32) -> Vec<(i64, i32, &'static str)> {
    let ttl = 2 * SKEW + c;
    match c % 8 {
        // An INSERT with a TTL.
        0 => vec![(0, ttl, "marker, v, w")],
        // Kept alive by its marker.
        1 => vec![(0, ttl, "marker"), (0, ttl / 2, "v"), (1, ttl / 3, "w")],
        // Without a marker: it lives as long as its longest cell.
        2 => vec![(0, ttl, "v"), (1, ttl / 2, "w")],
        // Its marker stays.
        3 => vec![(0, 0, "marker"), (1, ttl, "v")],
        // What was written before does not come back.
        4 => vec![(0, 0, "marker, v, w"), (1, ttl, "marker, v, w")],
        // A cell that was written later stays.
        5 => vec![(0, ttl, "marker, v, w"), (1, 0, "v")],
        // Nothing but its key.
        6 => vec![(0, ttl, "marker")],
        _ => vec![(0, 0, "marker, v")],
    }
}

fn statement(table: &str, c: i32, written: i64, write: (i64, i32, &str)) -> String {
    let (later, ttl, what) = write;
    // Large enough that what stays is wide.
    let text = format!("'{later} {}'", "x".repeat(2500));
    let using = format!("USING TIMESTAMP {} AND TTL {ttl}", written + later);
    let insert = |columns: &str, values: &str| {
        format!("INSERT INTO {table} (k, c{columns}) VALUES (1, {c}{values}) {using}")
    };
    let update = |set: &str| format!("UPDATE {table} {using} SET {set} WHERE k = 1 AND c = {c}");
    match what {
        "marker" => insert("", ""),
        "marker, v" => insert(", v", &format!(", {text}")),
        "marker, v, w" => insert(", v, w", &format!(", {text}, {later}")),
        "v" => update(&format!("v = {text}")),
        "w" => update(&format!("w = {later}")),
        other => panic!("{other} is not written"),
    }
}

fn fill(world: &mut World) {
    let (table, written) = (world.name("t"), days_ago(2));
    let of_row = |c: i32| {
        let time = written + 10 * i64::from(c);
        let table = &table;
        writes(c)
            .into_iter()
            .map(move |write| statement(table, c, time, write))
    };
    let statements: Vec<String> = (0..ROWS).flat_map(of_row).collect();
    world.direct.write(&statements);
}

fn ends_in_the_same_seconds(cluster: &Cluster) {
    let mut world = World::create(cluster, Codec::V5, 1, &[TABLE]);
    let proxy = world.splitter().start();
    let mut through = Client::connect(proxy.address(), Codec::V5);
    let (control, id) = (world.control(), world.id(1));
    fill(&mut world);
    control.nominate(&id);
    until_completed(&control, &id);
    let text = format!(
        "SELECT c, v, w, WRITETIME(v), TTL(v), WRITETIME(w), TTL(w) FROM {} WHERE k = 1",
        world.name("t")
    );
    let begin = seconds_now() + SKEW + 2;
    let at = |second: i32| Parameters {
        now_in_seconds: Some(second),
        ..Parameters::default()
    };
    let mut counts = Vec::new();
    for second in begin..=begin + LONGEST - SKEW {
        let original = world.direct.scan_with(&text, at(second));
        eventually("it is read from the split", || {
            let before = proxy.metric(ANSWERED);
            let split = through.scan_with(&text, at(second));
            assert!(original == split, "{} seconds later", second - begin);
            (proxy.metric(ANSWERED) > before).then_some(())
        });
        counts.push(original.len());
    }
    // Rows of three kinds stay, all others end.
    assert_eq!(counts.last(), Some(&(ROWS as usize * 3 / 8)));
    let ended = counts.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(ended > 0, "all had ended before it was split");
}

#[test]
fn original_and_split_end_in_the_same_seconds() {
    ends_in_the_same_seconds(&single_cluster());
}

#[test]
fn original_and_split_end_in_the_same_seconds_on_4_1() {
    ends_in_the_same_seconds(&old_cluster());
}
