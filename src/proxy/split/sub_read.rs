//! Reads one page of one bucket on our own connections, or one key of an `IN` from the original on the client's
//! connection.

use std::sync::Arc;

use super::even;
use super::fallback::{Fallback, Instead};
use super::reading::{Reading, Source};
use crate::protocol::header::{Version, opcode};
use crate::protocol::response;
use crate::protocol::types::Value;
use crate::rewrite::aggregate::Joined;
use crate::rewrite::bind::Key;
use crate::rewrite::bounds;
use crate::rewrite::native::{Mark, NativeState, UNLIMITED};
use crate::rewrite::render::{From, SubStatement, key_values};
use crate::rewrite::rows::Page;
use crate::schema::names::PartitionKey;
use crate::upstream::pool::{PoolError, Prepared, SubRead};
use crate::wide_row::layout::Layout;

/// Where a sub-read begins.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) bucket: usize,
    /// The sub-read begins behind this row.
    pub(super) mark: Option<Mark>,
}

/// One partition of the request, and the statement for its buckets.
pub(super) struct Partition<'a> {
    reading: &'a Reading<'a>,
    pub(super) number: usize,
    key: &'a Key,
    source: Source,
    statement: SubStatement,
    pub(super) prepared: Arc<Prepared>,
    /// In the order in which the client wants their rows. The original counts as one bucket.
    pub(super) buckets: Vec<usize>,
}

/// The reply to one sub-read.
pub(super) struct SubPage {
    body: Vec<u8>,
    rows: std::ops::Range<usize>,
    pub(super) row_count: usize,
    column_count: usize,
    /// Its last row, if there may be rows behind it.
    pub(super) more: Option<Mark>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Partition<'a> {
    pub(super) async fn open(
        reading: &'a Reading<'a>,
        number: usize,
        source: Source,
    ) -> Result<Self, Instead> {
        let key = reading.keys.get(number).ok_or(Fallback::Unexpected)?;
        let (from, buckets) = match &source {
            Source::Split(layout) => {
                let buckets = bounds::buckets(reading.readable, reading.bound, &layout.buckets);
                let checked = even::check(reading.readable, reading.asked, layout, &buckets);
                checked.map_err(Fallback::Form)?;
                (From::Split(&layout.split_table), buckets)
            }
            Source::Original => (From::Original, vec![0]),
        };
        let statement = reading
            .readable
            .render(reading.bound, from)
            .map_err(Fallback::Form)?;
        let pool = &reading.reader.pool;
        let route = pool.replicas(&reading.readable.schema.replication, key.key.bytes());
        let prepared = pool.prepared(&statement.text, &route, reading.prepare_patience());
        let prepared = prepared.await;
        Ok(Self {
            reading,
            number,
            key,
            source,
            statement,
            prepared: prepared.map_err(fallback)?,
            buckets,
        })
    }

    /// The generation that the rows come from. `None`: they come from the original.
    pub(super) fn generation(&self) -> Option<i32> {
        match &self.source {
            Source::Split(layout) => Some(layout.generation.0),
            Source::Original => None,
        }
    }

    pub(super) fn key_bytes(&self) -> &[u8] {
        self.key.key.bytes()
    }

    pub(super) async fn read(&self, place: &Place, rows: u32) -> Result<SubPage, Instead> {
        let page_size = i32::try_from(rows).unwrap_or(i32::MAX);
        match &self.source {
            Source::Split(layout) => self.read_bucket(layout, place, page_size).await,
            Source::Original => self.read_original(place, page_size).await,
        }
    }

    async fn read_bucket(
        &self,
        layout: &Layout,
        place: &Place,
        page_size: i32,
    ) -> Result<SubPage, Instead> {
        let mut values = key_values(self.key, Some(layout.home(place.bucket)));
        let components: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let bucket_key = PartitionKey::from_components(&components).ok_or(Fallback::Unexpected)?;
        values.extend(self.statement.values.iter().cloned());
        let state = self.state(place, Version::V5)?;
        let request = self.request(&values, page_size, state.as_deref());
        let pool = &self.reading.reader.pool;
        let replication = &self.reading.readable.schema.replication;
        let route = pool.replicas(replication, bucket_key.bytes());
        let reply = pool
            .execute(&self.prepared, &request, &route, self.reading.patience())
            .await
            .map_err(fallback)?;
        SubPage::read(reply.body, reply.warnings).ok_or_else(|| Fallback::Unexpected.into())
    }

