//! Transitions, leases and epochs as LWTs on three replicas.

use std::time::Duration;

use narrows::wide_row::names::{Generation, Version};
use narrows::wide_row::state::{PostSplitData, PreSplitData, Standing, State, Step, Transition};
use narrows::wide_row::store::{Detected, Found, Lease, Leased, Outcome, SplitId, Store};

use super::control::{Control, FIRST_SHARD, SHARDS, split, table};
use crate::support::{cluster, control_cluster};

const LEASE: Duration = Duration::from_secs(60);
const WORKABLE: [State; 5] = [
    State::Detected,
    State::Planned,
    State::Guarded,
    State::Copying,
    State::Verifying,
];

pub(crate) async fn standing(store: &Store, id: &SplitId) -> Standing {
    let key = store.read_key(id).await.expect("readable");
    key.standing.expect("there is a split")
}

pub(crate) async fn lease(store: &Store, id: &SplitId) -> Lease {
    match store.acquire(id, "worker-1", LEASE, &WORKABLE).await {
        Ok(Leased::Held(lease)) => lease,
        other => panic!("no lease: {other:?}"),
    }
}

pub(crate) async fn detect(store: &Store, id: &SplitId) -> Generation {
    match store.detect(id, Found::default()).await {
        Ok(Detected::New(generation)) => generation,
        other => panic!("not detected: {other:?}"),
    }
}

/// One step, which must apply; returns the version it moved to.
pub(crate) async fn step(store: &Store, id: &SplitId, lease: &Lease, step: Step) -> Version {
    let transition = Transition::step(standing(store, id).await, step).expect("legal");
    match store.step(id, lease, &transition).await {
        Ok(Outcome::Applied(version)) => version,
        other => panic!("not applied: {other:?}"),
    }
}

fn pre() -> PreSplitData {
    PreSplitData {
        row_count: 7,
        byte_count: 700,
        checksum: vec![1, 2],
        newest_write_micros: Some(5),
    }
}

fn post() -> PostSplitData {
    PostSplitData {
        split_table: "wide_orders_1".to_owned(),
        strategy: "EventBucketPartitionSplitStrategy".to_owned(),
        start_event_bucket: 0,
        target_event_buckets: 4,
        row_count: 7,
        byte_count: 700,
        checksum: vec![1, 2],
    }
}

fn completed() -> Step {
    Step::Complete {
        original: pre(),
        copy: post(),
    }
}

/// From nothing to COMPLETED; returns the lease.
pub(crate) async fn complete(store: &Store, id: &SplitId) -> Lease {
    detect(store, id).await;
    let lease = lease(store, id).await;
    let steps = [
        Step::Plan(pre()),
        Step::Guard,
        Step::Copy,
        Step::Verify,
        completed(),
    ];
    for next in steps {
        step(store, id, &lease, next).await;
    }
    lease
}

#[tokio::test]
async fn a_split_lives_through_all_its_states_and_every_step_moves_the_version() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let (store, id) = (&control.store, split("one"));
    let first = detect(store, &id).await;
    assert_eq!(
        store.detect(&id, Found::default()).await.expect("known"),
        Detected::Known
    );
    let lease = lease(store, &id).await;
    let mut last = store
        .read_shard(&id.table, id.shard)
        .await
        .expect("read")
        .version;
    let steps = [
        Step::Plan(pre()),
        Step::Guard,
        Step::Guard,
        Step::Copy,
        Step::Verify,
        completed(),
    ];
    for next in steps {
        let version = step(store, &id, &lease, next).await;
        let shard = store.read_shard(&id.table, id.shard).await.expect("read");
        assert!(version > last && shard.version == version);
        last = version;
    }
    let split = store.read_split(&id).await.expect("read").expect("there");
    assert!(split.standing.is_in_service());
    assert_eq!(split.pre_split_data, Some(pre()));
    assert_eq!(split.post_split_data, Some(post()));
    assert!(
        split
            .lease
            .is_some_and(|lease| lease.starts_with("worker-1/"))
    );

    let invalidated = store.invalidate(&id, first, "late write").await;
    assert!(matches!(invalidated, Ok(Outcome::Applied(version)) if version > last));
    let split = store.read_split(&id).await.expect("read").expect("there");
    assert_eq!(split.standing.state, State::Invalidated);
    assert_eq!(split.reason.as_deref(), Some("late write"));
    assert_eq!(detect(store, &id).await, Generation(first.0 + 1));
    let split = store.read_split(&id).await.expect("read").expect("there");
    assert_eq!(
        (split.pre_split_data, split.post_split_data, split.reason),
        (None, None, None)
    );
}

#[tokio::test]
async fn an_invalidation_is_written_again_rather_than_believed() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let (store, id) = (&control.store, split("two"));
    complete(store, &id).await;
    let generation = standing(store, &id).await.generation;
    let Ok(Outcome::Applied(first)) = store.invalidate(&id, generation, "one").await else {
        panic!("not applied")
    };
    let Ok(Outcome::Applied(second)) = store.invalidate(&id, generation, "two").await else {
        panic!("not applied again")
    };
    assert!(second > first);
    assert_eq!(
        store
            .invalidate(&id, Generation(generation.0 + 1), "no such")
            .await
            .expect("read"),
        Outcome::Lost
    );
    assert_eq!(
        store
            .invalidate(&split("nobody"), generation, "no such")
            .await
            .expect("read"),
        Outcome::Lost
    );
}

