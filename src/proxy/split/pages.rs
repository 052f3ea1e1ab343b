//! Fills one page from buckets, in order and across buckets and keys: until it has exactly the page size, or the limits
//! are used up.

use std::cmp::Ordering;

use futures::stream::{self, StreamExt};

use super::cut::Read;
use super::fallback::{Fallback, Instead, Reply};
use super::reading::{Reading, Source};
use super::row_bytes::RowBytes;
use super::sub_read::{Partition, Place, SubPage};
use crate::rewrite::aggregate::{self, Joined};
use crate::rewrite::metadata::Columns;
use crate::rewrite::readable::{Aggregate, Answer};
use crate::rewrite::rows::{self, Heading};
use crate::rewrite::state::PagingState;
use crate::rewrite::warnings::Warnings;

/// Maximum number of rows per sub-read, and the page size with which Cassandra computes aggregates.
const CHUNK_ROWS: u32 = 5_000;
/// Buckets that are read side by side for filtered rows and aggregates.
pub(crate) const SIDE_BY_SIDE: usize = 8;
/// The largest reply that the proxy composes. The original sends larger ones.
const REPLY_BYTES_MAX: usize = 128 << 20;

impl Reading<'_> {
    pub(super) async fn read(&self, sources: &[Source]) -> Result<Reply, Instead> {
        match &self.readable.answer {
            Answer::Rows => self.rows(sources).await,
            Answer::Aggregates(aggregates) => self.aggregates(aggregates, sources).await,
        }
    }

    async fn rows(&self, sources: &[Source]) -> Result<Reply, Instead> {
        let first = self.resumed.as_ref().and_then(|state| state.key.as_ref());
        let first = first.map_or(0, |(number, _)| *number as usize);
        let mut filling = Filling::new(self);
        let mut last = None;
        for (number, source) in sources.iter().enumerate().skip(first) {
            let resumed = self.resumed.as_ref().filter(|_| number == first);
            filling.begin_partition(match resumed {
                Some(state) => state.partition_limit_left,
                None => self.limits.per_partition,
            });
            let source = self.source(source, resumed)?;
            let partition = Partition::open(self, number, source).await?;
            self.fill_from(&partition, resumed, &mut filling).await?;
            last = Some(partition);
            if filling.is_full() {
                break;
            }
        }
        let partition = last.ok_or(Fallback::Unexpected)?;
        let is_last = partition.number + 1 == sources.len();
        let more = filling.has_more(is_last);
        let state = match (more, filling.position.take()) {
            (true, Some(place)) => Some(self.state(&partition, place, &filling).encode()),
            // The page is full, so there must be a position to continue from.
            (true, None) => return Err(Fallback::Unexpected.into()),
            (false, _) => None,
        };
        let Filling {
            read,
            rows,
            warnings,
            ..
        } = filling;
        let (flags, head) =
            self.head(&partition, read.rows as usize, state.as_deref(), &warnings)?;
        Ok(Reply { flags, head, rows })
    }

    /// A scan that continues reads from the same source as before.
    fn source(&self, source: &Source, resumed: Option<&PagingState>) -> Result<Source, Instead> {
        let Some(state) = resumed else {
            return Ok(source.clone());
        };
        match source {
            Source::Split(layout) if state.generation == Some(layout.generation.0) => {
                Ok(source.clone())
            }
            // The original has every row, whatever became of the generation.
            _ if state.key.is_some() => Ok(Source::Original),
            _ => Err(Fallback::NotSplit.into()),
        }
    }

    async fn fill_from(
        &self,
        partition: &Partition<'_>,
        resumed: Option<&PagingState>,
        filling: &mut Filling,
    ) -> Result<(), Instead> {
        let mut buckets = partition.buckets.as_slice();
        let mut mark = None;
        if let Some(state) = resumed {
            // The original counts as bucket 0, whatever bucket the scan had reached.
            let current = partition.generation().map_or(0, |_| state.bucket as usize);
            let at = buckets.iter().position(|bucket| *bucket == current);
            buckets = &buckets[at.ok_or(Fallback::Unexpected)?..];
            mark = state.mark.clone();
        }
        let side_by_side = if self.readable.filters {
            SIDE_BY_SIDE
        } else {
            1
        };
        let wanted = filling.want();
        if wanted == 0 {
            return Ok(());
        }
        let first = |(index, bucket): (usize, &usize)| {
            let mark = if index == 0 { mark.clone() } else { None };
            let place = Place {
                bucket: *bucket,
                mark,
            };
            async move {
                // Without read-ahead, `fill_from_bucket` reads the bucket when its turn comes.
                let ahead = match side_by_side {
                    1 => None,
                    _ => Some(partition.read(&place, wanted).await?),
                };
                Ok::<_, Instead>((place, ahead))
            }
        };
        let ahead = stream::iter(buckets.iter().enumerate().map(first)).buffered(side_by_side);
        let mut ahead = std::pin::pin!(ahead);
        while let Some(read) = ahead.next().await {
            let (place, page) = read?;
            self.fill_from_bucket(partition, place, page, filling)
                .await?;
            if filling.want() == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn fill_from_bucket(
        &self,
        partition: &Partition<'_>,
        mut place: Place,
        mut ahead: Option<SubPage>,
        filling: &mut Filling,
    ) -> Result<(), Instead> {
        loop {
            let wanted = filling.want();
            if wanted == 0 {
                return Ok(());
            }
            // A page that was read ahead may have more rows than there is room for now. Or it fits exactly and ends its
            // bucket, and so has no mark from which the scan could continue. The bucket is then read again.
            let fits = |page: &SubPage| match page.row_count.cmp(&(wanted as usize)) {
                Ordering::Less => true,
                Ordering::Equal => page.more.is_some(),
                Ordering::Greater => false,
            };
            let page = match ahead.take().filter(fits) {
                Some(page) => page,
                None => partition.read(&place, wanted).await?,
            };
            let more = page.more.clone();
            filling.take(wanted, page, &place)?;
            match more {
                Some(mark) => place.mark = Some(mark),
                None => return Ok(()),
            }
        }
    }

    fn state(&self, partition: &Partition<'_>, place: Place, filling: &Filling) -> PagingState {
        PagingState {
            generation: partition.generation(),
            bucket: place.bucket as u32,
            key: (self.keys.len() > 1)
                .then(|| (partition.number as u32, partition.key_bytes().to_vec())),
            clustering_columns: self.readable.schema.clustering.len() as u8,
            mark: place.mark,
            limit_left: filling.limit_left,
            partition_limit_left: filling.partition_left,
            fingerprint: self.asked.fingerprint,
        }
    }

    async fn aggregates(
        &self,
        aggregates: &[Aggregate],
        sources: &[Source],
    ) -> Result<Reply, Instead> {
        let source = sources.first().ok_or(Fallback::Unexpected)?;
        let partition = Partition::open(self, 0, source.clone()).await?;
        let places = partition.buckets.iter().map(|bucket| Place {
            bucket: *bucket,
            mark: None,
        });
        let read = |place: Place| {
            let partition = &partition;
            async move { partition.read(&place, CHUNK_ROWS).await }
        };
        let mut pages = stream::iter(places.map(read)).buffer_unordered(SIDE_BY_SIDE);
        let (mut joined, mut warnings): (Option<Joined>, _) = (None, Warnings::default());
        while let Some(page) = pages.next().await {
            let mut page = page?;
            warnings.add(std::mem::take(&mut page.warnings));
            let row = page.first_row().ok_or(Fallback::Unexpected)?;
            joined = Some(match joined {
                None => row,
                Some(joined) => {
                    aggregate::join(aggregates, joined, row).ok_or(Fallback::Unexpected)?
                }
            });
        }
        let row = aggregate::encode(&joined.ok_or(Fallback::Unexpected)?);
        let (flags, mut head) = self.head(&partition, 1, None, &warnings)?;
        head.extend_from_slice(&row);
        let rows = Vec::new();
        Ok(Reply { flags, head, rows })
    }

    /// The header's flags, and the body up to the rows.
    fn head(
        &self,
        partition: &Partition<'_>,
        row_count: usize,
        paging_state: Option<&[u8]>,
        warnings: &Warnings,
    ) -> Result<(u8, Vec<u8>), Instead> {
        let prepared = &partition.prepared;
        if let Some(known) = &self.asked.result_metadata_id
            && **known != *prepared.result_metadata_id
        {
            return Err(Fallback::Columns.into());
        }
        let columns = Columns::read(&prepared.columns).ok_or(Fallback::Unexpected)?;
        let schema = &self.readable.schema;
        let version = self.reader.wire.version.get();
        let metadata = (!self.asked.skip_metadata)
            .then(|| columns.encode(version, &schema.keyspace, &schema.table));
        let heading = Heading {
            column_count: columns.count(),
            metadata: metadata.as_deref(),
            paging_state,
            changed_metadata_id: None,
        };
        Ok(warnings.before(version, rows::head(&heading, row_count)))
    }
}

/// A page that is being filled.
struct Filling {
    bytes_max: Option<usize>,
    page_left: Option<u32>,
    limit_left: Option<u32>,
    partition_left: Option<u32>,
    rows: Vec<RowBytes>,
    read: Read,
    warnings: Warnings,
    /// The position behind the last row, if its bucket may have more rows.
    position: Option<Place>,
}

impl Filling {
    fn new(reading: &Reading<'_>) -> Self {
        Self {
            bytes_max: reading.bytes_max,
            page_left: reading.page_rows(),
            limit_left: match &reading.resumed {
                Some(state) => state.limit_left,
                None => reading.limits.rows,
            },
            partition_left: None,
            rows: Vec::new(),
            read: Read::default(),
            warnings: Warnings::default(),
            position: None,
        }
    }

    fn begin_partition(&mut self, limit: Option<u32>) {
        self.partition_left = limit;
    }

    /// Maximum number of rows of the next sub-read.
    fn want(&self) -> u32 {
        if self.is_cut() {
            return 0;
        }
        let limits = [self.page_left, self.limit_left, self.partition_left];
        let limits = limits.into_iter().flatten();
        let fitting = self.bytes_max.map(|max| self.read.next_rows(max));
        limits.chain(fitting).fold(CHUNK_ROWS, u32::min)
    }

    fn is_full(&self) -> bool {
        self.page_left == Some(0) || self.limit_left == Some(0) || self.is_cut()
    }

    /// The page has enough bytes, and a place from which the scan can continue.
    fn is_cut(&self) -> bool {
        self.position.is_some() && self.bytes_max.is_some_and(|max| self.read.bytes >= max)
    }

    /// By Cassandra's rule: the page is full, and no limit is used up.
    fn has_more(&self, is_last_partition: bool) -> bool {
        let used_up = is_last_partition && self.partition_left == Some(0);
        let is_full = self.page_left == Some(0) || self.is_cut();
        is_full && self.limit_left != Some(0) && !used_up
    }

    fn take(&mut self, asked: u32, page: SubPage, place: &Place) -> Result<(), Instead> {
        let rows = page.row_count as u32;
        for left in [
            &mut self.page_left,
            &mut self.limit_left,
            &mut self.partition_left,
        ]
        .into_iter()
        .flatten()
        {
            *left = left.checked_sub(rows).ok_or(Fallback::Unexpected)?;
        }
        self.read.add(asked, page.row_count, page.rows.rows().len());
        if self.read.bytes > REPLY_BYTES_MAX {
            return Err(Fallback::Size.into());
        }
        self.warnings.add(page.warnings);
        self.position = page.more.map(|mark| Place {
            bucket: place.bucket,
            mark: Some(mark),
        });
        // A page without rows holds memory for nothing.
        if page.row_count > 0 {
            self.rows.push(page.rows);
        }
        Ok(())
    }
}
