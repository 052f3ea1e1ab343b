//! A worker whose clock is off: it would copy and compare as of another second, so it says so and does not work.

use narrows::wide_row::state::State;

use super::world::{PLAIN, World, until_completed};
use crate::support::{Codec, eventually, single_cluster};

const OFF: &str = "this machine's clock is";

#[test]
fn a_worker_whose_clock_is_off_says_so_and_splits_nothing() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    let keys = [1, 2];
    for key in keys {
        world.fill(key, 100);
    }
    // It knows the tables, and leaves the work to others.
    let _proxy = world.proxy().start();
    let control = world.control();
    for (key, seconds, way) in [(1, 90, "ahead of"), (2, -90, "behind")] {
        let id = world.id(key);
        let worker = world.splitter().worker().with_clock_off_by(seconds);
        let worker = worker.expecting(OFF).start();
        control.nominate(&id);
        eventually("it says so", || {
            let log = worker.log();
            let told = |line: &str| line.contains(OFF) && line.contains(way);
            log.lines().any(told).then_some(())
        });
        let standing = control.standing(&id).expect("nominated");
        assert_eq!(standing.state, State::Detected, "{seconds} s");
    }
    let _worker = world.splitter().worker().start();
    for key in keys {
        until_completed(&control, &world.id(key));
    }
}
