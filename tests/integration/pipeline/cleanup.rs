//! Buckets of generations that are over go after a day and never sooner; those of living ones and the original stay. The day
//! is told, not waited for.

use std::collections::BTreeMap;

use narrows::pipeline::cleanup::{candidates, clean_up};
use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::layout::LayoutId;
use narrows::wide_row::names::Generation;
use narrows::wide_row::store::SplitId;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::requests;
use super::world::{Client, PLAIN, World, until_answered, until_completed};
use crate::exactness::control::{Control, SHARDS};
use crate::support::{Cluster, Codec, single_cluster};

const ROWS: i32 = 150;
const HOUR_MILLIS: i64 = 3_600_000;
/// Rolled back; rolled back and split again; in service.
const DEAD: i32 = 1;
const AGAIN: i32 = 2;
const LIVING: i32 = 3;

/// Removes what can go so many hours from now. Returns how many buckets went.
fn clean_up_in(hours: i64, cluster: &Cluster, control: &Control, world: &World) -> usize {
    let runtime = Builder::new_current_thread().enable_all().build();
    let table = world.id(DEAD).table;
    let work = async {
        let (store, requests) = (control.store(), requests(cluster.node()).await);
        let described = store.describe(&table).await.expect("readable");
        let schema = described.schema.expect("a table");
        let now = unix_millis() + hours * HOUR_MILLIS;
        let found = candidates(&store, &table, SHARDS, now).await;
        let mut removed = 0;
        for candidate in found.expect("readable") {
            let cleaned = clean_up((&store, &requests), &schema, &candidate, now).await;
            removed += cleaned.expect("deleted");
        }
        removed
    };
    LocalSet::new().block_on(&runtime.expect("a runtime"), work)
}

/// The rows of each generation of each key in the split table, and in how many buckets they are.
fn buckets(world: &mut World) -> BTreeMap<(i32, Generation), (usize, usize)> {
    let int = |value: &Option<Vec<u8>>| {
        let bytes = value.as_deref().expect("part of a key");
        i32::from_be_bytes(bytes.try_into().expect("an int"))
    };
    let text = format!(
        "SELECT k, narrows_generation, narrows_bucket FROM {}",
        world.name("wide_t_1")
    );
    let mut rows: BTreeMap<(i32, Generation), Vec<i32>> = BTreeMap::new();
    for row in world.direct.scan(&text) {
        let generation = (int(&row[0]), Generation(int(&row[1])));
        rows.entry(generation).or_default().push(int(&row[2]));
    }
    let counted = rows.into_iter().map(|(generation, mut buckets)| {
        let count = buckets.len();
        buckets.sort_unstable();
        buckets.dedup();
        (generation, (count, buckets.len()))
    });
    counted.collect()
}

fn has_layout(control: &Control, id: &SplitId, generation: Generation) -> bool {
    let id = LayoutId {
        table: id.table.clone(),
        key: id.key.clone(),
        generation,
    };
    control.layout(&id).is_some()
}

#[test]
fn buckets_go_a_day_after_their_generation_and_never_sooner() {
    let cluster = single_cluster();
    let mut world = World::create(&cluster, Codec::V4, 1, &[PLAIN]);
    let keys = [DEAD, AGAIN, LIVING];
    keys.iter().for_each(|key| world.fill(*key, ROWS));
    let originals = keys.map(|key| world.direct.scan(&world.select(key)));
    let proxy = world.splitter().start();
    let control = world.control();
    let ids = keys.map(|key| world.id(key));
    let first = ids.each_ref().map(|id| control.nominate(id));
    ids.iter()
        .for_each(|id| drop(until_completed(&control, id)));
    for number in [0, 1] {
        assert!(control.invalidate(&ids[number], first[number]));
    }
    let second = control.nominate(&ids[1]);
    until_completed(&control, &ids[1]);
    let all = buckets(&mut world);
    let generations = [
        (DEAD, first[0]),
        (AGAIN, first[1]),
        (AGAIN, second),
        (LIVING, first[2]),
    ];
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), generations);
    assert!(
        all.values()
            .all(|(rows, buckets)| *rows == ROWS as usize && *buckets > 1),
        "{all:?}"
    );

    assert_eq!(clean_up_in(23, &cluster, &control, &world), 0);
    assert!(buckets(&mut world) == all, "something went too soon");

    let gone: usize = generations[..2].iter().map(|one| all[one].1).sum();
    assert_eq!(clean_up_in(25, &cluster, &control, &world), gone);
    let mut left = all.clone();
    left.retain(|generation, _| generations[2..].contains(generation));
    assert_eq!(buckets(&mut world), left);
    let layouts = [(0, first[0]), (1, first[1]), (1, second), (2, first[2])];
    let layouts = layouts.map(|(id, generation)| has_layout(&control, &ids[id], generation));
    assert_eq!(layouts, [false, false, true, true]);
    assert_eq!(clean_up_in(25, &cluster, &control, &world), 0);

    let mut through = Client::connect(proxy.address(), Codec::V4);
    for (key, original) in keys.into_iter().zip(&originals) {
        let text = world.select(key);
        assert!(
            world.direct.scan(&text) == *original,
            "{key}: the original was touched"
        );
        match key {
            DEAD => assert!(through.scan(&text) == *original),
            _ => until_answered(&proxy, &mut through, &text, original),
        }
    }
}