    async fn read_original(&self, place: &Place, page_size: i32) -> Result<SubPage, Instead> {
        let wire = &self.reading.reader.wire;
        let version = wire.version.get();
        let mut values = key_values(self.key, None);
        values.extend(self.statement.values.iter().cloned());
        let state = self.state(place, version)?;
        let request = self.request(&values, page_size, state.as_deref());
        let body = request.encode_query(version, &self.statement.text);
        let asked = wire.ask_beside(opcode::QUERY, body.map_err(|_| Fallback::Unexpected)?);
        let reply = tokio::time::timeout(self.reading.left(), asked)
            .await
            .map_err(|_| Fallback::Timeout)?
            .ok_or(Fallback::Unreachable)?;
        if reply.header.opcode != opcode::RESULT {
            return Err(Fallback::Error.into());
        }
        let parts = response::warnings_and_message(reply.header, &reply.body);
        let (warnings, message) = parts.map_err(|_| Fallback::Unexpected)?;
        let warnings = warnings.into_iter().map(str::to_owned).collect();
        SubPage::read(message.rest().to_vec(), warnings).ok_or_else(|| Fallback::Unexpected.into())
    }

    /// A sub-read with the settings of the client's request.
    fn request<'r>(
        &'r self,
        values: &'r [Vec<u8>],
        page_size: i32,
        paging_state: Option<&'r [u8]>,
    ) -> SubRead<'r> {
        let asked = self.reading.asked;
        SubRead {
            values: values.iter().map(|value| Value::Bytes(value)).collect(),
            consistency: asked.consistency,
            serial_consistency: asked.serial_consistency,
            page_size,
            paging_state,
            timestamp: asked.timestamp,
            keyspace: None,
            now_in_seconds: asked.now_in_seconds,
            custom_payload: asked.custom_payload.as_deref(),
        }
    }

    /// Cassandra's own paging state for a place.
    fn state(&self, place: &Place, version: Version) -> Result<Option<Vec<u8>>, Instead> {
        let Some(mark) = &place.mark else {
            return Ok(None);
        };
        let native = NativeState {
            key: Vec::new(),
            mark: Some(mark.clone()),
            remaining: UNLIMITED,
            remaining_in_partition: UNLIMITED,
        };
        let columns = self.reading.readable.schema.clustering.len();
        let state = native.encode(version, columns);
        state.map(Some).ok_or_else(|| Fallback::Unexpected.into())
    }
}

impl SubPage {
    fn read(body: Vec<u8>, warnings: Vec<String>) -> Option<Self> {
        let page = Page::read(&body)?;
        let more = match page.paging_state {
            None => None,
            Some(state) => Some(NativeState::read(state)?.mark?),
        };
        let (row_count, column_count) = (page.row_count, page.column_count);
        // The rows are the last part of the message.
        let rows = body.len() - page.rows.len()..body.len();
        Some(Self {
            body,
            rows,
            row_count,
            column_count,
            more,
            warnings,
        })
    }

    pub(super) fn rows(&self) -> &[u8] {
        &self.body[self.rows.clone()]
    }

    /// An aggregate has only this row.
    pub(super) fn first_row(&self) -> Option<Joined> {
        let page = Page {
            paging_state: None,
            column_count: self.column_count,
            columns: &[],
            row_count: self.row_count,
            rows: self.rows(),
        };
        let values = page.first_row_values()?;
        Some(
            values
                .into_iter()
                .map(|value| value.map(<[u8]>::to_vec))
                .collect(),
        )
    }
}

fn fallback(error: PoolError) -> Instead {
    tracing::debug!(%error, "a bucket could not be read");
    match error {
        PoolError::Timeout(_) => Fallback::Timeout,
        PoolError::Unreachable | PoolError::Broken(_) | PoolError::Unsent(_) => {
            Fallback::Unreachable
        }
        PoolError::Refused { .. } => Fallback::Error,
        PoolError::Changed => Fallback::Columns,
        PoolError::Protocol { .. } | PoolError::Encode(_) => Fallback::Unexpected,
    }
    .into()
}
