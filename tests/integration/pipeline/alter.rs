//! An original that is altered is split again by itself into another table, and read right all the while.

use narrows::wide_row::layout::LayoutId;

use super::world::{
    Client, PLAIN, World, days_ago, split_after_change, until_answered, until_completed,
};
use crate::support::{Codec, eventually, single_cluster};

const KEY: i32 = 1;
const ROWS: i32 = 150;

#[test]
fn after_an_alter_the_next_generation_goes_to_the_next_table() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    world.fill(KEY, ROWS);
    let proxy = world.splitter().expecting("the table was changed").start();
    let control = world.control();
    let id = world.id(KEY);
    let first = control.nominate(&id);
    until_completed(&control, &id);
    let mut through = Client::connect(proxy.address(), Codec::V4);
    let before = world.select(KEY);
    let expected = world.direct.scan(&before);
    until_answered(&proxy, &mut through, &before, &expected);

    let table = world.name("t");
    world
        .keyspace
        .run(&[&format!("ALTER TABLE {table} ADD w int")]);
    eventually("it is out of service", || {
        let standing = control.standing(&id)?;
        (standing.row_epoch != standing.epoch).then_some(())
    });
    let written = days_ago(2);
    let update = |row: i32| {
        format!(
            "UPDATE {table} USING TIMESTAMP {written} SET w = {row} WHERE k = {KEY} AND c = {row}"
        )
    };
    world
        .direct
        .write(&(0..ROWS).step_by(3).map(update).collect::<Vec<_>>());
    let after = format!("SELECT c, v, w, WRITETIME(w) FROM {table} WHERE k = {KEY}");
    let altered = world.direct.scan(&after);
    assert!(through.scan(&after) == altered, "from the original");

    // The scan above may have nominated it, too.
    let second = split_after_change(&control, &id);
    assert!(second > first);
    until_answered(&proxy, &mut through, &after, &altered);
    until_answered(&proxy, &mut through, &before, &expected);
    let split_table = |generation| {
        let (table, key) = (id.table.clone(), id.key.clone());
        let layout = control.layout(&LayoutId {
            table,
            key,
            generation,
        });
        layout.map(|layout| layout.split_table)
    };
    let tables = [first, second].map(split_table);
    assert_eq!(
        tables,
        [Some("wide_t_1".to_owned()), Some("wide_t_2".to_owned())]
    );
}