#[tokio::test]
async fn a_lost_lease_fences_its_worker_off() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let (store, id) = (&control.store, split("three"));
    store.detect(&id, Found::default()).await.expect("detected");
    let first = lease(store, &id).await;
    assert_eq!(
        store
            .acquire(&id, "worker-2", LEASE, &WORKABLE)
            .await
            .expect("read"),
        Leased::Lost
    );
    assert_eq!(
        store.renew(&id, &first).await.expect("renewed"),
        Leased::Held(())
    );
    store.release(&id, &first).await.expect("released");
    assert_eq!(store.renew(&id, &first).await.expect("read"), Leased::Lost);
    let second = lease(store, &id).await;
    let plan = Transition::step(standing(store, &id).await, Step::Plan(pre())).expect("legal");
    assert_eq!(
        store.step(&id, &first, &plan).await.expect("read"),
        Outcome::Lost
    );
    assert!(matches!(
        store.step(&id, &second, &plan).await,
        Ok(Outcome::Applied(_))
    ));
    // The same step again is the repeat of one whose outcome was unknown.
    assert!(matches!(
        store.step(&id, &second, &plan).await,
        Ok(Outcome::Applied(_))
    ));
}

#[tokio::test]
async fn a_lease_expires_by_itself_and_takes_nothing_with_it() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let (store, id) = (&control.store, split("four"));
    store.detect(&id, Found::default()).await.expect("detected");
    let before = store.read_key(&id).await.expect("read");
    let short = Duration::from_secs(1);
    let held = store
        .acquire(&id, "worker-1", short, &WORKABLE)
        .await
        .expect("asked");
    assert!(matches!(held, Leased::Held(_)));
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while store
        .acquire(&id, "worker-2", LEASE, &WORKABLE)
        .await
        .expect("asked")
        == Leased::Lost
    {
        assert!(std::time::Instant::now() < deadline, "it never expires");
    }
    assert_eq!(store.read_key(&id).await.expect("read"), before);
    assert_eq!(
        store
            .acquire(&id, "worker-3", LEASE, &[State::Planned])
            .await
            .expect("asked"),
        Leased::Lost
    );
}

#[tokio::test]
async fn an_epoch_takes_the_whole_table_out_of_service_and_splits_can_be_made_anew() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let store = &control.store;
    let ids: Vec<SplitId> = (0..12)
        .map(|index| split(&format!("key {index}")))
        .collect();
    let held = complete(store, &ids[0]).await;
    for id in &ids[1..3] {
        complete(store, id).await;
    }
    assert!(standing(store, &ids[0]).await.is_in_service());
    store
        .take_out_of_service(&table(), SHARDS)
        .await
        .expect("bumped");
    for reading in store.read_shards(&table(), SHARDS).await.expect("read") {
        assert_eq!((reading.epoch, reading.version), (1, reading.epoch_version));
    }
    for id in &ids[..3] {
        let standing = standing(store, id).await;
        assert!(!standing.is_in_service() && standing.state == State::Completed);
    }
    // A step that was decided before is stopped by its epoch.
    let old = Standing {
        epoch: 0,
        state: State::Verifying,
        ..standing(store, &ids[0]).await
    };
    let late = Transition::step(old, completed()).expect("legal then");
    assert_eq!(
        store.step(&ids[0], &held, &late).await.expect("read"),
        Outcome::Lost
    );
    detect(store, &ids[0]).await;
    assert_eq!(standing(store, &ids[0]).await.row_epoch, 1);

    store.retire(&table(), SHARDS).await.expect("retired");
    assert_eq!(
        store
            .detect(&ids[11], Found::default())
            .await
            .expect("read"),
        Detected::Retired
    );
    assert_eq!(
        store.detect(&ids[0], Found::default()).await.expect("read"),
        Detected::Known
    );
}

#[tokio::test]
async fn versions_grow_whoever_writes_and_whatever_the_clocks_say() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let store = &control.store;
    let id = split("clock");
    store.detect(&id, Found::default()).await.expect("detected");
    // A writer whose clock is far ahead: everyone else counts on from there.
    let far = i64::from(u32::MAX) * 1_000_000_000;
    control
        .run(&format!(
            "UPDATE {{}}.wide_row SET version = {far} WHERE keyspace_name = 'shop' AND table_name = 'orders' \
             AND shard = {} IF version < {far}",
            id.shard
        ))
        .await;
    let lease = lease(store, &id).await;
    assert_eq!(
        step(store, &id, &lease, Step::Plan(pre())).await,
        Version(far + 1)
    );
    assert_eq!(
        step(store, &id, &lease, Step::Guard).await,
        Version(far + 2)
    );
}

#[tokio::test]
async fn many_writers_of_one_shard_lose_no_version() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let store = &control.store;
    let table = table();
    // Keys of one shard, all detected at once.
    let keys = (0..1000).map(|index| split(&format!("busy {index}")));
    let ids: Vec<SplitId> = keys.filter(|id| id.shard == FIRST_SHARD).take(12).collect();
    let futures = ids.iter().map(|id| store.detect(id, Found::default()));
    for detected in futures::future::join_all(futures).await {
        assert!(matches!(detected.expect("detected"), Detected::New(_)));
    }
    let mut rows = Vec::new();
    let read = store.read_rows(&table, FIRST_SHARD, Version(0), |row| rows.push(row));
    read.await.expect("read");
    let mut versions: Vec<Version> = rows.iter().map(|row| row.version).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(
        versions.len(),
        ids.len(),
        "each change has a version of its own"
    );
    let shard = store.read_shard(&table, FIRST_SHARD).await.expect("read");
    assert_eq!(versions.last(), Some(&shard.version));
    let mut newer = 0;
    let middle = versions[5];
    let read = store.read_rows(&table, FIRST_SHARD, middle, |_| newer += 1);
    read.await.expect("read");
    assert_eq!(newer, 6);
}
