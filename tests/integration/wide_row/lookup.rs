//! Is it split? Never answered with what was so before the question.

use std::sync::Arc;

use narrows::known::lookup::{Doubt, LookupAnswer};
use narrows::schema::bucket::Bucket;
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;
use narrows::wide_row::store::{Found, Outcome, SplitId};
use scylla::statement::Consistency;

use super::control::{Control, key_in_cql, split};
use super::knowing::Knowing;
use super::store::{complete, detect, standing};
use crate::redis::proven;
use crate::support::cluster::{dc_cluster, old_cluster};
use crate::support::{PATIENCE, cluster, control_cluster};

fn layout(id: &SplitId, generation: Generation) -> Layout {
    let bucket = |first: &[&[u8]]| Bucket {
        first: first.iter().map(|value| (*value).into()).collect(),
        row_count: 10,
        byte_count: 1000,
        home: None,
    };
    Layout::new(
        LayoutId {
            table: id.table.clone(),
            key: id.key.clone(),
            generation,
        },
        "wide_orders_1".to_owned(),
        "EventBucketPartitionSplitStrategy".to_owned(),
        vec![
            bucket(&[]),
            bucket(&[b"2026", b""]),
            bucket(&[b"2027", b"x"]),
        ],
    )
}

/// Completes the next generation, with its layout.
pub(crate) async fn serve(control: &Control, id: &SplitId) -> Layout {
    let lease = complete(&control.store, id).await;
    let layout = layout(id, standing(&control.store, id).await.generation);
    let (store, layout) = (&control.store, proven(layout));
    store.write_layout(&layout).await.expect("written");
    store.write_proof(&layout).await.expect("written");
    let sealed = store.seal(id, &lease, &layout).await.expect("answered");
    assert!(matches!(sealed, Some(Outcome::Applied(_))), "{sealed:?}");
    store.release(id, &lease).await.expect("released");
    layout
}

pub(crate) async fn invalidate(control: &Control, id: &SplitId) {
    let generation = standing(&control.store, id).await.generation;
    let invalidated = control.store.invalidate(id, generation, "late write").await;
    assert!(matches!(invalidated, Ok(Outcome::Applied(_))));
}

#[tokio::test]
async fn an_answer_is_never_older_than_its_question() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let id = split("hot");
    let one = Knowing::start(&control, None).await;
    let two = Knowing::start(&control, None).await;
    for _ in 0..3 {
        let layout = LookupAnswer::Split(Arc::new(serve(&control, &id).await));
        for knowing in [&one, &two, &one, &two] {
            assert_eq!(knowing.find(&id).await, layout);
        }
        // Others of the shard move its version; what is remembered of this one is asked for again, and stays.
        let other = (0..).map(|index| split(&format!("other {index}")));
        let mut others = other.filter(|other| other.shard == id.shard);
        let other = others.next().expect("there are many keys");
        control
            .store
            .detect(&other, Found::default())
            .await
            .expect("detected");
        assert_eq!(one.find(&id).await, layout);
        invalidate(&control, &id).await;
        for knowing in [&one, &two] {
            assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
        }
    }
}

/// A life of a split as a proxy sees it: made, looked up, invalidated, made anew, and gone with its table.
async fn live(control: &Control) {
    let id = split("alive");
    let knowing = Knowing::start(control, None).await;
    for _ in 0..2 {
        let layout = LookupAnswer::Split(Arc::new(serve(control, &id).await));
        assert_eq!(knowing.find(&id).await, layout);
        knowing.polled().await;
        assert!(knowing.might_be_split(&id));
        invalidate(control, &id).await;
        assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
    }
    serve(control, &id).await;
    let table = super::control::table();
    let taken = control
        .store
        .take_out_of_service(&table, super::control::SHARDS);
    taken.await.expect("bumped");
    assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
}

#[tokio::test]
async fn the_same_on_cassandra_4_1() {
    live(&Control::create(&old_cluster()).await).await;
}

#[tokio::test]
async fn the_same_over_two_data_centers() {
    let both = "'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1";
    live(&Control::replicated(&dc_cluster(), both).await).await;
}

#[tokio::test]
async fn versions_are_read_nearby_once_every_node_has_said_that_it_runs_paxos_v1() {
    let both = "'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1";
    let control = Control::replicated(&dc_cluster(), both).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    // The driver may not be connected to all nodes at first.
    while control.store.nearby_consistency() != Consistency::LocalQuorum {
        assert!(std::time::Instant::now() < deadline, "never proven");
        control.store.prove_paxos().await;
    }
    let one = Control::create(&control_cluster()).await;
    assert_eq!(one.store.nearby_consistency(), Consistency::LocalQuorum);
}

