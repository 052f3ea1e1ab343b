//! What a scan prints.

use super::*;
use crate::cli::key::tests::{sensor_and_day, words};
use crate::schema::names::TableName;
use crate::watched::Mode;

fn reading() -> WatchedTable {
    WatchedTable::new(TableName::new("plant", "reading"))
}

fn shown(day: &str, is_whole: bool) -> Shown {
    let key = sensor_and_day().read(&words(&["'s1'", day]));
    Shown {
        wide: Wide {
            key: key.expect("right"),
            rows: 70_000,
            bytes: 64 << 20,
            is_whole,
        },
        state: "–".to_owned(),
    }
}

fn seen(shown: Vec<Shown>, end: End) -> Seen {
    Seen {
        shown,
        unreadable: Vec::new(),
        counted: Counted {
            partitions: 1200,
            rows: 1_000_000,
            bytes: 3 << 30,
            largest_bytes: 5 << 20,
        },
        end,
    }
}

fn noted(nominate: bool, seen: &Seen) -> String {
    notes(&reading(), nominate, seen, &sensor_and_day())
}

#[test]
fn those_found_stand_under_one_another() {
    let shown = [shown("7", false), shown("-1000", true)];
    assert_eq!(
        listed(&shown, &sensor_and_day()),
        "KEY             ROWS        SIZE  STATE\n\
         's1', 7      ≥ 70000  ≥ 64.0 MiB  –\n\
         's1', -1000    70000    64.0 MiB  –\n"
    );
    assert_eq!(listed(&[], &sensor_and_day()), "");
    assert_eq!(
        format::json(&Row::new(&reading(), &sensor_and_day(), &shown[0])),
        "{\"table\":\"plant.reading\",\"key\":[\"'s1'\",\"7\"],\"partition_key\":\"0x000273310000040000000700\",\
         \"rows\":70000,\"bytes\":67108864,\"at_least\":true,\"state\":\"–\"}\n"
    );
}

#[test]
fn what_was_read_and_what_to_do_next_is_said() {
    assert_eq!(
        noted(false, &seen(Vec::new(), End::Whole)),
        "no partition of 64.0 MiB or more among 1200 partitions of plant.reading; the largest has 5.0 MiB\n"
    );
    assert_eq!(
        noted(false, &seen(vec![shown("7", true)], End::Early(0.25))),
        "1 of 1200 partitions are wide; 3.0 GiB were read\n\
         stopped at 25.0% of the ring: there may be more\n\
         to nominate them: narrows splits scan plant.reading --nominate\n\
         to see the plan for one of them: narrows splits add plant.reading key… --dry-run\n"
    );
    assert_eq!(
        noted(true, &seen(vec![shown("7", true)], End::Limit)),
        "1 of 1200 partitions are wide; 3.0 GiB were read\n\
         stopped after 1: there may be more; a larger --limit finds them\n\
         to follow them: narrows splits watch plant.reading\n"
    );
    let mut detecting = reading();
    detecting.mode = Mode::Detect;
    let found = seen(vec![shown("7", true)], End::Whole);
    let text = notes(&detecting, true, &found, &sensor_and_day());
    assert!(text.contains("narrows mode plant.reading serve"), "{text}");
}

#[test]
fn what_could_not_be_read_is_named_by_its_key_or_token() {
    let mut found = seen(Vec::new(), End::Whole);
    found.unreadable = vec![(-5, None), (7, Some(shown("7", true).wide.key))];
    let text = noted(false, &found);
    assert!(
        text.contains(
            "2 partitions could not be read because of tombstones: at token -5; 's1', 7\n"
        ),
        "{text}"
    );
    found.unreadable = (0..12).map(|token| (token, None)).collect();
    let text = noted(false, &found);
    assert!(text.contains("at token 9 and 2 more\n"), "{text}");
}

#[test]
fn the_cost_is_said_first_and_then_how_far_it_is() {
    let text = heading(&reading(), Some(12 << 20));
    assert!(
        text.starts_with("reading every partition of plant.reading once, but only the first 64.0 MiB of larger ones")
            && text.contains("has about 12.0 MiB"),
        "{text}"
    );
    assert_eq!(heading(&reading(), None).lines().count(), 1);
    let counted = seen(Vec::new(), End::Whole).counted;
    assert_eq!(
        progress(0.25, counted, 2, Duration::from_secs(60)),
        "25.0% of the ring: 1200 partitions, 3.0 GiB, 51.2 MiB/s; 2 wide, about 3 min left"
    );
    assert_eq!(
        progress(0.0, Counted::default(), 0, Duration::from_secs(1)),
        "0.0% of the ring: 0 partitions, 0 B, 0 B/s; 0 wide"
    );
}
