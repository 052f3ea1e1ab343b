//! Random partitions: nulls, empties, rows of keys alone, rows without a marker, TTLs, mixed write times, deletions.
//!
//! What cannot be read back is remembered: which rows have a marker, and of what time.

use super::schema::Schema;
use super::types::{Datum, Type};
use super::wire::Wire;
use crate::support::random::Random;
use crate::support::request::Value;

const DAY: i32 = 86_400;
/// Nothing expires while a test runs.
const TTLS: [i32; 3] = [DAY, 3 * DAY, 30 * DAY];
/// Microseconds of the first write; long ago, so that no write of a client's own is older.
const EPOCH_MICROS: i64 = 1_700_000_000_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pub(crate) key: Vec<Datum>,
    pub(crate) rows: Vec<Model>,
}

/// What is known of a row beside its cells.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) clustering: Vec<Datum>,
    /// Write time and TTL (0: none) of each INSERT.
    pub(crate) inserts: Vec<(i64, i32)>,
    /// Write times of deletions of the row.
    pub(crate) deletes: Vec<i64>,
}

impl Model {
    /// Write time and TTL of the marker, if it has one.
    pub(crate) fn marker(&self) -> Option<(i64, i32)> {
        let last = self.inserts.iter().max()?;
        let alive = self.deletes.iter().all(|deleted| *deleted < last.0);
        alive.then_some(*last)
    }
}

/// Writes one partition with as many rows as there are different keys among `count`.
pub(crate) fn write(
    wire: &mut Wire,
    schema: &Schema,
    key: Vec<Datum>,
    (count, now): (usize, i32),
    random: &mut Random,
) -> Partition {
    let mut writer = Writer {
        wire,
        schema,
        partition: Partition {
            key,
            rows: Vec::new(),
        },
        now,
        micros: EPOCH_MICROS,
    };
    for _ in 0..count {
        let clustering = schema.clustering.iter();
        let clustering: Vec<Datum> = clustering
            .map(|column| random.pick(&column.pool).clone())
            .collect();
        let known = writer.partition.rows.iter();
        if known.clone().all(|row| row.clustering != clustering) {
            writer.row(clustering, random);
        }
    }
    writer.changes(random);
    writer.wire.settle();
    writer.partition
}

struct Writer<'a> {
    wire: &'a mut Wire,
    schema: &'a Schema,
    partition: Partition,
    now: i32,
    micros: i64,
}

