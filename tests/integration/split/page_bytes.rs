//! `limits.max_page_bytes` on split partitions: pages of large rows are cut short there as they are on the original, and no
//! row is lost, repeated or moved by it, whatever becomes of the split between two pages.

use super::world::{ANSWERED, REFUSED, WENT_ON, World};
use super::{Ask, CODECS, Clients, PAGES_MAX, assert_same, shape, state};
use crate::support::request::Value;
use crate::support::response::Rows;
use crate::support::{Codec, Frame, eventually};

const MAX: usize = 64 << 10;
/// Three of five rows have a text, so a page comes to some 27 rows of the first half of a partition: more than the first piece
/// of it, and no round number. Texts of the second half are larger: less than a piece is enough there, so that a page may be
/// full of bytes where a bucket ends, and nothing says yet where the scan would go on.
const TEXT: usize = 4_000;
const TEXT_MAX: usize = 3 * TEXT;
/// Nothing is known of the rows of a first piece, so it has this many.
const FIRST_ROWS: usize = 16;
/// What a page may have: the piece before the last one was below the limit.
const PAGE_BYTES: usize = MAX + FIRST_ROWS * (TEXT_MAX + 200);
/// Larger than a page that is cut, and smaller than one.
const LARGE: i32 = 40;
const SMALL: i32 = 6;

/// Statements on partition 1, which is split at times, as 2 is and 4 is not, and whether pages of 40 rows are cut.
const READS: [(&str, bool); 14] = [
    ("SELECT * FROM {} WHERE k = ?", true),
    ("SELECT * FROM {} WHERE k = ? ORDER BY a DESC, b ASC", true),
    ("SELECT * FROM {} WHERE k = ? LIMIT 70", true),
    (
        "SELECT * FROM {} WHERE k = ? ORDER BY a DESC, b ASC LIMIT 53",
        true,
    ),
    // It fits into a page, so Cassandra would not go on from anywhere.
    ("SELECT * FROM {} WHERE k = ? LIMIT 40", false),
    ("SELECT * FROM {} WHERE k = ? PER PARTITION LIMIT 61", true),
    (
        "SELECT w, b FROM {} WHERE k = ? AND (a, b) > (2, 2) AND (a, b) <= (19, 1)",
        true,
    ),
    (
        "SELECT * FROM {} WHERE k = ? AND a IN (20, 1, 3, 2, 19, 5, 8, 9, 13, 11, 7)",
        true,
    ),
    (
        "SELECT * FROM {} WHERE k = ? AND v >= 20 ALLOW FILTERING",
        true,
    ),
    ("SELECT a, b, v FROM {} WHERE k = ?", false),
    ("SELECT MAX(w), COUNT(*) FROM {} WHERE k = ?", false),
    ("SELECT * FROM {} WHERE k IN (4, ?, 2)", true),
    ("SELECT * FROM {} WHERE k IN (4, ?, 2) LIMIT 101", true),
    (
        "SELECT * FROM {} WHERE k IN (4, ?, 2) PER PARTITION LIMIT 33",
        true,
    ),
];

/// One of the reads, with what it must give.
struct Case {
    ask: Ask,
    is_cut: bool,
    /// QUERY and EXECUTE take turns from page to page, and so do those that begin: a state is good for both.
    turn: usize,
    direct: Vec<Frame>,
}

fn world() -> World {
    let settings = &[("limits.max_page_bytes", "64KiB")];
    World::large(&[(1, 90), (2, 35), (4, 30)], TEXT, settings)
}

/// Every read on every version.
fn cases(world: &mut World) -> Vec<Case> {
    let mut cases = Vec::new();
    for (codec, first) in CODECS.into_iter().zip(0..) {
        for ((statement, is_cut), number) in READS.into_iter().zip(0..) {
            let ask = Ask::new(codec, world.text(statement))
                .with(&[Value::int(1)])
                .paged(LARGE);
            cases.push(Case {
                direct: ask.all(&mut world.direct),
                ask,
                is_cut,
                turn: first + number,
            });
        }
    }
    cases
}

fn rows(pages: &[Frame]) -> Vec<Vec<Option<Vec<u8>>>> {
    pages.iter().flat_map(|page| page.rows().rows).collect()
}

impl Case {
    /// Of three versions one cannot join partitions, and leaves them to the original.
    fn is_answered(&self) -> bool {
        self.ask.codec != Codec::V3 || !self.ask.text.contains(" IN (4")
    }

    /// All rows in their order, in pages that a client can do with.
    fn check(&self, what: &str, through: &[Frame]) {
        let what = format!("{what}: {:?}", self.ask);
        if !self.is_cut {
            return assert_same(&what, &self.direct, through);
        }
        for (number, page) in through.iter().enumerate() {
            assert_eq!(page.error(), None, "{what}, page {number}");
            self.check_page(&format!("{what}, page {number}"), page);
        }
        assert!(rows(through) == rows(&self.direct), "{what}");
        let shape = shape(through);
        assert_ne!(shape, super::shape(&self.direct), "{what}");
        // Only the last one may be empty, and only as Cassandra's is: there was nothing to say that the one before was it.
        assert!(!shape[..shape.len() - 1].contains(&0), "{what}: {shape:?}");
    }

