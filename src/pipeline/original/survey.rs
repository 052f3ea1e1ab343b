//! Searches a whole table for wide partitions: reads it once in token order, page by page, and counts the rows and
//! bytes of each partition as planning does. Once a partition is found to be wide, the rest of it is skipped. A survey
//! holds one page in memory.
//!
//! It reads at consistency level ONE, because it only nominates partitions; planning reads at ALL. A range with more
//! tombstones than Cassandra reads at a time is narrowed down to one token, whose partition is then read alone, as
//! planning would read it.

use std::time::Duration;

use tokio::time::sleep;

use super::cells::selection;
use super::partition::Partition;
use super::requests::Requests;
use super::scan::{Position, Scan, ScanError, Trouble, original, trouble};
use crate::protocol::types::{Cursor, Value};
use crate::rewrite::rows::Page;
use crate::schema::TableSchema;
use crate::schema::names::PartitionKey;
use crate::statement::quoted;
use crate::upstream::pool::{PoolError, SubRead, SubReply};

const ONE: u16 = 0x0001;
/// Target size of a page.
const PAGE_BYTES: usize = 1 << 20;
/// Page size before the size of rows is known.
const PAGE_ROWS_FIRST: usize = 16;
const PAGE_ROWS_MIN: usize = 1;
const PAGE_ROWS_MAX: usize = 5_000;
/// Pauses between attempts while the cluster is busy or unreachable; after the longest, the survey gives up.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// Maximum number of consecutive reads that take too long, however little they ask for.
const SLOW_MAX: u32 = 20;

/// What a survey found out about one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surveyed {
    Wide(Wide),
    /// Even read alone, the partition has more tombstones in one place than a read may scan. The key is `None` if it
    /// cannot be read either.
    Unreadable {
        token: i64,
        key: Option<PartitionKey>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wide {
    pub key: PartitionKey,
    pub rows: u64,
    pub bytes: u64,
    /// Whether the partition was read to its end.
    pub is_whole: bool,
}

/// What was read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    pub partitions: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Bytes of the largest partition, as far as it was read.
    pub largest_bytes: u64,
}

pub struct Survey<'a> {
    requests: &'a Requests,
    schema: &'a TableSchema,
    wide_bytes: u64,
    now: i32,
    select: String,
    walk: Walk,
    page_rows: usize,
    pause: Duration,
    slow: u32,
}

impl<'a> Survey<'a> {
    pub fn new(requests: &'a Requests, schema: &'a TableSchema, wide_bytes: u64, now: i32) -> Self {
        let key = key_columns(schema);
        let select = format!(
            "SELECT token({key}), {key}, {} FROM {} WHERE token({key}) > ? AND token({key}) <= ?",
            selection(schema),
            original(schema)
        );
        Self {
            requests,
            schema,
            wide_bytes,
            now,
            select,
            walk: Walk::default(),
            page_rows: PAGE_ROWS_FIRST,
            pause: PAUSE_MIN,
            slow: 0,
        }
    }

    pub fn counted(&self) -> Counted {
        self.walk.counted
    }

