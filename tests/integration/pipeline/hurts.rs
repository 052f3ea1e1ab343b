//! What hurts is split, whatever its size: under the default settings, and with nobody's help or by hand.

use std::time::Duration;

use narrows::schema::names::TableName;
use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::found_by::FoundBy;
use narrows::wide_row::state::State;
use narrows::wide_row::store::{Detected, Found, Split, SplitId};

use super::world::{PLAIN, SPLIT_PATIENCE, World, days_ago, until_answered, until_completed};
use crate::exactness::control::Control;
use crate::pipeline::world::Client;
use crate::support::{Codec, eventually_within, single_cluster};

const HOUR_MICROS: i64 = 3_600_000_000;
const HOUR_MILLIS: i64 = 3_600_000;
/// Cassandra's default.
const HINT_WINDOW_MILLIS: i64 = 3 * HOUR_MILLIS;
const DELETIONS: i32 = 50_000;
const DEFAULTS: &str = "";

/// Deletes rows in front of all others, two days ago.
fn delete_before(world: &mut World, key: i32) {
    let (table, written) = (world.name("t"), days_ago(2));
    let delete = |row: i32| {
        format!("DELETE FROM {table} USING TIMESTAMP {written} WHERE k = {key} AND c = -{row}")
    };
    let deletes: Vec<String> = (1..=DELETIONS).map(delete).collect();
    world.direct.write(&deletes);
}

fn until_waiting(control: &Control, id: &SplitId) -> Split {
    eventually_within(SPLIT_PATIENCE, "it waits", || {
        let split = control.split(id)?;
        assert_eq!(split.standing.state, State::Detected, "{:?}", split.reason);
        split.not_before.is_some().then_some(split)
    })
}

#[test]
fn a_small_partition_behind_many_tombstones_is_found_and_split() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]).with_settings(DEFAULTS);
    world.fill(1, 2000);
    delete_before(&mut world, 1);
    let proxy = world.splitter().start();
    let (control, id) = (world.control(), world.id(1));
    let mut through = Client::connect(proxy.address(), Codec::V4);
    // Every read meets the tombstones, so none of the table goes well.
    let text = format!("{} LIMIT 10", world.select(1));
    let split = eventually_within(SPLIT_PATIENCE, "it is found and split", || {
        assert_eq!(through.scan(&text).len(), 10);
        std::thread::sleep(Duration::from_secs(1));
        let split = control.split(&id)?;
        assert!(!split.standing.state.is_end(), "{:?}", split.reason);
        (split.standing.state == State::Completed).then_some(split)
    });
    assert_eq!(split.found_by, Some(FoundBy::Tombstones));
    let bytes = split.pre_split_data.map_or(0, |data| data.byte_count);
    assert!((1 << 20..8 << 20).contains(&bytes), "{bytes} live bytes");
    let text = world.select(1);
    until_answered(&proxy, &mut through, &text, &world.direct.scan(&text));
}

