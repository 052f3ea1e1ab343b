//! Reads one page of one bucket on our own connections, or of neighbouring keys of the original on the client's
//! connection.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::even::{self, Certain};
use super::fallback::{Fallback, Instead};
use super::reading::{Reading, Source};
use super::row_bytes::RowBytes;
use super::share::Share;
use crate::budget::Reserved;
use crate::protocol::header::{Version, opcode};
use crate::protocol::response;
use crate::protocol::types::Value;
use crate::proxy::own::Unanswered;
use crate::rewrite::Reason;
use crate::rewrite::aggregate::Joined;
use crate::rewrite::bounds;
use crate::rewrite::native::{Mark, NativeState, UNLIMITED};
use crate::rewrite::render::{From, SubStatement, key_values};
use crate::rewrite::rows::Page;
use crate::rewrite::state::PagingState;
use crate::rewrite::warnings;
use crate::schema::names::PartitionKey;
use crate::upstream::pool::{PoolError, Prepared, SubRead};
use crate::wide_row::layout::Layout;

/// Where a sub-read begins.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The number of the key, in the order of the result.
    pub(super) number: usize,
    /// 0 in the original.
    pub(super) bucket: usize,
    /// The sub-read begins behind this row.
    pub(super) mark: Option<Mark>,
    /// What is left of PER PARTITION LIMIT for this key.
    pub(super) partition_left: Option<u32>,
}

/// A part of the request that is read with one statement: a key from its buckets, or neighbouring keys from the
/// original.
pub(super) struct Part<'a> {
    reading: &'a Reading<'a>,
    /// Their numbers; one for a split key.
    pub(super) keys: Range<usize>,
    source: Source,
    statement: SubStatement,
    /// Describes the columns of the result. Buckets are read with it.
    pub(super) prepared: Arc<Prepared>,
    /// In the order in which the client wants their rows.
    buckets: Vec<usize>,
    /// If not empty, a row without a value in one of these places is left to the original.
    telling: &'a [usize],
}

/// The reply to one sub-read.
pub(super) struct SubPage {
    pub(super) rows: RowBytes,
    pub(super) row_count: usize,
    column_count: usize,
    /// The place behind its last row, if there may be rows.
    pub(super) more: Option<Place>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Part<'a> {
    pub(super) async fn open(
        reading: &'a Reading<'a>,
        keys: Range<usize>,
        source: Source,
    ) -> Result<Self, Instead> {
        let key = reading.keys.get(keys.start).ok_or(Fallback::Unexpected)?;
        let render = |from| reading.readable.render(reading.bound, from);
        let render = |from| render(from).map_err(Fallback::Form);
        let (statement, described, (buckets, telling)) = match &source {
            Source::Split(layout) => {
                let statement = render(From::Split(&layout.split_table))?;
                let buckets = bounds::buckets(reading.readable, reading.bound, &layout.buckets);
                let certain = even::check(reading.readable, reading.asked, layout, &buckets);
                let telling = match certain.map_err(Fallback::Form)? {
                    Certain::All => None,
                    Certain::Telling => reading.readable.queried.as_ref(),
                };
                (statement, None, (buckets, telling))
            }
            Source::Original => {
                let run = From::Run(keys.len(), reading.limits.per_partition);
                // The text for one key has the same columns, and does not depend on the number of keys.
                (render(run)?, Some(render(From::Original)?), (vec![0], None))
            }
        };
        let text = &described.as_ref().unwrap_or(&statement).text;
        let pool = &reading.reader.pool;
        let route = pool.replicas(&reading.readable.schema.replication, key.key.bytes());
        let patience = &reading.patience;
        let prepared = pool.prepared(text, &route, patience.one());
        let prepared = patience.wait(prepared).await.ok_or(Fallback::Timeout)?;
        let prepared = prepared.map_err(fallback)?;
        Ok(Self {
            reading,
            keys,
            source,
            statement,
            prepared,
            buckets,
            telling: telling.map_or(&[], |queried| &queried.telling),
        })
    }

    /// The generation that the rows come from. `None`: they come from the original.
    pub(super) fn generation(&self) -> Option<i32> {
        match &self.source {
            Source::Split(layout) => Some(layout.generation.0),
            Source::Original => None,
        }
    }