impl Writer<'_> {
    /// Different for every write, in an order that is not theirs.
    fn timestamp(&mut self, random: &mut Random) -> i64 {
        self.micros += 16;
        self.micros + random.below(64) as i64 * 1_000_000
    }

    fn row(&mut self, clustering: Vec<Datum>, random: &mut Random) {
        self.partition.rows.push(Model {
            clustering,
            inserts: Vec::new(),
            deletes: Vec::new(),
        });
        let row = self.partition.rows.len() - 1;
        match random.below(10) {
            0 => self.insert(row, 0, random),
            1 | 2 if !self.schema.regular.is_empty() => self.update(row, random),
            _ => self.insert(row, 80, random),
        }
    }

    fn insert(&mut self, row: usize, percent: usize, random: &mut Random) {
        let (timestamp, ttl) = (self.timestamp(random), Self::ttl(random));
        self.partition.rows[row].inserts.push((timestamp, ttl));
        let columns: Vec<String> = self
            .schema
            .key()
            .chain(&self.schema.regular)
            .map(|column| column.quoted())
            .collect();
        let text = format!(
            "INSERT INTO {} ({}) VALUES ({}) USING TIMESTAMP ? AND TTL ?",
            self.schema.name(),
            columns.join(", "),
            vec!["?"; columns.len()].join(", ")
        );
        let mut values = self.key_of(row);
        values.extend(self.cells(percent, random));
        values.extend([Value::long(timestamp), Value::int(ttl)]);
        self.wire.write(&text, values, self.now);
    }

    fn update(&mut self, row: usize, random: &mut Random) {
        let (timestamp, ttl) = (self.timestamp(random), Self::ttl(random));
        let sets = self.schema.regular.iter().map(|column| match column.of {
            Type::Cells(_) => format!("{0} = {0} + ?", column.quoted()),
            _ => format!("{} = ?", column.quoted()),
        });
        let text = format!(
            "UPDATE {} USING TIMESTAMP ? AND TTL ? SET {} WHERE {}",
            self.schema.name(),
            sets.collect::<Vec<_>>().join(", "),
            key_is(self.schema, self.schema.clustering.len())
        );
        let mut values = vec![Value::long(timestamp), Value::int(ttl)];
        values.extend(self.cells(40, random));
        values.extend(self.key_of(row));
        self.wire.write(&text, values, self.now);
    }

    /// A value for some of the regular columns, nothing for the others, and now and then a null.
    fn cells(&self, percent: usize, random: &mut Random) -> Vec<Value> {
        let columns = self.schema.regular.iter();
        columns
            .map(|column| match random.below(100) {
                at if at >= percent => Value::Unset,
                0 if !matches!(column.of, Type::Cells(_)) => Value::Null,
                1..=4 if column.of.empty().is_some() => Value::Bytes(Vec::new()),
                _ => Value::Bytes(column.of.random(random).bytes),
            })
            .collect()
    }

    /// Any write may have one: a marker may expire before a cell of its row, and the other way round.
    fn ttl(random: &mut Random) -> i32 {
        match random.one_in(5) {
            true => *random.pick(&TTLS),
            false => 0,
        }
    }

    fn key_of(&self, row: usize) -> Vec<Value> {
        let clustering = &self.partition.rows[row].clustering;
        values(self.partition.key.iter().chain(clustering))
    }

    /// Second writes, and deletions of cells, rows and ranges.
    fn changes(&mut self, random: &mut Random) {
        for row in 0..self.partition.rows.len() {
            match random.below(20) {
                0..=2 if !self.schema.regular.is_empty() => self.update(row, random),
                3 => self.insert(row, 30, random),
                4 if !self.schema.regular.is_empty() => self.delete_cell(row, random),
                5 => self.delete(row, self.schema.clustering.len(), random),
                _ => {}
            }
        }
        if self.schema.clustering.len() > 1 && random.one_in(2) {
            let row = random.below(self.partition.rows.len());
            let columns = 1 + random.below(self.schema.clustering.len() - 1);
            self.delete(row, columns, random);
        }
    }

    fn delete_cell(&mut self, row: usize, random: &mut Random) {
        let column = random.pick(&self.schema.regular).quoted();
        let text = format!(
            "DELETE {column} FROM {} USING TIMESTAMP ? WHERE {}",
            self.schema.name(),
            key_is(self.schema, self.schema.clustering.len())
        );
        let mut values = vec![Value::long(self.timestamp(random))];
        values.extend(self.key_of(row));
        self.wire.write(&text, values, self.now);
    }

    /// All rows that begin with the first columns of this one; of a time between those of the other writes.
    fn delete(&mut self, row: usize, columns: usize, random: &mut Random) {
        let timestamp = EPOCH_MICROS + random.below(70) as i64 * 1_000_000 + 5;
        let prefix = self.partition.rows[row].clustering[..columns].to_vec();
        let text = format!(
            "DELETE FROM {} USING TIMESTAMP ? WHERE {}",
            self.schema.name(),
            key_is(self.schema, columns)
        );
        let mut bound = vec![Value::long(timestamp)];
        bound.extend(values(self.partition.key.iter().chain(&prefix)));
        self.wire.write(&text, bound, self.now);
        let rows = self.partition.rows.iter_mut();
        for row in rows.filter(|row| row.clustering[..columns] == prefix) {
            row.deletes.push(timestamp);
        }
    }
}

pub(crate) fn values<'a>(data: impl Iterator<Item = &'a Datum>) -> Vec<Value> {
    data.map(|datum| Value::Bytes(datum.bytes.clone()))
        .collect()
}

/// The whole partition key and the first clustering columns, each with a marker.
pub(crate) fn key_is(schema: &Schema, clustering: usize) -> String {
    let columns = schema.key().take(schema.partition.len() + clustering);
    let columns: Vec<String> = columns
        .map(|column| format!("{} = ?", column.quoted()))
        .collect();
    columns.join(" AND ")
}