#[test]
fn what_a_person_asks_for_is_split_whatever_its_size_as_soon_as_no_hint_can_come() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]).with_settings(DEFAULTS);
    let now = days_ago(0);
    world.fill(1, 3);
    world.fill_at(2, 3, now);
    world.fill_at(3, 3, now - 4 * HOUR_MICROS);
    let proxy = world.splitter().start();
    let control = world.control();
    let [small, written, quiet] = [1, 2, 3].map(|key| world.id(key));
    control.nominate(&small);
    until_completed(&control, &small);
    // Written just now.
    control.try_nominate(&written);
    let waits = until_waiting(&control, &written);
    let reason = waits.reason.unwrap_or_default();
    assert!(reason.contains("a hint may bring a write"), "{reason}");
    let until = waits.not_before.expect("it waits");
    let closed = now / 1000 + HINT_WINDOW_MILLIS;
    assert!((closed..closed + 1000).contains(&until), "{until}");
    assert_eq!(control.try_nominate(&written), Detected::NotYet);
    // Quiet for longer than hints take, and for less than `quiet_for`: nobody asked, then somebody does.
    let found = Found {
        bytes: None,
        by: Some(FoundBy::Tombstones),
    };
    let store = control.store();
    let detected = control.block_on(store.detect(&quiet, found));
    assert!(matches!(detected, Ok(Detected::New(_))), "{detected:?}");
    let waits = until_waiting(&control, &quiet);
    let reason = waits.reason.unwrap_or_default();
    assert!(reason.contains("counts as closed after"), "{reason}");
    assert!(
        waits
            .not_before
            .is_some_and(|until| until > unix_millis() + HOUR_MILLIS)
    );
    let generation = control.nominate(&quiet);
    assert_eq!(generation.0, waits.standing.generation.0 + 1);
    let split = until_completed(&control, &quiet);
    assert_eq!((split.found_by, split.reason), (Some(FoundBy::Hand), None));
    let mut through = Client::connect(proxy.address(), Codec::V4);
    for key in [1, 3] {
        let text = world.select(key);
        until_answered(&proxy, &mut through, &text, &world.direct.scan(&text));
    }
}

#[test]
fn what_was_only_taken_for_wide_is_split_when_it_turns_out_to_hurt() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]).with_settings(DEFAULTS);
    world.fill(1, 3);
    let _worker = world.splitter().worker().start();
    let (control, id) = (world.control(), world.id(1));
    let store = control.store();
    let detect = |by: FoundBy| {
        let by = Some(by);
        let found = Found { bytes: None, by };
        control
            .block_on(store.detect(&id, found))
            .expect("answered")
    };
    assert!(matches!(detect(FoundBy::Long), Detected::New(_)));
    eventually_within(SPLIT_PATIENCE, "it is measured", || {
        let state = control.standing(&id)?.state;
        (state == State::NotWide).then_some(())
    });
    assert_eq!(detect(FoundBy::Size), Detected::NotYet);
    assert!(matches!(detect(FoundBy::Tombstones), Detected::New(_)));
    until_completed(&control, &id);
}

/// A table as in Netflix' article: the time in its key is the number of a bucket.
#[test]
fn integer_time_buckets_close_by_their_unit() {
    const DAYS: &str =
        "CREATE TABLE days (k int, day int, c int, v text, PRIMARY KEY ((k, day), c))";
    let settings = "time_bucket_column = 'day'\ntime_bucket_unit = 'days'\ntime_bucket_width = '1d'\naccept_limit = '1h'\n\
        wide_bytes = '1KiB'\ntarget_bytes = '1KiB'\n";
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[DAYS]).with_settings(settings);
    let today = (unix_millis() / (24 * HOUR_MILLIS)) as i32;
    let table = world.name("days");
    let id = |day: i32| {
        let key: [&[u8]; 2] = [&1_i32.to_be_bytes(), &day.to_be_bytes()];
        Control::id(TableName::new(&world.keyspace.name, "days"), &key)
    };
    let (past, present) = (id(today - 2), id(today));
    for day in [today - 2, today] {
        let insert = |c: i32| {
            let text = "x".repeat(900);
            format!("INSERT INTO {table} (k, day, c, v) VALUES (1, {day}, {c}, '{text}')")
        };
        let inserts: Vec<String> = (0..5).map(insert).collect();
        world.direct.write(&inserts);
    }
    let _worker = world.splitter().worker().start();
    let control = world.control();
    let store = control.store();
    for id in [&past, &present] {
        let found = Found {
            bytes: None,
            by: Some(FoundBy::Size),
        };
        let detected = control.block_on(store.detect(id, found));
        assert!(matches!(detected, Ok(Detected::New(_))), "{detected:?}");
    }
    // Both were written just now.
    until_completed(&control, &past);
    until_waiting(&control, &present);
}
