//! Statements of every kind on the rows of one writer, each with what it changes.

use std::time::Duration;

use super::field::{Clock, Field};
use super::model::{Change, Part, Place};
use crate::support::random::Random;
use crate::support::request::Value;

/// Rows that each writer has in each partition.
pub(super) const ROWS: i32 = 24;
/// The same for conditional writes, which give their own timestamps and so need rows of their own.
pub(super) const CONDITIONAL_ROWS: i32 = 4;
const CONDITIONAL: i32 = 1000;
/// Makes a row as large as a tenth of a bucket.
const TEXT_BYTES: usize = 100;
const TTL_MAX_SECONDS: usize = 8;

/// A value that can be bound and written out.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    Int(i64),
    Long(i64),
    Text(String),
}

impl Bound {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Int(value) => Value::int(i32::try_from(*value).expect("small")),
            Self::Long(value) => Value::long(*value),
            Self::Text(text) => Value::text(text),
        }
    }

    fn literal(&self) -> String {
        match self {
            Self::Int(value) | Self::Long(value) => value.to_string(),
            Self::Text(text) => format!("'{text}'"),
        }
    }
}

/// One statement that is not a batch.
#[derive(Debug, Default)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) values: Vec<Bound>,
    /// By partition.
    pub(super) changes: Vec<(usize, Change)>,
    /// Rows that nobody can be sure of any more if its outcome is unknown.
    pub(super) unsure: Vec<(usize, Place)>,
    /// Of a conditional one: whether it is applied.
    pub(super) applies: Option<bool>,
}

impl Statement {
    /// With its values in the text.
    pub(super) fn literal(&self) -> String {
        let mut values = self.values.iter();
        let mut parts = self.text.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            text += &values.next().expect("a value for each marker").literal();
            text += part;
        }
        text
    }

    fn bind(mut self, text: &str, values: &[Bound]) -> Self {
        self.text += text;
        self.values.extend_from_slice(values);
        self
    }

    fn change(mut self, partition: usize, change: Change) -> Self {
        self.changes.push((partition, change));
        self
    }
}

/// Writes the statements of one writer.
pub(super) struct Pen<'a> {
    pub(super) field: &'a Field,
    pub(super) writer: i32,
}

/// When a statement says that it was written.
struct When {
    timestamp: i64,
    ttl: Option<Duration>,
}

impl When {
    fn new(clock: &Clock, random: &mut Random) -> Self {
        let timestamp = match random.one_in(8) {
            true => clock.long_ago(),
            false => clock.now(),
        };
        let seconds = 2 + random.below(TTL_MAX_SECONDS) as u64;
        let ttl = random.one_in(6).then(|| Duration::from_secs(seconds));
        Self { timestamp, ttl }
    }

    /// ` USING …`
    fn using(&self) -> (String, Vec<Bound>) {
        let timestamp = Bound::Long(self.timestamp);
        match self.ttl {
            None => (" USING TIMESTAMP ?".to_owned(), vec![timestamp]),
            Some(ttl) => (
                " USING TIMESTAMP ? AND TTL ?".to_owned(),
                vec![timestamp, Bound::Int(ttl.as_secs() as i64)],
            ),
        }
    }

    fn change(&self, place: Place, part: Part, value: Option<i64>) -> Change {
        Change {
            place,
            part,
            timestamp: self.timestamp,
            value,
            ttl: self.ttl.filter(|_| value.is_some()),
        }
    }
}

/// `v` of a row.
fn text(number: i64) -> Bound {
    Bound::Text(format!("{number} {}", "x".repeat(TEXT_BYTES)))
}

/// Whose rows these are, the conditional ones.
pub(super) fn conditional(writer: i32) -> i32 {
    CONDITIONAL + writer
}

