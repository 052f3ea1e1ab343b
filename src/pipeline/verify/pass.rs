//! One pass over both sides: every row of the original must be in its bucket, and nothing else may be there.

use std::cmp::Ordering;

use futures::try_join;
use tokio::time::Instant;

use super::compare::compare;
use super::lifetime::{Lifetimes, Mortal};
use super::reader::{Reader, Selection, Side};
use super::row::{Key, Row, RowAt};
use super::stream::Stream;
use super::{Checked, Difference, DifferenceKind, Verified, VerifyError, order};

/// How many rows and cells have their lifetimes checked together. To a read at a future second, most of their cells may
/// be tombstones, and a read with too many tombstones fails.
const CHUNK_ROWS: usize = 1000;
const CHUNK_CELLS: usize = 20_000;

pub(super) struct Pass<'r, 'a> {
    reader: &'r Reader<'a>,
    /// Covers all rows so far, but `last` is as of the end of a chunk.
    found: Checked,
    /// The last row that was found equal.
    last: Option<RowAt>,
    chunk: Chunk,
}

/// Rows whose lifetimes have not been checked yet, all of one bucket.
#[derive(Default)]
struct Chunk {
    row_count: usize,
    cell_count: usize,
    mortals: Vec<Mortal>,
}

/// What comes next on the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    Both,
    Original,
    Copy,
    /// The copy's next row belongs to another bucket.
    Stray,
}

/// What must be found when a row is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    SameRow,
    NoCopy,
}

impl<'r, 'a> Pass<'r, 'a> {
    pub(super) fn new(reader: &'r Reader<'a>) -> Self {
        let mut found = beginning(reader);
        found.facts.go_on_at(reader.now().into());
        Self {
            reader,
            found,
            last: None,
            chunk: Chunk::default(),
        }
    }

    pub(super) async fn run(mut self) -> Result<Verified, VerifyError> {
        let reader = self.reader;
        let open = |side| Stream::open(reader, side, reader.now());
        let (last, begun) = (self.found.last.clone(), self.found.checksums.buckets.len());
        let mut original = open(Side::Original).behind(&last)?;
        for bucket in begun.saturating_sub(1)..reader.verification.layout.buckets.len() {
            let copy = open(Side::Bucket(bucket));
            let copy = if bucket < begun {
                copy.behind(&last)?
            } else {
                self.found.checksums.begin_bucket();
                self.found.facts.begin_bucket();
                copy
            };
            self.check_bucket(bucket, &mut original, copy).await?;
            self.check_lifetimes(bucket).await?;
        }
        // The last bucket has no end, so a row that is left was in none of the ranges.
        if original.peek().await?.is_some() {
            return Err(VerifyError::Order);
        }
        let checksums = self.found.checksums;
        if checksums.original != checksums.copy {
            return Err(VerifyError::Checksum);
        }
        Ok(Verified {
            row_count: self.found.row_count,
            cell_count: self.found.cell_count,
            byte_count: self.found.byte_count,
            proof: self.found.facts.proof(reader.schema(), &checksums.buckets),
            checksum: checksums.copy,
            bucket_checksums: checksums.buckets,
        })
    }

    async fn check_bucket(
        &mut self,
        bucket: usize,
        original: &mut Stream<'r, 'a>,
        mut copy: Stream<'r, 'a>,
    ) -> Result<(), VerifyError> {
        loop {
            let (ours, theirs) = try_join!(copy.peek(), original.peek())?;
            let ours = ours.as_ref().map(|row| self.read(row)).transpose()?;
            let read = theirs.as_ref().map(|row| self.read(row)).transpose()?;
            let next = self.next(bucket, read.as_ref(), ours.as_ref())?;
            match next {
                Next::Nothing => return Ok(()),
                Next::Original | Next::Both => {
                    if let (Some(at), Some(read)) = (&theirs, &read) {
                        let ours = ours.as_ref().filter(|_| next == Next::Both);
                        self.check_row(bucket, (at, read), ours).await?;
                    }
                }
                Next::Copy | Next::Stray => {
                    let key = ours.as_ref().map(Row::owned_key).unwrap_or_default();
                    let (expected, kind) = match next {
                        Next::Stray => (Expected::NoCopy, DifferenceKind::Boundary),
                        _ => (Expected::SameRow, DifferenceKind::ExtraRow),
                    };
                    self.settle(bucket, key, expected, (kind, None)).await?;
                }
            }
            if matches!(next, Next::Both | Next::Original) {
                original.advance();
            }
            if !matches!(next, Next::Original) {
                copy.advance();
            }
        }
    }

