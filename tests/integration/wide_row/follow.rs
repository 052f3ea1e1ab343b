//! Followers learn of every change, and of what happens half-way.

use std::sync::Arc;

use narrows::known::retire::Retirer;
use narrows::known::slot::StoreSlot;
use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::found_by::FoundBy;
use narrows::wide_row::names::Version;
use narrows::wide_row::state::State;
use narrows::wide_row::store::{Detected, Found, Left, SplitId};

use super::control::{Control, FIRST_SHARD, SHARDS, key_in_cql, split, table, watched_table};
use super::knowing::{Knowing, eventually};
use super::store::{complete, detect, standing};
use crate::support::{PATIENCE, cluster, control_cluster};

#[tokio::test]
async fn every_follower_learns_of_a_guard_before_two_polls_have_passed() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let before = split("before");
    complete(&control.store, &before).await;
    let one = Knowing::start(&control, None).await;
    let two = Knowing::start(&control, None).await;
    for knowing in [&one, &two] {
        assert!(knowing.might_be_split(&before));
        assert!(!knowing.might_be_split(&split("later")));
    }
    complete(&control.store, &split("later")).await;
    for knowing in [&one, &two] {
        // One that began after the change was acknowledged.
        knowing.polled().await;
        assert!(knowing.might_be_split(&split("later")));
    }
}

#[tokio::test]
async fn a_version_without_its_row_is_not_taken_for_known() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("half-way");
    detect(&control.store, &id).await;
    let knowing = Knowing::start(&control, None).await;
    let shard = control
        .store
        .read_shard(&id.table, id.shard)
        .await
        .expect("read");
    // An author's LWT has reached a replica with its static column, as far as a reader can see.
    let ahead = Version(shard.version.0 + 10);
    let place = format!(
        "keyspace_name = 'shop' AND table_name = 'orders' AND shard = {}",
        id.shard
    );
    let version = ahead.0;
    control
        .run(&format!(
            "UPDATE {{}}.wide_row SET version = {version} WHERE {place}"
        ))
        .await;
    knowing.polled().await;
    knowing.polled().await;
    assert!(!knowing.might_be_split(&id));
    // And now with its row; the version does not move again.
    let key = key_in_cql(&id);
    control
        .run(&format!(
            "UPDATE {{}}.wide_row SET row_version = {version}, state = 'GUARDED', row_epoch = 0 \
             WHERE {place} AND partition_key = {key}"
        ))
        .await;
    knowing.polled().await;
    assert!(knowing.might_be_split(&id));
}

#[tokio::test]
async fn what_left_with_its_epoch_leaves_the_filter() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("gone");
    complete(&control.store, &id).await;
    let knowing = Knowing::start(&control, None).await;
    assert!(knowing.might_be_split(&id));
    let table = table();
    let taken = control.store.take_out_of_service(&table, SHARDS).await;
    taken.expect("bumped");
    eventually("the filter is rebuilt", || !knowing.might_be_split(&id)).await;
}

#[tokio::test]
async fn a_filter_that_outgrows_its_overlay_is_rebuilt_and_misses_nothing() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let knowing = Knowing::start(&control, None).await;
    let keys = (0..).map(|index| split(&format!("many {index}")));
    let ids: Vec<SplitId> = keys
        .filter(|id| id.shard == FIRST_SHARD)
        .take(1500)
        .collect();
    let insert = format!(
        "INSERT INTO {}.wide_row (keyspace_name, table_name, shard, partition_key, row_version, row_epoch, \
         state, generation) VALUES ('shop', 'orders', {FIRST_SHARD}, ?, ?, 0, 'COMPLETED', 1)",
        control.keyspace.name
    );
    let insert = control.session.prepare(insert).await.expect("prepared");
    let writes = (1_i64..).zip(&ids).map(|(version, id)| {
        let values = (id.key.bytes().to_vec(), version);
        control.session.execute_unpaged(&insert, values)
    });
    for written in futures::future::join_all(writes).await {
        written.expect("written");
    }
    // Last, as the store never lets a version be seen before the rows below it.
    let version = format!(
        "INSERT INTO {}.wide_row (keyspace_name, table_name, shard, version) VALUES ('shop', 'orders', {FIRST_SHARD}, 1500)",
        control.keyspace.name
    );
    let written = control.session.query_unpaged(version, ()).await;
    written.expect("written");
    knowing.polled().await;
    assert!(ids.iter().all(|id| knowing.might_be_split(id)));
    // Keys may come in over several polls, so what follows a rebuild is in the overlay again.
    eventually("the overlay is built in", || {
        let stats = knowing.watched().filter.stats();
        stats.keys >= 1500 && stats.overlay_keys < 1024
    })
    .await;
    assert!(ids.iter().all(|id| knowing.might_be_split(id)));
}

