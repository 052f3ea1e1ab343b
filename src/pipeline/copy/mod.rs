//! Copies a partition into its buckets, every cell with its own write time and expiry. A copy is idempotent, and
//! resumes from a checkpoint.
//!
//! While one page is written, the next is read. No value is bound as null, and the TTL is always explicit: 0 overrides
//! the default TTL of the table.

pub mod lifetime;

use std::cmp::Ordering;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use self::lifetime::{Lifetimes, Marker};
use crate::pipeline::fail_point;
use crate::pipeline::original::cells::{Forms, Row, insert_marker, update};
use crate::pipeline::original::partition::{ALL, Partition};
use crate::pipeline::original::requests::Requests;
use crate::pipeline::original::scan::{Position, Scan, ScanError};
use crate::pipeline::plan::StageError;
use crate::pipeline::run::report::{Report, Reporting};
use crate::protocol::request::batch::OwnBatch;
use crate::protocol::types::{Cursor, Value};
use crate::schema::TableSchema;
use crate::schema::order::compare_clustering;
use crate::upstream::pool::Prepared;
use crate::wide_row::layout::Layout;

/// A batch is this fraction of the size of a read, because writing is more work. An unlogged batch of one partition is
/// one mutation; at this size it is far below the commit log's limit.
const BATCHES_PER_PAGE: usize = 8;
const BATCHES_AT_A_TIME: usize = 4;
/// Write time of the markers of rows without cells. It is never compared with another write time: whatever could delete
/// such a row ends its generation.
const MARKER_MICROS: i64 = 1;
const CHECKPOINT_VERSION: u8 = 2;

pub struct Copying<'a> {
    pub requests: &'a Requests,
    pub schema: &'a TableSchema,
    pub partition: &'a Partition,
    pub layout: &'a Layout,
    /// The `now_in_seconds` of every read and write.
    pub now: i32,
    /// No cell may be newer than this; otherwise the partition is not closed.
    pub newest_micros: i64,
    /// Called with the rows and bytes of each page once it is written.
    pub written: &'a dyn Fn(u64, u64),
}

/// How far a copy has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Copied {
    position: Position,
    row_count: u64,
    byte_count: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("{0}")]
    Stage(#[from] StageError),
    /// This generation can never become an exact copy.
    #[error("{0}")]
    Impossible(&'static str),
}

impl From<ScanError> for CopyError {
    fn from(error: ScanError) -> Self {
        Self::Stage(error.into())
    }
}

impl Copying<'_> {
    pub async fn run(
        &self,
        checkpoint: Option<&[u8]>,
        report: &Report<'_>,
    ) -> Result<(), CopyError> {
        let mut copied = checkpoint.and_then(Copied::read).unwrap_or_default();
        let writer = Writer::prepare(self).await?;
        let position = copied.position.clone();
        let mut scan = Scan::new(
            self.requests,
            self.schema,
            self.partition,
            self.now,
            position,
        );
        let mut rows = scan.next().await?;
        while !rows.is_empty() {
            let position = scan.position().clone();
            let write = async { writer.write(&rows).await };
            let read = async { Ok::<_, CopyError>(scan.next().await?) };
            let (written, next) = tokio::try_join!(write, read)?;
            let count = rows.len() as u64;
            (self.written)(count, written);
            copied.row_count += count;
            copied.byte_count += written;
            copied.position = position;
            rows = next;
            fail_point::reached("copy.page");
            let counted = (copied.row_count, copied.byte_count);
            let saved = report.progress(counted, || copied.checkpoint()).await;
            saved.map_err(StageError::from)?;
        }
        Ok(())
    }
}

impl Copied {
    fn checkpoint(&self) -> Vec<u8> {
        let mut out = vec![CHECKPOINT_VERSION];
        out.extend_from_slice(&self.row_count.to_be_bytes());
        out.extend_from_slice(&self.byte_count.to_be_bytes());
        self.position.write(&mut out);
        out
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        if cursor.byte().ok()? != CHECKPOINT_VERSION {
            return None;
        }
        Some(Self {
            row_count: cursor.long().ok()?.cast_unsigned(),
            byte_count: cursor.long().ok()?.cast_unsigned(),
            position: Position::read(&mut cursor)?,
        })
    }
}

/// Writes rows into buckets.
struct Writer<'a> {
    copying: &'a Copying<'a>,
    forms: Forms,
    update: Option<Arc<Prepared>>,
    marker: Arc<Prepared>,
    /// The generation, serialized.
    generation: [u8; 4],
}

impl<'a> Writer<'a> {
    async fn prepare(copying: &'a Copying<'a>) -> Result<Self, CopyError> {
        let Copying {
            requests,
            schema,
            layout,
            ..
        } = copying;
        let table = &layout.split_table;
        let prepare = async |text: String| {
            let prepared = requests.prepare(&text).await;
            prepared.map_err(|error| CopyError::Stage(error.into()))
        };
        let update = match update(schema, table) {
            Some(text) => Some(prepare(text).await?),
            None => None,
        };
        Ok(Self {
            forms: Forms::new(schema),
            update,
            marker: prepare(insert_marker(schema, table)).await?,
            generation: layout.generation.0.to_be_bytes(),
            copying,
        })
    }

