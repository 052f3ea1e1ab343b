//! `IN` over many keys of which few are split: neighbours of the original are read together and parts side by side, and
//! every page is what Cassandra makes of it.

use super::world::{ANSWERED, World};
use super::{Ask, assert_same, shape, state};
use crate::support::{Codec, Frame, eventually};

const KEYS: std::ops::RangeInclusive<i32> = 1..=20;
/// Some are neighbours, and each is among unsplit ones. One is the last.
const SPLIT: [i32; 4] = [5, 6, 12, 20];
const PAGES: [i32; 8] = [1, 2, 3, 4, 5, 7, 20, 1000];

const READS: [&str; 8] = [
    "SELECT * FROM {} WHERE k IN ({keys})",
    "SELECT k, v FROM {} WHERE k IN ({keys}) LIMIT 37",
    "SELECT * FROM {} WHERE k IN ({keys}) PER PARTITION LIMIT 1",
    "SELECT * FROM {} WHERE k IN ({keys}) PER PARTITION LIMIT 4",
    "SELECT * FROM {} WHERE k IN ({keys}) PER PARTITION LIMIT 3 LIMIT 31",
    "SELECT * FROM {} WHERE k IN ({keys}) AND a = 1 AND b = 1",
    "SELECT * FROM {} WHERE k IN ({keys}) AND v > 30 ALLOW FILTERING",
    "SELECT JSON k, a, b FROM {} WHERE k IN ({keys}) AND a > 0",
];

/// Keys of 1 to 8 rows, one without any, and split ones that fill several pages.
fn world() -> World {
    let rows = |key: i32| match key {
        9 => 0,
        5 | 12 => 26,
        6 | 20 => 12,
        key => key % 8 + 1,
    };
    let partitions: Vec<(i32, i32)> = KEYS.map(|key| (key, rows(key))).collect();
    let mut world = World::start(&partitions);
    for key in SPLIT {
        world.split(key);
    }
    world
}

fn asks(world: &World, codec: Codec) -> Vec<Ask> {
    // In no order, and with one twice.
    let mut keys: Vec<String> = KEYS.map(|key| (key * 8 % 21).to_string()).collect();
    keys.push("6".to_owned());
    let text = |read: &&str| world.text(read).replace("{keys}", &keys.join(", "));
    let asks = READS.iter().map(|read| Ask::new(codec, text(read)));
    asks.collect()
}

/// All pages, of which at least one is from a split.
fn served(world: &mut World, ask: &Ask) -> Vec<Frame> {
    eventually("the splits answer", || {
        let before = world.proxy.metric(ANSWERED);
        let pages = ask.all(&mut world.through);
        (world.proxy.metric(ANSWERED) > before).then_some(pages)
    })
}

#[test]
fn pages_are_what_cassandra_makes_of_them() {
    let mut world = world();
    for codec in [Codec::V4, Codec::V5] {
        for ask in asks(&world, codec) {
            for size in PAGES {
                let ask = ask.clone().paged(size).prepared(size % 2 == 0);
                let direct = ask.all(&mut world.direct);
                let through = served(&mut world, &ask);
                assert_same(&format!("{ask:?}"), &direct, &through);
                assert_eq!(shape(&direct), shape(&through), "{ask:?}");
            }
            let direct = ask.all(&mut world.direct);
            assert_same(&format!("{ask:?}"), &direct, &served(&mut world, &ask));
        }
    }
}

/// Each scan is in another place when the splits change, and sometimes between two keys.
#[test]
fn scans_live_through_rollbacks_and_new_generations() {
    let mut world = world();
    for before in [1, 2, 5, 9] {
        let mut scans = Vec::new();
        for ask in asks(&world, Codec::V4) {
            for size in [1, 3, 4] {
                let ask = ask.clone().paged(size);
                let direct = ask.all(&mut world.direct);
                let mut next = ask.clone();
                let mut through = Vec::new();
                for _ in 0..before {
                    let page = next.once(&mut world.through);
                    let behind = state(&page);
                    through.push(page);
                    match behind {
                        Some(behind) => next = ask.clone().behind(&behind),
                        None => break,
                    }
                }
                scans.push((ask, direct, through));
            }
        }
        world.rollback(5);
        world.rollback(12);
        if before % 2 == 0 {
            world.split(12);
        }
        for (ask, direct, mut through) in scans {
            if let Some(behind) = through.last().and_then(state) {
                through.extend(ask.clone().behind(&behind).all(&mut world.through));
            }
            assert_same(&format!("{before} {ask:?}"), &direct, &through);
        }
        for key in [5, 12] {
            if !world.splits.contains_key(&key) {
                world.split(key);
            }
        }
    }
}
