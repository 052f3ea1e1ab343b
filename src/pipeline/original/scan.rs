//! Reads an original from a position to its end, page by page, at consistency ALL and one `now_in_seconds`.
//!
//! A page that fails because of too many tombstones, or takes too long, is read in narrower ranges of the first
//! clustering column. A scan holds one page in memory, whatever the size of the partition.

use super::cells::{Forms, Row, key_is, selection};
use super::partition::{ALL, Partition};
use super::ranges;
use super::requests::Requests;
use crate::protocol::types::{Cursor, Value, Write};
use crate::rewrite::rows::Page;
use crate::schema::TableSchema;
use crate::statement::quoted;
use crate::upstream::pool::{PoolError, SubRead, SubReply};

/// Page size before the size of rows is known.
const PAGE_ROWS_FIRST: usize = 16;
/// Number of rows that are read backwards.
const LAST_ROWS: usize = 16;
const PAGE_ROWS_MIN: usize = 1;
const PAGE_ROWS_MAX: usize = 5_000;
/// How often the range of one page may be narrowed: more often than any type has bits.
const NARROWER_MAX: usize = 160;

#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("{0}")]
    Request(#[from] PoolError),
    #[error("the reply does not match the request")]
    Unexpected,
    /// Even the narrowest range of the first clustering column has too many tombstones.
    #[error(
        "rows that share one value of the first clustering column have more tombstones than cassandra reads at a time"
    )]
    Tombstones,
}

/// Where a scan is. Ranges are in the direction of the scan, which is the clustering order of the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// Everything up to this value of the first clustering column has been read.
    behind: Option<Vec<u8>>,
    /// The range being read ends with this value.
    up_to: Option<Vec<u8>>,
    /// Cassandra's paging state within the range.
    state: Option<Vec<u8>>,
    /// The first clustering value of the last row that was read.
    last: Option<Vec<u8>>,
    pub is_end: bool,
}

pub struct Scan<'a> {
    requests: &'a Requests,
    schema: &'a TableSchema,
    partition: &'a Partition,
    forms: Forms,
    now: i32,
    position: Position,
    page_rows: usize,
    /// The first clustering value of the partition's last row, if it could be read.
    end: Option<Vec<u8>>,
}

impl<'a> Scan<'a> {
    pub fn new(
        requests: &'a Requests,
        schema: &'a TableSchema,
        partition: &'a Partition,
        now: i32,
        position: Position,
    ) -> Self {
        Self {
            requests,
            schema,
            partition,
            forms: Forms::new(schema),
            now,
            position,
            page_rows: PAGE_ROWS_FIRST,
            end: None,
        }
    }

