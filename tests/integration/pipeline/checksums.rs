//! The record of a split has one checksum for both sides, also where the original changed after the plan.

use narrows::wide_row::state::State;

use super::world::{PLAIN, World, days_ago, until_completed};
use crate::support::{Codec, single_cluster};

const KEY: i32 = 1;
const ROWS: i32 = 200;

#[test]
fn a_write_between_plan_and_guard_is_in_both_checksums() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    world.fill(KEY, ROWS);
    let mut failing = world.splitter().failing_at("guard.before").start();
    let (control, id) = (world.control(), world.id(KEY));
    control.nominate(&id);
    assert!(!failing.wait_for_exit().success());
    drop(failing);
    let planned = control.split(&id).expect("was nominated");
    assert_eq!(planned.standing.state, State::Planned);
    let plan = planned.pre_split_data.expect("was planned");
    assert_eq!(plan.row_count, i64::from(ROWS));
    assert!(plan.checksum.is_empty(), "there is nothing to compare yet");

    let (table, written) = (world.name("t"), days_ago(2));
    world.direct.write(&[format!(
        "INSERT INTO {table} (k, c, v) VALUES ({KEY}, {ROWS}, 'later') USING TIMESTAMP {written}"
    )]);
    let _next = world.splitter().worker().start();
    let split = until_completed(&control, &id);
    let (original, copy) = (split.pre_split_data, split.post_split_data);
    let (original, copy) = (original.expect("is kept"), copy.expect("is completed"));
    assert_eq!(original.checksum, copy.checksum);
    assert_eq!(original.row_count, i64::from(ROWS) + 1);
    assert_eq!(original.row_count, copy.row_count);
    assert_eq!(original.byte_count, plan.byte_count, "as planned");
}
