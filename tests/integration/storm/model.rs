//! What reads may show, given what was written: for every cell, and for the marker of every row, all writes with their
//! timestamps and what became of them.
//!
//! Of the writes that were acknowledged before a read began the newest by timestamp is the least that it shows; it may show
//! any that is newer, since those may have happened meanwhile. That is all there is to know: deletions are writes of nothing,
//! a replay with an old timestamp is one that never shows, and an unknown outcome is one that may show for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Seconds are rounded, by the writer's coordinator and by the reader's.
const ROUNDING: Duration = Duration::from_secs(2);
/// Longer than any read takes.
const KEPT: Duration = Duration::from_secs(120);

/// A row of a partition: the writer that owns it, and its number.
pub(super) type Place = (i32, i32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// That an INSERT made the row: it stays when its cells are gone.
    Marker,
    V,
    U,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Marker, Self::V, Self::U];
}

/// One cell or marker that a statement writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) place: Place,
    pub(super) part: Part,
    pub(super) timestamp: i64,
    /// Nothing: it is deleted.
    pub(super) value: Option<i64>,
    pub(super) ttl: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Acknowledged,
    Unknown,
}

#[derive(Debug, Clone)]
struct Write {
    timestamp: i64,
    value: Option<i64>,
    sent: Instant,
    ttl: Option<Duration>,
    acknowledged: Option<Instant>,
}

impl Write {
    /// What it shows to a read between these two moments.
    fn shows(&self, began: Instant, ended: Instant) -> Vec<Option<i64>> {
        let Some(ttl) = self.ttl else {
            return vec![self.value];
        };
        let mut shows = Vec::new();
        if ended + ROUNDING >= self.sent + ttl {
            shows.push(None);
        }
        let lives = |acknowledged: Instant| began <= acknowledged + ttl + ROUNDING;
        if self.acknowledged.is_none_or(lives) {
            shows.push(self.value);
        }
        shows
    }
}

/// One cell or marker with its writes, of which the oldest are forgotten.
#[derive(Debug, Default)]
struct Register(Vec<Write>);

impl Register {
    /// The newest write that was acknowledged by then; everything older is out of sight.
    fn floor(&self, by: Instant) -> Option<i64> {
        let known = self
            .0
            .iter()
            .filter(|write| write.acknowledged.is_some_and(|at| at <= by));
        known.map(|write| write.timestamp).max()
    }

    fn allowed(&self, began: Instant, ended: Instant) -> BTreeSet<Option<i64>> {
        let floor = self.floor(began);
        let writes = self.0.iter();
        let visible = writes.filter(|write| Some(write.timestamp) >= floor);
        let mut allowed: BTreeSet<_> = visible
            .flat_map(|write| write.shows(began, ended))
            .collect();
        if floor.is_none() {
            allowed.insert(None);
        }
        allowed
    }

    fn begin(&mut self, change: &Change) {
        if let Some(now) = Instant::now().checked_sub(KEPT) {
            let floor = self.floor(now);
            self.0.retain(|write| Some(write.timestamp) >= floor);
        }
        self.0.push(Write {
            timestamp: change.timestamp,
            value: change.value,
            sent: Instant::now(),
            ttl: change.ttl,
            acknowledged: None,
        });
    }

    fn acknowledge(&mut self, timestamp: i64) {
        let now = Instant::now();
        let of = |write: &&mut Write| write.timestamp == timestamp;
        if let Some(write) = self.0.iter_mut().find(of) {
            write.acknowledged = Some(now);
        }
    }
}

#[derive(Debug, Default)]
struct Row {
    registers: [Register; 3],
    /// A conditional write of unknown outcome: it may yet happen, and with a newer timestamp than it had.
    is_unsure: bool,
}

/// A row as a read shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) v: Option<i64>,
    pub(super) u: Option<i64>,
}

/// The rows of one partition.
#[derive(Debug, Default)]
pub(super) struct Model(BTreeMap<Place, Row>);

impl Model {
    /// Before the statement is sent.
    pub(super) fn begin(&mut self, changes: &[Change]) {
        for change in changes {
            let row = self.0.entry(change.place).or_default();
            row.registers[change.part as usize].begin(change);
        }
    }

    /// After its reply came, or nothing did.
    pub(super) fn end(&mut self, changes: &[Change], outcome: Outcome) {
        for change in changes {
            let row = self.0.entry(change.place).or_default();
            // What is deleted may come back by a conditional write that was not over.
            if outcome == Outcome::Acknowledged && !row.is_unsure {
                row.registers[change.part as usize].acknowledge(change.timestamp);
            }
        }
    }

    /// A conditional write has an unknown outcome: nobody must write this row any more.
    pub(super) fn set_unsure(&mut self, place: Place) {
        self.0.entry(place).or_default().is_unsure = true;
    }

