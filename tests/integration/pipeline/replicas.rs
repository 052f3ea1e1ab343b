//! Replicas that miss writes: a split has every row, cell and deletion that any of them has, on all of its own replicas.
//!
//! A node that was away while others took a write at ONE, and got no hint of it, does not have it. Nor has one that became
//! a replica only afterwards; that is what is done here, since no other test needs to wait for a node.

use super::world::{Client, World, days_ago, replication, until_answered, until_completed};
use crate::exactness::wire::{ALL, Row};
use crate::support::request::{ONE, Parameters};
use crate::support::{Codec, cluster};

/// Nothing repairs it behind our back, not even our reads.
const UNREPAIRED: &str = "CREATE TABLE t (k int, c int, v text, w int, PRIMARY KEY (k, c)) WITH read_repair = 'NONE' \
    AND speculative_retry = 'NEVER'";
const ROWS: i32 = 400;
const COLUMNS: &str = "c, v, w, WRITETIME(v), WRITETIME(w)";

/// Rows, cells and deletions that only the nodes have that are replicas at the time; other ones each time.
fn write_more(world: &mut World, number: i32) {
    let (table, written) = (world.name("t"), days_ago(1));
    let text = "y".repeat(900);
    let mut writes = Vec::new();
    for row in (number..ROWS).step_by(10) {
        let (new, kept, gone) = (ROWS + row, row, row + 4);
        writes.push(format!(
            "INSERT INTO {table} (k, c, v) VALUES (1, {new}, '{new} {text}') USING TIMESTAMP {written}"
        ));
        writes.push(format!(
            "UPDATE {table} USING TIMESTAMP {written} SET w = {row} WHERE k = 1 AND c = {kept}"
        ));
        writes.push(match row % 20 < 10 {
            true => {
                format!("DELETE FROM {table} USING TIMESTAMP {written} WHERE k = 1 AND c = {gone}")
            }
            false => format!(
                "DELETE v FROM {table} USING TIMESTAMP {written} WHERE k = 1 AND c = {gone}"
            ),
        });
    }
    world.direct.write(&writes);
}

fn at(consistency: u16) -> Parameters {
    Parameters {
        consistency: Some(consistency),
        ..Parameters::default()
    }
}

#[test]
fn a_copy_has_what_only_some_replicas_of_the_original_have() {
    let cluster = cluster();
    let mut world = World::create(&cluster, Codec::V4, 3, &[UNREPAIRED]);
    world.fill(1, ROWS);
    let replicate = |world: &World, replicas: usize| {
        let (name, of) = (&world.keyspace.name, replication(replicas));
        let alter = format!("ALTER KEYSPACE {name} WITH replication = {{{of}}}");
        world.keyspace.run(&[&alter]);
    };
    for replicas in [2, 1] {
        replicate(&world, replicas);
        write_more(&mut world, replicas as i32);
    }
    replicate(&world, 3);
    let text = format!("SELECT {COLUMNS} FROM {} WHERE k = 1", world.name("t"));
    let expected = world.direct.scan_with(&text, at(ALL));
    assert_eq!(expected.len() as i32, ROWS + ROWS / 5 - ROWS / 10);
    let nodes = cluster.nodes().iter();
    let mut nodes: Vec<Client> = nodes
        .map(|node| Client::connect(*node, Codec::V4))
        .collect();
    let on_each = |nodes: &mut [Client], text: &str| -> Vec<Vec<Row>> {
        let nodes = nodes.iter_mut();
        nodes.map(|node| node.scan_with(text, at(ONE))).collect()
    };
    let originals = on_each(&mut nodes, &text);
    assert!(
        originals.iter().any(|rows| *rows != expected),
        "none misses a write"
    );
    let proxy = world.splitter().start();
    let (control, id) = (world.control(), world.id(1));
    control.nominate(&id);
    let split = until_completed(&control, &id);
    let data = split.post_split_data.expect("is completed");
    assert_eq!(data.row_count, expected.len() as i64);
    let mut copies = vec![Vec::new(); nodes.len()];
    for bucket in 0..data.target_event_buckets {
        let generation = split.standing.generation;
        let text = format!(
            "SELECT {COLUMNS} FROM {} WHERE k = 1 AND narrows_generation = {generation} AND narrows_bucket = {bucket}",
            world.name(&data.split_table)
        );
        for (copy, rows) in copies.iter_mut().zip(on_each(&mut nodes, &text)) {
            copy.extend(rows);
        }
    }
    for copy in copies {
        assert!(copy == expected, "a replica of the split misses something");
    }
    let mut through = Client::connect(proxy.address(), Codec::V4);
    until_answered(&proxy, &mut through, &text, &expected);
    let originals = on_each(&mut nodes, &text);
    assert!(
        originals.iter().any(|rows| *rows != expected),
        "somebody repaired it"
    );
}