    /// The position after all rows that were returned.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The next rows; none at the end.
    pub async fn next(&mut self) -> Result<Vec<Row>, ScanError> {
        while !self.position.is_end {
            let rows = self.page().await?;
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }

    async fn page(&mut self) -> Result<Vec<Row>, ScanError> {
        let mut narrowed = 0;
        let reply = loop {
            let error = match self.read().await {
                Ok(reply) => break reply,
                Err(error) => error,
            };
            match trouble(&error) {
                Trouble::Slow if self.page_rows > PAGE_ROWS_MIN => {
                    self.page_rows = (self.page_rows / 8).max(PAGE_ROWS_MIN);
                }
                Trouble::TooMuch if narrowed < NARROWER_MAX => {
                    narrowed += 1;
                    self.narrow().await?;
                }
                Trouble::Slow if narrowed < NARROWER_MAX => {
                    narrowed += 1;
                    // A range that cannot be narrowed further is only slow: return the error of the read.
                    if self.narrow().await.is_err() {
                        return Err(error.into());
                    }
                }
                _ => return Err(error.into()),
            }
        };
        let page = Page::read(&reply.body).ok_or(ScanError::Unexpected)?;
        let rows = self.forms.rows(&page).ok_or(ScanError::Unexpected)?;
        if let Some(row) = rows.last() {
            self.position.last = row.clustering.first().map(|value| value.to_vec());
        }
        self.advance(page.paging_state);
        let bytes: usize = rows.iter().map(|row| row.bytes).sum();
        if !rows.is_empty() {
            let fitting = self.requests.request_bytes() / (bytes / rows.len()).max(1);
            // The next rows may be larger than those so far.
            let fitting = fitting.min(4 * self.page_rows);
            self.page_rows = fitting.clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        }
        Ok(rows)
    }

    fn advance(&mut self, state: Option<&[u8]>) {
        let position = &mut self.position;
        if state.is_some() {
            position.state = state.map(<[u8]>::to_vec);
            return;
        }
        position.state = None;
        let Some(read) = position.up_to.take() else {
            position.is_end = true;
            return;
        };
        let before = position.behind.replace(read.clone());
        // Where one range had to be narrow, the next one may have to be, too.
        let first = self.schema.clustering.first();
        position.up_to = before
            .or_else(|| position.last.clone())
            .zip(first)
            .and_then(|(from, first)| ranges::beyond(&first.column.cql_type, &from, &read));
    }

    /// Halves the range to be read.
    async fn narrow(&mut self) -> Result<(), ScanError> {
        let first = self
            .schema
            .clustering
            .first()
            .ok_or(ScanError::Tombstones)?;
        if self.position.up_to.is_none() && self.end.is_none() {
            self.end = self.last_value().await;
        }
        let within = self.position.state.as_ref();
        let within = within.and(self.position.last.as_ref());
        let from = within.or(self.position.behind.as_ref());
        let to = self.position.up_to.as_ref().or(self.end.as_ref());
        let (from, to) = (from.map(Vec::as_slice), to.map(Vec::as_slice));
        let (low, high) = if first.descending {
            (to, from)
        } else {
            (from, to)
        };
        let middle = ranges::between(&first.column.cql_type, low, high);
        self.position.up_to = Some(middle.ok_or(ScanError::Tombstones)?);
        Ok(())
    }

    /// The first clustering value of the partition's last row: a read in reverse order may work where a forward read
    /// fails.
    async fn last_value(&self) -> Option<Vec<u8>> {
        let first = self.schema.clustering.first()?;
        let reply = self.read_backwards(&quoted(&first.column.name), 1).await?;
        let values = Page::read(&reply.body)?.first_row_values()?;
        values.first().copied().flatten().map(<[u8]>::to_vec)
    }

    /// Some of the partition's last rows; none if they cannot be read, which the scan itself will find out.
    pub async fn last_rows(&self) -> Vec<Row> {
        let what = selection(self.schema);
        let reply = self.read_backwards(&what, LAST_ROWS).await;
        let page = reply.as_ref().and_then(|reply| Page::read(&reply.body));
        let rows = page.and_then(|page| self.forms.rows(&page));
        rows.unwrap_or_default()
    }

    async fn read_backwards(&self, what: &str, rows: usize) -> Option<SubReply> {
        let first = self.schema.clustering.first()?;
        let name = quoted(&first.column.name);
        let direction = if first.descending { "ASC" } else { "DESC" };
        let text = format!(
            "SELECT {what} FROM {} WHERE {} ORDER BY {name} {direction} LIMIT {rows}",
            original(self.schema),
            key_is(self.schema)
        );
        let values = self.partition.values().collect();
        self.ask(&text, values, (rows, None)).await.ok()
    }

    async fn read(&self) -> Result<SubReply, PoolError> {
        let position = &self.position;
        let mut text = format!(
            "SELECT {} FROM {} WHERE {}",
            selection(self.schema),
            original(self.schema),
            key_is(self.schema)
        );
        let mut values: Vec<Value<'_>> = self.partition.values().collect();
        if let Some(first) = self.schema.clustering.first() {
            let name = quoted(&first.column.name);
            let (after, until) = if first.descending {
                ("<", ">=")
            } else {
                (">", "<=")
            };
            for (operator, value) in [(after, &position.behind), (until, &position.up_to)] {
                if let Some(value) = value {
                    text.push_str(&format!(" AND {name} {operator} ?"));
                    values.push(Value::Bytes(value));
                }
            }
        }
        let page = (self.page_rows, position.state.as_deref());
        self.ask(&text, values, page).await
    }

    async fn ask(
        &self,
        text: &str,
        values: Vec<Value<'_>>,
        (page_rows, paging_state): (usize, Option<&[u8]>),
    ) -> Result<SubReply, PoolError> {
        let request = SubRead {
            values,
            consistency: ALL,
            page_size: i32::try_from(page_rows).unwrap_or(i32::MAX),
            paging_state,
            now_in_seconds: Some(self.now),
            ..SubRead::default()
        };
        let place = (
            self.schema.replication.as_slice(),
            self.partition.key.bytes(),
        );
        self.requests
            .execute(text, &request, place, self.requests.request_bytes())
            .await
    }
}

pub(in crate::pipeline) fn original(schema: &TableSchema) -> String {
    format!("{}.{}", quoted(&schema.keyspace), quoted(&schema.table))
}

pub(in crate::pipeline) enum Trouble {
    /// A smaller page may work.
    Slow,
    /// A narrower range may work.
    TooMuch,
    Other,
}

pub(in crate::pipeline) fn trouble(error: &PoolError) -> Trouble {
    const READ_TIMEOUT: i32 = 0x1200;
    match error {
        error if error.is_too_much() => Trouble::TooMuch,
        PoolError::Timeout(_) | PoolError::Broken(_) => Trouble::Slow,
        PoolError::Refused { code, .. } if *code == READ_TIMEOUT => Trouble::Slow,
        _ => Trouble::Other,
    }
}

impl Position {
    /// Appends the position to a checkpoint.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_byte(u8::from(self.is_end));
        for part in [&self.behind, &self.up_to, &self.state, &self.last] {
            out.put_bytes(part.as_deref());
        }
    }

    pub fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let is_end = cursor.byte().ok()? != 0;
        let mut part = || Some(cursor.bytes().ok()?.map(<[u8]>::to_vec));
        Some(Self {
            is_end,
            behind: part()?,
            up_to: part()?,
            state: part()?,
            last: part()?,
        })
    }
}
