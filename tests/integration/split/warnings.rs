//! Warnings of reads from splits: nothing of the split tables shows in them.

use super::world::{ANSWERED, World};
use super::{Ask, assert_same};
use crate::support::frame::flag;
use crate::support::{Codec, eventually};

/// More than `tombstone_warn_threshold`, and far fewer than what fails a read.
const TOMBSTONES: i32 = 1_200;

#[test]
fn tombstones_of_buckets_concern_no_client() {
    let mut world = World::start(&[(1, 30), (4, 10)]);
    world.split(1);
    let handle = world.splits[&1].clone();
    let bucket = format!(
        "{}.wide_events_1 WHERE k = 1 AND narrows_generation = {} AND narrows_bucket = 0",
        world.keyspace.name, handle.generation.0
    );
    for number in 1..=TOMBSTONES {
        let text = format!("DELETE FROM {bucket} AND a = -{number} AND b = 0");
        world.wire.write(&text, vec![], world.now);
    }
    world.wire.settle();
    let warned = Ask::new(Codec::V4, format!("SELECT * FROM {bucket}"));
    let warned = warned.once(&mut world.direct);
    assert_ne!(warned.flags & flag::WARNING, 0, "the bucket itself warns");
    for codec in [Codec::V4, Codec::V5] {
        for text in [
            "SELECT * FROM {} WHERE k = 1",
            "SELECT COUNT(*) FROM {} WHERE k = 1",
            "SELECT * FROM {} WHERE k = 1 AND v > 30 ALLOW FILTERING",
            "SELECT * FROM {} WHERE k IN (4, 1)",
        ] {
            let ask = Ask::new(codec, world.text(text)).paged(100);
            let direct = ask.all(&mut world.direct);
            let through = eventually("the split answers", || {
                let before = world.proxy.metric(ANSWERED);
                let through = ask.all(&mut world.through);
                (world.proxy.metric(ANSWERED) > before).then_some(through)
            });
            assert_same(text, &direct, &through);
            let flags = through.iter().map(|page| page.flags & flag::WARNING);
            assert!(flags.sum::<u8>() == 0, "{text}");
        }
    }
}
