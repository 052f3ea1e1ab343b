//! Splits read for people, and what they change of a watched table.

use narrows::schema::names::{PartitionKey, TableName};
use narrows::watched::Mode;
use narrows::wide_row::state::{State, Step};
use narrows::wide_row::store::{Listed, Split, SplitId};

use super::control::{Control, SHARDS, key_in_cql, split, table};
use super::store::{complete, detect, lease, step};
use crate::support::control_cluster;

async fn list(control: &Control) -> Vec<Listed> {
    let mut found = Vec::new();
    let listed = control
        .store
        .list_splits(&table(), SHARDS, |listed| found.push(listed))
        .await;
    listed.expect("readable");
    found.sort_by(|one, other| one.key.cmp(&other.key));
    found
}

#[tokio::test]
async fn every_split_of_every_shard_is_listed_once() {
    let control = Control::create(&control_cluster()).await;
    let store = &control.store;
    assert_eq!(list(&control).await, []);
    complete(store, &split("a")).await;
    for number in 0..20 {
        detect(store, &split(&format!("b{number:02}"))).await;
    }
    let refused = split("c");
    detect(store, &refused).await;
    let held = lease(store, &refused).await;
    step(store, &refused, &held, Step::Refuse("a list".to_owned())).await;
    let listed = list(&control).await;
    assert_eq!(listed.len(), 22);
    for one in &listed {
        let id = SplitId::new(table(), one.key.clone(), SHARDS);
        let whole = store.read_split(&id).await.expect("readable");
        // The version is the shard's, and moves with the others'.
        let state = |split: &Split| {
            (
                split.standing,
                split.reason.clone(),
                split.pre_split_data.clone(),
            )
        };
        assert_eq!(one.split.as_ref().map(state), whole.as_ref().map(state));
    }
    let last = listed[21].split.as_ref().expect("understood");
    assert_eq!(
        (last.standing.state, last.reason.as_deref()),
        (State::Refused, Some("a list"))
    );
}

#[tokio::test]
async fn a_state_of_a_later_version_is_listed_as_unknown() {
    let control = Control::create(&control_cluster()).await;
    let id = split("a");
    detect(&control.store, &id).await;
    let (shard, key) = (id.shard, key_in_cql(&id));
    control
        .run(&format!(
            "UPDATE {{}}.wide_row SET state = 'MERGED' WHERE keyspace_name = 'shop' AND table_name = 'orders' AND \
             shard = {shard} AND partition_key = {key}"
        ))
        .await;
    let unknown = Listed {
        key: PartitionKey::new(*b"a"),
        split: None,
    };
    assert_eq!(list(&control).await, [unknown]);
}

#[tokio::test]
async fn mode_and_pause_change_nothing_else() {
    let control = Control::create(&control_cluster()).await;
    let store = &control.store;
    let before = store.read_watched().await.expect("readable");
    assert!(!before[0].table.paused);
    for (mode, paused) in [(Mode::Off, true), (Mode::Serve, false)] {
        assert!(store.set_mode(&table(), mode).await.expect("answered"));
        assert!(store.set_paused(&table(), paused).await.expect("answered"));
        let mut expected = before.clone();
        expected[0].table.mode = mode;
        expected[0].table.paused = paused;
        assert_eq!(store.read_watched().await.expect("readable"), expected);
    }
    let other = TableName::new("shop", "other");
    assert!(!store.set_mode(&other, Mode::Off).await.expect("answered"));
    assert!(!store.set_paused(&other, true).await.expect("answered"));
    assert_eq!(store.read_watched().await.expect("readable"), before);
}
