//! What people read of statements, partitions and splits, over a table `((sensor, day), ts)`.

use std::sync::Arc;

use super::*;
use crate::cli::format::WIDTH;
use crate::schema::{ClusteringColumn, Column, CqlType, TableSchema};
use crate::wide_row::layout::LayoutId;

fn schema() -> Arc<TableSchema> {
    let column = |name: &str, cql_type| Column {
        name: name.to_owned(),
        cql_type,
    };
    Arc::new(TableSchema {
        keyspace: "plant".into(),
        table: "reading".into(),
        partition_key: vec![column("sensor", CqlType::Text), column("day", CqlType::Int)],
        clustering: vec![ClusteringColumn {
            column: column("ts", CqlType::Int),
            descending: false,
        }],
        statics: Vec::new(),
        regulars: vec![column("value", CqlType::Text)],
        indexed: Vec::new(),
        replication: Vec::new(),
        is_repaired_by_reads: true,
    })
}

/// Four buckets of ten rows.
fn layout(key: &Key) -> Layout {
    let bucket = |number: i32| Bucket {
        first: match number {
            0 => Vec::new(),
            _ => vec![(number * 10).to_be_bytes().into()],
        },
        row_count: 10,
        byte_count: 3 << 20,
        home: None,
    };
    Layout::new(
        LayoutId {
            table: TableName::new("plant", "reading"),
            key: key.key.clone(),
            generation: Generation(3),
        },
        "wide_reading_1".to_owned(),
        "by_rows".to_owned(),
        (0..4).map(bucket).collect(),
    )
}

/// The statement's partitions, each in the standing that is made for it.
fn known(text: &str, standing: impl Fn(&Key) -> Standing) -> Form {
    let readable = Readable::parse(text, &schema()).expect("readable");
    let bound = Bound::new(&[], &[]).expect("no values");
    let partition = |key: Key| Partition {
        standing: standing(&key),
        key,
    };
    let keys = readable.keys(&bound).expect("keys");
    Form::Known(Box::new(Known {
        limits: readable.limits(&bound).expect("limits"),
        partitions: keys.into_iter().map(partition).collect(),
        readable,
    }))
}

fn composed(text: &str, service: Service, form: Form) -> String {
    let table = TableName::new("plant", "reading");
    let out = compose(&Facts {
        text,
        table: &table,
        service,
        form,
    });
    assert!(
        out.lines().all(|line| line.chars().count() <= WIDTH),
        "{out}"
    );
    out
}

fn split(text: &str) -> String {
    composed(
        text,
        Service::Serving,
        known(text, |key| Standing::Split(layout(key))),
    )
}

const KEY: &str = "SELECT value FROM plant.reading WHERE sensor = 's1' AND day = 7";

#[test]
fn a_rewritten_statement_is_told_in_full() {
    let text = format!("{KEY} AND ts >= 20 LIMIT 5");
    let expected = r#"
statement    SELECT value FROM plant.reading WHERE sensor = 's1' AND day = 7 AND ts >= 20 LIMIT 5
table        plant.reading, watched in mode serve
decision     rewritten: answered from 2 of 4 buckets, as if from the original
partition    sensor = 's1', day = 7
  standing   COMPLETED at generation 3: 4 buckets in plant.wide_reading_1, made by by_rows
  buckets    2, 3: the restriction of ts rules out the others
  holding    20 rows (6.0 MiB) of 40 rows (12.0 MiB), counted when it was split
reading      one bucket after the other, as pages need them; pages are filled across buckets
limits       rows: 5 in all; counted across buckets and pages, then no further bucket is read
consistency  the client's own for each bucket; SERIAL and traced reads go to the original
fallback     the original, if a bucket fails or the client may not read the original
each bucket  SELECT value FROM "plant"."wide_reading_1" WHERE "sensor" = ? AND "day" = ? AND
             "narrows_generation" = ? AND "narrows_bucket" = ? AND ts >= ?
"#;
    assert_eq!(split(&text), expected.trim_start());
}

