//! Fills one page from buckets and, for an `IN`, from keys of the original, in order and across both: until it has
//! exactly the page size, or the limits are used up.

use std::cmp::Ordering;
use std::ops::Range;
use std::pin::pin;

use futures::stream::{self, StreamExt};

use super::cut::Read;
use super::fallback::{Fallback, Instead, Reply};
use super::reading::{Reading, Source};
use super::row_bytes::RowBytes;
use super::sub_read::{Part, Place, SubPage};
use crate::rewrite::aggregate::{self, Joined};
use crate::rewrite::metadata::Columns;
use crate::rewrite::readable::{Aggregate, Answer};
use crate::rewrite::rows::{self, Heading};
use crate::rewrite::state::PagingState;
use crate::rewrite::warnings::Warnings;

/// Maximum number of rows per sub-read, and the page size with which Cassandra computes aggregates.
const CHUNK_ROWS: u32 = 5_000;
/// Buckets that are read side by side for filtered rows and aggregates, and parts of an `IN`.
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
        let mut filling = Filling::new(self);
        let mut parts = self.parts(sources)?.into_iter();
        let (keys, source) = parts.next().ok_or(Fallback::Unexpected)?;
        let mut part = Part::open(self, keys, source).await?;
        let resumed = self.resumed.as_ref();
        self.fill_from(&part, resumed, None, &mut filling).await?;
        // The first part often fills the page, so the others are read side by side only when it does not.
        if !filling.is_full() {
            let of_run = filling.want_of(None);
            let of_split = filling.want_of(self.limits.per_partition);
            let open = |(keys, source)| async move {
                let wanted = match &source {
                    Source::Split(_) => of_split,
                    Source::Original => of_run,
                };
                let part = Part::open(self, keys, source).await?;
                let page = match part.places(None)?.first() {
                    Some(place) => Some(part.read(place, wanted).await?),
                    None => None,
                };
                Ok::<_, Instead>((part, page))
            };
            let mut ahead = pin!(stream::iter(parts.map(open)).buffered(SIDE_BY_SIDE));
            while !filling.is_full()
                && let Some(opened) = ahead.next().await
            {
                let (next, page) = opened?;
                self.fill_from(&next, None, page, &mut filling).await?;
                part = next;
            }
        }
        let state = self.state(&part, &mut filling)?;
        let state = state.map(|state| state.encode());
        let Filling {
            read,
            rows,
            warnings,
            ..
        } = filling;
        let (flags, head) = self.head(&part, read.rows as usize, state.as_deref(), &warnings)?;
        Ok(Reply { flags, head, rows })
    }

    /// What the page is filled from, in order, beginning where the scan continues.
    fn parts(&self, sources: &[Source]) -> Result<Vec<(Range<usize>, Source)>, Instead> {
        let mut sources = sources.to_vec();
        let mut first = 0;
        if let Some(state) = &self.resumed {
            first = state.key.as_ref().map_or(0, |(number, _)| *number as usize);
            let source = sources.get_mut(first).ok_or(Fallback::Unexpected)?;
            *source = source.continued(state)?;
        }
        let is_original = |number: usize| matches!(sources[number], Source::Original);
        let parts = self.readable.parts(self.keys, first, is_original);
        let with_source = |keys: Range<usize>| (keys.clone(), sources[keys.start].clone());
        Ok(parts.into_iter().map(with_source).collect())
    }

    /// Takes sub-page after sub-page. `ahead`: the first one, if it has been read already.
    async fn fill_from(
        &self,
        part: &Part<'_>,
        resumed: Option<&PagingState>,
        mut ahead: Option<SubPage>,
        filling: &mut Filling,
    ) -> Result<(), Instead> {
        let places = part.places(resumed)?;
        // Of several keys at a time, Cassandra counts each.
        filling.begin_partition(match part.generation() {
            Some(_) => places.first().and_then(|place| place.partition_left),
            None => None,
        });
        let side_by_side = if self.readable.filters {
            SIDE_BY_SIDE
        } else {
            1
        };
        let wanted = filling.want();
        if wanted == 0 {
            return Ok(());
        }
        let first = |place: Place| {
            let given = ahead.take();
            async move {
                // Without read-ahead, `fill_from_bucket` reads the bucket when its turn comes.
                let page = match (given, side_by_side) {
                    (Some(page), _) => Some(page),
                    (None, 1) => None,
                    (None, _) => Some(part.read(&place, wanted).await?),
                };
                Ok::<_, Instead>((place, page))
            }
        };
        let ahead = stream::iter(places.into_iter().map(first)).buffered(side_by_side);
        let mut ahead = pin!(ahead);
        while let Some(read) = ahead.next().await {
            let (place, page) = read?;
            self.fill_from_bucket(part, place, page, filling).await?;
            if filling.want() == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn fill_from_bucket(
        &self,
        part: &Part<'_>,
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
            // bucket, and so has no place from which the scan could continue. The bucket is then read again.
            let fits = |page: &SubPage| match page.row_count.cmp(&(wanted as usize)) {
                Ordering::Less => true,
                Ordering::Equal => page.more.is_some(),
                Ordering::Greater => false,
            };
            let page = match ahead.take().filter(fits) {
                Some(page) => page,
                None => part.read(&place, wanted).await?,
            };
            let more = page.more.clone();
            filling.take(wanted, page)?;
            match more {
                Some(next) => place = next,
                None => return Ok(()),
            }
        }
    }

    /// The position behind the page. `None`: by Cassandra's rule there is no more.
    fn state(
        &self,
        part: &Part<'_>,
        filling: &mut Filling,
    ) -> Result<Option<PagingState>, Instead> {
        let is_last = part.keys.end == self.keys.len();
        if !filling.has_more(is_last) {
            return Ok(None);
        }
        let (generation, place) = match filling.position.take() {
            Some(place) => (part.generation(), place),
            // A full sub-page of a bucket always has a place behind it.
            None if part.generation().is_some() => return Err(Fallback::Unexpected.into()),
            // PER PARTITION LIMIT has ended the last of these keys together with the page.
            None if is_last => return Ok(None),
            None => (None, self.beginning_of(part.keys.end)),
        };
        let key = self.keys.get(place.number).filter(|_| self.keys.len() > 1);
        Ok(Some(PagingState {
            generation,
            bucket: place.bucket as u32,
            key: key.map(|key| (place.number as u32, key.key.bytes().to_vec())),
            clustering_columns: self.readable.schema.clustering.len() as u8,
            mark: place.mark,
            limit_left: filling.limit_left,
            partition_limit_left: place.partition_left,
            fingerprint: self.asked.fingerprint,
            table: Some(self.asked.table),
            is_extended: false,
        }))
    }

    fn beginning_of(&self, number: usize) -> Place {
        Place {
            number,
            bucket: 0,
            mark: None,
            partition_left: self.limits.per_partition,
        }
    }

    async fn aggregates(
        &self,
        aggregates: &[Aggregate],
        sources: &[Source],
    ) -> Result<Reply, Instead> {
        let source = sources.first().ok_or(Fallback::Unexpected)?;
        let part = Part::open(self, 0..1, source.clone()).await?;
        let places = part.places(None)?.into_iter();
        let read = |place: Place| {
            let part = &part;
            async move { part.read(&place, CHUNK_ROWS).await }
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
        let (flags, mut head) = self.head(&part, 1, None, &warnings)?;
        head.extend_from_slice(&row);
        let rows = Vec::new();
        Ok(Reply { flags, head, rows })
    }

    /// The header's flags, and the body up to the rows.
    fn head(
        &self,
        part: &Part<'_>,
        row_count: usize,
        paging_state: Option<&[u8]>,
        warnings: &Warnings,
    ) -> Result<(u8, Vec<u8>), Instead> {
        let prepared = &part.prepared;
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
    /// The place behind the last row, if its part may have more rows.
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
        self.want_of(self.partition_left)
    }

    /// The same, for a part with another rest of PER PARTITION LIMIT.
    fn want_of(&self, partition_left: Option<u32>) -> u32 {
        if self.is_cut() {
            return 0;
        }
        let limits = [self.page_left, self.limit_left, partition_left];
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

    fn take(&mut self, asked: u32, page: SubPage) -> Result<(), Instead> {
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
        self.position = page.more.map(|place| Place {
            partition_left: self.partition_left.or(place.partition_left),
            ..place
        });
        // A page without rows holds memory for nothing.
        if page.row_count > 0 {
            self.rows.push(page.rows);
        }
        Ok(())
    }
}