    /// The part of the ring that was read, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.walk.share()
    }

    /// Reads one page, and returns what was found in it; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Surveyed>>, ScanError> {
        if self.walk.is_end {
            return Ok(None);
        }
        let state = self.walk.state.clone();
        match self.read(&self.select, state.as_deref()).await {
            Ok(reply) => {
                (self.pause, self.slow) = (PAUSE_MIN, 0);
                self.count(&reply).map(Some)
            }
            Err(error) => self.help(error).await.map(Some),
        }
    }

    /// Waits, or asks for less, so that the next read may succeed.
    async fn help(&mut self, error: PoolError) -> Result<Vec<Surveyed>, ScanError> {
        if is_passing(&error) && self.pause <= PAUSE_MAX {
            sleep(self.pause).await;
            self.pause *= 2;
            return Ok(Vec::new());
        }
        match trouble(&error) {
            Trouble::Slow if self.slow >= SLOW_MAX => return Err(error.into()),
            Trouble::Slow => {
                self.slow += 1;
                if self.page_rows > PAGE_ROWS_MIN {
                    self.page_rows = (self.page_rows / 8).max(PAGE_ROWS_MIN);
                    return Ok(Vec::new());
                }
            }
            Trouble::TooMuch => {}
            Trouble::Other => return Err(error.into()),
        }
        match self.walk.narrow() {
            Some(token) => self.alone(token).await,
            None => Ok(Vec::new()),
        }
    }

    fn count(&mut self, reply: &SubReply) -> Result<Vec<Surveyed>, ScanError> {
        let page = Page::read(&reply.body).ok_or(ScanError::Unexpected)?;
        let keys = self.schema.partition_key.len();
        let rows = rows(&page, keys).ok_or(ScanError::Unexpected)?;
        if !rows.is_empty() {
            let fitting = PAGE_BYTES / (page.rows.len() / rows.len()).max(1);
            let fitting = fitting.min(4 * self.page_rows);
            self.page_rows = fitting.clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        }
        let state = page.paging_state.map(<[u8]>::to_vec);
        Ok(self.walk.page(rows, state, self.wide_bytes))
    }

    /// Reads the partition at a token, which could not be read together with others.
    async fn alone(&self, token: i64) -> Result<Vec<Surveyed>, ScanError> {
        let Some(key) = self.key_at(token).await? else {
            return Ok(vec![Surveyed::Unreadable { token, key: None }]);
        };
        let Some(partition) = Partition::new(self.schema, &key) else {
            return Err(ScanError::Unexpected);
        };
        let (requests, schema) = (self.requests, self.schema);
        let mut scan = Scan::new(requests, schema, &partition, self.now, Position::default());
        let mut wide = Wide {
            key: key.clone(),
            rows: 0,
            bytes: 0,
            is_whole: false,
        };
        while !wide.is_whole && wide.bytes < self.wide_bytes {
            let rows = match scan.next().await {
                Err(ScanError::Tombstones) => {
                    let key = Some(key);
                    return Ok(vec![Surveyed::Unreadable { token, key }]);
                }
                rows => rows?,
            };
            wide.is_whole = rows.is_empty();
            wide.rows += rows.len() as u64;
            wide.bytes += rows.iter().map(|row| row.bytes as u64).sum::<u64>();
        }
        let is_wide = wide.bytes >= self.wide_bytes;
        Ok(is_wide
            .then_some(Surveyed::Wide(wide))
            .into_iter()
            .collect())
    }

    /// The key of the partition at a token; `None` if there is none, or if its tombstones prevent the read.
    async fn key_at(&self, token: i64) -> Result<Option<PartitionKey>, ScanError> {
        let key = key_columns(self.schema);
        let text = format!(
            "SELECT DISTINCT {key} FROM {} WHERE token({key}) > ? AND token({key}) <= ?",
            original(self.schema)
        );
        let range = [token.saturating_sub(1).to_be_bytes(), token.to_be_bytes()];
        let reply = match self.ask(&text, &range, (1, None)).await {
            Err(error) if matches!(trouble(&error), Trouble::Other) => return Err(error.into()),
            Err(_) => return Ok(None),
            Ok(reply) => reply,
        };
        let page = Page::read(&reply.body).ok_or(ScanError::Unexpected)?;
        let Some(values) = page.first_row_values() else {
            return Ok(None);
        };
        let values: Option<Vec<&[u8]>> = values.into_iter().collect();
        Ok(values.and_then(|values| PartitionKey::from_components(&values)))
    }

    async fn read(&self, text: &str, state: Option<&[u8]>) -> Result<SubReply, PoolError> {
        let range = [self.walk.from.to_be_bytes(), self.walk.up_to.to_be_bytes()];
        self.ask(text, &range, (self.page_rows, state)).await
    }

    async fn ask(
        &self,
        text: &str,
        range: &[[u8; 8]; 2],
        (page_rows, paging_state): (usize, Option<&[u8]>),
    ) -> Result<SubReply, PoolError> {
        let request = SubRead {
            values: range.iter().map(|token| Value::Bytes(token)).collect(),
            consistency: ONE,
            page_size: i32::try_from(page_rows).unwrap_or(i32::MAX),
            paging_state,
            now_in_seconds: Some(self.now),
            ..SubRead::default()
        };
        // Any node will do: a range of tokens has no replicas of its own.
        self.requests
            .execute(text, &request, (&[], &[]), PAGE_BYTES)
            .await
    }
}

/// Whether the same request may succeed a little later: unavailable, overloaded, bootstrapping, or no connection.
fn is_passing(error: &PoolError) -> bool {
    match error {
        PoolError::Unreachable | PoolError::Unsent(_) | PoolError::Broken(_) => true,
        PoolError::Refused { code, .. } => matches!(code, 0x1000..=0x1002),
        _ => false,
    }
}

fn key_columns(schema: &TableSchema) -> String {
    let names = schema.partition_key.iter();
    let names: Vec<String> = names.map(|column| quoted(&column.name)).collect();
    names.join(", ")
}

/// What a survey needs to know about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    token: i64,
    key: PartitionKey,
    /// The size as planning counts it: without the partition key.
    bytes: u64,
}

