//! The splits in progress, as rows change.

use super::*;
use crate::cli::splits::stage::tests::progressing;
use crate::wide_row::names::Generation;

const NOW: i64 = 1_700_000_100_000;

fn table() -> TableName {
    TableName::new("plant", "reading")
}

fn tables() -> Vec<WatchedTable> {
    let mut table = WatchedTable::new(table());
    table.shards = 4;
    vec![table]
}

fn key(name: &str) -> PartitionKey {
    PartitionKey::new(name.as_bytes())
}

fn reading(version: i64, epoch: i32) -> ShardReading {
    ShardReading {
        shard: 5,
        version: Version(version),
        epoch,
        epoch_version: Version(0),
    }
}

fn row(name: &str, state: State) -> ChangedRow {
    ChangedRow {
        key: key(name),
        version: Version(1),
        row_epoch: 0,
        is_guarded: state.is_guarded(),
        state: Some(state),
        not_before: None,
        generation: Generation(1),
        oldest_generation: Generation(1),
    }
}

fn id(name: &str) -> SplitId {
    place(&table(), &key(name), 5)
}

fn event(name: &str, what: What) -> Event {
    Event { id: id(name), what }
}

/// Follows `a` in this state.
pub(in crate::cli::splits::watch) fn tracked(state: State, split: Option<Split>) -> Tracked {
    let mut tracker = Tracker::default();
    tracker.apply(&table(), reading(1, 0), vec![row("a", state)]);
    if let Some(split) = split {
        tracker.see(&id("a"), split);
    }
    tracker.get(&id("a")).expect("in progress").clone()
}

#[test]
fn only_changed_shards_are_read_again() {
    let mut tracker = Tracker::default();
    let first = tracker.changed(&table(), &[reading(7, 0)]);
    assert_eq!(first, [(reading(7, 0), Version(0))]);
    tracker.apply(&table(), reading(7, 0), Vec::new());
    assert_eq!(tracker.changed(&table(), &[reading(7, 0)]), []);
    let later = tracker.changed(&table(), &[reading(9, 0)]);
    assert_eq!(later, [(reading(9, 0), Version(7))]);
    let empty = Tracker::default().changed(&table(), &[reading(0, 0)]);
    assert_eq!(empty, []);
}

#[test]
fn splits_are_followed_from_their_beginning_to_their_end() {
    let mut tracker = Tracker::default();
    let mut apply = |version, epoch, rows| tracker.apply(&table(), reading(version, epoch), rows);
    let rows = vec![row("a", State::Detected), row("done", State::Completed)];
    assert_eq!(apply(1, 0, rows), [event("a", What::At(State::Detected))]);
    assert_eq!(apply(2, 0, vec![row("a", State::Detected)]), []);
    assert_eq!(
        apply(
            3,
            0,
            vec![row("a", State::Copying), row("b", State::Planned)]
        ),
        [
            event("a", What::At(State::Copying)),
            event("b", What::At(State::Planned))
        ]
    );
    assert_eq!(
        apply(4, 0, vec![row("a", State::Completed)]),
        [event("a", What::Ended(State::Completed))]
    );
    assert_eq!(apply(5, 1, Vec::new()), [event("b", What::OutOfService)]);
    assert_eq!(apply(6, 1, vec![row("b", State::Planned)]), []);
    assert_eq!(tracker.counts(&tables(), NOW), Counts::default());
}

#[test]
fn only_what_matters_is_kept_of_a_load() {
    let mut tracker = Tracker::default();
    let relevant = |tracker: &Tracker, state| tracker.relevant(&table(), row("a", state));
    assert_eq!(relevant(&tracker, State::Completed), None);
    assert!(relevant(&tracker, State::Copying).is_some());
    tracker.apply(&table(), reading(1, 0), vec![row("a", State::Copying)]);
    assert!(relevant(&tracker, State::Completed).is_some());
}

#[test]
fn what_waits_is_told_from_what_works() {
    let mut tracker = Tracker::default();
    let mut waiting = row("b", State::Planned);
    waiting.not_before = Some(NOW + 1);
    let rows = vec![
        row("a", State::Detected),
        waiting,
        row("c", State::Verifying),
    ];
    tracker.apply(&table(), reading(1, 0), rows);
    let mut tables = tables();
    let counts = |tracker: &Tracker, tables: &[WatchedTable], now| {
        let counts = tracker.counts(tables, now);
        (counts.active, counts.waiting)
    };
    assert_eq!(counts(&tracker, &tables, NOW), (2, 1));
    assert_eq!(counts(&tracker, &tables, NOW + 1), (3, 0));
    let order = tracker.first(&tables, NOW, 2);
    assert_eq!(order, [id("c"), id("a")]);
    tables[0].paused = true;
    assert_eq!(counts(&tracker, &tables, NOW), (0, 3));
    tables[0].mode = Mode::Detect;
    let wait = tracker
        .get(&id("a"))
        .expect("there")
        .waits(&table(), &tables, NOW);
    assert_eq!(wait, Some(Wait::Mode(Mode::Detect)));
    tracker.keep(&[]);
    assert_eq!(counts(&tracker, &tables, NOW), (0, 0));
}

#[test]
fn a_table_with_other_shards_is_read_anew() {
    let mut tracker = Tracker::default();
    tracker.apply(&table(), reading(1, 0), vec![row("a", State::Copying)]);
    tracker.keep(&tables());
    assert_eq!(tracker.changed(&table(), &[reading(1, 0)]), []);
    let mut moved = tables();
    moved[0].shards = 16;
    tracker.keep(&moved);
    assert_eq!(tracker.changed(&table(), &[reading(1, 0)]).len(), 1);
    assert_eq!(tracker.get(&id("a")).map(|tracked| tracked.state), None);
}

#[test]
fn the_pace_is_that_of_the_last_sights() {
    let mut tracker = Tracker::default();
    tracker.apply(&table(), reading(1, 0), vec![row("a", State::Copying)]);
    let mut split = progressing(State::Copying, 100, 1000);
    for second in 1..=20 {
        let progress = split.progress.as_mut().expect("has it");
        progress.row_count = 100 + second * 10;
        progress.byte_count = progress.row_count * 1000;
        progress.changed_at += 1000;
        tracker.see(&id("a"), split.clone());
    }
    let tracked = tracker.get(&id("a")).expect("in progress");
    assert_eq!(tracked.sights.len(), SIGHTS_MAX);
    let pace = tracked.pace().expect("known");
    assert_eq!(pace.bytes_per_second as i64, 10_000);
    assert_eq!(pace.left.map(|left| left.as_secs()), Some(70));
    let progress = split.progress.as_mut().expect("has it");
    progress.row_count = 50;
    progress.changed_at += 1000;
    tracker.see(&id("a"), split);
    let sights = tracker.get(&id("a")).map(|tracked| tracked.sights.len());
    assert_eq!(sights, Some(1), "it began again further back");
    tracker.apply(&table(), reading(2, 0), vec![row("a", State::Verifying)]);
    let tracked = tracker.get(&id("a")).expect("in progress");
    assert!(tracked.sights.is_empty());
}

#[test]
fn on_a_pipe_every_tenth_is_told_once() {
    let mut tracker = Tracker::default();
    tracker.apply(&table(), reading(1, 0), vec![row("a", State::Copying)]);
    let mut told = Vec::new();
    for rows in [50, 100, 190, 200, 210, 450, 1000, 1000] {
        tracker.see(&id("a"), progressing(State::Copying, rows, 1000));
        told.push(tracker.steps().len());
    }
    assert_eq!(told, [0, 1, 0, 1, 0, 1, 1, 0]);
}
