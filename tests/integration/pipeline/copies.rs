//! A partition with every kind of row, written cell by cell, and copies of it that are exact but for one mistake.

use narrows::pipeline::original::requests::Requests;
use narrows::pipeline::verify::{Checked, Patience, Verification, Verified, VerifyError};
use narrows::schema::bucket::Bucket;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::schema::{ColumnRow, TableSchema};
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;

use crate::exactness::seconds_now;
use crate::exactness::wire::Wire;
use crate::support::request::Value;
use crate::support::{Cluster, Keyspace};

use std::time::Duration;

pub(super) const ROWS: usize = 60;
/// The first row of each bucket.
pub(super) const STARTS: [usize; 4] = [0, 15, 30, 45];
/// What kinds of rows there are; row *n* is of kind *n* modulo their number.
const KINDS: usize = 10;
/// The partition is `('otter', 7)`.
const SENSOR: &str = "otter";
pub(super) const DAY: i32 = 7;
/// Microseconds; each row's writes begin a second later.
const EPOCH: i64 = 1_700_000_000_000_000;
pub(super) const SPLIT_TABLE: &str = "wide_reading_1";

/// One cell or one marker, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) row: usize,
    pub(super) hour: i32,
    pub(super) id: Vec<u8>,
    pub(super) what: What,
    pub(super) time: i64,
    pub(super) ttl: i32,
    /// Where it goes in the copy.
    pub(super) day: i32,
    pub(super) later_generation: bool,
    pub(super) bucket: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Marker,
    Cell(&'static str, Vec<u8>),
    /// Of a set or map: a collection of one.
    Element(&'static str, Vec<u8>),
    /// A deletion of a column.
    Deletion(&'static str),
}

impl Write {
    pub(super) fn is_of(&self, column: &str) -> bool {
        match &self.what {
            What::Marker => column == "marker",
            What::Cell(name, _) | What::Element(name, _) | What::Deletion(name) => column == *name,
        }
    }

    pub(super) fn value(&mut self) -> &mut Vec<u8> {
        match &mut self.what {
            What::Cell(_, value) | What::Element(_, value) => value,
            other => panic!("{other:?} has no value"),
        }
    }

    pub(super) fn key(&self) -> Vec<Box<[u8]>> {
        vec![self.hour.to_be_bytes().into(), self.id.clone().into()]
    }
}

/// The copy of a partition as it will be written, and where its buckets begin.
#[derive(Debug, Clone)]
pub(super) struct Copy {
    pub(super) writes: Vec<Write>,
    pub(super) starts: Vec<usize>,
}

pub(super) fn map_of(key: &str, value: i32) -> Vec<u8> {
    let mut out = 1_i32.to_be_bytes().to_vec();
    out.extend((key.len() as i32).to_be_bytes());
    out.extend_from_slice(key.as_bytes());
    out.extend(4_i32.to_be_bytes());
    out.extend(value.to_be_bytes());
    out
}

/// A set of one, and a list of one.
pub(super) fn set_of(item: &str) -> Vec<u8> {
    let mut out = 1_i32.to_be_bytes().to_vec();
    out.extend((item.len() as i32).to_be_bytes());
    out.extend_from_slice(item.as_bytes());
    out
}

/// Writes of rows in clustering order: `hour` descending, `id` ascending.
fn original(with_collections: bool) -> Vec<Write> {
    let mut all = Vec::new();
    for row in 0..ROWS {
        let bucket = STARTS.iter().filter(|start| **start <= row).count() - 1;
        let mut put = |what, time: i64, ttl| {
            all.push(Write {
                row,
                hour: 100 - (row / 3) as i32,
                id: format!("id {}", row % 3).into_bytes(),
                what,
                time: EPOCH + row as i64 * 1_000_000 + time,
                ttl,
                day: DAY,
                later_generation: false,
                bucket,
            });
        };
        let text = |text: &str| What::Cell("note", text.as_bytes().to_vec());
        let number = |number: i32| What::Cell("level", number.to_be_bytes().to_vec());
        match row % KINDS {
            // An INSERT.
            0 => {
                put(What::Marker, 1, 0);
                put(text("all is well"), 1, 0);
                put(number(row as i32), 1, 0);
                put(What::Cell("tags", set_of("frozen")), 1, 0);
            }
            // UPDATEs at two times.
            1 => {
                put(text("no marker"), 2, 0);
                put(number(4711), 3, 0);
            }
            // An INSERT with a TTL.
            2 => {
                put(What::Marker, 1, 1000);
                put(text("short"), 1, 1000);
                put(number(1), 1, 1000);
            }
            // A marker that stays.
            3 => {
                put(What::Marker, 1, 0);
                put(text("the marker stays"), 2, 500);
            }
            // A marker that stays longer than the cells.
            4 => {
                put(What::Marker, 1, 2000 + row as i32);
                put(number(7), 2, 700);
            }
            5 => put(What::Marker, 5, 0),
            6 => put(What::Marker, 6, 3000 + row as i32),
            // Without a marker, its cells end one after the other.
            7 => {
                put(text("later"), 7, 900 + row as i32);
                put(number(3), 8, 800);
            }
            8 if with_collections => {
                put(What::Element("counts", map_of("a", 1)), 1, 0);
                put(What::Element("counts", map_of("b", 2)), 2, 600);
                put(What::Element("names", set_of("x")), 3, 400);
                put(What::Element("names", set_of("y")), 4, 0);
            }
            // Empty is not null.
            8 => put(text(""), 4, 0),
            _ => {
                put(What::Marker, 9, 0);
                put(text(""), 9, 0);
            }
        }
    }
    all
}

/// A keyspace with the original, written, and the tables for its copies.
pub(super) struct World {
    keyspace: Keyspace,
    schema: TableSchema,
    now: i32,
    pub(super) writes: Vec<Write>,
}

impl World {
    pub(super) fn create(cluster: &Cluster, with_collections: bool) -> Self {
        let order = "hour DESC, id ASC";
        let tables = [
            declare("reading", false, with_collections, order),
            declare(SPLIT_TABLE, true, with_collections, order),
            declare("wide_reading_2", true, with_collections, "hour ASC, id ASC"),
        ];
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let keyspace = Keyspace::create(cluster, &tables);
        let world = Self {
            schema: schema(&keyspace.name, with_collections),
            keyspace,
            now: seconds_now(),
            writes: original(with_collections),
        };
        let mut writer = world.writer(cluster);
        for write in &world.writes {
            writer.write("reading", write, None);
        }
        writer.wire.settle();
        world
    }

    pub(super) fn writer(&self, cluster: &Cluster) -> Writer {
        Writer {
            keyspace: self.keyspace.name.clone(),
            wire: Wire::open(cluster.node()),
            now: self.now,
        }
    }

    /// What an exact copier would write.
    pub(super) fn copy(&self) -> Copy {
        Copy {
            writes: self.writes.clone(),
            starts: STARTS.to_vec(),
        }
    }

    pub(super) fn layout(&self, table: &str, copy: &Copy, generation: i32) -> Layout {
        let first = |start: &usize| {
            let write = self.writes.iter().find(|write| write.row == *start);
            write.expect("a row").key()
        };
        let buckets = copy.starts.iter().map(|start| Bucket {
            first: if *start == 0 {
                Vec::new()
            } else {
                first(start)
            },
            row_count: 1,
            byte_count: 1,
            home: None,
        });
        Layout::new(
            LayoutId {
                table: TableName::new(&self.keyspace.name, "reading"),
                key: key(),
                generation: Generation(generation),
            },
            table.to_owned(),
            "by hand".to_owned(),
            buckets.collect(),
        )
    }

    pub(super) async fn verify(
        &self,
        requests: &Requests,
        layout: &Layout,
        reread: [Duration; 3],
    ) -> Result<Verified, VerifyError> {
        let verification = Verification {
            requests,
            schema: &self.schema,
            key: &key(),
            layout,
            now: self.now,
            patience: Patience {
                reread,
                retry: Duration::from_millis(100),
            },
            from: Checked::default(),
            progress: &|_| {},
        };
        verification.run().await
    }
}

/// Writes originals and copies, on a connection of its own.
pub(super) struct Writer {
    keyspace: String,
    wire: Wire,
    now: i32,
}

impl Writer {
    /// Writes a copy as this generation of the partition.
    pub(super) fn write_copy(&mut self, table: &str, copy: &Copy, generation: i32) {
        for write in &copy.writes {
            let generation = generation + i32::from(write.later_generation);
            self.write(table, write, Some(generation));
        }
        self.wire.settle();
    }

    fn write(&mut self, table: &str, write: &Write, generation: Option<i32>) {
        let mut columns = vec!["sensor", "day", "hour", "id"];
        let mut key = vec![
            Value::text(SENSOR),
            Value::int(write.day),
            Value::int(write.hour),
            Value::Bytes(write.id.clone()),
        ];
        if let Some(generation) = generation {
            columns.extend(["narrows_generation", "narrows_bucket"]);
            key.extend([Value::int(generation), Value::int(write.bucket as i32)]);
        }
        let markers = vec!["?"; columns.len()].join(", ");
        let equal = format!("{} = ?", columns.join(" = ? AND "));
        let table = format!("{}.{table}", self.keyspace);
        let (time, ttl) = (Value::long(write.time), Value::int(write.ttl));
        let set = |value: &Vec<u8>| {
            let mut values = vec![time.clone(), ttl.clone(), Value::Bytes(value.clone())];
            values.extend(key.clone());
            values
        };
        let update = format!("UPDATE {table} USING TIMESTAMP ? AND TTL ? SET");
        let (text, values) = match &write.what {
            What::Marker => {
                let columns = columns.join(", ");
                let text = format!(
                    "INSERT INTO {table} ({columns}) VALUES ({markers}) USING TIMESTAMP ? AND TTL ?"
                );
                (text, [key, vec![time, ttl]].concat())
            }
            What::Cell(name, value) => (format!("{update} {name} = ? WHERE {equal}"), set(value)),
            What::Element(name, value) => (
                format!("{update} {name} = {name} + ? WHERE {equal}"),
                set(value),
            ),
            What::Deletion(name) => {
                let text = format!("DELETE {name} FROM {table} USING TIMESTAMP ? WHERE {equal}");
                (text, [vec![time], key].concat())
            }
        };
        self.wire.write(&text, values, self.now);
    }
}

fn key() -> PartitionKey {
    let day = DAY.to_be_bytes();
    PartitionKey::from_components(&[SENSOR.as_bytes(), &day]).expect("a key")
}

fn columns(with_collections: bool) -> Vec<(&'static str, &'static str)> {
    let mut columns = vec![
        ("sensor", "text"),
        ("day", "int"),
        ("hour", "int"),
        ("id", "text"),
        ("level", "int"),
        ("note", "text"),
        ("tags", "frozen<list<text>>"),
    ];
    if with_collections {
        columns.extend([("counts", "map<text, int>"), ("names", "set<text>")]);
    }
    columns
}

fn declare(table: &str, is_split: bool, with_collections: bool, order: &str) -> String {
    let columns = columns(with_collections).into_iter();
    let mut columns: Vec<String> = columns.map(|(name, of)| format!("{name} {of}")).collect();
    let mut hidden = "";
    if is_split {
        hidden = ", narrows_generation, narrows_bucket";
        columns.push("narrows_generation int, narrows_bucket int".to_owned());
    }
    format!(
        "CREATE TABLE {table} ({}, PRIMARY KEY ((sensor, day{hidden}), hour, id)) WITH CLUSTERING ORDER BY ({order})",
        columns.join(", ")
    )
}

fn schema(keyspace: &str, with_collections: bool) -> TableSchema {
    let row = |(name, of): (&str, &str)| {
        let (kind, position, order) = match name {
            "sensor" => ("partition_key", 0, "none"),
            "day" => ("partition_key", 1, "none"),
            "hour" => ("clustering", 0, "desc"),
            "id" => ("clustering", 1, "asc"),
            _ => ("regular", -1, "none"),
        };
        ColumnRow {
            name: name.to_owned(),
            kind: kind.to_owned(),
            position,
            clustering_order: order.to_owned(),
            cql_type: of.to_owned(),
        }
    };
    let rows = columns(with_collections).into_iter().map(row).collect();
    let schema = TableSchema::from_rows(keyspace, "reading", rows, Vec::new(), one_replica());
    schema.expect("a table")
}

pub(super) fn one_replica() -> Vec<(String, String)> {
    let options = [("class", "SimpleStrategy"), ("replication_factor", "1")];
    options.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec()
}