#[tokio::test]
async fn many_questions_share_their_validations() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("shared");
    let knowing = Knowing::start(&control, None).await;
    let layout = LookupAnswer::Split(Arc::new(serve(&control, &id).await));
    let questions = (0..200).map(|_| knowing.find(&id));
    for answer in futures::future::join_all(questions).await {
        assert_eq!(answer, layout);
    }
}

#[tokio::test]
async fn keys_that_are_on_their_way_and_keys_that_are_not_are_not_split() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let knowing = Knowing::start(&control, None).await;
    assert_eq!(knowing.find(&split("nobody")).await, LookupAnswer::NotSplit);
    let id = split("on its way");
    detect(&control.store, &id).await;
    assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
    let layout = {
        invalidate_after_all(&control, &id).await;
        serve(&control, &id).await
    };
    assert_eq!(
        knowing.find(&id).await,
        LookupAnswer::Split(Arc::new(layout))
    );
    let table = super::control::table();
    let taken = control
        .store
        .take_out_of_service(&table, super::control::SHARDS);
    taken.await.expect("bumped");
    assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
}

/// Brings a detected split to an end, so that the next generation can begin.
async fn invalidate_after_all(control: &Control, id: &SplitId) {
    let held = super::store::lease(&control.store, id).await;
    let failed = narrows::wide_row::state::Step::Fail {
        reason: "given up".to_owned(),
        failures: 1,
    };
    super::store::step(&control.store, id, &held, failed).await;
    control.store.release(id, &held).await.expect("released");
}

#[tokio::test]
async fn splits_of_a_table_that_was_not_watched_meanwhile_are_not_believed() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("left alone");
    let layout = LookupAnswer::Split(Arc::new(serve(&control, &id).await));
    assert_eq!(Knowing::start(&control, None).await.find(&id).await, layout);
    control
        .run("DELETE FROM {}.watched_table WHERE catalog = 'watched'")
        .await;
    let again = control.store.watch(&super::control::watched_table()).await;
    again.expect("watched again");
    let knowing = Knowing::start(&control, None).await;
    assert_ne!(knowing.find(&id).await, layout);
    super::knowing::eventually_standing(&knowing, &id, &LookupAnswer::NotSplit).await;
}

#[tokio::test]
async fn a_state_of_a_later_version_is_watched_and_not_served() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let id = split("future");
    serve(&control, &id).await;
    let version = control
        .store
        .read_shard(&id.table, id.shard)
        .await
        .expect("read")
        .version
        .0
        + 1;
    let key = key_in_cql(&id);
    control
        .run(&format!(
            "UPDATE {{}}.wide_row SET version = {version}, row_version = {version}, state = 'MIRRORED' WHERE \
             keyspace_name = 'shop' AND table_name = 'orders' AND shard = {} AND partition_key = {key}",
            id.shard
        ))
        .await;
    let knowing = Knowing::start(&control, None).await;
    assert!(knowing.might_be_split(&id));
    assert_eq!(knowing.find(&id).await, LookupAnswer::NotSplit);
}

#[tokio::test]
async fn a_layout_that_is_missing_or_not_whole_is_a_doubt() {
    let cluster = control_cluster();
    let control = Control::create(&cluster).await;
    let knowing = Knowing::start(&control, None).await;
    let missing = split("missing");
    complete(&control.store, &missing).await;
    assert_eq!(
        knowing.find(&missing).await,
        LookupAnswer::Doubt(Doubt::Layout)
    );
    let id = split("not whole");
    let layout = serve(&control, &id).await;
    let key = key_in_cql(&id);
    control
        .run(&format!(
            "DELETE FROM {{}}.wide_row_layout WHERE keyspace_name = 'shop' AND table_name = 'orders' \
             AND partition_key = {key} AND generation = {} AND bucket = 1",
            layout.generation
        ))
        .await;
    assert_eq!(knowing.find(&id).await, LookupAnswer::Doubt(Doubt::Layout));
}

#[tokio::test]
async fn a_control_keyspace_that_does_not_answer_is_a_doubt() {
    let cluster = cluster();
    let control = Control::create(&cluster).await;
    let id = split("unreachable");
    let layout = LookupAnswer::Split(Arc::new(serve(&control, &id).await));
    let knowing = Knowing::start(&control, None).await;
    assert_eq!(knowing.find(&id).await, layout);
    let name = &control.keyspace.name;
    let replicas = |count: usize| {
        let nodes = format!("'class': 'SimpleStrategy', 'replication_factor': {count}");
        control.keyspace.run(&[&format!(
            "ALTER KEYSPACE {name} WITH replication = {{{nodes}}}"
        )]);
    };
    // Nine replicas on three nodes have no quorum.
    replicas(9);
    super::knowing::eventually_doubt(&knowing, &id).await;
    replicas(3);
    super::knowing::eventually_standing(&knowing, &id, &layout).await;
}
