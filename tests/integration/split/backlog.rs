//! More than a client reads, or the proxy holds: replies find their way between others, scans go on at the original, and
//! memory stays within its bound.

use std::thread::sleep;
use std::time::Duration;

use super::world::{ANSWERED, FALLBACKS, WENT_ON, World};
use super::{Ask, CODECS, UNPREPARED, assert_same, state};
use crate::support::request::{self, Parameters};
use crate::support::{Codec, Frame, RawClient, eventually, opcode};

/// More than the proxy works on at a time for one connection.
pub(super) const SCANS: usize = 300;
/// Pages of about 100 KB that are under way at a time.
const PAGES: usize = 128;
const POINT: i16 = 30_000;

/// About 5 MB, in one page.
pub(super) const WIDE: (i32, i32) = (1, 200);
pub(super) const WIDE_TEXT: usize = 20_000;
pub(super) const WIDE_READS: [&str; 2] = [
    "SELECT * FROM {} WHERE k = 1",
    "SELECT * FROM {} WHERE k = 1 AND v >= 0 ALLOW FILTERING",
];

/// About 100 KB, in one page; not split.
pub(super) const UNSPLIT: (i32, i32) = (4, 90);
pub(super) const UNSPLIT_TEXT: usize = 1_000;
pub(super) const UNSPLIT_READ: &str = "SELECT * FROM {} WHERE k = 4";
pub(super) const POINT_READ: &str = "SELECT v FROM {} WHERE k = 1 AND a = 0 AND b = 0";

/// Asks for page after page, and reads them more slowly than they come.
#[test]
fn a_split_read_is_answered_between_the_pages_of_a_backlog() {
    let mut world = World::large(&[(1, 30), UNSPLIT], UNSPLIT_TEXT, &[]);
    world.split(1);
    for codec in CODECS {
        // On a busy machine the original may have to help out: right, but not the question.
        eventually("the split answers", || {
            let before = world.proxy.metric(ANSWERED);
            let pages = pages_before_the_point(&world, codec);
            // As many as were under way when it was asked for, and some that were asked for meanwhile.
            assert!(pages <= 2 * PAGES, "{codec:?}: after {pages} pages");
            (world.proxy.metric(ANSWERED) > before).then_some(())
        });
    }
}

fn pages_before_the_point(world: &World, codec: Codec) -> usize {
    let page = request::query(codec, &world.text(UNSPLIT_READ));
    let point = request::query(codec, &world.text(POINT_READ));
    let mut client = RawClient::connect(world.proxy.address(), codec);
    client.asking = "pages, and one row".to_owned();
    for stream in 0..PAGES {
        client.send(stream as i16, opcode::QUERY, &page);
    }
    client.send(POINT, opcode::QUERY, &point);
    let mut pages = 0;
    loop {
        let reply = client.receive();
        assert_eq!(reply.error(), None, "{codec:?}");
        if reply.stream == POINT {
            return pages;
        }
        pages += 1;
        // Cassandra is faster than this, so there is always a backlog.
        sleep(Duration::from_millis(10));
        if pages < 4 * PAGES {
            client.send(reply.stream, opcode::QUERY, &page);
        }
    }
}

#[test]
fn more_scans_than_the_proxy_holds_go_on_at_the_original() {
    let mut world = World::start(&[(1, 30)]);
    world.split(1);
    for codec in CODECS {
        for is_prepared in [false, true] {
            eventually("some go on at the original", || {
                let before = world.proxy.metric(WENT_ON);
                let (expected, replies) = second_pages(&mut world, codec, is_prepared);
                // A node whose cache is full may forget a statement at once.
                if replies.iter().any(is_unprepared) {
                    return None;
                }
                for reply in &replies {
                    let what = format!("{codec:?}, prepared {is_prepared}, {}", reply.stream);
                    assert_same(
                        &what,
                        std::slice::from_ref(&expected),
                        std::slice::from_ref(reply),
                    );
                }
                (world.proxy.metric(WENT_ON) > before).then_some(())
            });
        }
    }
}

fn is_unprepared(reply: &Frame) -> bool {
    reply.error().is_some_and(|(code, _)| code == UNPREPARED)
}

/// The second page of the original, and of very many scans at a time on one connection.
pub(super) fn second_pages(
    world: &mut World,
    codec: Codec,
    is_prepared: bool,
) -> (Frame, Vec<Frame>) {
    let ask = Ask::new(codec, world.text("SELECT * FROM {} WHERE k = 1"))
        .paged(7)
        .prepared(is_prepared);
    let first = ask.once(&mut world.direct);
    let second = ask.clone().behind(&state(&first).expect("there is more"));
    let expected = second.once(&mut world.direct);
    let ours = ask.once(&mut world.through);
    let parameters = Parameters {
        page_size: Some(7),
        paging_state: state(&ours),
        ..Parameters::default()
    };
    let mut client = RawClient::connect(world.proxy.address(), codec);
    client.asking = "second pages".to_owned();
    let (opcode, body) = match is_prepared {
        true => {
            let id = client.prepare(&ask.text);
            let body = request::execute(codec, &id, &parameters);
            (opcode::EXECUTE, body)
        }
        false => {
            let body = request::query_with(codec, &ask.text, &parameters);
            (opcode::QUERY, body)
        }
    };
    let envelope =
        |stream: usize| crate::support::frame::request(codec, 0, stream as i16, opcode, &body);
    // All at once, so that the proxy has read them before it has answered any. Each is a segment of its own in v5.
    let wire: Vec<u8> = (0..SCANS)
        .flat_map(|stream| client.framed(&envelope(stream)))
        .collect();
    client.send_raw(&wire);
    let replies = (0..SCANS).map(|_| client.receive()).collect();
    (expected, replies)
}