impl Pen<'_> {
    /// A row of one partition, by any statement that may be part of a batch.
    pub(super) fn plain(&self, partition: usize, row: i32, random: &mut Random) -> Statement {
        let place = (self.writer, row);
        match random.below(20) {
            0..7 => self.insert(partition, place, random),
            7..9 => self.insert_json(partition, place, random),
            9..14 => self.update(partition, place, random),
            14..16 => self.delete(partition, place, &[Part::Marker, Part::V, Part::U]),
            16..19 => self.delete(partition, place, &[Part::V]),
            _ => self.delete_range(partition, random),
        }
    }

    fn key(&self, partition: usize) -> Bound {
        Bound::Long(self.field.partitions[partition].day)
    }

    fn place(&self, partition: usize, place: Place) -> [Bound; 3] {
        let (w, r) = (Bound::Int(place.0.into()), Bound::Int(place.1.into()));
        [self.key(partition), w, r]
    }

    fn insert(&self, partition: usize, place: Place, random: &mut Random) -> Statement {
        let when = When::new(&self.field.clock, random);
        let number = self.field.clock.number();
        let (using, times) = when.using();
        let whole = !random.one_in(3);
        let (columns, markers) = if whole { ("v, u", "?, ?") } else { ("v", "?") };
        let mut statement = Statement::default()
            .bind(
                &format!(
                    "INSERT INTO {} (day, w, r, {columns}) VALUES (?, ?, ?, {markers})",
                    self.field.table
                ),
                &self.place(partition, place),
            )
            .bind("", &[text(number)])
            .change(partition, when.change(place, Part::Marker, Some(0)))
            .change(partition, when.change(place, Part::V, Some(number)));
        if whole {
            statement = statement
                .bind("", &[Bound::Int(number)])
                .change(partition, when.change(place, Part::U, Some(number)));
        }
        statement.bind(&using, &times)
    }

    fn insert_json(&self, partition: usize, place: Place, random: &mut Random) -> Statement {
        let when = When::new(&self.field.clock, random);
        let number = self.field.clock.number();
        let (using, times) = when.using();
        let json = format!(
            r#"{{"day": {}, "w": {}, "r": {}, "v": "{number} {}", "u": {number}}}"#,
            self.field.partitions[partition].day,
            place.0,
            place.1,
            "y".repeat(TEXT_BYTES)
        );
        let values = [(Part::Marker, 0), (Part::V, number), (Part::U, number)];
        let statement = Statement::default()
            .bind(
                &format!("INSERT INTO {} JSON ?", self.field.table),
                &[Bound::Text(json)],
            )
            .bind(&using, &times);
        values
            .into_iter()
            .fold(statement, |statement, (part, value)| {
                statement.change(partition, when.change(place, part, Some(value)))
            })
    }

    fn update(&self, partition: usize, place: Place, random: &mut Random) -> Statement {
        let when = When::new(&self.field.clock, random);
        let number = self.field.clock.number();
        let (using, times) = when.using();
        let statement =
            Statement::default().bind(&format!("UPDATE {}{using} SET ", self.field.table), &times);
        let statement = match random.below(3) {
            0 => statement
                .bind("v = ?, u = ?", &[text(number), Bound::Int(number)])
                .change(partition, when.change(place, Part::V, Some(number)))
                .change(partition, when.change(place, Part::U, Some(number))),
            1 => statement
                .bind("v = ?", &[text(number)])
                .change(partition, when.change(place, Part::V, Some(number))),
            _ => statement
                .bind("u = ?", &[Bound::Int(number)])
                .change(partition, when.change(place, Part::U, Some(number))),
        };
        statement.bind(
            " WHERE day = ? AND w = ? AND r = ?",
            &self.place(partition, place),
        )
    }

    /// The row, or a column of it.
    fn delete(&self, partition: usize, place: Place, parts: &[Part]) -> Statement {
        let when = self.now();
        let (using, times) = when.using();
        let column = if parts.len() == 1 { "v " } else { "" };
        let statement = Statement::default()
            .bind(
                &format!("DELETE {column}FROM {}{using}", self.field.table),
                &times,
            )
            .bind(
                " WHERE day = ? AND w = ? AND r = ?",
                &self.place(partition, place),
            );
        parts.iter().fold(statement, |statement, part| {
            statement.change(partition, when.change(place, *part, None))
        })
    }

    fn delete_range(&self, partition: usize, random: &mut Random) -> Statement {
        let when = self.now();
        let (using, times) = when.using();
        let from = random.below(ROWS as usize) as i32;
        let to = from + 1 + random.below(6) as i32;
        let [day, w, from_row] = self.place(partition, (self.writer, from));
        let statement = Statement::default()
            .bind(&format!("DELETE FROM {}{using}", self.field.table), &times)
            .bind(
                " WHERE day = ? AND w = ? AND r >= ? AND r < ?",
                &[day, w, from_row, Bound::Int(to.into())],
            );
        (from..to.min(ROWS)).fold(statement, |statement, row| {
            all_of(statement, partition, (self.writer, row), &when)
        })
    }

    /// Rows of all writers go, the conditional ones too.
    pub(super) fn delete_partition(&self, partition: usize) -> Statement {
        let when = self.now();
        let (using, times) = when.using();
        let mut statement = Statement::default()
            .bind(&format!("DELETE FROM {}{using}", self.field.table), &times)
            .bind(" WHERE day = ?", &[self.key(partition)]);
        for writer in 0..self.field.writers {
            for row in 0..ROWS {
                statement = all_of(statement, partition, (writer, row), &when);
            }
            for row in 0..CONDITIONAL_ROWS {
                let place = (conditional(writer), row);
                statement = all_of(statement, partition, place, &when);
                statement.unsure.push((partition, place));
            }
        }
        statement
    }

    /// One row of two partitions.
    pub(super) fn update_both(&self, partitions: [usize; 2], row: i32) -> Statement {
        let when = self.now();
        let (using, times) = when.using();
        let (place, number) = ((self.writer, row), self.field.clock.number());
        let [first, w, r] = self.place(partitions[0], place);
        let statement = Statement::default()
            .bind(&format!("UPDATE {}{using}", self.field.table), &times)
            .bind(
                " SET u = ? WHERE day IN (?, ?) AND w = ? AND r = ?",
                &[Bound::Int(number), first, self.key(partitions[1]), w, r],
            );
        partitions
            .into_iter()
            .fold(statement, |statement, partition| {
                statement.change(partition, when.change(place, Part::U, Some(number)))
            })
    }

    /// Nothing if nobody can say any more how the row is.
    pub(super) fn conditional(&self, partition: usize, random: &mut Random) -> Option<Statement> {
        let row = random.below(CONDITIONAL_ROWS as usize) as i32;
        let place = (conditional(self.writer), row);
        let u = self.field.partitions[partition].model().u(place)?;
        let number = self.field.clock.number();
        let when = self.now();
        let values = [text(number), Bound::Int(number)];
        let (table, at) = (&self.field.table, self.place(partition, place));
        let (statement, written, applies) = match random.below(4) {
            0..2 => (
                Statement::default()
                    .bind(&format!("INSERT INTO {table} (day, w, r, v, u) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"), &at)
                    .bind("", &values),
                [Some(0), Some(number), Some(number)],
                u.is_none(),
            ),
            2 => (
                Statement::default()
                    .bind(&format!("UPDATE {table} SET v = ?, u = ? WHERE day = ? AND w = ? AND r = ? IF u = ?"), &values)
                    .bind("", &at)
                    .bind("", &[Bound::Int(u.unwrap_or(-1))]),
                [Some(0), Some(number), Some(number)],
                u.is_some(),
            ),
            _ => (
                Statement::default().bind(&format!("DELETE FROM {table} WHERE day = ? AND w = ? AND r = ? IF EXISTS"), &at),
                [None; 3],
                u.is_some(),
            ),
        };
        let parts = Part::ALL.into_iter().zip(written);
        let changes = parts.map(|(part, value)| (partition, when.change(place, part, value)));
        Some(Statement {
            changes: changes.filter(|_| applies).collect(),
            unsure: vec![(partition, place)],
            applies: Some(applies),
            ..statement
        })
    }

    fn now(&self) -> When {
        When {
            timestamp: self.field.clock.now(),
            ttl: None,
        }
    }
}

/// All of a row is deleted.
fn all_of(statement: Statement, partition: usize, place: Place, when: &When) -> Statement {
    Part::ALL.into_iter().fold(statement, |statement, part| {
        statement.change(partition, when.change(place, part, None))
    })
}
