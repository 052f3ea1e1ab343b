//! Sightings in, events out.

mod run;

use std::collections::HashMap;
use std::time::Duration;

use super::detector::TOMBSTONES_MANY;
use super::reads::REPORT_AGAIN;
use super::scans::SCANS_MAX;
use super::suspects::{APART, TURN_EVERY};
use super::*;
use crate::sighting::{Failure, LONG, SLOW, Seen, SeenPage, Sighting, Top, Warning};

const WIDE: u64 = 1_000;

struct World {
    detector: Detector,
    reads: WideReads,
    now: Instant,
    answers: u64,
}

impl World {
    fn new() -> Self {
        let reads = WideReads::default();
        Self {
            detector: Detector::new(reads.clone()),
            reads,
            now: Instant::now(),
            answers: 0,
        }
    }

    fn see(&mut self, key: u64, what: Seen) -> Option<Event> {
        let facts = TableFacts {
            wide_bytes: WIDE,
            answers: self.answers,
        };
        let sighting = Sighting {
            table: table(),
            key: partition(key),
            what,
        };
        self.detector.see(sighting, facts, self.now)
    }

    /// A page of a scan, between two states.
    fn page(
        &mut self,
        key: u64,
        (from, to): (Option<u64>, Option<u64>),
        bytes: u64,
    ) -> Option<Event> {
        self.see(key, page(from, to, bytes, Duration::ZERO))
    }

    /// So many signs, far enough from each other, while so many reads go well between them.
    fn signs(&mut self, key: u64, what: Seen, count: usize, well: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..count {
            self.now += APART;
            self.answers += well;
            events.extend(self.see(key, what));
        }
        events
    }
}

fn table() -> TableName {
    TableName::new("plant", "reading")
}

fn partition(key: u64) -> PartitionKey {
    PartitionKey::new(key.to_be_bytes())
}

fn page(from: Option<u64>, to: Option<u64>, bytes: u64, latency: Duration) -> Seen {
    Seen::Page(SeenPage {
        goes_on_from: from,
        ends_at: to,
        bytes,
        rows: 1,
        latency,
        condenses: false,
    })
}

fn size(key: u64, bytes: u64) -> Option<Event> {
    event(key, Some(bytes), FoundBy::Size)
}

fn event(key: u64, bytes: Option<u64>, reason: FoundBy) -> Option<Event> {
    Some(Event {
        table: table(),
        key: partition(key),
        bytes,
        reason,
    })
}

#[test]
fn the_pages_of_one_scan_are_summed() {
    let mut world = World::new();
    assert_eq!(world.page(1, (None, Some(10)), 400), None);
    assert_eq!(world.page(1, (Some(10), Some(11)), 400), None);
    assert_eq!(world.page(1, (Some(11), Some(12)), 400), size(1, 1200));
    assert_eq!(world.page(1, (Some(12), None), 400), None, "told already");
    assert_eq!(world.detector.open_scans(), 0);
}

#[test]
fn one_large_page_is_enough() {
    let mut world = World::new();
    assert_eq!(world.page(1, (None, None), WIDE - 1), None);
    assert_eq!(world.page(1, (None, None), WIDE), size(1, WIDE));
}

#[test]
fn a_narrow_partition_is_not_wide_however_often_it_is_read() {
    let mut world = World::new();
    for _ in 0..1_000 {
        assert_eq!(world.page(1, (None, Some(10)), 400), None);
        assert_eq!(world.page(1, (Some(10), None), 400), None);
    }
    // Side by side, and one after another from the same place.
    for _ in 0..100 {
        assert_eq!(world.page(1, (None, Some(10)), 400), None);
    }
    for _ in 0..200 {
        assert_eq!(world.page(1, (Some(10), None), 400), None);
    }
    assert_eq!(world.detector.open_scans(), 0);
}

#[test]
fn the_same_page_asked_for_again_counts_once() {
    let mut world = World::new();
    assert_eq!(world.page(1, (None, Some(10)), 400), None);
    for _ in 0..10 {
        assert_eq!(world.page(1, (Some(10), Some(11)), 400), None);
    }
    assert_eq!(world.page(1, (Some(11), None), 150), None, "950 in all");
}

#[test]
fn two_scans_side_by_side_are_each_seen_whole() {
    let mut world = World::new();
    assert_eq!(world.page(1, (None, Some(10)), 400), None);
    assert_eq!(world.page(1, (None, Some(10)), 400), None);
    assert_eq!(world.page(1, (Some(10), Some(11)), 400), None);
    assert_eq!(world.page(1, (Some(10), Some(11)), 400), None);
    assert_eq!(world.page(1, (Some(11), None), 400), size(1, 1200));
}