/// Memory that a proxy may have besides its budget.
pub(super) const BESIDE_MIB: u64 = 64;

#[test]
fn clients_that_do_not_read_hold_a_bounded_memory() {
    const BUDGET_MIB: u64 = 32;
    const CLIENTS: usize = 4;
    const READS: usize = 12;
    let settings = &[("limits.split_read_bytes", "32MiB")];
    let mut world = World::large(&[WIDE, (2, 20)], WIDE_TEXT, settings);
    world.split(1);
    world.split(2);
    let expected = WIDE_READS.map(|read| {
        let ask = Ask::new(Codec::V4, world.text(read));
        ask.once(&mut world.direct).rows().rows.len()
    });
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|number| idle(&world, number)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        ask_wide(&world, client, number, READS);
    }
    // Beside them others are served, and go on so.
    let mut most = 0;
    let small = Ask::new(Codec::V5, world.text("SELECT v FROM {} WHERE k = 2"));
    let direct = small.all(&mut world.direct);
    for _ in 0..300 {
        assert_same("beside", &direct, &small.all(&mut world.through));
        most = most.max(world.proxy.memory_kib() >> 10);
    }
    // What waits is answered when its client reads.
    for (number, client) in clients.iter_mut().enumerate() {
        for _ in 0..READS {
            let reply = client.receive();
            drop(client.take_record());
            let rows = reply.rows().rows.len();
            assert_eq!(rows, expected[read_of(reply.stream)], "client {number}");
            most = most.max(world.proxy.memory_kib() >> 10);
        }
    }
    assert!(most <= BUDGET_MIB + BESIDE_MIB, "{most} MiB");
}

/// A USE waits for reads without a keyspace in their text, so these must not wait for their client meanwhile.
#[test]
fn reads_that_wait_for_their_client_make_way_for_a_use() {
    const WAITING: i16 = 4;
    let settings = &[("limits.split_read_bytes", "32MiB")];
    let mut world = World::large(&[WIDE], WIDE_TEXT, settings);
    world.split(1);
    let direct = Ask::new(Codec::V4, world.text(WIDE_READS[0])).once(&mut world.direct);
    let expected = direct.rows().rows.len();
    let used = format!("{FALLBACKS}{{reason=\"use\"}}");
    let using = format!("USE {}", world.keyspace.name);
    let mut client = RawClient::connect(world.proxy.address(), Codec::V4);
    client.query(&using);
    client.asking = "wide pages, and a USE".to_owned();
    let read = request::query(client.codec, "SELECT * FROM events WHERE k = 1");
    let before = world.proxy.metric(ANSWERED);
    let mut reads = 0;
    eventually("one is from the split, and unread", || {
        client.send(reads, opcode::QUERY, &read);
        reads += 1;
        sleep(Duration::from_secs(1));
        (world.proxy.metric(ANSWERED) > before).then_some(())
    });
    for _ in 0..WAITING {
        client.send(reads, opcode::QUERY, &read);
        reads += 1;
    }
    client.send(reads, opcode::QUERY, &request::query(client.codec, &using));
    // The client has read nothing of all this.
    eventually("the others make way", || {
        (world.proxy.metric(&used) >= WAITING as u64).then_some(())
    });
    for _ in 0..=reads {
        let reply = client.receive();
        drop(client.take_record());
        assert_eq!(reply.error(), None);
        if reply.stream < reads {
            assert_eq!(reply.rows().rows.len(), expected);
        }
    }
}

pub(super) fn idle(world: &World, number: usize) -> RawClient {
    let codec = CODECS[number % CODECS.len()];
    RawClient::connect(world.proxy.address(), codec)
}

/// Which read was asked on a stream.
fn read_of(stream: i16) -> usize {
    stream as usize % WIDE_READS.len()
}

/// Asks for wide pages and does not read them.
pub(super) fn ask_wide(world: &World, client: &mut RawClient, number: usize, reads: usize) {
    client.asking = format!("wide pages of client {number}");
    for stream in 0..reads as i16 {
        let text = world.text(WIDE_READS[read_of(stream)]);
        let body = request::query(client.codec, &text);
        client.send(stream, opcode::QUERY, &body);
    }
}
