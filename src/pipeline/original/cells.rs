//! Rows of an original as cells with their own write times and expiries, and the writes that make the same cells
//! elsewhere. Pure. `verify` does not use it: it reads with code of its own.

use std::collections::BTreeMap;

use crate::protocol::types::{Cursor, Value, Write};
use crate::rewrite::rows::Page;
use crate::schema::{CqlType, TableSchema};
use crate::statement::quoted;
use crate::wide_row::store::HIDDEN;

/// One row as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub clustering: Vec<Box<[u8]>>,
    pub cells: Vec<Cell>,
    /// Approximate size on the wire.
    pub bytes: usize,
}

/// One cell; for a non-frozen map or set, one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Index of its column among the regular columns.
    pub column: usize,
    pub value: Box<[u8]>,
    pub write_micros: i64,
    /// Seconds that are left; 0 if it never expires.
    pub ttl: i32,
}

impl Row {
    /// When the last cell expires, in seconds from the read; `None` if one never does.
    pub fn cells_ttl(&self) -> Option<i32> {
        let lasting = self.cells.iter().any(|cell| cell.ttl == 0);
        let last = self.cells.iter().map(|cell| cell.ttl).max().unwrap_or(0);
        (!lasting).then_some(last)
    }

    pub fn newest_write(&self) -> Option<i64> {
        self.cells.iter().map(|cell| cell.write_micros).max()
    }
}

/// How a value of a regular column is stored in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    One,
    Set,
    Map,
}

/// The number of clustering columns of a table, and the form of each regular column.
#[derive(Debug, Clone)]
pub struct Forms {
    clustering: usize,
    regulars: Vec<Form>,
}

impl Forms {
    pub fn new(schema: &TableSchema) -> Self {
        let form = |cql_type: &CqlType| match cql_type {
            CqlType::Set(_) => Form::Set,
            CqlType::Map(..) => Form::Map,
            _ => Form::One,
        };
        let regulars = schema.regulars.iter();
        Self {
            clustering: schema.clustering.len(),
            regulars: regulars.map(|column| form(&column.cql_type)).collect(),
        }
    }

    /// The rows of a page that was read with [`selection`]; `None` if the page has another form.
    pub fn rows(&self, page: &Page<'_>) -> Option<Vec<Row>> {
        if page.column_count != self.clustering + 3 * self.regulars.len() {
            return None;
        }
        let mut cursor = Cursor::new(page.rows);
        (0..page.row_count).map(|_| self.row(&mut cursor)).collect()
    }

    fn row(&self, cursor: &mut Cursor<'_>) -> Option<Row> {
        let before = cursor.rest().len();
        let clustering = (0..self.clustering)
            .map(|_| Some(cursor.bytes().ok()??.into()))
            .collect::<Option<_>>()?;
        let mut cells = Vec::with_capacity(self.regulars.len());
        for (column, form) in self.regulars.iter().enumerate() {
            let value = cursor.bytes().ok()?;
            let times = cursor.bytes().ok()?;
            let ttls = cursor.bytes().ok()?;
            let (Some(value), Some(times)) = (value, times) else {
                continue;
            };
            match form {
                Form::One => cells.push(Cell {
                    column,
                    value: value.into(),
                    write_micros: i64::from_be_bytes(times.try_into().ok()?),
                    ttl: ttl(ttls)?,
                }),
                Form::Set => elements(column, value, (times, ttls), 1, &mut cells)?,
                Form::Map => elements(column, value, (times, ttls), 2, &mut cells)?,
            }
        }
        Some(Row {
            clustering,
            cells,
            bytes: before - cursor.rest().len(),
        })
    }

    /// The writes that make the cells of a row: one for each write time and TTL. Elements of one collection in the same
    /// write are one value.
    pub fn writes<'a>(&self, row: &'a Row) -> Vec<RowWrite<'a>> {
        let mut groups: BTreeMap<(i64, i32), Vec<&'a Cell>> = BTreeMap::new();
        for cell in &row.cells {
            let group = groups.entry((cell.write_micros, cell.ttl)).or_default();
            group.push(cell);
        }
        let write = |((write_micros, ttl), cells): ((i64, i32), Vec<&'a Cell>)| RowWrite {
            write_micros,
            ttl,
            columns: self.columns(&cells),
        };
        groups.into_iter().map(write).collect()
    }

    fn columns<'a>(&self, cells: &[&'a Cell]) -> Vec<Written<'a>> {
        let mut columns: Vec<Written<'a>> = self.regulars.iter().map(|_| Written::Unset).collect();
        for same in cells.chunk_by(|one, other| one.column == other.column) {
            let Some(first) = same.first() else { continue };
            columns[first.column] = match self.regulars[first.column] {
                Form::One => Written::Cell(&first.value),
                Form::Set | Form::Map => Written::Elements(joined(same)),
            };
        }
        columns
    }
}

/// One write to a row: all cells with the same write time and TTL.
#[derive(Debug, PartialEq, Eq)]
pub struct RowWrite<'a> {
    pub write_micros: i64,
    pub ttl: i32,
    /// One for each regular column.
    columns: Vec<Written<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Written<'a> {
    /// Not part of this write.
    Unset,
    Cell(&'a [u8]),
    /// A collection of the elements in this write.
    Elements(Vec<u8>),
}