    /// Writes all rows, and returns their size in bytes.
    async fn write(&self, rows: &[Row]) -> Result<u64, CopyError> {
        let Copying {
            requests,
            schema,
            partition,
            now,
            ..
        } = *self.copying;
        let lifetimes = Lifetimes {
            requests,
            schema,
            partition,
            now,
        };
        let markers = lifetimes.markers(rows).await?;
        let mut batches = Batches::of(requests.request_bytes() / BATCHES_PER_PAGE);
        for (row, marker) in rows.iter().zip(markers) {
            let newest = row.newest_write();
            if newest.is_some_and(|newest| newest > self.copying.newest_micros) {
                let why = "it was written to recently, or a writer's clock is ahead";
                return Err(CopyError::Impossible(why));
            }
            self.add(row, marker, &mut batches)?;
        }
        let sends = batches
            .done
            .iter()
            .map(|(bucket, batch)| self.send(*bucket, batch));
        stream::iter(sends)
            .buffer_unordered(BATCHES_AT_A_TIME)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(rows.iter().map(|row| row.bytes as u64).sum())
    }

    fn add(&self, row: &Row, marker: Marker, batches: &mut Batches) -> Result<(), CopyError> {
        let bucket = self.bucket(row)?;
        let number = bucket.to_be_bytes();
        let place = || {
            let hidden = [Value::Bytes(&self.generation), Value::Bytes(&number)];
            let clustering = row.clustering.iter().map(|value| Value::Bytes(value));
            let key = self.copying.partition.values();
            key.chain(hidden).chain(clustering).collect::<Vec<_>>()
        };
        if let Some(update) = &self.update {
            for write in self.forms.writes(row) {
                let (micros, ttl) = (write.write_micros.to_be_bytes(), write.ttl.to_be_bytes());
                let mut values = vec![Value::Bytes(&micros), Value::Bytes(&ttl)];
                values.extend(write.values());
                values.extend(place());
                batches.push(bucket, &update.id, &values);
            }
        }
        if let Marker::Ttl(ttl) = marker {
            let micros = row.newest_write().unwrap_or(MARKER_MICROS).to_be_bytes();
            let ttl = ttl.to_be_bytes();
            let mut values = place();
            values.extend([Value::Bytes(&micros), Value::Bytes(&ttl)]);
            batches.push(bucket, &self.marker.id, &values);
        }
        Ok(())
    }

    /// The last bucket that begins at or before the row.
    fn bucket(&self, row: &Row) -> Result<i32, CopyError> {
        let Copying { schema, layout, .. } = self.copying;
        let key: Vec<&[u8]> = row.clustering.iter().map(|value| &**value).collect();
        let mut unordered = false;
        let later = layout.buckets.partition_point(|bucket| {
            let first: Vec<&[u8]> = bucket.first.iter().map(|value| &**value).collect();
            match compare_clustering(&schema.clustering, &first, &key) {
                Some(order) => order != Ordering::Greater,
                None => {
                    unordered = true;
                    false
                }
            }
        });
        match (unordered, later.checked_sub(1)) {
            (false, Some(bucket)) => Ok(bucket as i32),
            _ => Err(CopyError::Impossible(
                "a row has clustering values that cannot be ordered",
            )),
        }
    }

    async fn send(&self, bucket: i32, batch: &OwnBatch) -> Result<(), CopyError> {
        let Copying {
            requests,
            schema,
            partition,
            layout,
            now,
            ..
        } = *self.copying;
        let key = partition.bucket_key(layout.generation, bucket);
        let key = key.ok_or(CopyError::Impossible(
            "the key of a bucket would be too long",
        ))?;
        let statements: Vec<Arc<Prepared>> =
            self.update.iter().chain([&self.marker]).cloned().collect();
        let body = batch.encode(ALL, now);
        let place = (schema.replication.as_slice(), key.bytes());
        let sent = requests.batch(&statements, &body, place).await;
        sent.map_err(|error| CopyError::Stage(error.into()))
    }
}

/// Batches of one bucket each, in order.
struct Batches {
    done: Vec<(i32, OwnBatch)>,
    /// Approximate maximum size of a batch.
    bytes: usize,
}

impl Batches {
    fn of(bytes: usize) -> Self {
        Self {
            done: Vec::new(),
            bytes,
        }
    }

    fn push(&mut self, bucket: i32, id: &[u8], values: &[Value<'_>]) {
        let fits = |(last, batch): &(i32, OwnBatch)| *last == bucket && batch.bytes() < self.bytes;
        if !self.done.last().is_some_and(fits) {
            self.done.push((bucket, OwnBatch::default()));
        }
        if let Some((_, batch)) = self.done.last_mut()
            && !batch.push(id, values)
        {
            let mut next = OwnBatch::default();
            next.push(id, values);
            self.done.push((bucket, next));
        }
    }
}