    /// The number that `u` has, if nothing of the row is under way; `None` if it is unsure.
    pub(super) fn u(&self, place: Place) -> Option<Option<i64>> {
        let Some(row) = self.0.get(&place) else {
            return Some(None);
        };
        if row.is_unsure {
            return None;
        }
        let newest = row.registers[Part::U as usize].0.iter();
        let newest = newest.max_by_key(|write| write.timestamp);
        Some(newest.and_then(|write| write.value))
    }

    /// What a read that covered these places and found these rows should not have found.
    pub(super) fn wrong(
        &self,
        shown: &BTreeMap<Place, Shown>,
        covers: impl Fn(Place) -> bool,
        (began, ended): (Instant, Instant),
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in shown.keys().filter(|place| !self.0.contains_key(place)) {
            wrong.push(format!("row {place:?} was never written"));
        }
        for (place, row) in self.0.iter().filter(|(place, _)| covers(**place)) {
            let [marker, v, u] = &row.registers;
            let [marker, v, u] = [marker, v, u].map(|register| register.allowed(began, ended));
            let found = shown.get(place);
            let Shown {
                v: seen_v,
                u: seen_u,
            } = found.copied().unwrap_or(Shown { v: None, u: None });
            // A row without cells shows that there is a marker, and no row that there is none.
            let is_marker_right = match found {
                Some(_) => {
                    seen_v.is_some() || seen_u.is_some() || marker.iter().any(Option::is_some)
                }
                None => marker.contains(&None),
            };
            if !(v.contains(&seen_v) && u.contains(&seen_u) && is_marker_right) {
                wrong.push(format!(
                    "row {place:?} is {found:?}, not any of v {v:?}, u {u:?}, marker {marker:?}"
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (1, 1);

    fn change(part: Part, timestamp: i64, value: Option<i64>) -> Change {
        Change {
            place: PLACE,
            part,
            timestamp,
            value,
            ttl: None,
        }
    }

    fn wrong(model: &Model, found: Option<(Option<i64>, Option<i64>)>) -> usize {
        let row = found.map(|(v, u)| (PLACE, Shown { v, u }));
        let now = Instant::now();
        model
            .wrong(&row.into_iter().collect(), |_| true, (now, now))
            .len()
    }

    #[test]
    fn an_acknowledged_write_must_show_and_an_unknown_one_may() {
        let mut model = Model::default();
        let [first, second] = [1, 2].map(|number| [change(Part::V, number, Some(number))]);
        model.begin(&first);
        assert_eq!(wrong(&model, None), 0);
        model.end(&first, Outcome::Acknowledged);
        assert_eq!(wrong(&model, None), 1);
        assert_eq!(wrong(&model, Some((Some(1), None))), 0);
        model.begin(&second);
        model.end(&second, Outcome::Unknown);
        for (v, expected) in [(1, 0), (2, 0), (3, 1)] {
            assert_eq!(wrong(&model, Some((Some(v), None))), expected);
        }
    }

    #[test]
    fn an_old_timestamp_never_shows_and_a_marker_keeps_a_row() {
        let mut model = Model::default();
        for one in [
            change(Part::V, 5, Some(5)),
            change(Part::V, 3, Some(3)),
            change(Part::Marker, 6, Some(0)),
            change(Part::V, 7, None),
        ] {
            model.begin(&[one]);
            model.end(&[one], Outcome::Acknowledged);
        }
        assert_eq!(wrong(&model, Some((None, None))), 0);
        assert_eq!(wrong(&model, Some((Some(3), None))), 1);
        assert_eq!(wrong(&model, None), 1);
    }

    #[test]
    fn what_expires_may_be_gone_only_then() {
        let mut model = Model::default();
        let write = |seconds, timestamp| Change {
            ttl: Some(Duration::from_secs(seconds)),
            ..change(Part::V, timestamp, Some(timestamp))
        };
        for (one, expected) in [(write(100, 1), 1), (write(1, 2), 0)] {
            model.begin(&[one]);
            model.end(&[one], Outcome::Acknowledged);
            assert_eq!(wrong(&model, None), expected);
        }
    }

    #[test]
    fn a_conditional_write_of_unknown_outcome_may_come_back() {
        let mut model = Model::default();
        let insert = [change(Part::U, 1, Some(1))];
        let delete = [change(Part::U, 2, None)];
        model.begin(&insert);
        model.set_unsure(PLACE);
        assert_eq!(model.u(PLACE), None);
        model.begin(&delete);
        model.end(&delete, Outcome::Acknowledged);
        assert_eq!(wrong(&model, None), 0);
        assert_eq!(wrong(&model, Some((None, Some(1)))), 0);
        assert_eq!(wrong(&model, Some((None, Some(2)))), 1);
    }
}
