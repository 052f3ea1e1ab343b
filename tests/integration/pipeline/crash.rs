//! A worker that is killed at any named place leaves nothing that the next one cannot go on from, and nothing unverified in
//! service. All come to the copy that one makes whom nobody kills.

use narrows::wide_row::state::State;

use super::world::{Client, PLAIN, World, until_answered, until_completed};
use crate::support::{Codec, cluster};

const PLACES: [&str; 10] = [
    "plan.page",
    "plan.layout",
    "plan.split_table",
    "guard.before",
    "guard.published",
    "copy.before",
    "copy.page:2",
    "copy.after",
    "verify.before",
    "verify.after",
];
const KEY: i32 = 1;
const ROWS: i32 = 600;

#[test]
fn a_worker_killed_anywhere_is_gone_on_from() {
    let cluster = cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    world.fill(KEY, ROWS);
    let text = world.select(KEY);
    let expected = world.direct.scan(&text);
    assert_eq!(expected.len(), ROWS as usize);
    let worker = world.splitter().worker().start();
    let (control, id) = (world.control(), world.id(KEY));
    let mut generation = control.nominate(&id);
    let undisturbed = until_completed(&control, &id);
    drop(worker);
    for place in PLACES {
        assert!(control.invalidate(&id, generation), "was in service");
        let mut failing = world.splitter().failing_at(place).start();
        generation = control.nominate(&id);
        let status = failing.wait_for_exit();
        assert!(!status.success(), "{place}: {status}");
        drop(failing);
        let standing = control.standing(&id).expect("was nominated");
        assert_ne!(standing.state, State::Completed, "{place}");
        let next = world.splitter().start();
        let mut through = Client::connect(next.address(), Codec::V4);
        until_answered(&next, &mut through, &text, &expected);
        let split = until_completed(&control, &id);
        assert_eq!(split.standing.generation, generation, "{place}");
        assert_eq!(split.pre_split_data, undisturbed.pre_split_data, "{place}");
        assert_eq!(
            split.post_split_data, undisturbed.post_split_data,
            "{place}"
        );
    }
}
