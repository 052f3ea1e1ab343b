//! Several workers on the same partitions: each split is made once, also when one of them sleeps through its lease.

use narrows::watched::Mode;
use narrows::wide_row::state::State;

use super::world::{
    COPIED_ROWS, Client, PLAIN, SPLIT_PATIENCE, TAKEOVERS, World, until_answered, until_completed,
};
use crate::support::{Codec, Proxy, eventually, eventually_within, single_cluster};

const PARTITIONS: i32 = 12;
/// So slow that both are at work at the same time.
const BYTES_PER_SECOND: (&str, &str) = ("pipeline.bytes_per_second", "1MiB");

/// How often a state was reached, by whomever.
fn reached(workers: &[&Proxy], state: State) -> u64 {
    let series = format!(
        "narrows_pipeline_transitions_total{{state=\"{}\"}}",
        state.as_str()
    );
    workers.iter().map(|worker| worker.metric(&series)).sum()
}

/// A state is counted a moment after it is seen by others; one that is reached too often never comes to this.
fn reached_once_each(workers: &[&Proxy], splits: i32) {
    for state in [
        State::Planned,
        State::Copying,
        State::Verifying,
        State::Completed,
    ] {
        eventually("each split came to its states once", || {
            (reached(workers, state) == splits as u64).then_some(())
        });
    }
}

#[test]
fn two_workers_on_the_same_partitions_make_each_split_once() {
    const ROWS: i32 = 300;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    for key in 0..PARTITIONS {
        world.fill(key, ROWS);
    }
    let slow = || {
        let splitter = world.splitter().set(BYTES_PER_SECOND.0, BYTES_PER_SECOND.1);
        // Nobody is killed here, so that a lease may outlast every pause of a busy machine.
        let splitter = splitter.set("pipeline.lease", "60s");
        splitter.set("pipeline.splits_at_a_time", "4")
    };
    let (proxy, worker) = (slow().start(), slow().worker().start());
    let control = world.control();
    let keys = (0..PARTITIONS).map(|key| (key, world.id(key)));
    let nominated: Vec<_> = keys
        .map(|(key, id)| (key, control.nominate(&id), id))
        .collect();
    for (key, generation, id) in &nominated {
        let split = until_completed(&control, id);
        assert_eq!(split.standing.generation, *generation, "{key}");
        let rows = split.post_split_data.map(|data| data.row_count);
        assert_eq!(rows, Some(ROWS.into()), "{key}");
    }
    let both = [&proxy, &worker];
    reached_once_each(&both, PARTITIONS);
    let each = both.map(|one| reached(&[one], State::Completed));
    assert!(each.iter().all(|count| *count > 0), "{each:?}");
    let copied: u64 = both.iter().map(|one| one.metric(COPIED_ROWS)).sum();
    assert!(copied >= (PARTITIONS * ROWS) as u64, "{copied}");
    // Who lost a lease on a busy machine has copied for nothing.
    if both.iter().all(|one| one.metric(TAKEOVERS) == 0) {
        assert_eq!(copied, (PARTITIONS * ROWS) as u64, "copied twice");
    }
    let mut through = Client::connect(proxy.address(), Codec::V4);
    for key in 0..PARTITIONS {
        let text = world.select(key);
        let expected = world.direct.scan(&text);
        until_answered(&proxy, &mut through, &text, &expected);
    }
}

#[test]
fn a_worker_that_sleeps_through_its_lease_loses_its_split_to_another() {
    const ROWS: i32 = 3000;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    world.fill(1, ROWS);
    let text = world.select(1);
    let expected = world.direct.scan(&text);
    let slow = || world.splitter().set(BYTES_PER_SECOND.0, BYTES_PER_SECOND.1);
    let sleeper = slow().worker().start();
    let (control, id) = (world.control(), world.id(1));
    let generation = control.nominate(&id);
    let copies = || {
        let split = control.split(&id)?;
        let copying = split.standing.state == State::Copying;
        let progress = split.progress.filter(|progress| progress.row_count > 0)?;
        (copying && progress.state == State::Copying).then_some(())
    };
    eventually_within(SPLIT_PATIENCE, "it copies", copies);
    sleeper.signal("STOP");
    // What it had sent before may arrive until its lease is over.
    let left = eventually("its lease is over", || {
        control.split(&id).filter(|split| split.lease.is_none())
    });
    assert_eq!(left.standing.state, State::Copying, "it was too quick");
    let saved = left.progress.map_or(0, |progress| progress.row_count);
    // Its own lease is long: on a busy machine it would lose it while nobody sleeps.
    let other = slow().set("pipeline.lease", "60s").start();
    eventually_within(SPLIT_PATIENCE, "another has taken it over", || {
        control.split(&id)?.lease
    });
    sleeper.signal("CONT");
    let split = until_completed(&control, &id);
    assert_eq!(split.standing.generation, generation);
    let rows = split.post_split_data.map(|data| data.row_count);
    assert_eq!(rows, Some(ROWS.into()));
    reached_once_each(&[&sleeper, &other], 1);
    assert_eq!(reached(&[&other], State::Completed), 1);
    assert_eq!(other.metric(TAKEOVERS), 1);
    // It went on where the last checkpoint was.
    assert_eq!(other.metric(COPIED_ROWS), (i64::from(ROWS) - saved) as u64);
    let mut through = Client::connect(other.address(), Codec::V4);
    until_answered(&other, &mut through, &text, &expected);
    // The other one is awake, knows that it has lost, and works on what is there.
    drop(other);
    world.fill(2, 100);
    control.nominate(&world.id(2));
    until_completed(&control, &world.id(2));
    eventually("it has made the next one", || {
        (reached(&[&sleeper], State::Completed) == 1).then_some(())
    });
}

