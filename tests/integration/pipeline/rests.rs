//! Work that people interrupt: a worker told to stop, and a table that is paused.

use narrows::wide_row::state::State;

use super::world::{COPIED_ROWS, PLAIN, SERIES, SPLIT_PATIENCE, TAKEOVERS, World, until_completed};
use crate::support::{Codec, eventually_within, single_cluster};

#[test]
fn a_worker_told_to_stop_leaves_its_checkpoint_and_its_lease() {
    const ROWS: i32 = 3000;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    world.fill(1, ROWS);
    let slow = world.splitter().set("pipeline.bytes_per_second", "1MiB");
    // What is free soon after it was given back, not for having expired.
    let mut worker = slow.set("pipeline.lease", "1h").worker().start();
    let (control, id) = (world.control(), world.id(1));
    let generation = control.nominate(&id);
    eventually_within(SPLIT_PATIENCE, "it copies", || {
        let split = control.split(&id)?;
        let progress = split.progress.filter(|progress| progress.row_count > 0)?;
        (progress.state == State::Copying).then_some(())
    });
    worker.terminate();
    let status = worker.wait_for_exit();
    assert!(status.success(), "{status}");
    let left = control.split(&id).expect("was nominated");
    assert_eq!((left.standing.state, left.lease), (State::Copying, None));
    let saved = left.progress.map_or(0, |progress| progress.row_count);
    assert!((1..i64::from(ROWS)).contains(&saved), "{saved}");
    let next = world.splitter().worker().start();
    let split = until_completed(&control, &id);
    assert_eq!(split.standing.generation, generation);
    if next.metric(TAKEOVERS) == 1 {
        assert_eq!(next.metric(COPIED_ROWS), (i64::from(ROWS) - saved) as u64);
    }
}

#[test]
fn a_paused_table_rests_until_it_goes_on() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN, SERIES]);
    world.fill(1, 100);
    world.fill_series(3, 100);
    let proxy = world.proxy().start();
    let (control, id, other) = (world.control(), world.id(1), world.series_id(3));
    control.set_paused(&id.table, true);
    drop(proxy);
    let _worker = world.splitter().worker().start();
    control.nominate(&id);
    control.nominate(&other);
    until_completed(&control, &other);
    let state = control.standing(&id).map(|standing| standing.state);
    assert_eq!(state, Some(State::Detected), "it was nominated first");
    control.set_paused(&id.table, false);
    until_completed(&control, &id);
}