impl RowWrite<'_> {
    pub fn values(&self) -> impl Iterator<Item = Value<'_>> {
        self.columns.iter().map(|column| match column {
            Written::Unset => Value::Unset,
            Written::Cell(bytes) => Value::Bytes(bytes),
            Written::Elements(bytes) => Value::Bytes(bytes),
        })
    }
}

fn ttl(bytes: Option<&[u8]>) -> Option<i32> {
    match bytes {
        None => Some(0),
        Some(bytes) => Some(i32::from_be_bytes(bytes.try_into().ok()?)),
    }
}

/// Adds each element as a cell with its own write time and TTL. An element has `parts` values: one in a set, two in a
/// map.
fn elements(
    column: usize,
    value: &[u8],
    (times, ttls): (&[u8], Option<&[u8]>),
    parts: usize,
    cells: &mut Vec<Cell>,
) -> Option<()> {
    let mut value = Cursor::new(value);
    let count = value.count("element count").ok()?;
    let times = items(times)?;
    let ttls = match ttls {
        Some(ttls) => items(ttls)?,
        None => vec![None; times.len()],
    };
    if times.len() != count || ttls.len() != count {
        return None;
    }
    for (time, left) in times.into_iter().zip(ttls) {
        let before = value.rest();
        for _ in 0..parts {
            value.bytes().ok()??;
        }
        let element = &before[..before.len() - value.rest().len()];
        cells.push(Cell {
            column,
            value: element.into(),
            write_micros: i64::from_be_bytes(time?.try_into().ok()?),
            ttl: ttl(left)?,
        });
    }
    value.rest().is_empty().then_some(())
}

/// The items of a list.
fn items(list: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut cursor = Cursor::new(list);
    let count = cursor.count("item count").ok()?;
    // An item takes at least four bytes.
    if count > list.len() / 4 {
        return None;
    }
    (0..count).map(|_| cursor.bytes().ok()).collect()
}

fn joined(elements: &[&Cell]) -> Vec<u8> {
    let bytes: usize = elements.iter().map(|cell| cell.value.len()).sum();
    let mut out = Vec::with_capacity(bytes + 4);
    out.put_int(i32::try_from(elements.len()).unwrap_or(i32::MAX));
    for element in elements {
        out.extend_from_slice(&element.value);
    }
    out
}

/// Selects the clustering columns, then each regular column with its write time and TTL.
pub fn selection(schema: &TableSchema) -> String {
    let clustering = schema
        .clustering
        .iter()
        .map(|column| quoted(&column.column.name));
    let regulars = schema.regulars.iter().flat_map(|column| {
        let name = quoted(&column.name);
        [
            name.clone(),
            format!("WRITETIME({name})"),
            format!("TTL({name})"),
        ]
    });
    clustering.chain(regulars).collect::<Vec<_>>().join(", ")
}

/// A restriction to one partition: `column = ?` for each column of the partition key.
pub fn key_is(schema: &TableSchema) -> String {
    let columns = schema.partition_key.iter();
    let columns: Vec<String> = columns
        .map(|column| format!("{} = ?", quoted(&column.name)))
        .collect();
    columns.join(" AND ")
}

/// The UPDATE that writes cells of one row, with one write time and TTL, into a bucket. It binds write time, TTL,
/// regular columns, partition key, generation, bucket and clustering columns. `None` if the table has no regular
/// columns.
pub fn update(schema: &TableSchema, split_table: &str) -> Option<String> {
    let forms = Forms::new(schema);
    let sets = schema.regulars.iter().zip(&forms.regulars);
    let sets: Vec<String> = sets
        .map(|(column, form)| {
            let name = quoted(&column.name);
            match form {
                Form::One => format!("{name} = ?"),
                Form::Set | Form::Map => format!("{name} = {name} + ?"),
            }
        })
        .collect();
    let clustering = schema
        .clustering
        .iter()
        .map(|column| quoted(&column.column.name));
    let place = HIDDEN.map(str::to_owned).into_iter().chain(clustering);
    let place: Vec<String> = place.map(|name| format!("{name} = ?")).collect();
    (!sets.is_empty()).then(|| {
        format!(
            "UPDATE {}.{} USING TIMESTAMP ? AND TTL ? SET {} WHERE {} AND {}",
            quoted(&schema.keyspace),
            quoted(split_table),
            sets.join(", "),
            key_is(schema),
            place.join(" AND ")
        )
    })
}

/// The INSERT that writes the marker of a row into a bucket. It binds partition key, generation, bucket, clustering
/// columns, write time and TTL.
pub fn insert_marker(schema: &TableSchema, split_table: &str) -> String {
    let key = schema
        .partition_key
        .iter()
        .map(|column| quoted(&column.name));
    let clustering = schema
        .clustering
        .iter()
        .map(|column| quoted(&column.column.name));
    let columns: Vec<String> = key
        .chain(HIDDEN.map(str::to_owned))
        .chain(clustering)
        .collect();
    format!(
        "INSERT INTO {}.{} ({}) VALUES ({}) USING TIMESTAMP ? AND TTL ?",
        quoted(&schema.keyspace),
        quoted(split_table),
        columns.join(", "),
        vec!["?"; columns.len()].join(", ")
    )
}

#[cfg(test)]
mod tests;
