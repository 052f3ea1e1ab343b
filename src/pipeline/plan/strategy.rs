//! Chooses where buckets begin. Pure. A strategy sees the rows one by one, and keeps no more than its buckets.

use crate::protocol::types::{Cursor, Write};
use crate::schema::bucket::Bucket;

/// Chooses boundaries while a partition is read from its first row to its last.
pub trait PartitionSplitStrategy {
    /// The name in `wide_row_layout.strategy`. It must change if layouts have to be interpreted differently.
    fn name(&self) -> &'static str;

    /// The next row, in clustering order.
    fn row(&mut self, clustering: &[Box<[u8]>], bytes: usize);

    fn buckets(&self) -> &[Bucket];
}

/// Contiguous ranges of about `target_bytes`, at most `max_buckets` of them. When there would be more, neighbours are
/// joined and the target doubles, so one read is enough to cut a partition of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBucketPartitionSplitStrategy {
    target_bytes: u64,
    max_buckets: usize,
    buckets: Vec<Bucket>,
}

impl EventBucketPartitionSplitStrategy {
    pub fn new(target_bytes: u64, max_buckets: u32) -> Self {
        Self {
            target_bytes: target_bytes.max(1),
            max_buckets: max_buckets.max(1) as usize,
            buckets: Vec::new(),
        }
    }

    fn join_neighbours(&mut self) {
        let mut joined: Vec<Bucket> = Vec::with_capacity(self.buckets.len() / 2 + 1);
        for pair in self.buckets.chunks(2) {
            joined.push(Bucket {
                first: pair[0].first.clone(),
                row_count: pair.iter().map(|bucket| bucket.row_count).sum(),
                byte_count: pair.iter().map(|bucket| bucket.byte_count).sum(),
                home: None,
            });
        }
        self.buckets = joined;
        self.target_bytes = self.target_bytes.saturating_mul(2);
    }

    /// Appends the strategy to a checkpoint.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.target_bytes.to_be_bytes());
        out.put_int(i32::try_from(self.buckets.len()).unwrap_or(i32::MAX));
        for bucket in &self.buckets {
            out.extend_from_slice(&bucket.row_count.to_be_bytes());
            out.extend_from_slice(&bucket.byte_count.to_be_bytes());
            out.put_short(u16::try_from(bucket.first.len()).unwrap_or(u16::MAX));
            bucket
                .first
                .iter()
                .for_each(|value| out.put_bytes(Some(value)));
        }
    }

    pub fn read(cursor: &mut Cursor<'_>, max_buckets: u32) -> Option<Self> {
        let target_bytes = cursor.long().ok()?.cast_unsigned();
        let count = cursor.count("bucket count").ok()?;
        let mut strategy = Self::new(target_bytes, max_buckets);
        for _ in 0..count {
            let row_count = cursor.long().ok()?.cast_unsigned();
            let byte_count = cursor.long().ok()?.cast_unsigned();
            let values = cursor.short().ok()?;
            let first = (0..values).map(|_| Some(cursor.bytes().ok()??.into()));
            strategy.buckets.push(Bucket {
                first: first.collect::<Option<_>>()?,
                row_count,
                byte_count,
                home: None,
            });
        }
        Some(strategy)
    }
}

impl PartitionSplitStrategy for EventBucketPartitionSplitStrategy {
    fn name(&self) -> &'static str {
        "EventBucketPartitionSplitStrategy"
    }

    fn row(&mut self, clustering: &[Box<[u8]>], bytes: usize) {
        let bytes = bytes as u64;
        let full = |bucket: &Bucket| {
            bucket.row_count > 0 && bucket.byte_count.saturating_add(bytes) > self.target_bytes
        };
        if self.buckets.last().is_none_or(full) {
            if self.buckets.len() >= self.max_buckets {
                self.join_neighbours();
                return self.row(clustering, bytes as usize);
            }
            // The first bucket begins where the partition does.
            let first = match self.buckets.is_empty() {
                true => Vec::new(),
                false => clustering.to_vec(),
            };
            self.buckets.push(Bucket {
                first,
                row_count: 0,
                byte_count: 0,
                home: None,
            });
        }
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.row_count += 1;
            bucket.byte_count = bucket.byte_count.saturating_add(bytes);
        }
    }

    fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(target: u64, max: u32, rows: usize, bytes: usize) -> EventBucketPartitionSplitStrategy {
        let mut strategy = EventBucketPartitionSplitStrategy::new(target, max);
        for number in 0..rows {
            strategy.row(&[number.to_be_bytes().into()], bytes);
        }
        strategy
    }

    #[test]
    fn buckets_are_near_their_target_and_never_too_many() {
        for (target, max, rows, bytes) in [
            (1000, 128, 10_000, 100),
            (1000, 4, 10_000, 100),
            (1000, 1, 500, 100),
            (10, 128, 100, 1000),
            (1000, 3, 7, 999),
        ] {
            let strategy = cut(target, max, rows, bytes);
            let buckets = strategy.buckets();
            assert!(buckets.len() <= max as usize);
            assert!(buckets[0].first.is_empty());
            assert!(buckets[1..].iter().all(|bucket| bucket.first.len() == 1));
            let counted: u64 = buckets.iter().map(|bucket| bucket.row_count).sum();
            assert_eq!(counted, rows as u64);
            let firsts: Vec<_> = buckets[1..].iter().map(|bucket| &bucket.first).collect();
            assert!(firsts.is_sorted());
            let wanted = (rows as u64 * bytes as u64 / target).min(u64::from(max));
            assert!(buckets.len() as u64 >= wanted / 2, "{}", buckets.len());
        }
    }

    #[test]
    fn a_checkpoint_goes_on_where_it_was() {
        let whole = cut(1000, 8, 1000, 100);
        let mut part = cut(1000, 8, 400, 100);
        let mut bytes = Vec::new();
        part.write(&mut bytes);
        part = EventBucketPartitionSplitStrategy::read(&mut Cursor::new(&bytes), 8).expect("read");
        for number in 400..1000_usize {
            part.row(&[number.to_be_bytes().into()], 100);
        }
        assert_eq!(part, whole);
        for length in 0..bytes.len() {
            let mut cursor = Cursor::new(&bytes[..length]);
            assert_eq!(
                EventBucketPartitionSplitStrategy::read(&mut cursor, 8),
                None
            );
        }
    }
}
