//! Splits in service are compared again and again, and one that was written around the proxies is found.

use narrows::pipeline::audit::due;
use narrows::watched::Mode;
use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::state::State;
use tokio::runtime::Builder;

use super::world::{
    Client, PLAIN, SPLIT_PATIENCE, World, days_ago, split_after_change, until_answered,
    until_completed,
};
use crate::exactness::control::{Control, SHARDS};
use crate::support::{Codec, eventually_within, single_cluster};

const ROWS: i32 = 150;
const WRITTEN: i32 = 1;
const LEFT_ALONE: i32 = 2;
const EQUAL: &str = "narrows_pipeline_audits_total{outcome=\"equal\"}";
const DIFFERS: &str = "narrows_pipeline_audits_total{outcome=\"differs\"}";

/// How many splits are to be compared at this time.
fn count_due(world: &World, control: &Control, now: i64) -> usize {
    let runtime = Builder::new_current_thread().enable_all().build();
    let (store, table) = (control.store(), world.id(WRITTEN).table);
    let found = due(&store, &table, SHARDS, now);
    let found = runtime.expect("a runtime").block_on(found);
    found.expect("readable").len()
}

#[test]
fn a_write_around_the_proxies_is_found_and_no_split_of_the_table_served_any_more() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V5, 1, &[PLAIN]);
    let keys = [WRITTEN, LEFT_ALONE];
    keys.iter().for_each(|key| world.fill(*key, ROWS));
    let proxy = world
        .splitter()
        .set("pipeline.audit_every", "2s")
        .expecting("a split differs from its original")
        .start();
    let control = world.control();
    let ids = keys.map(|key| world.id(key));
    for id in &ids {
        control.nominate(id);
        // The first comparison waits for the hint window.
        let split = until_completed(&control, id);
        assert!(split.not_before > Some(unix_millis() + 60_000));
    }
    assert_eq!(count_due(&world, &control, unix_millis()), 0);
    assert_eq!(
        count_due(&world, &control, unix_millis() + 365 * 86_400_000),
        2
    );
    world.make_due(&ids[0]);
    eventually_within(SPLIT_PATIENCE, "it is compared again and again", || {
        (proxy.metric(EQUAL) >= 2).then_some(())
    });
    let mut through = Client::connect(proxy.address(), Codec::V5);
    let text = world.select(WRITTEN);
    let before = world.direct.scan(&text);
    until_answered(&proxy, &mut through, &text, &before);

    let table = world.name("t");
    world.direct.write(&[format!(
        "INSERT INTO {table} (k, c, v) VALUES ({WRITTEN}, 100000, 'late') USING TIMESTAMP {}",
        days_ago(1)
    )]);
    let expected = world.direct.scan(&text);
    assert_eq!(expected.len(), before.len() + 1);
    eventually_within(SPLIT_PATIENCE, "the difference is found", || {
        (proxy.metric(DIFFERS) == 1).then_some(())
    });
    let split = control.split(&ids[0]).expect("a split");
    assert_eq!(split.standing.state, State::Invalidated);
    let reason = split.reason.expect("a reason");
    assert!(
        reason.starts_with("compared again in service, the copy differs: bucket"),
        "{reason}"
    );
    assert!(through.scan(&text) == expected);
    let table = &ids[0].table;
    assert_eq!(control.mode(table), Mode::Detect);
    let other = control.standing(&ids[1]).expect("a split");
    assert!(!other.is_in_service(), "nothing says that it is equal");
    let differences = proxy.metric("narrows_pipeline_verify_differences_total");
    assert_eq!(differences, 1);
    // Once the table is served again, it is read from a new copy and from no other.
    control.set_mode(table, Mode::Serve);
    let again = split_after_change(&control, &ids[1]);
    assert!(again > other.generation);
    let text = world.select(LEFT_ALONE);
    let expected = world.direct.scan(&text);
    until_answered(&proxy, &mut through, &text, &expected);
}

/// With a late write through a proxy its split goes out of service first; whoever compares it at that moment finds a
/// difference that is nobody's fault.
#[test]
fn a_split_that_went_out_of_service_meanwhile_demotes_nothing() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V5, 1, &[PLAIN]);
    world.fill(WRITTEN, ROWS);
    let proxy = world.splitter().set("pipeline.audit_every", "2s").start();
    let control = world.control();
    let id = world.id(WRITTEN);
    let generation = control.nominate(&id);
    until_completed(&control, &id);
    let table = world.name("t");
    world.direct.write(&[format!(
        "INSERT INTO {table} (k, c, v) VALUES ({WRITTEN}, 100000, 'late') USING TIMESTAMP {}",
        days_ago(1)
    )]);
    world.make_due(&id);
    // It is being compared, or is about to be; differences are read again for half a minute.
    eventually_within(SPLIT_PATIENCE, "its comparison has begun", || {
        control.split(&id)?.lease.map(drop)
    });
    assert!(control.invalidate(&id, generation));
    eventually_within(SPLIT_PATIENCE, "its comparison has ended", || {
        control.split(&id)?.lease.is_none().then_some(())
    });
    let split = control.split(&id).expect("a split");
    assert_eq!(split.reason.as_deref(), Some("the test wants it"));
    let mode = control.mode(&id.table);
    assert_eq!((mode, proxy.metric(DIFFERS)), (Mode::Serve, 0));
}