    fn read<'row>(&self, row: &'row RowAt) -> Result<Row<'row>, VerifyError> {
        let columns = self.reader.schema().clustering.len();
        row.read(columns).ok_or(VerifyError::NotUnderstood)
    }

    /// Which side has the next row of this bucket.
    fn next(
        &self,
        bucket: usize,
        original: Option<&Row<'_>>,
        copy: Option<&Row<'_>>,
    ) -> Result<Next, VerifyError> {
        let original = match original {
            Some(row) if self.place(bucket, row)? == Ordering::Equal => Some(row),
            _ => None,
        };
        if let Some(copy) = copy
            && self.place(bucket, copy)? != Ordering::Equal
        {
            return Ok(Next::Stray);
        }
        Ok(match (original, copy) {
            (None, None) => Next::Nothing,
            (Some(_), None) => Next::Original,
            (None, Some(_)) => Next::Copy,
            (Some(original), Some(copy)) => {
                match order(self.reader.schema(), &original.key, &copy.key)? {
                    Ordering::Less => Next::Original,
                    Ordering::Equal => Next::Both,
                    Ordering::Greater => Next::Copy,
                }
            }
        })
    }

    /// Whether the row is before the bucket's range, in it, or after it.
    fn place(&self, bucket: usize, row: &Row<'_>) -> Result<Ordering, VerifyError> {
        let buckets = &self.reader.verification.layout.buckets;
        let against = |number: usize| {
            let first = buckets.get(number).map(|bucket| &bucket.first);
            let first = first.filter(|first| !first.is_empty())?;
            let first: Vec<&[u8]> = first.iter().map(|value| &**value).collect();
            Some(order(self.reader.schema(), &row.key, &first))
        };
        if against(bucket).transpose()?.is_some_and(Ordering::is_lt) {
            return Ok(Ordering::Less);
        }
        let behind = against(bucket + 1)
            .transpose()?
            .is_some_and(Ordering::is_ge);
        Ok(if behind {
            Ordering::Greater
        } else {
            Ordering::Equal
        })
    }

    async fn check_row(
        &mut self,
        bucket: usize,
        (at, original): (&RowAt, &Row<'_>),
        copy: Option<&Row<'_>>,
    ) -> Result<(), VerifyError> {
        let found = match copy {
            Some(copy) => match compare(self.reader.schema(), original, copy) {
                None => return self.accept(bucket, (at, copy), self.reader.now()).await,
                Some(found) => found,
            },
            None => (DifferenceKind::MissingRow, None),
        };
        let key = original.owned_key();
        self.settle(bucket, key, Expected::SameRow, found).await
    }

    /// Reads a row again on both sides, several times. If they still differ, that is the difference.
    async fn settle(
        &mut self,
        bucket: usize,
        key: Key,
        expected: Expected,
        (kind, column): (DifferenceKind, Option<&'a str>),
    ) -> Result<(), VerifyError> {
        let (mut kind, mut column) = (kind, column);
        let seen = Instant::now();
        for wait in self.reader.verification.patience.reread {
            tokio::time::sleep_until(seen + wait).await;
            let at = self.reader.later();
            let read = |side| self.reader.row(side, Selection::Cells, &key, at);
            let (original, copy) = try_join!(read(Side::Original), read(Side::Bucket(bucket)))?;
            let found = match (expected, &original, &copy) {
                (Expected::NoCopy, _, None) => return Ok(()),
                (Expected::NoCopy, _, Some(_)) => Some((kind, column)),
                (_, None, None) => return Ok(()),
                (_, Some(_), None) => Some((DifferenceKind::MissingRow, None)),
                (_, None, Some(_)) => Some((DifferenceKind::ExtraRow, None)),
                (_, Some(original), Some(copy)) => {
                    let (original, copy) = (self.read(original)?, self.read(copy)?);
                    compare(self.reader.schema(), &original, &copy)
                }
            };
            match (found, &original, &copy) {
                (Some(found), ..) => (kind, column) = found,
                (None, Some(original), Some(copy)) => {
                    let copy = self.read(copy)?;
                    return self.accept(bucket, (original, &copy), at).await;
                }
                (None, ..) => return Ok(()),
            }
        }
        Err(VerifyError::Differs(Difference {
            bucket,
            kind,
            column: column.map(str::to_owned),
            key,
        }))
    }

    /// Counts a row that is the same on both sides, read at the second `at`.
    async fn accept(
        &mut self,
        bucket: usize,
        (row, copy): (&RowAt, &Row<'_>),
        at: u32,
    ) -> Result<(), VerifyError> {
        self.last = Some(row.clone());
        let row = self.read(row)?;
        let ttls = |row: &Row<'_>| row.ttls(self.reader.schema());
        let columns = ttls(&row).ok_or(VerifyError::NotUnderstood)?;
        let copied = ttls(copy).ok_or(VerifyError::NotUnderstood)?.concat();
        let ttls = columns.concat();
        let checksums = &mut self.found.checksums;
        checksums.add((&row, &ttls), (copy, &copied), at.into());
        self.found.facts.add_row(&columns, at.into());
        self.found.row_count += 1;
        self.found.cell_count += ttls.len() as u64;
        self.found.byte_count += row.byte_count() as u64;
        self.chunk.add(&row, &ttls, at);
        if self.chunk.row_count >= CHUNK_ROWS || self.chunk.cell_count >= CHUNK_CELLS {
            self.check_lifetimes(bucket).await?;
        }
        Ok(())
    }

    async fn check_lifetimes(&mut self, bucket: usize) -> Result<(), VerifyError> {
        let chunk = std::mem::take(&mut self.chunk);
        if !chunk.mortals.is_empty() {
            let reader = self.reader;
            let lifetimes = Lifetimes { reader, bucket };
            if let Some(end) = lifetimes.check(&chunk.mortals).await? {
                self.found.facts.expires(end.into());
            }
        }
        if let Some(last) = self.last.take() {
            self.found.last = self.read(&last)?.owned_key();
        }
        (self.reader.verification.progress)(&self.found);
        Ok(())
    }
}

/// Where to begin. A checkpoint that does not fit this layout is ignored.
fn beginning(reader: &Reader<'_>) -> Checked {
    let from = &reader.verification.from;
    let buckets = 1..=reader.verification.layout.buckets.len();
    let is_sound = buckets.contains(&from.checksums.buckets.len())
        && from.facts.fit(from)
        && from.last.len() == reader.schema().clustering.len();
    match is_sound {
        true => from.clone(),
        false => Checked::default(),
    }
}

impl Chunk {
    /// A row with a cell that never expires is there for ever on both sides, whatever its marker is.
    fn add(&mut self, row: &Row<'_>, ttls: &[Option<i32>], at: u32) {
        if ttls.iter().all(Option::is_some) {
            let longest = ttls.iter().flatten().max().copied().unwrap_or(0);
            self.mortals.push(Mortal {
                key: row.owned_key(),
                place: self.row_count,
                until: at.saturating_add_signed(longest),
            });
        }
        self.row_count += 1;
        self.cell_count += ttls.len();
    }
}
