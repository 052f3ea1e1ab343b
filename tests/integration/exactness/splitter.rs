//! A small splitter, independent of the real one: plain CQL, exact cells, boundaries anywhere. It is a second opinion.
//!
//! It proves every copy at once: the buckets, read one after the other, are the original with its write times and TTLs,
//! now and after everything that can expire has expired. Markers are copied only where a row outlives its cells, as a
//! worker does, which cannot see others. What readers may rely on is verify's own finding.

use narrows::pipeline::verify::{Verified, VerifyError};
use narrows::schema::bucket::Bucket;
use narrows::schema::names::TableName;
use narrows::upstream::pool::PoolError;
use narrows::wide_row::layout::Layout;
use narrows::wide_row::names::Generation;
use narrows::wide_row::store::SplitId;

use super::compare::UNPREPARED;
use super::control::Control;
use super::data::{Partition, key_is, values};
use super::schema::{Column, Schema, quoted};
use super::types::Type;
use super::wire::{Row, Wire};
use crate::pipeline::verify::verify;
use crate::support::eventually;
use crate::support::random::Random;
use crate::support::request::Value;
use crate::support::response::Body;

const HIDDEN: [&str; 2] = ["narrows_generation", "narrows_bucket"];
const BUCKETS_MAX: usize = 9;
const DAY: i32 = 86_400;

/// One generation of a split that is in service, or was.
#[derive(Debug, Clone)]
pub(crate) struct SplitHandle {
    pub(crate) id: SplitId,
    pub(crate) generation: Generation,
    pub(crate) buckets: usize,
}

pub(crate) struct Splitter<'a> {
    pub(crate) wire: &'a mut Wire,
    pub(crate) control: &'a Control,
    pub(crate) schema: &'a Schema,
    /// The seconds at which everything was written.
    pub(crate) now: i32,
}

/// The part of it that copies, without telling any proxy.
pub(crate) struct Copier<'a> {
    pub(crate) wire: &'a mut Wire,
    pub(crate) schema: &'a Schema,
    /// The seconds at which everything was written.
    pub(crate) now: i32,
}

/// `CREATE TABLE` of the table for the buckets.
pub(crate) fn create_split_table(schema: &Schema) -> String {
    schema.create_as(&split_table(schema), &HIDDEN)
}

pub(crate) fn split_table(schema: &Schema) -> String {
    format!("wide_{}_1", schema.table)
}

pub(crate) fn split_id(schema: &Schema, partition: &Partition) -> SplitId {
    let key: Vec<&[u8]> = partition
        .key
        .iter()
        .map(|part| part.bytes.as_slice())
        .collect();
    Control::id(TableName::new(&schema.keyspace, &schema.table), &key)
}

impl Splitter<'_> {
    /// Copies the partition into 2 to 9 buckets and puts them into service.
    pub(crate) fn split(&mut self, partition: &Partition, random: &mut Random) -> SplitHandle {
        let id = split_id(self.schema, partition);
        let begun = self.control.begin(&id);
        let mut copier = Copier {
            wire: self.wire,
            schema: self.schema,
            now: self.now,
        };
        let buckets = copier.copy_all(partition, begun.0, random);
        let count = buckets.len();
        let layout = Control::unproven(&id, begun.0, &split_table(self.schema), buckets);
        let verified = self.verified(&layout);
        let layout = layout.prove(verified.proof).expect("it is sound");
        self.control.complete(&id, &begun, &layout);
        SplitHandle {
            id,
            generation: begun.0,
            buckets: count,
        }
    }

    /// A node whose cache of statements is full drops new ones, at times for longer than verify itself has patience.
    fn verified(&self, layout: &Layout) -> Verified {
        eventually("the node keeps what verify prepares", || {
            let verified = verify(self.wire.node, self.schema, layout, self.now);
            match self.control.block_on(verified) {
                Err(VerifyError::Request(PoolError::Refused { code, .. }))
                    if code == UNPREPARED =>
                {
                    None
                }
                verified => Some(verified.expect("the copy is equal")),
            }
        })
    }

    /// Takes it out of service, unless somebody has done so already.
    pub(crate) fn rollback(&mut self, handle: &SplitHandle) -> bool {
        self.control.invalidate(&handle.id, handle.generation)
    }
}