    fn check_page(&self, what: &str, page: &Frame) {
        let Rows {
            names,
            rows,
            paging_state,
            ..
        } = page.rows();
        assert_eq!(names, self.direct[0].rows().names, "{what}");
        assert!(rows.len() <= LARGE as usize, "{what}: {}", rows.len());
        assert!(page.body.len() < PAGE_BYTES, "{what}: {}", page.body.len());
        assert!(!rows.is_empty() || paging_state.is_none(), "{what}");
    }

    /// As many pages as there are, up to so many in all.
    fn read(&self, mut pages: Vec<Frame>, up_to: usize, clients: &mut Clients) -> Vec<Frame> {
        while pages.len() < up_to {
            let mut ask = self.ask.clone();
            if let Some(last) = pages.last() {
                let Some(state) = state(last) else { break };
                ask = ask.behind(&state);
            }
            let is_prepared = (self.turn + pages.len()) % 2 == 1;
            pages.push(ask.prepared(is_prepared).once(clients));
        }
        assert!(pages.len() < PAGES_MAX, "{:?} never ends", self.ask);
        pages
    }

    fn begin(&self, pages: usize, clients: &mut Clients) -> Vec<Frame> {
        self.read(Vec::new(), pages, clients)
    }

    fn finish(&self, what: &str, begun: Vec<Frame>, clients: &mut Clients) -> usize {
        let pages = self.read(begun, PAGES_MAX, clients);
        self.check(what, &pages);
        pages.len()
    }
}

#[test]
fn pages_of_splits_are_cut_short_and_no_row_is_lost_or_repeated() {
    let mut world = world();
    let cases = cases(&mut world);
    for case in &cases {
        case.finish("from the original", Vec::new(), &mut world.through);
    }
    assert_eq!(world.proxy.metric(ANSWERED), 0);
    scans_begun_on_the_original_end_there(&mut world, &cases);
    for case in &cases {
        every_page_is_cut_on_the_split(&mut world, case);
    }
    small_pages_are_as_cassandras(&mut world);
    scans_go_on_with_pages_of_another_size(&mut world);
    scans_begun_on_the_split_go_on_at_the_original(&mut world, &cases);
    assert_eq!(world.proxy.metric(REFUSED), 0);
}

/// Leaves the partitions split.
fn scans_begun_on_the_original_end_there(world: &mut World, cases: &[Case]) {
    let begin = |case: &Case| case.begin(1, &mut world.through);
    let begun: Vec<_> = cases.iter().map(begin).collect();
    world.split(1);
    world.split(2);
    let before = world.proxy.metric(ANSWERED);
    for (case, begun) in cases.iter().zip(begun) {
        case.finish("begun on the original", begun, &mut world.through);
    }
    assert_eq!(world.proxy.metric(ANSWERED), before);
}

fn every_page_is_cut_on_the_split(world: &mut World, case: &Case) {
    // On a busy machine the original may have to help out: right, but not the question.
    eventually(&format!("the split answers {:?}", case.ask), || {
        let before = world.proxy.metric(ANSWERED);
        let pages = case.finish("from the split", Vec::new(), &mut world.through);
        let answered = world.proxy.metric(ANSWERED) - before;
        (answered == pages as u64 || !case.is_answered()).then_some(())
    });
}

/// They have fewer bytes than would be cut.
fn small_pages_are_as_cassandras(world: &mut World) {
    for codec in CODECS {
        for (statement, _) in READS {
            let ask = Ask::new(codec, world.text(statement))
                .with(&[Value::int(1)])
                .paged(SMALL);
            let direct = ask.all(&mut world.direct);
            assert_same(&format!("{ask:?}"), &direct, &ask.all(&mut world.through));
        }
    }
}

/// A page that was cut, small ones, and again large ones: each goes on where the last one ended.
fn scans_go_on_with_pages_of_another_size(world: &mut World) {
    for codec in CODECS {
        for statement in [
            "SELECT * FROM {} WHERE k = 1",
            "SELECT * FROM {} WHERE k = 1 ORDER BY a DESC, b ASC LIMIT 83",
        ] {
            let first = Ask::new(codec, world.text(statement)).paged(LARGE);
            let mut pages = vec![first.once(&mut world.through)];
            let large = std::iter::repeat_n(LARGE, PAGES_MAX);
            for size in [3, 17, 39, 1].into_iter().chain(large) {
                let Some(state) = state(&pages[pages.len() - 1]) else {
                    break;
                };
                let next = first.clone().paged(size).behind(&state);
                pages.push(next.once(&mut world.through));
                assert!(shape(&pages).pop() <= Some(size as usize), "{next:?}");
            }
            let direct = first.all(&mut world.direct);
            assert!(
                rows(&pages) == rows(&direct),
                "{first:?} {:?}",
                shape(&pages)
            );
        }
    }
}

/// Leaves nothing split.
fn scans_begun_on_the_split_go_on_at_the_original(world: &mut World, cases: &[Case]) {
    let before = world.proxy.metric(ANSWERED);
    // In other buckets, by the number of pages.
    let begin = |(index, case): (usize, &Case)| case.begin(1 + index % 3, &mut world.through);
    let begun: Vec<_> = cases.iter().enumerate().map(begin).collect();
    assert!(world.proxy.metric(ANSWERED) > before);
    world.rollback(1);
    world.rollback(2);
    let went_on = world.proxy.metric(WENT_ON);
    for (case, begun) in cases.iter().zip(begun) {
        case.finish("begun on the split", begun, &mut world.through);
    }
    assert!(world.proxy.metric(WENT_ON) > went_on);
}
