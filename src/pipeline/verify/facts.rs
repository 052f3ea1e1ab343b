//! What a comparison learns about rows besides their equality, for the proof of the layout. Pure.

use super::Checked;
use super::checksum::Checksum;
use crate::protocol::types::Cursor;
use crate::schema::TableSchema;
use crate::wide_row::layout::{BucketProof, Proof};

/// Stands for a cell that never expires, and for "never".
const NEVER: i64 = i64::MAX;

/// The first second of all.
const ALWAYS: i64 = 0;

/// The facts about all rows so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// The latest second at which a part of them was read.
    as_of: i64,
    /// For each regular column, whether it is an anchor so far; empty before the first row.
    anchors: Vec<bool>,
    buckets: Vec<BucketFacts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BucketFacts {
    row_count: u64,
    first_expiry: i64,
    uneven_from: i64,
}

/// The second in which a column of a row loses its last cell; `None` if it has none.
type End = Option<i64>;

impl Facts {
    /// From here on, rows are read at this second.
    pub(super) fn go_on_at(&mut self, now: i64) {
        self.as_of = self.as_of.max(now);
    }

    pub(super) fn begin_bucket(&mut self) {
        self.buckets.push(BucketFacts {
            row_count: 0,
            first_expiry: NEVER,
            uneven_from: NEVER,
        });
    }

    /// Adds a row, read at the second `at`, by the TTLs of the cells of each of its columns.
    pub(super) fn add_row(&mut self, columns: &[Vec<Option<i32>>], at: i64) {
        let second = |ttl: &Option<i32>| ttl.map_or(NEVER, |ttl| at.saturating_add(ttl.into()));
        let ends: Vec<End> = columns
            .iter()
            .map(|cells| cells.iter().map(second).max())
            .collect();
        let first = columns.iter().flatten().map(second).min();
        self.add(&ends, first.unwrap_or(NEVER));
    }

    /// Adds a row by the end of each of its columns, and the second in which the first of its cells expires.
    fn add(&mut self, ends: &[End], first_expiry: i64) {
        let Some(bucket) = self.buckets.last_mut() else {
            return;
        };
        bucket.row_count += 1;
        bucket.first_expiry = bucket.first_expiry.min(first_expiry);
        self.anchors.resize(ends.len(), true);
        // A row without cells is there by its marker alone, for every read alike.
        let Some(last) = ends.iter().flatten().max() else {
            return;
        };
        for (anchor, end) in self.anchors.iter_mut().zip(ends) {
            if end.as_ref() != Some(last) {
                *anchor = false;
                bucket.uneven_from = bucket.uneven_from.min(end.unwrap_or(ALWAYS));
            }
        }
    }

    /// A row marker in the present bucket expires in this second.
    pub(super) fn expires(&mut self, second: i64) {
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.first_expiry = bucket.first_expiry.min(second);
        }
    }

    pub(super) fn proof(&self, schema: &TableSchema, checksums: &[Checksum]) -> Proof {
        let columns = schema.regulars.iter().zip(&self.anchors);
        let anchors = columns.filter(|(_, is_anchor)| **is_anchor);
        let second = |second: i64| Some(second).filter(|second| *second != NEVER);
        let buckets = self.buckets.iter().zip(checksums);
        Proof {
            as_of: self.as_of,
            anchors: anchors.map(|(column, _)| column.name.clone()).collect(),
            buckets: buckets
                .map(|(facts, checksum)| BucketProof {
                    row_count: facts.row_count,
                    first_expiry: second(facts.first_expiry),
                    uneven_from: second(facts.uneven_from),
                    checksum: *checksum,
                })
                .collect(),
        }
    }

    /// Whether they belong to the same place of a comparison.
    pub(super) fn fit(&self, checked: &Checked) -> bool {
        self.buckets.len() == checked.checksums.buckets.len()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        out.extend_from_slice(&self.as_of.to_be_bytes());
        out.extend_from_slice(&count(self.anchors.len()));
        out.extend(self.anchors.iter().map(|anchor| u8::from(*anchor)));
        out.extend_from_slice(&count(self.buckets.len()));
        for bucket in &self.buckets {
            out.extend_from_slice(&bucket.row_count.to_be_bytes());
            out.extend_from_slice(&bucket.first_expiry.to_be_bytes());
            out.extend_from_slice(&bucket.uneven_from.to_be_bytes());
        }
    }

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let as_of = cursor.long().ok()?;
        let columns = cursor.count("column count").ok()?;
        let anchors = cursor.take(columns, "anchors").ok()?;
        let anchors = anchors.iter().map(|anchor| *anchor == 1).collect();
        let buckets = cursor.count("bucket count").ok()?;
        let buckets = (0..buckets).map(|_| {
            Some(BucketFacts {
                row_count: cursor.long().ok()?.cast_unsigned(),
                first_expiry: cursor.long().ok()?,
                uneven_from: cursor.long().ok()?,
            })
        });
        Some(Self {
            as_of,
            anchors,
            buckets: buckets.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn facts(rows: &[&[End]]) -> Facts {
        let mut facts = Facts::default();
        facts.go_on_at(NOW);
        facts.go_on_at(NOW - 9);
        assert_eq!(facts.as_of, NOW);
        facts.begin_bucket();
        for ends in rows {
            let first = ends.iter().flatten().min().copied().unwrap_or(NEVER);
            facts.add(ends, first);
        }
        facts
    }

    #[test]
    fn whole_rows_that_live_for_ever_are_even() {
        let facts = facts(&[&[Some(NEVER), Some(NEVER)], &[Some(NEVER), Some(NEVER)]]);
        assert_eq!(facts.anchors, [true, true]);
        assert_eq!(facts.buckets[0].row_count, 2);
        assert_eq!(facts.buckets[0].first_expiry, NEVER);
        assert_eq!(facts.buckets[0].uneven_from, NEVER);
    }

    #[test]
    fn a_column_that_dies_before_another_makes_the_row_uneven_from_then_on() {
        let facts = facts(&[&[Some(2_000), Some(NEVER)], &[Some(3_000), Some(3_000)]]);
        assert_eq!(facts.anchors, [false, true]);
        assert_eq!(facts.buckets[0].first_expiry, 2_000);
        assert_eq!(facts.buckets[0].uneven_from, 2_000);
    }

    #[test]
    fn a_column_that_was_never_there_makes_it_uneven_always() {
        let facts = facts(&[&[None, Some(NEVER)], &[None, None]]);
        assert_eq!(facts.anchors, [false, true]);
        assert_eq!(facts.buckets[0].uneven_from, ALWAYS);
    }

    #[test]
    fn no_column_is_an_anchor_where_rows_differ_in_their_last_one() {
        let facts = facts(&[&[None, Some(NEVER)], &[Some(NEVER), None]]);
        assert_eq!(facts.anchors, [false, false]);
    }

    #[test]
    fn they_are_read_as_they_were_written() {
        let mut facts = facts(&[&[Some(2_000), None], &[None, Some(NEVER)]]);
        facts.begin_bucket();
        facts.expires(77);
        let mut out = Vec::new();
        facts.write(&mut out);
        let mut cursor = Cursor::new(&out);
        assert_eq!(Facts::read(&mut cursor), Some(facts));
        assert!(cursor.rest().is_empty());
        for length in 0..out.len() {
            assert_eq!(Facts::read(&mut Cursor::new(&out[..length])), None);
        }
    }
}