    /// Where its sub-reads begin, one after the other. The first part of a page may continue a scan.
    pub(super) fn places(&self, resumed: Option<&PagingState>) -> Result<Vec<Place>, Instead> {
        let place = |bucket: &usize| Place {
            number: self.keys.start,
            bucket: *bucket,
            mark: None,
            partition_left: self.reading.limits.per_partition,
        };
        let mut places: Vec<Place> = self.buckets.iter().map(place).collect();
        if let Some(state) = resumed.filter(|_| !places.is_empty()) {
            // A state of the original says nothing of buckets: the scan is at the beginning of a key that is split now.
            // And the original has only one place, whatever bucket the scan had reached.
            let bucket = match (self.generation(), state.generation) {
                (Some(_), Some(_)) => state.bucket as usize,
                _ => self.buckets.first().copied().unwrap_or(0),
            };
            let at = places.iter().position(|place| place.bucket == bucket);
            places.drain(..at.ok_or(Fallback::Unexpected)?);
            if let Some(first) = places.first_mut() {
                first.mark = state.mark.clone();
                first.partition_left = state.partition_limit_left;
            }
        }
        Ok(places)
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
        let key = self.reading.keys.get(place.number);
        let key = key.ok_or(Fallback::Unexpected)?;
        let mut values = key_values(key, Some(layout.home(place.bucket)));
        let components: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let bucket_key = PartitionKey::from_components(&components).ok_or(Fallback::Unexpected)?;
        values.extend(self.statement.values.iter().cloned());
        let state = self.state(place, Version::V5)?;
        let request = self.request(&values, page_size, state.as_deref());
        let pool = &self.reading.reader.pool;
        let replication = &self.reading.readable.schema.replication;
        let route = pool.replicas(replication, bucket_key.bytes());
        let patience = &self.reading.patience;
        let read = pool.read(&self.prepared, &request, &route, patience.one());
        let reply = patience.wait(read).await.ok_or(Fallback::Timeout)?;
        let reply = reply.map_err(fallback)?;
        let warnings =
            warnings::of_bucket(reply.warnings, &layout.split_table, &self.reading.quoted());
        let behind = |native: NativeState| {
            Some(Place {
                mark: Some(native.mark?),
                ..place.clone()
            })
        };
        let message = (reply.body, 0, warnings);
        let page = SubPage::read(message, reply.reserved, &self.reading.reader.share, behind)?;
        match self.telling.is_empty() || page.rows().tell(self.telling) {
            true => Ok(page),
            false => Err(Fallback::Form(Reason::Uneven).into()),
        }
    }

    async fn read_original(&self, place: &Place, page_size: i32) -> Result<SubPage, Instead> {
        let wire = &self.reading.reader.wire;
        let version = wire.version.get();
        let keys = self.reading.keys.get(self.keys.clone());
        let keys = keys.ok_or(Fallback::Unexpected)?;
        let mut values = self.reading.readable.run_values(keys);
        values.extend(self.statement.values.iter().cloned());
        let state = self.state(place, version)?;
        let request = self.request(&values, page_size, state.as_deref());
        let body = request.encode_query(version, &self.statement.text);
        let asked = wire.ask_large(opcode::QUERY, body.map_err(|_| Fallback::Unexpected)?);
        let reply = tokio::time::timeout(self.reading.patience.one(), asked).await;
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
        let warnings = warnings::of_original(warnings, &self.reading.quoted());
        let message_at = reply.body.len() - message.rest().len();
        let message = (reply.body, message_at, warnings);
        let behind = |native| self.behind(native);
        SubPage::read(message, reserved, &self.reading.reader.share, behind)
    }

    /// The place in the original that a native state names.
    fn behind(&self, native: NativeState) -> Option<Place> {
        let is_it = |number: &usize| {
            let key = self.reading.keys.get(*number);
            key.is_some_and(|key| key.key.bytes() == native.key)
        };
        let left = u32::try_from(native.remaining_in_partition).ok()?;
        Some(Place {
            number: match self.keys.len() {
                1 => self.keys.start,
                _ => self.keys.clone().find(is_it)?,
            },
            bucket: 0,
            mark: native.mark,
            partition_left: self.reading.limits.per_partition.map(|_| left),
        })
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

    /// Cassandra's own paging state for a place. `None`: it is the beginning.
    fn state(&self, place: &Place, version: Version) -> Result<Option<Vec<u8>>, Instead> {
        if place.mark.is_none() && place.number == self.keys.start {
            return Ok(None);
        }
        // With one key a state has none. A bucket's statement has no limits: they are counted while pages are filled.
        let key = match self.keys.len() {
            1 => None,
            _ => self.reading.keys.get(place.number),
        };
        let left = match &self.source {
            Source::Original => place.partition_left,
            Source::Split(_) => None,
        };
        let left = left.and_then(|left| i32::try_from(left).ok());
        let native = NativeState {
            key: key.map_or(Vec::new(), |key| key.key.bytes().to_vec()),
            mark: place.mark.clone(),
            remaining: UNLIMITED,
            remaining_in_partition: left.unwrap_or(UNLIMITED),
        };
        let columns = self.reading.readable.schema.clustering.len();
        let state = native.encode(version, columns);
        state.map(Some).ok_or_else(|| Fallback::Unexpected.into())
    }
}

impl SubPage {
    /// Reads a body whose message begins at this position. `behind`: the place that a native state names.
    fn read(
        (body, message_at, warnings): (Vec<u8>, usize, Vec<String>),
        reserved: Reserved,
        share: &Rc<Share>,
        behind: impl FnOnce(NativeState) -> Option<Place>,
    ) -> Result<Self, Instead> {
        let taken = share.take(body.len()).ok_or(Fallback::Room)?;
        let message = &body[message_at..];
        let page = Page::read(message).ok_or(Fallback::Unexpected)?;
        let more = match page.paging_state {
            None => None,
            Some(state) => {
                let place = NativeState::read(state).and_then(behind);
                Some(place.ok_or(Fallback::Unexpected)?)
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

    fn rows(&self) -> Page<'_> {
        Page {
            paging_state: None,
            column_count: self.column_count,
            columns: &[],
            row_count: self.row_count,
            rows: self.rows.rows(),
        }
    }

    /// An aggregate has only this row.
    pub(super) fn first_row(&self) -> Option<Joined> {
        let page = self.rows();
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
