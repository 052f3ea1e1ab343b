//! What a plan says, as text and as JSON.

use super::super::stage::tests::split;
use super::*;
use crate::cli::control;
use crate::pipeline::original::cells::{Cell, Row};
use crate::schema::{Column, CqlType};

/// Milliseconds; the rows were written an hour before.
const NOW: i64 = 1_700_000_000_000;

fn partition() -> Partition {
    let mut partition = control::tests::partition();
    partition.row.table.wide_bytes = 8 << 20;
    partition.row.table.target_bytes = 1 << 20;
    partition
}

fn clustering() -> Vec<ClusteringColumn> {
    vec![ClusteringColumn {
        column: Column {
            name: "ts".to_owned(),
            cql_type: CqlType::Int,
        },
        descending: false,
    }]
}

/// A plan for this many rows of half a mebibyte.
fn draft(rows: i32) -> Draft {
    let row = |number: i32| Row {
        clustering: vec![number.to_be_bytes().into()],
        cells: vec![Cell {
            column: 0,
            value: Box::default(),
            write_micros: (NOW - 3_600_000) * 1000,
            ttl: 0,
        }],
        bytes: 512 << 10,
    };
    Draft::of(&partition().row.table, (0..rows).map(row))
}

fn told(
    outcome: Outcome,
    rows: Option<i32>,
    change: impl FnOnce(&mut Plan<'_>),
) -> (String, String) {
    let (partition, clustering) = (partition(), clustering());
    let mut plan = Plan {
        partition: &partition,
        clustering: &clustering,
        outcome,
        draft: rows.map(draft),
        about: Some(Duration::from_secs(180)),
        table: Some(Prospect {
            name: "wide_reading_1".to_owned(),
            exists: false,
        }),
        split: None,
    };
    change(&mut plan);
    (compose(&plan, NOW), format::json(&Document::new(&plan)))
}

#[test]
fn a_plan_is_told_with_its_buckets() {
    let (text, line) = told(Outcome::Split, Some(40), |_| {});
    let (head, tail) = text.split_once("              0  ").expect("buckets");
    assert_eq!(
        head,
        "partition    plant.reading: sensor = 's1', day = 7\n\
         has          40 rows, 20.0 MiB, newest write 2023-11-14 21:13:20Z, 60 min ago\n\
         decision     it would be split\n\
         split table  plant.wide_reading_1, which would be created\n\
         takes        about 3 min, estimated from the time that this reading took\n\
         buckets      20 buckets, by EventBucketPartitionSplitStrategy\n"
    );
    let lines: Vec<&str> = tail.lines().collect();
    assert_eq!(lines.len(), 18, "{tail}");
    assert_eq!(
        lines[7],
        "              7  2 rows     1.0 MiB  from ts = 14"
    );
    assert_eq!(lines[8], "             … 4 more");
    assert_eq!(
        lines[16],
        "             19  2 rows     1.0 MiB  from ts = 38"
    );
    assert_eq!(
        lines[17],
        "nothing was written; to split it: narrows splits add plant.reading \"'s1'\" 7"
    );
    assert!(
        line.starts_with("{\"table\":\"plant.reading\",\"key\":[\"'s1'\",\"7\"],\"partition_key\":\"0x000273310000040000000700\",\"is_now\":null,\"would_be\":\"PLANNED\",\"reason\":null,\"not_before\":null,\"rows\":40,\"bytes\":20971520,\"wide_bytes\":8388608,\"newest_write\":\"2023-11-14T21:13:20.000Z\",\"split_table\":\"wide_reading_1\",\"split_table_exists\":false,\"seconds\":180,\"buckets\":[{\"first\":[],\"rows\":2,\"bytes\":1048576},{\"first\":[\"2\"],"),
        "{line}"
    );
}

#[test]
fn what_would_not_be_split_is_told_with_the_reason() {
    let (text, line) = told(Outcome::NotWide, Some(0), |_| {});
    assert!(
        text.contains("it would not be split: NOT_WIDE, it has no rows\n")
            && text.ends_with("\nnothing was written\n"),
        "{text}"
    );
    assert!(
        !text.contains("bucket") && line.contains("\"buckets\":[]"),
        "{text}"
    );
    let reason = "it has static columns, which belong to no row";
    let refused = Outcome::Refused(reason.to_owned());
    let (text, line) = told(refused, None, |_| {});
    assert!(
        text.contains("it would not be split: REFUSED, it has static"),
        "{text}"
    );
    assert!(
        line.contains("\"would_be\":\"REFUSED\"") && line.contains("\"rows\":null"),
        "{line}"
    );
    let open = Outcome::Waits("it was written 5 minutes ago".to_owned(), NOW + 7_200_000);
    let (text, line) = told(open, Some(40), |_| {});
    let whole = text.replace("\n             ", " ");
    assert!(
        whole.contains("split, but not yet: WAITING until 2023-11-15 00:13:20Z, in 2 h, because it was written 5 minutes ago\n"),
        "{text}"
    );
    assert!(
        text.contains("20 buckets") && line.contains("\"not_before\":\"2023-11-15T00:13:20.000Z\"")
    );
    assert!(line.contains("\"would_be\":\"WAITING\""), "{line}");
    let (text, _) = told(Outcome::Split, Some(3), |_| {});
    let whole = text.replace("\n             ", " ");
    assert!(
        whole.contains("it would be split, because you ask; by itself its size would not be enough, since wide_bytes of the table is 8.0 MiB\n"),
        "{text}"
    );
    let (text, _) = told(Outcome::Fails("its rows are odd"), Some(40), |_| {});
    assert!(
        text.contains("the attempt would fail: FAILED, its rows are odd"),
        "{text}"
    );
}

#[test]
fn what_is_known_already_is_said() {
    for (state, end) in [
        (State::Completed, "; it is split already, and in service\n"),
        (State::Copying, "; it is in progress already\n"),
        (
            State::Failed,
            "; to split it: narrows splits add plant.reading \"'s1'\" 7\n",
        ),
    ] {
        let (text, line) = told(Outcome::Split, Some(40), |plan| {
            plan.split = Some(split(state))
        });
        assert!(
            text.ends_with(&format!("nothing was written{end}")),
            "{text}"
        );
        let name = state.as_str();
        assert!(
            text.contains(&format!("is now       {name} at generation")),
            "{text}"
        );
        assert!(line.contains(&format!("\"is_now\":\"{name}\"")), "{line}");
    }
}