#[test]
fn buckets_and_their_reading_have_reasons() {
    let count = "SELECT count(*) FROM plant.reading WHERE sensor = 's1' AND day = 7";
    for (text, lines) in [
        (
            KEY.to_owned(),
            &[
                "buckets    0 to 3: no clustering column is restricted",
                "one bucket after the other",
            ][..],
        ),
        (
            format!("{KEY} AND ts > 0"),
            &["buckets    0 to 3: the restriction of ts rules out none"],
        ),
        (
            format!("{KEY} AND ts IN (5, 35)"),
            &["buckets    0, 3: the restriction of ts rules out the others"],
        ),
        (
            format!("{KEY} AND ts = 5"),
            &[
                "answered from 1 of 4 buckets",
                "buckets    0: ",
                "10 rows (3.0 MiB) of",
            ],
        ),
        (
            format!("{KEY} AND ts < 25 ORDER BY ts DESC"),
            &[
                "buckets    0 to 2, the last one first: ",
                "ORDER BY ts DESC",
            ],
        ),
        (
            format!("{KEY} PER PARTITION LIMIT 2 LIMIT 3"),
            &["rows: 3 in all, 2 of each original partition;"],
        ),
        (
            format!("{KEY} AND value = 'x' ALLOW FILTERING"),
            &["reading      up to 8 buckets at a time, because it filters"],
        ),
        (
            count.to_owned(),
            &["reading      up to 8 buckets at a time; their results are combined into one row"],
        ),
    ] {
        let told = split(&text);
        for line in lines {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
    }
}

#[test]
fn partitions_of_one_statement_stand_as_they_do() {
    let text = "SELECT * FROM plant.reading WHERE sensor = 's1' AND day IN (8, 7)";
    let seven = 7_i32.to_be_bytes().to_vec();
    let form = known(text, |key| match key.components[1] == seven {
        true => Standing::Split(layout(key)),
        false => Standing::NoSplit,
    });
    let told = composed(text, Service::Serving, form);
    for line in [
        "rewritten: 1 of 2 partitions answered from their buckets, in the key's order",
        "partition    sensor = 's1', day = 7\n  standing   COMPLETED",
        "partition    sensor = 's1', day = 8\n  standing   not split",
        "protocol     the original answers v3 clients",
        "each bucket  SELECT \"sensor\", \"day\", \"ts\", \"value\" FROM \"plant\".\"wide_reading_1\"",
        "the others   SELECT \"sensor\", \"day\", \"ts\", \"value\" FROM \"plant\".\"reading\"",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
}

#[test]
fn a_partition_that_is_not_split_says_how_far_it_is() {
    let out = |state, is_past, reason: Option<&str>| Standing::OutOfService {
        state,
        generation: Generation(2),
        is_past,
        reason: reason.map(str::to_owned),
    };
    for (standing, line) in [
        (
            Standing::NoSplit,
            "standing   not split, and no split is in progress",
        ),
        (
            Standing::NotUnderstood,
            "standing   in a state that a later version wrote",
        ),
        (
            Standing::WithoutLayout(Generation(2)),
            "standing   COMPLETED at generation 2, but its layout is missing",
        ),
        (
            out(State::Guarded, false, None),
            "standing   GUARDED at generation 2, proxies check writes to it",
        ),
        (
            out(State::Copying, false, None),
            "standing   COPYING at generation 2, being copied\n",
        ),
        (
            out(State::Refused, false, Some("a list")),
            "REFUSED at generation 2, it cannot be split exactly (a list)\n",
        ),
        (
            out(State::Completed, true, None),
            "COMPLETED at generation 2, but all splits of the table have been taken out",
        ),
    ] {
        let standing = std::cell::Cell::new(Some(standing));
        let form = known(KEY, |_| standing.take().expect("one partition"));
        let told = composed(KEY, Service::Serving, form);
        for line in [
            line,
            "decision     forwarded: the original answers\nbecause      the partition is not split\n",
            "form         it could be answered from buckets\n",
        ] {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
    }
}

#[test]
fn what_hinders_is_named_and_the_form_judged_all_the_same() {
    for (service, watched, because) in [
        (
            Service::NotWatched,
            "not watched",
            "the table is not watched; to watch it, add a [[table]]",
        ),
        (Service::Disabled, "watched", "control.enabled is off"),
        (
            Service::Mode(Mode::Detect),
            "watched in mode detect",
            "only in mode serve",
        ),
        (Service::Unsound(3), "watched", "3 shards"),
        (
            Service::Unseen,
            "watched in mode serve",
            "no proxy has looked at the table",
        ),
    ] {
        let told = composed(KEY, service, known(KEY, |key| Standing::Split(layout(key))));
        let start = format!(
            "statement    {KEY}\ntable        plant.reading, {watched}\n\
             decision     forwarded: the original answers\nbecause      "
        );
        assert!(told.starts_with(&start), "{told}");
        for line in [because, "form         it could be answered from buckets\n"] {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
    }
}

#[test]
fn every_reason_is_told_and_values_may_be_missing() {
    for reason in Reason::ALL {
        let told = composed("SELECT", Service::Serving, Form::Impossible(reason));
        assert!(told.contains("decision     forwarded"), "{told}");
        assert!(told.contains(&format!("({})\n", reason.as_str())), "{told}");
    }
    let told = composed("SELECT", Service::Serving, Form::WithoutValues(2));
    assert!(
        told.contains("decision     depends on the partition"),
        "{told}"
    );
    assert!(told.contains("give its 2 values with --value"), "{told}");
    let told = composed("SELECT", Service::NotWatched, Form::WithoutValues(2));
    assert!(
        told.contains("because      the table is not watched"),
        "{told}"
    );
    let told = composed("SELECT", Service::Serving, Form::Unreadable);
    assert!(
        told.contains("because      the table is of a kind"),
        "{told}"
    );
}
