//! Partitions that are still written to: recognised at their first young cell, looked at ever more rarely, and in nobody's
//! way.

use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::found_by::FoundBy;
use narrows::wide_row::state::State;
use narrows::wide_row::store::{Detected, Found, Split, SplitId};

use super::world::{PLAIN, SPLIT_PATIENCE, World, days_ago, until_completed};
use crate::exactness::control::Control;
use crate::support::{Codec, Proxy, eventually_within, single_cluster};

const HOUR_MILLIS: i64 = 3_600_000;
const ROWS: i32 = 3000;
const SENT: &str = "narrows_upstream_pool_requests_total";

fn detect(control: &Control, id: &SplitId) {
    let found = Found {
        bytes: None,
        by: Some(FoundBy::Size),
    };
    let detected = control.block_on(control.store().detect(id, found));
    assert!(matches!(detected, Ok(Detected::New(_))), "{detected:?}");
}

fn until_waiting(control: &Control, id: &SplitId) -> Split {
    eventually_within(SPLIT_PATIENCE, "it waits", || {
        let split = control.split(id)?;
        assert_eq!(split.standing.state, State::Detected, "{:?}", split.reason);
        let is_later = |time: i64| time > unix_millis();
        split.not_before.is_some_and(is_later).then_some(split)
    })
}

fn sent(worker: &Proxy) -> u64 {
    worker.metric_sum(SENT, "")
}

#[test]
fn open_partitions_are_not_read_whole_and_not_in_the_way() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    // Rows are appended: the young one is the last of all. In the second, it is the first.
    for (key, young) in [(1, ROWS), (2, -1)] {
        world.fill(key, ROWS);
        let insert = format!(
            "INSERT INTO {} (k, c, v) VALUES ({key}, {young}, 'young') USING TIMESTAMP {}",
            world.name("t"),
            days_ago(0)
        );
        world.direct.write(&[insert]);
    }
    world.fill(3, 100);
    let worker = world.splitter().worker().start();
    let control = world.control();
    let (appended, prepended, closed) = (world.id(1), world.id(2), world.id(3));
    let mut before = sent(&worker);
    for (id, requests) in [(&appended, 1), (&prepended, 2)] {
        detect(&control, id);
        let waits = until_waiting(&control, id);
        assert_eq!((waits.progress, waits.pre_split_data), (None, None));
        let until = waits.not_before.expect("it waits") - unix_millis();
        let hours = until as f64 / HOUR_MILLIS as f64;
        assert!((5.9..=6.0).contains(&hours), "{hours} hours");
        let now = sent(&worker);
        // PREPAREs are not counted.
        assert!(now - before <= requests, "{} requests", now - before);
        before = now;
    }
    detect(&control, &closed);
    until_completed(&control, &closed);
    // A day later it is looked at again, and then after a day.
    drop(worker);
    let yesterday = unix_millis() - 24 * HOUR_MILLIS;
    world.set(
        &appended,
        &format!("not_before = 1000, detected_at = {yesterday}"),
    );
    let worker = world.splitter().worker().start();
    let waits = until_waiting(&control, &appended);
    let until = waits.not_before.expect("it waits") - unix_millis();
    let hours = until as f64 / HOUR_MILLIS as f64;
    assert!((23.9..24.1).contains(&hours), "{hours} hours");
    assert!(sent(&worker) <= 1, "{} requests", sent(&worker));
}
