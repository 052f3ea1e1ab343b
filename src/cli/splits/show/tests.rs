//! Splits with fixed facts, to the letter.

use super::*;
use crate::cli::control::tests::partition;
use crate::cli::splits::stage::tests::{progressing, split};
use crate::wide_row::layout::LayoutId;
use crate::wide_row::names::Generation;

const NOW: i64 = 1_700_000_100_000;

fn layout(sizes: &[u64]) -> Layout {
    let partition = partition();
    let bucket = |bytes: &u64| Bucket {
        first: Vec::new(),
        row_count: bytes >> 10,
        byte_count: *bytes,
        home: None,
    };
    Layout::new(
        LayoutId {
            table: partition.row.table.name.clone(),
            key: partition.key,
            generation: Generation(216_345_678),
        },
        "wide_reading_1".to_owned(),
        "EventBucketPartitionSplitStrategy".to_owned(),
        sizes.iter().map(bucket).collect(),
    )
}

#[test]
fn a_split_in_service_is_shown_with_its_buckets() {
    let mut completed = split(State::Completed);
    completed.detected_at = Some(NOW - 7_200_000);
    completed.seen_bytes = Some(24 << 20);
    completed.changed_at = Some(NOW - 60_000);
    completed.not_before = Some(NOW + 10_800_000);
    completed.oldest_generation = Some(Generation(216_345_677));
    completed.pre_split_data = Some(PreSplitData {
        row_count: 20_480,
        byte_count: 20 << 20,
        checksum: vec![0xab, 0xcd],
        newest_write_micros: Some((NOW - 86_400_000) * 1000),
    });
    completed.post_split_data = Some(PostSplitData {
        split_table: "wide_reading_1".to_owned(),
        row_count: 20_480,
        byte_count: 20 << 20,
        checksum: vec![0xab, 0xcd],
        ..PostSplitData::default()
    });
    let layout = Found::Whole(layout(&[8 << 20, 8 << 20, 4 << 20, 0]));
    assert_eq!(
        compose(&partition(), &completed, &layout, NOW),
        "\
partition    plant.reading: sensor = 's1', day = 7
state        COMPLETED at generation 216345678
meaning      in service: the copy was found equal to the original, and reads are answered from its
             buckets
found        2023-11-14 20:15:00Z, 2 h ago, by a scan of 24.0 MiB
changed      2023-11-14 22:14:00Z, 60 s ago
not before   2023-11-15 01:15:00Z, in 3 h: compared with the original again
worker       nobody works on it
original     20480 rows, 20.0 MiB, newest write 2023-11-13 22:15:00Z, 24 h ago
copy         20480 rows equal to the original, 20.0 MiB of values, in plant.wide_reading_1, checksum
             0xabcd on both sides
left over    buckets of generations 216345677 and later may still exist; each is removed a day after
             its end
buckets      4 buckets in plant.wide_reading_1, by EventBucketPartitionSplitStrategy
             0  8192 rows     8.0 MiB  ████████████████████████
             1  8192 rows     8.0 MiB  ████████████████████████
             2  4096 rows     4.0 MiB  ████████████
             3     0 rows         0 B
next         narrows splits rollback plant.reading \"'s1'\" 7    # take it out of service
"
    );
}

/// An earlier version took the original's checksum in another way, which says nothing about the copy.
#[test]
fn a_split_of_an_earlier_version_is_shown_with_the_checksum_of_its_copy_alone() {
    let data = |checksum: &[u8]| PreSplitData {
        checksum: checksum.to_vec(),
        ..PreSplitData::default()
    };
    let copy = PostSplitData {
        split_table: "wide_reading_1".to_owned(),
        checksum: vec![0xab, 0xcd],
        ..PostSplitData::default()
    };
    for original in [None, Some(data(&[])), Some(data(&[0x12, 0x34]))] {
        let text = copy_text(&copy, original.as_ref(), "plant");
        assert!(text.ends_with(", checksum 0xabcd"), "{text}");
    }
    let text = copy_text(&copy, Some(&data(&[0xab, 0xcd])), "plant");
    assert!(text.ends_with(", checksum 0xabcd on both sides"), "{text}");
}