/// `None` if the page does not match the request.
fn rows(page: &Page<'_>, keys: usize) -> Option<Vec<Row>> {
    let others = page.column_count.checked_sub(1 + keys)?;
    let mut cursor = Cursor::new(page.rows);
    let mut row = || {
        let token = i64::from_be_bytes(cursor.bytes().ok()??.try_into().ok()?);
        let mut key = Vec::with_capacity(keys);
        for _ in 0..keys {
            key.push(cursor.bytes().ok()??);
        }
        let key = PartitionKey::from_components(&key)?;
        let before = cursor.rest().len();
        for _ in 0..others {
            cursor.bytes().ok()?;
        }
        let bytes = (before - cursor.rest().len()) as u64;
        Some(Row { token, key, bytes })
    };
    (0..page.row_count).map(|_| row()).collect()
}

/// Where a survey is on the ring, and what it has counted. Pure.
#[derive(Debug)]
struct Walk {
    /// The tokens being read: above `from`, up to and including `up_to`.
    from: i64,
    up_to: i64,
    /// Cassandra's paging state within the range.
    state: Option<Vec<u8>>,
    /// The partition of the last row; more of its rows may follow.
    open: Option<Open>,
    counted: Counted,
    is_end: bool,
}

#[derive(Debug)]
struct Open {
    token: i64,
    wide: Wide,
}

impl Default for Walk {
    /// Begins above the smallest token, which no partition has.
    fn default() -> Self {
        Self {
            from: i64::MIN,
            up_to: i64::MAX,
            state: None,
            open: None,
            counted: Counted::default(),
            is_end: false,
        }
    }
}

impl Walk {
    fn share(&self) -> f64 {
        if self.is_end {
            return 1.0;
        }
        let at = self.open.as_ref().map_or(self.from, |open| open.token);
        (at as f64 - i64::MIN as f64) / (u64::MAX as f64)
    }

    /// Counts the next page of the range, and returns the wide partitions in it.
    fn page(&mut self, rows: Vec<Row>, state: Option<Vec<u8>>, wide_bytes: u64) -> Vec<Surveyed> {
        let mut found = Vec::new();
        for row in rows {
            let goes_on = self
                .open
                .as_ref()
                .is_some_and(|open| open.wide.key == row.key);
            if !goes_on {
                found.extend(self.close(true, wide_bytes));
                self.counted.partitions += 1;
            }
            self.counted.rows += 1;
            self.counted.bytes += row.bytes;
            let open = self.open.get_or_insert(Open {
                token: row.token,
                wide: Wide {
                    key: row.key,
                    rows: 0,
                    bytes: 0,
                    is_whole: false,
                },
            });
            open.wide.rows += 1;
            open.wide.bytes += row.bytes;
        }
        self.state = state;
        if self.state.is_none() {
            found.extend(self.close(true, wide_bytes));
            self.next_range();
            return found;
        }
        let known = self
            .open
            .as_ref()
            .filter(|open| open.wide.bytes >= wide_bytes);
        if let Some(token) = known.map(|open| open.token) {
            found.extend(self.close(false, wide_bytes));
            self.state = None;
            self.from = token;
            if token >= self.up_to {
                self.next_range();
            }
        }
        found
    }

    /// Ends the partition of the last row: no more of it will be read.
    fn close(&mut self, is_whole: bool, wide_bytes: u64) -> Option<Surveyed> {
        let wide = Wide {
            is_whole,
            ..self.open.take()?.wide
        };
        let largest = &mut self.counted.largest_bytes;
        *largest = (*largest).max(wide.bytes);
        (wide.bytes >= wide_bytes).then_some(Surveyed::Wide(wide))
    }

    /// Moves to the next range. It is only twice as wide: where one range had to be narrow, the next one may have to
    /// be, too.
    fn next_range(&mut self) {
        if self.up_to == i64::MAX {
            self.is_end = true;
            return;
        }
        let width = self.up_to.abs_diff(self.from).saturating_mul(2);
        self.from = self.up_to;
        self.up_to = self.from.saturating_add_unsigned(width.max(2));
    }

    /// Halves the range after it could not be read. `Some` if only this token is left in it; the range after the token
    /// comes next.
    fn narrow(&mut self) -> Option<i64> {
        self.state = None;
        if let Some(open) = self.open.take() {
            // It was read in part, and will be read again alone.
            self.counted.partitions -= 1;
            self.counted.rows -= open.wide.rows;
            self.counted.bytes -= open.wide.bytes;
            self.from = open.token.saturating_sub(1);
            if self.up_to > open.token {
                self.up_to = open.token;
                return None;
            }
        }
        let width = self.up_to.abs_diff(self.from);
        if width > 1 {
            self.up_to = self.from.saturating_add_unsigned(width / 2);
            return None;
        }
        let token = self.up_to;
        self.next_range();
        Some(token)
    }
}

#[cfg(test)]
mod tests;