impl Copier<'_> {
    /// Writes 2 to 9 buckets.
    pub(crate) fn copy_all(
        &mut self,
        partition: &Partition,
        generation: Generation,
        random: &mut Random,
    ) -> Vec<Bucket> {
        let rows = self.original(partition, self.now);
        let starts = boundaries(rows.len(), random);
        for (index, row) in rows.iter().enumerate() {
            let bucket = starts.iter().filter(|start| **start <= index).count() as i32 - 1;
            self.copy(partition, (generation, bucket), row);
        }
        self.wire.settle();
        self.prove(partition, generation, &starts);
        buckets(&rows, &starts, self.schema.clustering.len())
    }

    fn original(&mut self, partition: &Partition, now: i32) -> Vec<Row> {
        let text = format!(
            "SELECT {} FROM {} WHERE {}",
            selection(self.schema),
            self.schema.name(),
            key_is(self.schema, 0)
        );
        self.wire.read(&text, values(partition.key.iter()), now)
    }

    fn bucket(
        &mut self,
        partition: &Partition,
        (generation, bucket): (Generation, i32),
        now: i32,
    ) -> Vec<Row> {
        let text = format!(
            "SELECT {} FROM {} WHERE {} AND {}",
            selection(self.schema),
            self.target(),
            key_is(self.schema, 0),
            HIDDEN.map(|name| format!("{name} = ?")).join(" AND ")
        );
        let mut values = values(partition.key.iter());
        values.extend([Value::int(generation.0), Value::int(bucket)]);
        self.wire.read(&text, values, now)
    }

    fn target(&self) -> String {
        format!(
            "{}.{}",
            self.schema.keyspace,
            quoted(&split_table(self.schema))
        )
    }

    /// Row by row, with write times and TTLs; later only what does not expire is left, so markers are compared, too.
    fn prove(&mut self, partition: &Partition, generation: Generation, starts: &[usize]) {
        for later in [0, DAY - 1, DAY, 3 * DAY, 31 * DAY] {
            let original = self.original(partition, self.now + later);
            let copy: Vec<Row> = (0..starts.len() as i32)
                .flat_map(|bucket| self.bucket(partition, (generation, bucket), self.now + later))
                .collect();
            assert_eq!(
                copy.len(),
                original.len(),
                "rows after {later} s of {}",
                self.schema.create()
            );
            for (copied, row) in copy.iter().zip(&original) {
                assert_eq!(copied, row, "after {later} s of {}", self.schema.create());
            }
        }
    }

    /// Every cell with its own time, and the marker if the row has one.
    fn copy(&mut self, partition: &Partition, place: (Generation, i32), row: &Row) {
        let width = self.schema.clustering.len();
        let clustering = &row[..width];
        let mut key = values(partition.key.iter());
        key.extend(
            clustering
                .iter()
                .map(|value| Value::Bytes(value.clone().expect("a key"))),
        );
        key.extend([Value::int(place.0.0), Value::int(place.1)]);
        let model = partition.rows.iter().find(|model| {
            let model = model.clustering.iter().map(|value| Some(&value.bytes));
            model.eq(clustering.iter().map(Option::as_ref))
        });
        let columns = self.schema.regular.iter().enumerate();
        let mut cells: Vec<Cell> = columns
            .flat_map(|(column, of)| Cell::read(column, &of.of, &row[width + 3 * column..][..3]))
            .collect();
        let outlives = |ttl: i32| {
            let stays = cells.iter().any(|cell| cell.ttl == 0);
            !stays && (ttl == 0 || cells.iter().all(|cell| cell.ttl < ttl))
        };
        let marker = model.expect("a row of ours").marker();
        if let Some((timestamp, ttl)) = marker.filter(|(_, ttl)| outlives(*ttl)) {
            self.write_marker(&key, timestamp, ttl);
        }
        cells.sort_by_key(|cell| (cell.timestamp, cell.ttl));
        for group in cells.chunk_by(|one, other| one.is_written_with(other)) {
            self.write_cells(&key, group);
        }
    }

    fn write_marker(&mut self, key: &[Value], timestamp: i64, ttl: i32) {
        let columns: Vec<String> = self.schema.key().map(Column::quoted).collect();
        let text = format!(
            "INSERT INTO {} ({}, {}) VALUES ({}) USING TIMESTAMP ? AND TTL ?",
            self.target(),
            columns.join(", "),
            HIDDEN.join(", "),
            vec!["?"; key.len()].join(", ")
        );
        let mut values = key.to_vec();
        values.extend([Value::long(timestamp), Value::int(ttl)]);
        self.wire.write(&text, values, self.now);
    }

    fn write_cells(&mut self, key: &[Value], cells: &[Cell]) {
        let sets = self.schema.regular.iter().map(|column| match column.of {
            Type::Cells(_) => format!("{0} = {0} + ?", column.quoted()),
            _ => format!("{} = ?", column.quoted()),
        });
        let text = format!(
            "UPDATE {} USING TIMESTAMP ? AND TTL ? SET {} WHERE {} AND {}",
            self.target(),
            sets.collect::<Vec<_>>().join(", "),
            key_is(self.schema, self.schema.clustering.len()),
            HIDDEN.map(|name| format!("{name} = ?")).join(" AND ")
        );
        let mut values = vec![Value::long(cells[0].timestamp), Value::int(cells[0].ttl)];
        let mut columns = vec![Value::Unset; self.schema.regular.len()];
        for cell in cells {
            columns[cell.column] = Value::Bytes(cell.value.clone());
        }
        values.extend(columns);
        values.extend_from_slice(key);
        self.wire.write(&text, values, self.now);
    }
}

