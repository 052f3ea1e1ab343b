//! Reads one page of one bucket on our own connections, or one key of an `IN` from the original on the client's
//! connection.

use std::rc::Rc;
use std::sync::Arc;

use super::fallback::{Fallback, Instead};
use super::reading::{Reading, Source};
use super::row_bytes::RowBytes;
use super::share::Share;
use crate::budget::Reserved;
use crate::protocol::header::{Version, opcode};
use crate::protocol::response;
use crate::protocol::types::Value;
use crate::proxy::own::Unanswered;
use crate::rewrite::aggregate::Joined;
use crate::rewrite::bind::Key;
use crate::rewrite::bounds;
use crate::rewrite::native::{Mark, NativeState, UNLIMITED};
use crate::rewrite::render::{From, SubStatement, key_values};
use crate::rewrite::rows::Page;
use crate::schema::names::PartitionKey;
use crate::upstream::pool::{PoolError, Prepared, SubRead};

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
    pub(super) rows: RowBytes,
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
            Source::Split(layout) => (
                From::Split(&layout.split_table),
                bounds::buckets(reading.readable, reading.bound, &layout.buckets),
            ),
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
        match self.generation() {
            Some(generation) => self.read_bucket(generation, place, page_size).await,
            None => self.read_original(place, page_size).await,
        }
    }

    async fn read_bucket(
        &self,
        generation: i32,
        place: &Place,
        page_size: i32,
    ) -> Result<SubPage, Instead> {
        let mut values = key_values(self.key, Some((generation, place.bucket)));
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
        let message = (reply.body, 0, reply.warnings);
        SubPage::read(message, reply.reserved, &self.reading.reader.share)
    }

    async fn read_original(&self, place: &Place, page_size: i32) -> Result<SubPage, Instead> {
        let wire = &self.reading.reader.wire;
        let version = wire.version.get();
        let mut values = key_values(self.key, None);
        values.extend(self.statement.values.iter().cloned());
        let state = self.state(place, version)?;
        let request = self.request(&values, page_size, state.as_deref());
        let body = request.encode_query(version, &self.statement.text);
        let asked = wire.ask_large(opcode::QUERY, body.map_err(|_| Fallback::Unexpected)?);
        let reply = tokio::time::timeout(self.reading.left(), asked).await;
        let (reply, reserved) = reply
            .map_err(|_| Fallback::Timeout)?
            .map_err(|unanswered| match unanswered {
                Unanswered::Gone => Fallback::Unreachable,
                Unanswered::NoRoom => Fallback::Room,
            })?;
        if reply.header.opcode != opcode::RESULT {
            return Err(Fallback::Error.into());
        }
        let parts = response::warnings_and_message(reply.header, &reply.body);
        let (warnings, message) = parts.map_err(|_| Fallback::Unexpected)?;
        let warnings = warnings.into_iter().map(str::to_owned).collect();
        let message_at = reply.body.len() - message.rest().len();
        let message = (reply.body, message_at, warnings);
        SubPage::read(message, reserved, &self.reading.reader.share)
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
    /// Reads a body whose message begins at this position.
    fn read(
        (body, message_at, warnings): (Vec<u8>, usize, Vec<String>),
        reserved: Reserved,
        share: &Rc<Share>,
    ) -> Result<Self, Instead> {
        let taken = share.take(body.len()).ok_or(Fallback::Room)?;
        let message = &body[message_at..];
        let page = Page::read(message).ok_or(Fallback::Unexpected)?;
        let more = match page.paging_state {
            None => None,
            Some(state) => {
                let mark = NativeState::read(state).and_then(|state| state.mark);
                Some(mark.ok_or(Fallback::Unexpected)?)
            }
        };
        let (row_count, column_count) = (page.row_count, page.column_count);
        let lengths = (message.len(), page.rows.len());
        Ok(Self {
            rows: RowBytes::new(body, lengths, reserved, taken),
            row_count,
            column_count,
            more,
            warnings,
        })
    }

    /// An aggregate has only this row.
    pub(super) fn first_row(&self) -> Option<Joined> {
        let page = Page {
            paging_state: None,
            column_count: self.column_count,
            columns: &[],
            row_count: self.row_count,
            rows: self.rows.rows(),
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
        PoolError::NoRoom => Fallback::Room,
        PoolError::Protocol { .. } | PoolError::Encode(_) => Fallback::Unexpected,
    }
    .into()
}
