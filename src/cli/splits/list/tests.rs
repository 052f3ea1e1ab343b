//! The exact output for fixed splits.

use super::*;
use crate::cli::key::tests::{sensor_and_day, words};
use crate::cli::splits::stage::tests::{progressing, split};
use crate::watched::WatchedTable;

const NOW: i64 = 1_700_000_100_000;

fn name() -> TableName {
    TableName::new("plant", "reading")
}

fn key(sensor: &str, day: &str) -> PartitionKey {
    let columns = sensor_and_day();
    columns.read(&words(&[sensor, day])).expect("right")
}

fn keys() -> BTreeMap<TableName, KeyColumns> {
    BTreeMap::from([(name(), sensor_and_day())])
}

fn found(sensor: &str, changed_before: i64, split: Split) -> Found {
    Found {
        table: name(),
        key: key(sensor, "7"),
        split: Split {
            changed_at: Some(NOW - changed_before),
            ..split
        },
    }
}

fn some() -> Vec<Found> {
    let mut detected = split(State::Detected);
    detected.seen_bytes = Some(480 << 20);
    detected.not_before = Some(NOW + 7_200_000);
    detected.reason = Some("written to".to_owned());
    detected.found_by = Some(FoundBy::Tombstones);
    let mut failed = split(State::Failed);
    failed.reason = Some("bucket 3\ndiffers".to_owned());
    let mut past = progressing(State::Completed, 500_000, 500_000);
    past.standing.epoch = 1;
    vec![
        found("'s1'", 1000, progressing(State::Copying, 210_000, 500_000)),
        found("'s2'", 61_000, detected),
        found("'s3'", 7_200_000, failed),
        found("'s4'", 200_000_000, past),
    ]
}

#[test]
fn lines_are_aligned() {
    assert_eq!(
        table(&some(), &keys(), NOW, None),
        "\
TABLE          KEY      STATE        GENERATION  DONE    ROWS       SIZE   AGE  REASON
plant.reading  's1', 7  COPYING       216345678   42%  500000  476.8 MiB   1 s
plant.reading  's2', 7  WAITING       216345678     –       –  480.0 MiB  61 s  written to; waits for 2 h
plant.reading  's3', 7  FAILED        216345678     –       –          –   2 h  bucket 3 differs
plant.reading  's4', 7  (COMPLETED)   216345678     –  500000  476.8 MiB   2 d  out of service with its whole table
"
    );
    assert_eq!(table(&[], &keys(), NOW, None), "");
}

#[test]
fn long_keys_are_shortened_to_what_a_terminal_leaves() {
    let one = [found(
        &format!("'{}'", "x".repeat(70)),
        0,
        split(State::Failed),
    )];
    let second = |width| {
        let table = table(&one, &keys(), NOW, width);
        let line = table.lines().nth(1).expect("one line").to_owned();
        (line.clone(), line.matches('x').count())
    };
    let (line, kept) = second(Some(80));
    assert_eq!((line.chars().count(), kept), (78, 18), "{line}");
    assert!(line.contains("xxx…  FAILED"), "{line}");
    assert_eq!(second(None).1, 46);
    assert_eq!(second(Some(10)).1, 10);
}

#[test]
fn objects_hold_all_that_is_known() {
    let parsed = |one: &Found| -> serde_json::Value {
        let line = format::json(&Row::new(one, &keys(), NOW));
        assert!(
            line.starts_with("{\"table\":\"plant.reading\",\"key\":["),
            "{line}"
        );
        serde_json::from_str(&line).expect("JSON")
    };
    let objects: Vec<_> = some().iter().map(parsed).collect();
    assert_eq!(
        objects[0],
        serde_json::json!({
            "table": "plant.reading", "key": ["'s1'", "7"], "partition_key": "0x000273310000040000000700",
            "state": "COPYING", "found_by": null, "generation": 216_345_678, "in_service": false, "out_with_table": false,
            "percent": 42, "done_rows": 210_000, "done_bytes": 210_000_000, "rows": 500_000, "bytes": 500_000_000,
            "seen_bytes": null, "worker": null, "failures": 0, "reason": null, "not_before": null,
            "detected_at": null, "changed_at": "2023-11-14T22:14:59.000Z",
        })
    );
    assert_eq!(objects[1]["state"], "WAITING");
    assert_eq!(objects[1]["found_by"], "tombstones");
    assert_eq!(objects[2]["reason"], "bucket 3\ndiffers");
    assert_eq!(objects[3]["out_with_table"], true);
    let odd = Found {
        key: key("'a\"\\b'", "1"),
        ..some().remove(0)
    };
    assert_eq!(parsed(&odd)["key"][0], "'a\"\\b'");
    assert_eq!(stage::worker("host/1/abc"), "host/1");
}

