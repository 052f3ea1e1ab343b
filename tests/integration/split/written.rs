//! A write through one proxy is seen by a read through another that begins right after it was acknowledged.

use super::world::{ANSWERED, World, await_served};
use super::{Ask, CODECS, Clients};
use crate::support::response::Body;
use crate::support::{Codec, scale};

const ROUNDS: i32 = 12;

#[test]
fn a_write_through_one_proxy_is_read_at_once_through_another() {
    let mut world = World::on_three(&[(1, 12)]);
    let other = world.builder().start();
    let mut through_other = Clients::new(other.address());
    for round in 1..=ROUNDS * scale() as i32 {
        world.split(1);
        await_served(&other, &mut through_other, &world.read_one(1));
        let codec = CODECS[round as usize % 3];
        let write = world.text(&format!(
            "UPDATE {{}} SET v = {round} WHERE k = 1 AND a = 1 AND b = 1"
        ));
        let write = Ask::new(codec, write).prepared(round % 2 == 0);
        let reads = [
            "SELECT v FROM {} WHERE k = 1 AND a = 1 AND b = 1",
            "SELECT v FROM {} WHERE k IN (1, 4) AND a = 1 AND b = 1",
        ];
        let reads = reads.map(|text| Ask::new(Codec::V4, world.text(text)));
        let (writing, reading) = match round % 4 < 2 {
            true => (&mut world.through, &mut through_other),
            false => (&mut through_other, &mut world.through),
        };
        let reply = write.once(writing);
        // Nothing in between: the next thing that happens is the read.
        let found = reads.each_ref().map(|read| read.once(reading));
        assert_eq!(reply.error(), None, "round {round}");
        for page in found {
            let v = Body(page.rows().only("v").expect("a value")).int();
            assert_eq!(v, round, "round {round}");
        }
    }
    assert!(other.metric(ANSWERED) > 0);
}
