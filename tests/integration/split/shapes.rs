//! Pages have the shape that Cassandra gives them, also where it is odd: a full last page is followed by an empty one.

use super::world::{ANSWERED, World};
use super::{Ask, CODECS, assert_same, shape};
use crate::support::request::Value;
use crate::support::{Codec, Frame, eventually};

/// Statement, page size, rows of each page. The partitions 1 and 2 have 10 rows, 3 has 7; all are split.
const SHAPES: [(&str, i32, &[usize]); 19] = [
    ("WHERE k = 1", 5, &[5, 5, 0]),
    ("WHERE k = 1", 10, &[10, 0]),
    ("WHERE k = 1", 11, &[10]),
    ("WHERE k = 1", 3, &[3, 3, 3, 1]),
    ("WHERE k = 1", 1, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]),
    ("WHERE k = 1 LIMIT 10", 5, &[5, 5]),
    ("WHERE k = 1 LIMIT 5", 5, &[5]),
    ("WHERE k = 1 LIMIT 11", 5, &[5, 5, 0]),
    ("WHERE k = 1 PER PARTITION LIMIT 5", 5, &[5]),
    ("WHERE k = 1 PER PARTITION LIMIT 7", 5, &[5, 2]),
    ("WHERE k = 3", 3, &[3, 3, 1]),
    ("WHERE k = 3 LIMIT 7", 3, &[3, 3, 1]),
    ("WHERE k = 1 ORDER BY a DESC, b ASC", 5, &[5, 5, 0]),
    ("WHERE k = 1 AND a IN (0, 1)", 4, &[4, 4, 0]),
    ("WHERE k = 1 AND a = 0 AND b = 0", 1, &[1, 0]),
    ("WHERE k = 1 AND v >= 0 ALLOW FILTERING", 4, &[4, 4, 0]),
    ("WHERE k = 99", 5, &[0]),
    ("WHERE k = 1", -1, &[10]),
    ("WHERE k = 1", i32::MAX, &[10]),
];

fn split_world() -> World {
    let mut world = World::start(&[(1, 10), (2, 10), (3, 7)]);
    for key in [1, 2, 3] {
        world.split(key);
    }
    world
}

fn assert_shape(world: &mut World, ask: &Ask, expected: &[usize], answered: bool) {
    let direct = ask.all(&mut world.direct);
    assert_shape_as(world, ask, &direct, (expected, answered));
}

/// As QUERY and as EXECUTE, which Cassandra answers alike.
fn assert_both_shapes(world: &mut World, ask: &Ask, expected: &[usize], answered: bool) {
    let direct = ask.all(&mut world.direct);
    for is_prepared in [false, true] {
        let ask = ask.clone().prepared(is_prepared);
        assert_shape_as(world, &ask, &direct, (expected, answered));
    }
}

fn assert_shape_as(
    world: &mut World,
    ask: &Ask,
    direct: &[Frame],
    (expected, answered): (&[usize], bool),
) {
    let pages = if answered { expected.len() as u64 } else { 0 };
    // On a busy machine the original may have to help out, with pages of the same shape.
    eventually(&format!("it is answered from the split: {ask:?}"), || {
        let before = world.proxy.metric(ANSWERED);
        let through = ask.all(&mut world.through);
        assert_same(&format!("{ask:?}"), direct, &through);
        assert_eq!(shape(&through), expected, "{ask:?}");
        (world.proxy.metric(ANSWERED) - before == pages).then_some(())
    });
}

#[test]
fn pages_have_the_shape_that_cassandra_gives_them() {
    let mut world = split_world();
    pages_of_one_partition_are_filled_to_their_size(&mut world);
    pages_of_several_partitions_are_filled_across_them(&mut world);
    no_page_size_means_all_at_once(&mut world);
    a_page_size_of_zero_is_cassandras_error(&mut world);
}

fn pages_of_one_partition_are_filled_to_their_size(world: &mut World) {
    for (rest, size, expected) in SHAPES {
        for codec in CODECS {
            let text = world.text(&format!("SELECT * FROM {{}} {rest}"));
            let ask = Ask::new(codec, text).paged(size);
            let split = !rest.contains("99");
            assert_both_shapes(world, &ask, expected, split);
        }
    }
}

fn pages_of_several_partitions_are_filled_across_them(world: &mut World) {
    let cases: [(&str, i32, &[usize]); 6] = [
        ("WHERE k IN (2, 1)", 5, &[5, 5, 5, 5, 0]),
        ("WHERE k IN (2, 1)", 20, &[20, 0]),
        ("WHERE k IN (2, 1)", 21, &[20]),
        ("WHERE k IN (2, 1)", 7, &[7, 7, 6]),
        ("WHERE k IN (2, 1) LIMIT 10", 5, &[5, 5]),
        ("WHERE k IN (3, 2, 1)", 9, &[9, 9, 9, 0]),
    ];
    for (rest, size, expected) in cases {
        for codec in [Codec::V4, Codec::V5] {
            let text = world.text(&format!("SELECT * FROM {{}} {rest}"));
            assert_shape(world, &Ask::new(codec, text).paged(size), expected, true);
        }
    }
}

fn no_page_size_means_all_at_once(world: &mut World) {
    for codec in CODECS {
        let text = world.text("SELECT * FROM {} WHERE k = ?");
        let ask = Ask::new(codec, text).with(&[Value::int(1)]);
        assert_shape(world, &ask, &[10], true);
    }
}

fn a_page_size_of_zero_is_cassandras_error(world: &mut World) {
    for codec in CODECS {
        let ask = Ask::new(codec, world.text("SELECT * FROM {} WHERE k = 1")).paged(0);
        let direct = ask.all(&mut world.direct);
        let through = ask.all(&mut world.through);
        assert_same("page size 0", &direct, &through);
        assert!(through[0].error().is_some(), "{codec:?}");
    }
}