#[tokio::test]
async fn a_table_moves_to_more_shards_and_leaves_its_splits_behind() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("moving");
    complete(&control.store, &id).await;
    let knowing = Knowing::start(&control, None).await;
    assert!(knowing.might_be_split(&id));
    let mut settings = watched_table();
    let row = async || control.store.read_watched().await.expect("read").remove(0);
    let before = row().await;
    control.store.reshard(&before, 32).await.expect("moved");
    let twice = control.store.reshard(&before, 64).await;
    assert!(twice.is_err(), "another has moved it meanwhile");
    let back = control.store.reshard(&row().await, SHARDS).await;
    assert!(back.is_err(), "those shards are retired for ever");
    settings.shards = 32;
    eventually("the new settings", || {
        *knowing.watched().settings() == settings
    })
    .await;
    knowing.polled().await;
    assert!(!knowing.might_be_split(&id));
    // Whoever still asks the old shards is told so, too.
    assert!(!standing(&control.store, &id).await.is_in_service());
    let moved = SplitId::new(table(), id.key.clone(), 32);
    complete(&control.store, &moved).await;
    knowing.polled().await;
    assert!(knowing.might_be_split(&moved));
}

#[tokio::test]
async fn a_table_is_forgotten_only_when_its_splits_are_out_of_service() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("in service");
    complete(&control.store, &id).await;
    let knowing = Knowing::start(&control, None).await;
    assert!(standing(&control.store, &id).await.is_in_service());
    // As somebody does by hand; `narrows unwatch` closes the shards first.
    control
        .run("DELETE FROM {}.watched_table WHERE catalog = 'watched'")
        .await;
    let name = table();
    eventually("the proxy forgets the table", || {
        knowing.known.table(&name.keyspace, &name.table).is_none()
    })
    .await;
    assert!(!standing(&control.store, &id).await.is_in_service());
    let later = first_sight(&control, &split("later")).await;
    assert_eq!(later, Detected::Retired);
    drop(knowing);
    // Watched again, the table has its shards back, and nothing from before.
    let again = control.store.watch(&watched_table()).await;
    again.expect("watched again");
    let knowing = Knowing::start(&control, None).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    // The shards are open before anybody writes down that the table was seen.
    loop {
        let rows = control.store.read_watched().await.expect("read");
        if rows.iter().all(|row| !row.is_first_sight()) {
            break;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the shards stay closed"
        );
    }
    assert!(!standing(&control.store, &id).await.is_in_service());
    let next = split("next");
    complete(&control.store, &next).await;
    knowing.polled().await;
    assert!(knowing.might_be_split(&next));
}

#[tokio::test]
async fn unwatching_closes_the_shards_before_the_row_goes() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("in service");
    complete(&control.store, &id).await;
    let row = control.store.read_watched().await.expect("read").remove(0);
    assert!(control.store.unwatch(&row).await.expect("unwatched"));
    assert_eq!(control.store.read_watched().await.expect("read"), []);
    let later = first_sight(&control, &split("later")).await;
    assert_eq!(later, Detected::Retired);
    let twice = control.store.unwatch(&row).await;
    assert!(!twice.expect("nothing to do"));
}

async fn first_sight(control: &Control, id: &SplitId) -> Detected {
    let detected = control.store.detect(id, Found::default()).await;
    detected.expect("answered")
}

#[tokio::test]
async fn a_partition_that_is_left_alone_stays_so_in_other_shards() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let store = &control.store;
    let until = unix_millis() + 3_600_000;
    let (early, late, past) = (split("early"), split("late"), split("past"));
    for (id, until) in [(&early, until), (&past, 1000)] {
        let left = store.leave_until(id, until, "the test wants it").await;
        assert!(matches!(left, Ok(Left::Alone(_))), "{left:?}");
    }
    let knowing = Knowing::start(&control, None).await;
    // Who has not learnt of the move goes on with this.
    let watched = knowing.watched();
    let row = store.read_watched().await.expect("read").remove(0);
    let moved = |id: &SplitId| SplitId::new(table(), id.key.clone(), 32);
    // As an earlier move to these shards that stopped half-way leaves it.
    let carried = store
        .leave_until(&moved(&early), until, "the test wants it")
        .await;
    assert!(matches!(carried, Ok(Left::Alone(_))), "{carried:?}");
    store.reshard(&row, 32).await.expect("moved");
    let unsettled = async |id: &SplitId| {
        let reading = store.read_key(&moved(id)).await.expect("read");
        reading.unsettled_until
    };
    assert_eq!(unsettled(&early).await, Some(until));
    assert_eq!(unsettled(&past).await, None, "its time has come");
    let detected = store.detect(&moved(&early), Found::default()).await;
    assert_eq!(detected.expect("read"), Detected::NotYet);
    // A person's wish waits for the same time.
    let by_hand = Found {
        by: Some(FoundBy::Hand),
        ..Found::default()
    };
    for begins in [true, false] {
        let detected = store.detect(&moved(&early), by_hand).await;
        let has_begun = matches!(detected.expect("read"), Detected::New(_));
        assert_eq!(has_begun, begins, "once");
        let split = store.read_split(&moved(&early)).await.expect("read");
        let split = split.expect("it waits");
        let waits = (split.standing.state, split.not_before, split.found_by);
        let expected = (State::Detected, Some(until), Some(FoundBy::Hand));
        assert_eq!(waits, expected);
    }
    let left = store.leave_until(&early, until, "the test wants it").await;
    assert_eq!(left.expect("read"), Left::Retired);
    // A write of unknown outcome that began before the move.
    let slot = Arc::new(StoreSlot::default());
    slot.set(control.store.clone());
    let retirer = Retirer::new(slot, tokio::runtime::Handle::current());
    let left = retirer.leave_alone(&watched, vec![late.key.clone()]).await;
    left.expect("left alone");
    assert!(unsettled(&late).await.is_some());
}