#[test]
fn a_split_under_way_is_shown_with_its_progress() {
    let mut copying = progressing(State::Copying, 200, 500);
    copying.lease = Some("worker-1/00ff".to_owned());
    copying.failures = 1;
    let shown = compose(&partition(), &copying, &Found::None, NOW);
    assert_eq!(
        shown,
        "\
partition    plant.reading: sensor = 's1', day = 7
state        COPYING at generation 216345678
meaning      its rows are being copied into buckets; the original answers
failures     1 attempt in a row
progress     ██████████░░░░░░░░░░░░░░ 40%, 200 rows (195.3 KiB), 19.5 KiB/s, about 15 s left
worker       worker-1 works on it
original     500 rows, 488.3 KiB
buckets      not chosen yet
next         narrows splits watch plant.reading    # follow it
             narrows splits rollback plant.reading \"'s1'\" 7    # give it up
"
    );
}

#[test]
fn a_partition_that_was_never_found_wide_is_told_so() {
    assert_eq!(
        unknown(&partition()),
        "\
partition    plant.reading: sensor = 's1', day = 7
state        none: it was not found wide, and the original answers
next         a read of 64.0 MiB or more through a proxy finds it, and so do reads that are slow or
             fail; to split it whatever its size:
             narrows splits add plant.reading \"'s1'\" 7
"
    );
}

#[test]
fn every_state_has_a_meaning_and_a_next_step() {
    for state in State::ALL {
        for (mode, paused) in [
            (Mode::Serve, false),
            (Mode::Serve, true),
            (Mode::Off, false),
        ] {
            let mut partition = partition();
            partition.row.table.mode = mode;
            partition.row.table.paused = paused;
            let text = compose(&partition, &split(state), &Found::None, NOW);
            assert!(text.contains("\nmeaning      "), "{text}");
            assert!(text.contains("\nnext         narrows "), "{text}");
            let text = text.replace("\n             ", " ");
            let waits = stage::is_under_way(state) && (paused || mode == Mode::Off);
            assert_eq!(text.contains("so it waits"), waits, "{text}");
            assert_eq!(
                text.contains("narrows mode plant.reading serve"),
                mode == Mode::Off,
                "{text}"
            );
        }
        let mut past = split(state);
        past.standing.epoch = 1;
        let text = compose(&partition(), &past, &Found::None, NOW);
        assert!(text.contains("narrows splits add"), "{text}");
    }
}

#[test]
fn what_waits_is_shown_with_the_time_and_only_advice_that_helps() {
    let mut waiting = split(State::Detected);
    waiting.detected_at = Some(NOW - 60_000);
    waiting.found_by = Some(FoundBy::Tombstones);
    waiting.reason = Some("it was written to 5 minutes ago".to_owned());
    waiting.not_before = Some(NOW + 7_200_000);
    let shown = |split: &Split| compose(&partition(), split, &Found::None, NOW);
    let text = shown(&waiting);
    for part in [
        "state        WAITING at generation 216345678\n",
        "found        2023-11-14 22:14:00Z, 60 s ago, by its tombstones\n",
        "not before   2023-11-15 00:15:00Z, in 2 h: not looked at before then\n",
        "next         narrows splits add plant.reading \"'s1'\" 7    # split it as soon as no hint",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    waiting.found_by = Some(FoundBy::Hand);
    let text = shown(&waiting);
    assert!(!text.contains("splits add"), "a person has asked:\n{text}");
    waiting.not_before = Some(NOW - 1);
    assert!(shown(&waiting).contains("state        DETECTED"));
    for (state, found_by, advice) in [
        (
            State::NotWide,
            FoundBy::Size,
            "7    # split it whatever its size\n",
        ),
        (State::NotWide, FoundBy::Hand, "7 --dry-run    #"),
        (State::Refused, FoundBy::Size, "7 --dry-run    #"),
        (
            State::Failed,
            FoundBy::Size,
            "7    # try it again at once\n",
        ),
    ] {
        let mut split = split(state);
        split.found_by = Some(found_by);
        let text = shown(&split);
        assert!(text.contains(advice), "{state:?}: {text}");
    }
}

#[test]
fn of_very_many_buckets_the_first_and_the_last_are_shown() {
    let sizes = vec![1 << 20; 200];
    let text = list_buckets(&layout(&sizes).buckets);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 129);
    assert_eq!(lines[64], "             … 72 more");
    assert!(lines[63].starts_with("              63  "), "{}", lines[63]);
    assert!(lines[65].starts_with("             136  "), "{}", lines[65]);
}
