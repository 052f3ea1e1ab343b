//! Threads that read, whole partitions and parts of them, and hold what they find against the models.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::field::{Field, count};
use super::line::{Line, Way};
use super::model::{Place, Shown};
use super::statement::{ROWS, conditional};
use crate::support::random::Random;
use crate::support::request::{Parameters, Value};
use crate::support::response::{Body, Rows};

/// Unavailable, overloaded, timeouts and failures: then a read has shown nothing.
const NO_ANSWER: [i32; 4] = [0x1000, 0x1001, 0x1200, 0x1300];
const PAUSE_MAX_MILLIS: usize = 30;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Proxy,
    /// Cassandra itself: what is wrong there is wrong in the model.
    Original,
}

/// What is read of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    Whole,
    /// All rows of one writer.
    Writer(i32),
    Row(Place),
}

impl Scope {
    fn covers(self, place: Place) -> bool {
        match self {
            Self::Whole => true,
            Self::Writer(writer) => place.0 == writer,
            Self::Row(row) => place == row,
        }
    }

    fn restriction(self) -> (&'static str, Vec<i32>) {
        match self {
            Self::Whole => ("", vec![]),
            Self::Writer(writer) => (" AND w = ?", vec![writer]),
            Self::Row((writer, row)) => (" AND w = ? AND r = ?", vec![writer, row]),
        }
    }
}

pub(super) struct Reader<'a> {
    pub(super) field: &'a Field,
    pub(super) lines: Vec<(Where, Line)>,
    pub(super) random: Random,
}

impl Reader<'_> {
    pub(super) fn run(mut self) {
        while !self.field.stops() {
            let random = &mut self.random;
            let partition = *random.pick(&self.field.slots());
            let writer = random.below(self.field.writers as usize) as i32;
            let scope = match random.below(8) {
                0..5 => Scope::Whole,
                5 => Scope::Writer(writer),
                6 => Scope::Writer(conditional(writer)),
                _ => Scope::Row((writer, random.below(ROWS as usize) as i32)),
            };
            let at = random.below(self.lines.len());
            let (place, line) = &mut self.lines[at];
            check(self.field, line, *place, (partition, scope), random);
            sleep(Duration::from_millis(random.below(PAUSE_MAX_MILLIS) as u64));
        }
    }
}

/// Reads, and says what is wrong with it.
pub(super) fn check(
    field: &Field,
    line: &mut Line,
    place: Where,
    (partition, scope): (usize, Scope),
    random: &mut Random,
) {
    let way = *random.pick(&[Way::Bound, Way::Executed]);
    let backwards = random.one_in(4);
    let page_size = *random.pick(&[7, 40, 1000]);
    let began = Instant::now();
    let Some(shown) = read(field, line, (partition, scope), (way, backwards, page_size)) else {
        return;
    };
    let during = (began, Instant::now());
    let covers = |place| scope.covers(place);
    let wrong = field.partitions[partition]
        .model()
        .wrong(&shown, covers, during);
    count(&field.counts.reads);
    if wrong.is_empty() {
        return;
    }
    count(match place {
        Where::Proxy => &field.counts.lost,
        Where::Original => &field.counts.lost_directly,
    });
    field.tell(format!(
        "{place:?}, partition {partition}, {scope:?}: {}",
        wrong.join("; ")
    ));
}

fn read(
    field: &Field,
    line: &mut Line,
    (partition, scope): (usize, Scope),
    (way, backwards, page_size): (Way, bool, i32),
) -> Option<BTreeMap<Place, Shown>> {
    let (restriction, places) = scope.restriction();
    let order = if backwards {
        " ORDER BY w DESC, r DESC"
    } else {
        ""
    };
    let text = format!(
        "SELECT w, r, v, u FROM {} WHERE day = ?{restriction}{order}",
        field.table
    );
    let day = Value::long(field.partitions[partition].day);
    let mut parameters = Parameters {
        values: std::iter::once(day)
            .chain(places.into_iter().map(Value::int))
            .collect(),
        page_size: Some(page_size),
        ..Parameters::default()
    };
    let mut shown = BTreeMap::new();
    loop {
        let reply = line.say(way, &text, &parameters)?;
        if let Some((code, message)) = reply.error() {
            assert!(NO_ANSWER.contains(&code), "{code:#06x} {message}: {text}");
            return None;
        }
        let page = reply.rows();
        add(&page, &mut shown);
        parameters.paging_state = page.paging_state;
        if parameters.paging_state.is_none() {
            return Some(shown);
        }
    }
}

fn add(page: &Rows, shown: &mut BTreeMap<Place, Shown>) {
    for row in &page.rows {
        let int = |at: usize| row[at].as_deref().map(|bytes| Body(bytes).int());
        let place = (int(0).expect("a key"), int(1).expect("a key"));
        let text = row[2].as_deref().map(String::from_utf8_lossy);
        let number = |text: std::borrow::Cow<'_, str>| {
            let number = text
                .split(' ')
                .next()
                .and_then(|number| number.parse().ok());
            number.expect("a number of ours")
        };
        let found = Shown {
            v: text.map(number),
            u: int(3).map(i64::from),
        };
        let before = shown.insert(place, found);
        assert_eq!(before, None, "row {place:?} twice");
    }
}