#[test]
fn a_lost_page_makes_a_scan_smaller_and_nothing_else() {
    let mut world = World::new();
    assert_eq!(world.page(1, (None, Some(10)), 900), None);
    // The page from 10 to 11 was not seen.
    assert_eq!(world.page(1, (Some(11), Some(12)), 900), None);
    assert_eq!(world.page(1, (Some(12), None), 900), size(1, 1800));
}

#[test]
fn partitions_and_tables_with_the_same_states_are_kept_apart() {
    let mut world = World::new();
    for key in 0..50 {
        assert_eq!(world.page(key, (None, Some(10)), 999), None);
    }
    assert_eq!(world.page(99, (Some(10), None), 999), None);
    let sighting = Sighting {
        table: TableName::new("plant", "other"),
        key: partition(1),
        what: page(Some(10), None, 999, Duration::ZERO),
    };
    let facts = TableFacts {
        wide_bytes: WIDE,
        answers: 0,
    };
    assert_eq!(world.detector.see(sighting, facts, world.now), None);
}

/// Against a plain sum for each scan: an event comes with the page by which the first scan of a partition is wide.
#[test]
fn many_interleaved_scans_are_told_apart() {
    let mut world = World::new();
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let scans = 3_000_usize;
    let mut read = vec![(0_u64, None); scans];
    let mut expected: HashMap<u64, u64> = HashMap::new();
    let mut found: HashMap<u64, u64> = HashMap::new();
    for state in 1..30_000 {
        let scan = next(scans as u64) as usize;
        // Three scans of each partition.
        let key = scan as u64 / 3;
        let bytes = next(200);
        let (sum, from) = read[scan];
        let is_last = next(10) == 0;
        let to = (!is_last).then_some(state);
        read[scan] = if is_last {
            (0, None)
        } else {
            (sum + bytes, to)
        };
        if sum + bytes >= WIDE {
            expected.entry(key).or_insert(sum + bytes);
        }
        if let Some(event) = world.page(key, (from, to), bytes) {
            let again = found.insert(key, event.bytes.expect("of a scan"));
            assert_eq!(again, None, "one event for a partition");
        }
    }
    assert!(
        expected.len() > 100 && expected.len() < 900,
        "{} of 1000 are wide",
        expected.len()
    );
    assert_eq!(found, expected);
}

#[test]
fn scans_that_nobody_goes_on_with_take_a_bounded_place() {
    let mut world = World::new();
    for key in 0..3 * SCANS_MAX as u64 {
        assert_eq!(world.page(key, (None, Some(10)), 600), None);
        assert!(world.detector.open_scans() <= SCANS_MAX);
    }
    let last = 3 * SCANS_MAX as u64 - 1;
    assert_eq!(world.page(0, (Some(10), None), 600), None, "forgotten");
    assert_eq!(world.page(last, (Some(10), None), 600), size(last, 1200));
    world.now += Duration::from_secs(3600);
    world.page(7, (None, None), 1);
    assert_eq!(world.detector.open_scans(), 0);
}

#[test]
fn a_partition_is_reported_again_after_an_hour() {
    let mut world = World::new();
    assert!(world.page(1, (None, None), WIDE).is_some());
    world.now += REPORT_AGAIN / 2;
    assert_eq!(world.page(1, (None, None), WIDE), None);
    world.now += REPORT_AGAIN / 2;
    assert!(world.page(1, (None, None), WIDE).is_some());
    world.reads.forget(&table(), &partition(1));
    assert!(world.page(1, (None, None), WIDE).is_some());
}

#[test]
fn reads_of_wide_partitions_are_counted() {
    let mut world = World::new();
    for _ in 0..5 {
        world.page(1, (None, Some(10)), WIDE);
        world.page(1, (Some(10), None), WIDE);
        world.page(2, (None, Some(10)), 1);
    }
    world.see(1, Seen::Failure(Failure::Timeout));
    assert_eq!(world.reads.reads(&table(), &partition(1)), 6);
    assert_eq!(world.reads.reads(&table(), &partition(2)), 0);
    world.now += REPORT_AGAIN;
    world.page(1, (None, None), WIDE);
    assert_eq!(
        world.reads.reads(&table(), &partition(1)),
        4,
        "older ones count less"
    );
}

#[test]
fn what_upstream_says_itself_counts_at_once() {
    for (what, reason) in [
        (
            Seen::Failure(Failure::TombstoneOverload),
            FoundBy::Tombstones,
        ),
        (Seen::Failure(Failure::TooLarge), FoundBy::TooLarge),
        (Seen::Warning(Warning::ReadSize), FoundBy::Warning),
        (Seen::Warning(Warning::RowIndex), FoundBy::Warning),
    ] {
        let mut world = World::new();
        assert_eq!(world.see(1, what), event(1, None, reason));
        assert_eq!(world.see(1, what), None, "told already");
    }
}