#[test]
fn only_the_latest_are_kept() {
    let mut latest = Latest {
        limit: 3,
        state: Some(ShownState::At(State::Copying)),
        ..Latest::default()
    };
    for number in [5, 1, 9, 3, 7] {
        for state in [State::Copying, State::Failed] {
            let mut split = progressing(state, 1, 2);
            split.changed_at = Some(number);
            let checkpoint = &mut split.progress.as_mut().expect("has it").checkpoint;
            *checkpoint = Some(vec![0; 1000]);
            let key = PartitionKey::new(number.to_be_bytes());
            let split = Some(split);
            latest.add(&name(), Listed { key, split });
        }
    }
    let key = PartitionKey::new(*b"later");
    latest.add(&name(), Listed { key, split: None });
    let expected = Counts {
        matching: 5,
        others: 5,
        unknown: 1,
    };
    assert_eq!(latest.counts, expected);
    let kept = latest.into_sorted();
    let times: Vec<_> = kept.iter().map(|found| found.split.changed_at).collect();
    assert_eq!(times, [Some(9), Some(7), Some(5)]);
    let progress = kept[0].split.progress.as_ref();
    assert!(progress.is_some_and(|progress| progress.checkpoint.is_none()));
}

#[test]
fn what_is_not_shown_is_said() {
    let command = |table: Option<&str>, state| List {
        table: table.map(str::to_owned),
        state,
        limit: 20,
        json: false,
        keys: KeyForm::Cql,
    };
    let row = |name: &str| WatchedRow::unseen(WatchedTable::new(TableName::new("p", name)));
    let counts = |matching, others, unknown| Counts {
        matching,
        others,
        unknown,
    };
    let all = command(None, None);
    let one = [row("t")];
    let several = [row("t"), row("u")];
    for (command, tables, counts, text) in [
        (
            &all,
            &[][..],
            counts(0, 0, 0),
            "no table is watched; to watch one, add a [[table]] to the configuration of a proxy\n",
        ),
        (
            &all,
            &one,
            counts(0, 0, 0),
            "no partition of p.t has been found wide yet; one of 64.0 MiB or more, or one whose reads are slow or fail, is found when a client reads it through a proxy\n\
             to nominate one by hand: narrows splits add p.t key…\n",
        ),
        (
            &command(Some("p.t"), Some(ShownState::At(State::Failed))),
            &one,
            counts(0, 4, 0),
            "no split is FAILED; 4 are in other states\n",
        ),
        (
            &all,
            &one,
            counts(25, 0, 0),
            "and 5 more; --limit 25 shows all\n",
        ),
        (&all, &one, counts(20, 0, 0), ""),
        (
            &all,
            &one,
            counts(20, 0, 2),
            "splits left out, because a later version wrote their state: 2\n",
        ),
    ] {
        assert_eq!(notes(command, tables, counts, 20), text);
    }
    let text = notes(&all, &several, counts(0, 0, 0), 0);
    assert!(
        text.starts_with("no partition of any watched table"),
        "{text}"
    );
    let mut odd = row("t");
    odd.table.shards = 3;
    let text = notes(&all, &[odd], counts(1, 0, 0), 1);
    assert_eq!(
        text,
        "p.t is left out: it has 3 shards, which this version cannot follow\n"
    );
}