/// The clustering columns, then each regular one with its write time and TTL.
fn selection(schema: &Schema) -> String {
    let clustering = schema.clustering.iter().map(Column::quoted);
    let regular = schema.regular.iter().flat_map(|column| {
        let name = column.quoted();
        [
            name.clone(),
            format!("WRITETIME({name})"),
            format!("TTL({name})"),
        ]
    });
    clustering.chain(regular).collect::<Vec<_>>().join(", ")
}

/// Where buckets begin: 0, and some other rows; as many as there are rows at most.
fn boundaries(rows: usize, random: &mut Random) -> Vec<usize> {
    let mut starts = vec![0];
    for _ in 0..1 + random.below(BUCKETS_MAX - 1) {
        let start = random.below(rows);
        if !starts.contains(&start) {
            starts.push(start);
        }
    }
    starts.sort_unstable();
    starts
}

fn buckets(rows: &[Row], starts: &[usize], clustering: usize) -> Vec<Bucket> {
    let ends = starts[1..].iter().copied().chain([rows.len()]);
    let ranges = starts.iter().copied().zip(ends);
    ranges
        .map(|(start, end)| Bucket {
            first: match start {
                0 => Vec::new(),
                _ => rows[start][..clustering]
                    .iter()
                    .map(|value| value.clone().expect("a key").into())
                    .collect(),
            },
            row_count: (end - start) as u64,
            byte_count: 1000,
            home: None,
        })
        .collect()
}

/// One cell, or one element of a collection that is not frozen.
struct Cell {
    column: usize,
    value: Vec<u8>,
    timestamp: i64,
    ttl: i32,
    element: bool,
}

impl Cell {
    /// From value, write time and TTL as they were read.
    fn read(column: usize, of: &Type, read: &[Option<Vec<u8>>]) -> Vec<Self> {
        let (Some(value), Some(times)) = (&read[0], &read[1]) else {
            return Vec::new();
        };
        let cell = |value: Vec<u8>, timestamp: &[u8], ttl: Option<&[u8]>| Self {
            column,
            value,
            timestamp: i64::from_be_bytes(timestamp.try_into().expect("a bigint")),
            ttl: ttl.map_or(0, |ttl| i32::from_be_bytes(ttl.try_into().expect("an int"))),
            element: matches!(of, Type::Cells(_)),
        };
        let Type::Cells(inner) = of else {
            return vec![cell(value.clone(), times, read[2].as_deref())];
        };
        let per_element = if matches!(**inner, Type::Map(..)) {
            2
        } else {
            1
        };
        let elements = elements(value, per_element);
        let times = items(times);
        let ttls = read[2].as_deref().map_or(vec![None; times.len()], items);
        assert!(elements.len() == times.len() && times.len() == ttls.len());
        let zipped = elements.into_iter().zip(times).zip(ttls);
        zipped
            .map(|((value, time), ttl)| cell(value, &time.expect("a time"), ttl.as_deref()))
            .collect()
    }

    /// Elements are written one by one, since two of them would need two values for one marker.
    fn is_written_with(&self, other: &Self) -> bool {
        (self.timestamp, self.ttl) == (other.timestamp, other.ttl)
            && !self.element
            && !other.element
    }
}

/// The items of a list.
fn items(list: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut body = Body(list);
    (0..body.int())
        .map(|_| body.bytes().map(<[u8]>::to_vec))
        .collect()
}

/// Each element as a collection of its own.
fn elements(collection: &[u8], per_element: usize) -> Vec<Vec<u8>> {
    let mut body = Body(collection);
    (0..body.int())
        .map(|_| {
            let mut one = 1_i32.to_be_bytes().to_vec();
            for _ in 0..per_element {
                let item = body.bytes().expect("no nulls in collections");
                one.extend_from_slice(&(item.len() as i32).to_be_bytes());
                one.extend_from_slice(item);
            }
            one
        })
        .collect()
}