/// Signs with other causes, each with the reason it would have.
fn signs() -> [(Seen, FoundBy); 3] {
    [
        (Seen::Failure(Failure::Timeout), FoundBy::Timeouts),
        (Seen::Failure(Failure::ReadFailure), FoundBy::Failures),
        (page(None, None, 1, SLOW), FoundBy::Slow),
    ]
}

#[test]
fn a_partition_that_fails_again_and_again_while_others_are_well_counts() {
    for (what, reason) in signs() {
        let mut world = World::new();
        assert_eq!(world.signs(1, what, 2, 100), []);
        let events = world.signs(1, what, 1, 100);
        assert_eq!(events.into_iter().next(), event(1, None, reason));
    }
}

#[test]
fn signs_in_a_short_time_are_one() {
    for (what, _) in signs() {
        let mut world = World::new();
        for _ in 0..1_000 {
            world.answers += 100;
            assert_eq!(world.see(1, what), None);
        }
    }
}

#[test]
fn signs_long_ago_are_forgotten() {
    for (what, _) in signs() {
        let mut world = World::new();
        for _ in 0..10 {
            assert_eq!(world.signs(1, what, 2, 100), []);
            world.now += Duration::from_secs(600);
        }
    }
}

#[test]
fn a_table_that_does_not_answer_says_nothing_about_its_partitions() {
    for (what, _) in signs() {
        let mut world = World::new();
        assert_eq!(world.signs(1, what, 30, 0), []);
    }
}

#[test]
fn trouble_of_many_partitions_says_nothing_about_each() {
    for (what, _) in signs() {
        let mut world = World::new();
        for _ in 0..20 {
            world.now += APART;
            for key in 0..200 {
                // Most reads still go well, as when one node of many is down.
                world.answers += 5;
                assert_eq!(world.see(key, what), None);
            }
        }
    }
}

#[test]
fn tombstone_warnings_count_whatever_the_rest_of_the_table_does() {
    let warning = Seen::Warning(Warning::Tombstones);
    let mut world = World::new();
    // Nobody reads anything else, or all other reads have trouble.
    for other in [2, 3] {
        world.signs(other, Seen::Failure(Failure::Timeout), 2, 0);
    }
    assert_eq!(world.signs(1, warning, 2, 0), []);
    let events = world.signs(1, warning, 1, 0);
    assert_eq!(
        events.into_iter().next(),
        event(1, None, FoundBy::Tombstones)
    );
    let mut world = World::new();
    for _ in 0..100 {
        assert_eq!(world.see(1, warning), None, "one scan, not three");
    }
    world.now += Duration::from_secs(600);
    assert_eq!(world.signs(1, warning, 2, 100), [], "long ago");
}

fn long(latency: Duration) -> Seen {
    let Seen::Page(page) = page(None, None, 20, latency) else {
        panic!("a page");
    };
    let condenses = true;
    Seen::Page(SeenPage { condenses, ..page })
}

#[test]
fn one_long_aggregate_counts_and_one_a_minute_of_a_table() {
    let mut world = World::new();
    assert_eq!(world.see(1, long(LONG - Duration::from_millis(1))), None);
    assert_eq!(world.see(1, page(None, None, 20, LONG)), None, "reads rows");
    assert_eq!(world.see(1, long(LONG)), event(1, None, FoundBy::Long));
    assert_eq!(world.see(2, long(LONG)), None, "the cluster may be slow");
    world.now += TURN_EVERY;
    // What was told already takes no turn.
    assert_eq!(world.see(1, long(LONG)), None);
    assert_eq!(world.see(2, long(LONG)), event(2, None, FoundBy::Long));
}

#[test]
fn an_aggregate_that_is_slow_again_and_again_hurts() {
    let mut world = World::new();
    let events = world.signs(1, long(SLOW), 3, 100);
    let reasons: Vec<FoundBy> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, [FoundBy::Long, FoundBy::Slow]);
    assert_eq!(world.signs(1, long(SLOW), 3, 100), [], "told already");
    assert_eq!(
        world.page(1, (None, None), WIDE),
        None,
        "no worse than that"
    );
}

#[test]
fn what_a_node_lists_as_wide_is_believed_once() {
    let mut world = World::new();
    let (bytes, many) = (Seen::Top(Top::Bytes(WIDE)), TOMBSTONES_MANY);
    assert_eq!(world.see(1, bytes), size(1, WIDE));
    assert_eq!(
        world.see(1, bytes),
        None,
        "the next replica, or the next poll"
    );
    assert_eq!(world.see(2, Seen::Top(Top::Bytes(WIDE - 1))), None);
    assert_eq!(world.see(3, Seen::Top(Top::Tombstones(many - 1))), None);
    let found = world.see(3, Seen::Top(Top::Tombstones(many)));
    let found = found.map(|event| (event.reason, event.bytes));
    assert_eq!(found, Some((FoundBy::Tombstones, None)));
    assert_eq!(
        world.reads.reads(&table(), &partition(1)),
        1,
        "nobody has read it"
    );
}