#[test]
fn guards_wait_beside_the_one_split_that_is_worked_on() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    for key in 0..3 {
        world.fill(key, 100);
    }
    // Longer than the test looks.
    let settles = world.splitter().set("pipeline.settle", "10m");
    let settles = settles.set("pipeline.splits_at_a_time", "1");
    let worker = settles.worker().start();
    let (control, ids) = (world.control(), [0, 1, 2].map(|key| world.id(key)));
    for id in &ids {
        control.nominate(id);
    }
    eventually_within(SPLIT_PATIENCE, "all three are guarded at a time", || {
        let state = |id| control.split(id).map(|split| split.standing.state);
        (ids.each_ref().map(state) == [Some(State::Guarded); 3]).then_some(())
    });
    eventually("the metrics say so, too", || {
        let guarded = "state=\"GUARDED\"";
        let splits = worker.metric_sum("narrows_pipeline_splits", guarded);
        let since = worker.metric_sum("narrows_pipeline_oldest_seconds", guarded);
        (splits == 3 && since > 0).then_some(())
    });
}

/// A table that is not worked on has splits all the same, and one that is no longer watched has none.
#[test]
fn the_number_of_splits_is_right_whether_they_are_worked_on_or_not() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    for key in 0..2 {
        world.fill(key, 100);
    }
    let worker = world.splitter().worker().start();
    let (control, ids) = (world.control(), [0, 1].map(|key| world.id(key)));
    let splits = |state: &str| {
        let label = format!("state=\"{state}\"");
        worker.metric_sum("narrows_pipeline_splits", &label)
    };
    control.nominate(&ids[0]);
    until_completed(&control, &ids[0]);
    eventually("one is counted", || {
        (splits("COMPLETED") == 1).then_some(())
    });
    for (is_paused, mode) in [(true, Mode::Serve), (false, Mode::Detect)] {
        control.set_paused(&ids[0].table, is_paused);
        control.set_mode(&ids[0].table, mode);
        control.nominate(&ids[1]);
        eventually("the new one is counted, too", || {
            (splits("DETECTED") == 1 && splits("COMPLETED") == 1).then_some(())
        });
        control.set_paused(&ids[0].table, false);
        control.set_mode(&ids[0].table, Mode::Serve);
        let made = until_completed(&control, &ids[1]);
        assert!(control.invalidate(&ids[1], made.standing.generation));
        eventually("it is counted where it is", || {
            (splits("INVALIDATED") == 1 && splits("DETECTED") == 0).then_some(())
        });
    }
    world.direct.write(&[format!(
        "DELETE FROM {}.watched_table WHERE catalog = 'watched' AND keyspace_name = '{}' AND table_name = 't' IF EXISTS",
        world.control_keyspace.name, world.keyspace.name
    )]);
    eventually("none is left", || {
        (splits("COMPLETED") == 0 && splits("INVALIDATED") == 0).then_some(())
    });
}

#[test]
fn a_worker_that_holds_back_splits_too() {
    const ROWS: i32 = 300;
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    for key in 0..2 {
        world.fill(key, ROWS);
    }
    // As it is by default; two at a time share one turn.
    let polite = world.splitter().set("pipeline.throttle", "true");
    let polite = polite.set("pipeline.splits_at_a_time", "2");
    let _worker = polite.worker().start();
    let (control, ids) = (world.control(), [0, 1].map(|key| world.id(key)));
    for id in &ids {
        control.nominate(id);
    }
    for id in &ids {
        let split = until_completed(&control, id);
        let rows = split.post_split_data.map(|data| data.row_count);
        assert_eq!(rows, Some(ROWS.into()));
    }
}
