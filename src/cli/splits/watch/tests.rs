//! What `watch` draws on terminals and prints on pipes.

use super::track::tests::tracked;
use super::*;
use crate::cli::splits::stage::tests::{progressing, split};
use crate::schema::names::TableName;
use crate::wide_row::state::PostSplitData;

const NOW: i64 = 1_700_000_100_000;

fn copying() -> Tracked {
    let split = progressing(State::Copying, 260_000, 500_000);
    tracked(State::Copying, Some(split))
}

#[test]
fn lines_fit_on_a_terminal() {
    let (copying, guarded) = (copying(), tracked(State::Guarded, None));
    let planned = tracked(State::Planned, None);
    let until = Wait::Until(NOW + 7_200_000);
    let shown: Vec<Shown<'_>> = [
        ("plant.reading 's1', 7", &copying, None),
        ("plant.reading 's2', 7", &guarded, None),
        ("plant.reading 's3', 7", &planned, Some(until)),
    ]
    .map(|(name, tracked, wait)| Shown {
        name: name.to_owned(),
        tracked,
        wait,
    })
    .into();
    assert_eq!(
        live(&shown, NOW, 80),
        [
            "plant.reading 's1', 7  COPYING    █████░░░░░  52%    24.8 MiB/s     9 s left",
            "plant.reading 's2', 7  GUARDED    until every proxy knows of it",
            "plant.reading 's3', 7  PLANNED    waits for 2 h",
        ]
    );
    for width in [40, 60, 80, 100, 200] {
        for line in live(&shown, NOW, width) {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
}

#[test]
fn events_say_what_came_of_a_split() {
    let mut completed = split(State::Completed);
    completed.post_split_data = Some(PostSplitData {
        split_table: "wide_reading_1".to_owned(),
        row_count: 500,
        byte_count: 1 << 20,
        ..PostSplitData::default()
    });
    let mut failed = split(State::Failed);
    failed.reason = Some("bucket 3 differs".to_owned());
    for (what, split, text) in [
        (What::At(State::Copying), None, "p.t 1  COPYING"),
        (
            What::Ended(State::Completed),
            Some(&completed),
            "p.t 1  COMPLETED: 500 rows (1.0 MiB) in wide_reading_1, in service",
        ),
        (
            What::Ended(State::Failed),
            Some(&failed),
            "p.t 1  FAILED: bucket 3 differs",
        ),
        (
            What::Ended(State::Failed),
            Some(&completed),
            "p.t 1  FAILED",
        ),
        (
            What::OutOfService,
            None,
            "p.t 1  out of service with its whole table",
        ),
    ] {
        assert_eq!(told("p.t 1", what, split), text);
    }
    let copying = copying();
    let percent = copying.split.as_ref().and_then(stage::percent);
    assert_eq!(
        step(&copying, percent.expect("known")),
        "COPYING 52%, 24.8 MiB/s, 9 s left"
    );
}

#[test]
fn the_last_line_counts() {
    let counts = |active, waiting| Counts { active, waiting };
    for (counts, shown, text) in [
        (counts(0, 0), 0, "nothing is in progress"),
        (counts(2, 0), 2, "2 in progress"),
        (
            counts(9, 20),
            15,
            "9 in progress, 20 waiting, 14 of them not shown",
        ),
    ] {
        assert_eq!(summary(&[], counts, shown), text);
    }
    let one = [WatchedTable::new(TableName::new("p", "t"))];
    assert_eq!(summary(&one, counts(1, 0), 1), "p.t: 1 in progress");
    assert_eq!(done(counts(0, 0)), "nothing is in progress\n");
    assert_eq!(
        done(counts(0, 1)),
        "nothing is in progress; 1 split waits: narrows splits list\n"
    );
}

fn screen<W: Write>(out: W, is_terminal: bool) -> Screen<W> {
    Screen {
        out,
        is_terminal,
        drawn: 0,
    }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_terminal_draws_over_the_last_lines() {
    let mut out = Vec::new();
    let mut drawing = screen(&mut out, true);
    drawing
        .put(&[], &lines(&["a 1%", "1 in progress"]))
        .expect("written");
    drawing
        .put(&lines(&["a done"]), &lines(&["nothing"]))
        .expect("written");
    assert_eq!(
        String::from_utf8(out).expect("text"),
        "\x1b[?7la 1%\x1b[K\n1 in progress\x1b[K\n\x1b[?7h\x1b[J\
         \x1b[2A\ra done\x1b[K\n\x1b[?7lnothing\x1b[K\n\x1b[?7h\x1b[J"
    );
}

#[test]
fn a_pipe_gets_what_happened() {
    let mut out = Vec::new();
    let mut drawing = screen(&mut out, false);
    drawing
        .put(&lines(&["a done"]), &lines(&["nothing"]))
        .expect("written");
    drawing.put(&[], &lines(&["nothing"])).expect("written");
    assert_eq!(out, b"a done\n");
}

#[test]
fn a_reader_that_went_away_is_noticed() {
    let mut nowhere: &mut [u8] = &mut [];
    let mut drawing = screen(&mut nowhere, false);
    assert!(drawing.put(&lines(&["a"]), &[]).is_err());
}
