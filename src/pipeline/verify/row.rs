//! Rows as verify reads them: the clustering values, then value, write time and TTL of each regular column. Pure.

use std::ops::Range;
use std::rc::Rc;

use crate::protocol::types::Cursor;
use crate::rewrite::rows::Page;
use crate::schema::{CqlType, TableSchema};

/// The serialized clustering values of a row, owned.
pub(super) type Key = Vec<Box<[u8]>>;

/// Value, write time, TTL.
const PER_COLUMN: usize = 3;

/// One page of rows.
#[derive(Debug)]
pub(super) struct Block {
    body: Vec<u8>,
    column_count: usize,
    rows: Vec<Range<usize>>,
    pub(super) paging_state: Option<Vec<u8>>,
    /// Number of rows that were asked for.
    pub(super) page_size: i32,
}

impl Block {
    /// Reads the body of a RESULT with this many columns; `None` if it is something else.
    pub(super) fn read(body: Vec<u8>, column_count: usize, page_size: i32) -> Option<Self> {
        let page = Page::read(&body).filter(|page| page.column_count == column_count)?;
        let paging_state = page.paging_state.map(<[u8]>::to_vec);
        let mut cursor = Cursor::new(page.rows);
        let mut rows = Vec::with_capacity(page.row_count);
        for _ in 0..page.row_count {
            let start = body.len() - cursor.rest().len();
            for _ in 0..column_count {
                cursor.bytes().ok()?;
            }
            rows.push(start..body.len() - cursor.rest().len());
        }
        Some(Self {
            body,
            column_count,
            rows,
            paging_state,
            page_size,
        })
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn byte_count(&self) -> usize {
        self.body.len()
    }

    pub(super) fn row(self: &Rc<Self>, index: usize) -> Option<RowAt> {
        let range = self.rows.get(index)?.clone();
        Some(RowAt {
            block: self.clone(),
            range,
        })
    }
}

/// One row of a page, which it keeps in memory.
#[derive(Debug, Clone)]
pub(super) struct RowAt {
    block: Rc<Block>,
    range: Range<usize>,
}

impl RowAt {
    /// `None` if a key value is null, or the columns are not those of the table.
    pub(super) fn read(&self, clustering: usize) -> Option<Row<'_>> {
        let mut cursor = Cursor::new(self.block.body.get(self.range.clone())?);
        let mut values = Vec::with_capacity(self.block.column_count);
        for _ in 0..self.block.column_count {
            values.push(cursor.bytes().ok()?);
        }
        let (key, cells) = values.split_at_checked(clustering)?;
        let key: Option<Vec<&[u8]>> = key.iter().copied().collect();
        let cells = cells.chunks_exact(PER_COLUMN);
        cells.remainder().is_empty().then_some(())?;
        let cells = cells.map(|triple| Cells {
            value: triple[0],
            written: triple[1],
            ttl: triple[2],
        });
        Some(Row {
            key: key?,
            columns: cells.collect(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) key: Vec<&'a [u8]>,
    /// In the order of the table's regular columns.
    pub(super) columns: Vec<Cells<'a>>,
}

/// What a column of a row holds: one cell, or the cells of a map or set, whose write times and TTLs come as lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cells<'a> {
    pub(super) value: Option<&'a [u8]>,
    pub(super) written: Option<&'a [u8]>,
    pub(super) ttl: Option<&'a [u8]>,
}

impl Row<'_> {
    pub(super) fn owned_key(&self) -> Key {
        self.key.iter().map(|value| Box::from(*value)).collect()
    }

    pub(super) fn byte_count(&self) -> usize {
        let keys: usize = self.key.iter().map(|value| value.len()).sum();
        let values = self.columns.iter().filter_map(|cells| cells.value);
        keys + values.map(<[u8]>::len).sum::<usize>()
    }

    /// The TTLs of the cells of every column, `None` for a cell that does not expire. The result is `None` if this is
    /// not a row of the table.
    pub(super) fn ttls(&self, schema: &TableSchema) -> Option<Vec<Vec<Option<i32>>>> {
        if self.columns.len() != schema.regulars.len() {
            return None;
        }
        let columns = self.columns.iter().zip(&schema.regulars);
        let ttls = columns.map(|(cells, column)| match (cells.value, &column.cql_type) {
            (None, _) => Some(Vec::new()),
            (Some(_), CqlType::Map(..) | CqlType::Set(_)) => cells.listed_ttls(),
            (Some(_), _) => Some(vec![optional_int(cells.ttl)?]),
        });
        ttls.collect()
    }
}

impl Cells<'_> {
    fn listed_ttls(&self) -> Option<Vec<Option<i32>>> {
        let mut written = Cursor::new(self.written?);
        let count = written.count("elements").ok()?;
        // A write time takes at least four bytes, so no count can promise more than there is.
        if count > written.rest().len() / 4 {
            return None;
        }
        let Some(ttl) = self.ttl else {
            return Some(vec![None; count]);
        };
        let mut ttls = Cursor::new(ttl);
        if ttls.count("elements").ok()? != count {
            return None;
        }
        (0..count)
            .map(|_| optional_int(ttls.bytes().ok()?))
            .collect()
    }
}

/// `None` if there is a value that is not an int.
fn optional_int(bytes: Option<&[u8]>) -> Option<Option<i32>> {
    match bytes {
        None => Some(None),
        Some(bytes) => Some(Some(i32::from_be_bytes(bytes.try_into().ok()?))),
    }
}
