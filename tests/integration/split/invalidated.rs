//! A generation that was taken out of service is never served to a request that is sent afterwards, by any proxy, however
//! warm its filter and caches are.

use super::world::{ANSWERED, World, await_served};
use super::{Ask, Clients, state};
use crate::support::response::Body;
use crate::support::{Codec, Frame, Proxy, scale};

/// More with `SCALE`.
const ROUNDS: i32 = 10;
const READS: usize = 6;

fn v(page: &Frame) -> Vec<i32> {
    let rows = page.rows().rows;
    rows.iter()
        .map(|row| Body(row[0].as_deref().expect("a value")).int())
        .collect()
}

/// What a client may ask that must show the marked cell.
fn reads(world: &World) -> Vec<Ask> {
    let statements = [
        "SELECT v FROM {} WHERE k = 1 AND a = 1 AND b = 1",
        "SELECT v FROM {} WHERE k = 1 AND a = 1 AND b <= 1 LIMIT 1",
        "SELECT MAX(v) FROM {} WHERE k = 1",
        "SELECT v FROM {} WHERE k IN (1, 4) AND a = 1 AND b = 1",
    ];
    let codecs = [Codec::V4, Codec::V5, Codec::V3];
    let ask =
        |(index, statement): (usize, &&str)| Ask::new(codecs[index % 3], world.text(statement));
    statements.iter().enumerate().map(ask).collect()
}

#[test]
fn no_proxy_serves_what_another_has_invalidated() {
    let mut world = World::on_three(&[(1, 12), (2, 12)]);
    let other = world.builder().start();
    a_read_sees_the_original_as_soon_as_its_split_is_invalidated(&mut world, &other);
    a_scan_sees_the_original_as_soon_as_its_split_is_invalidated(&mut world, &other);
}

fn a_read_sees_the_original_as_soon_as_its_split_is_invalidated(world: &mut World, other: &Proxy) {
    let mut through_other = Clients::new(other.address());
    let reads = reads(world);
    for round in 1..=ROUNDS * scale() as i32 {
        let marker = 1_000_000 + round;
        world.split(1);
        // Every cache of the other is warm.
        for read in &reads {
            await_served_or_forwarded(other, &mut through_other, read);
        }
        // Past every proxy, as if its writer had invalidated first: now the split is wrong, and must not be seen.
        world.mark((1, 1, 1), marker, false);
        world.rollback(1);
        for attempt in 0..READS {
            for read in &reads {
                for clients in [&mut through_other, &mut world.through] {
                    let found = v(&read.once(clients));
                    assert_eq!(
                        found,
                        [marker],
                        "round {round}, attempt {attempt}: {read:?}"
                    );
                }
            }
        }
    }
    assert!(other.metric(ANSWERED) > 0);
}

fn await_served_or_forwarded(proxy: &Proxy, clients: &mut Clients, read: &Ask) {
    if read.text.contains(" IN ") && read.codec == Codec::V3 {
        return;
    }
    await_served(proxy, clients, read);
}

fn a_scan_sees_the_original_as_soon_as_its_split_is_invalidated(world: &mut World, other: &Proxy) {
    let mut through_other = Clients::new(other.address());
    for round in 1..=4 * scale() as i32 {
        let marker = 2_000_000 + round;
        world.split(1);
        await_served(other, &mut through_other, &world.read_one(1));
        let codec = super::CODECS[round as usize % 3];
        let ask = Ask::new(
            codec,
            world.text("SELECT v FROM {} WHERE k = 1 AND v > 0 ALLOW FILTERING"),
        )
        .paged(2);
        let first = ask.once(&mut world.through);
        let state = state(&first).expect("more");
        world.mark((1, 2, 0), marker, false);
        world.rollback(1);
        let rest = ask.behind(&state).all(&mut through_other);
        let found: Vec<i32> = rest.iter().flat_map(v).collect();
        assert!(
            found.contains(&marker),
            "round {round} {codec:?}: {found:?}"
        );
    }
}
