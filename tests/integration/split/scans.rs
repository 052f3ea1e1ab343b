//! Scans of small pages that live through a change: no row is skipped or repeated, and the shape of the pages stays.

use super::scan::Scan;
use super::world::{ANSWERED, REFUSED, WENT_ON, World, await_served, await_unserved};
use super::{Ask, Clients};
use crate::support::Codec;

/// After so many pages something happens; scans of other lengths are in other places then.
const PAGES_BEFORE: [usize; 3] = [1, 2, 4];

/// What may happen, one after the other to the same partitions, since a world takes long to make.
#[test]
fn a_scan_lives_through_whatever_happens_to_its_split() {
    let mut world = World::start(&[(1, 30), (2, 21), (4, 10)]);
    let scans = Scan::all(&mut world);
    a_scan_begun_on_the_original_ends_there_after_a_cut_over(&mut world, &scans);
    world.split(1);
    world.split(2);
    a_scan_begun_on_a_split_goes_on_at_the_original_after_a_rollback(&mut world, &scans);
    a_scan_begun_on_a_split_lives_through_the_next_generation(&mut world, &scans);
    a_scan_lives_through_a_change_of_proxy_with_every_page(&mut world, &scans);
    a_scan_begun_on_a_split_ends_on_the_original_when_the_mode_changes(&mut world, &scans);
    a_scan_that_goes_on_shows_the_original(&mut world);
    assert_eq!(world.proxy.metric(REFUSED), 0);
    a_scan_lives_through_a_restart_of_the_proxy(world, &scans);
}

fn begin(world: &mut World, scans: &[Scan], pages: usize) -> Vec<Scan> {
    let mut scans = scans.to_vec();
    for scan in &mut scans {
        (0..pages).for_each(|_| scan.next(&mut world.through));
    }
    scans
}

fn finish(world: &mut World, scans: &mut [Scan]) {
    let refused = world.proxy.metric(REFUSED);
    for scan in scans {
        scan.finish(&mut world.through);
    }
    assert_eq!(world.proxy.metric(REFUSED), refused);
}

fn a_scan_begun_on_the_original_ends_there_after_a_cut_over(world: &mut World, scans: &[Scan]) {
    for pages in PAGES_BEFORE {
        let mut scans = begin(world, scans, pages);
        world.split(1);
        world.split(2);
        let before = world.proxy.metric(ANSWERED);
        finish(world, &mut scans);
        assert_eq!(world.proxy.metric(ANSWERED), before, "{pages}");
        world.rollback(1);
        world.rollback(2);
    }
}

fn a_scan_begun_on_a_split_goes_on_at_the_original_after_a_rollback(
    world: &mut World,
    scans: &[Scan],
) {
    let before = world.proxy.metric(WENT_ON);
    for pages in PAGES_BEFORE {
        let mut scans = begin(world, scans, pages);
        world.rollback(1);
        world.rollback(2);
        finish(world, &mut scans);
        world.split(1);
        world.split(2);
    }
    assert!(world.proxy.metric(WENT_ON) > before);
}

fn a_scan_that_goes_on_shows_the_original(world: &mut World) {
    let text = world.text("SELECT v FROM {} WHERE k = 1");
    for codec in super::CODECS {
        // The last row of the partition is not what its bucket says.
        world.mark((1, 7, 0), -1, true);
        let ask = Ask::new(codec, &text).paged(10);
        let first = ask.once(&mut world.through);
        let state = super::state(&first).expect("more");
        world.rollback(1);
        let rest = ask.behind(&state).all(&mut world.through);
        let rows: usize = super::shape(&rest).iter().sum();
        assert_eq!(rows, 20, "{codec:?}");
        let minus_one = Some((-1_i32).to_be_bytes().to_vec());
        let shown =
            |page: &crate::support::Frame| page.rows().rows.iter().any(|row| row[0] == minus_one);
        assert!(!rest.iter().any(shown), "{codec:?}");
        world.split(1);
    }
}

fn a_scan_begun_on_a_split_lives_through_the_next_generation(world: &mut World, scans: &[Scan]) {
    for pages in PAGES_BEFORE {
        let mut scans = begin(world, scans, pages);
        for key in [1, 2] {
            world.rollback(key);
            world.split(key);
        }
        finish(world, &mut scans);
    }
}

fn a_scan_lives_through_a_restart_of_the_proxy(mut world: World, scans: &[Scan]) {
    // In a single round the original may have answered all, while somebody changed a schema.
    let mut answered = 0;
    for pages in PAGES_BEFORE {
        let mut scans = begin(&mut world, scans, pages);
        world = world.restart();
        world.await_served(1);
        world.await_served(2);
        let before = world.proxy.metric(ANSWERED);
        finish(&mut world, &mut scans);
        answered += world.proxy.metric(ANSWERED) - before;
    }
    assert!(answered > 0);
}

fn a_scan_lives_through_a_change_of_proxy_with_every_page(world: &mut World, scans: &[Scan]) {
    let other = world.builder().start();
    let mut through_other = Clients::new(other.address());
    for key in [1, 2] {
        await_served(&other, &mut through_other, &world.read_one(key));
    }
    let proxies = [&world.proxy, &other].map(|proxy| proxy.metric(ANSWERED));
    for mut scan in scans.iter().cloned() {
        let mut page = 0;
        while !scan.is_done() {
            let clients = match page % 2 {
                0 => &mut world.through,
                _ => &mut through_other,
            };
            scan.next(clients);
            page += 1;
        }
        scan.assert_same();
    }
    for (proxy, before) in [&world.proxy, &other].into_iter().zip(proxies) {
        assert!(proxy.metric(ANSWERED) > before);
        assert_eq!(proxy.metric(REFUSED), 0);
    }
}

fn a_scan_begun_on_a_split_ends_on_the_original_when_the_mode_changes(
    world: &mut World,
    scans: &[Scan],
) {
    for mode in ["detect", "off"] {
        let mut begun = begin(world, scans, 2);
        set_mode(world, mode);
        let read = world.read_one(1);
        await_unserved(&world.proxy, &mut world.through, &read);
        let before = world.proxy.metric(ANSWERED);
        finish(world, &mut begun);
        assert_eq!(world.proxy.metric(ANSWERED), before, "{mode}");
        // And one that begins now is the original's from the start.
        let mut begun = begin(world, scans, 2);
        set_mode(world, "serve");
        world.await_served(1);
        let before = world.proxy.metric(ANSWERED);
        finish(world, &mut begun);
        assert_eq!(world.proxy.metric(ANSWERED), before, "{mode}");
    }
}

fn set_mode(world: &mut World, mode: &str) {
    let text = format!(
        "UPDATE {}.watched_table SET mode = '{mode}' \
         WHERE catalog = 'watched' AND keyspace_name = '{}' AND table_name = 'events'",
        world.control_keyspace.name, world.keyspace.name
    );
    let reply = Ask::new(Codec::V4, text).once(&mut world.direct);
    assert!(reply.error().is_none(), "{:?}", reply.error());
}
