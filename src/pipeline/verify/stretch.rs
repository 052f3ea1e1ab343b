//! The part of a partition that is being read, where it cannot be read as a whole. Pure.
//!
//! Stretches are cut at values of the first clustering column, and each begins right after the one before. Whatever the
//! values are, together they cover the partition.

use super::restriction::Restriction;
use crate::pipeline::original::ranges;
use crate::schema::bucket::Bucket;
use crate::schema::{CqlType, TableSchema};

/// Both ends are in clustering order; without ends, it is the whole partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    behind: Option<Vec<u8>>,
    up_to: Option<Vec<u8>>,
}

impl Stretch {
    pub(super) fn restriction(&self, schema: &TableSchema) -> Restriction {
        Restriction::stretch(
            &schema.clustering,
            self.behind.as_deref(),
            self.up_to.as_deref(),
        )
    }

    /// Moves to the next stretch, which is longer. `false` if this was the last one.
    pub(super) fn go_on(&mut self, schema: &TableSchema) -> bool {
        let Some(read) = self.up_to.take() else {
            return false;
        };
        let before = self.behind.replace(read.clone());
        let first = first_column(schema).map(|(cql_type, _)| cql_type);
        self.up_to = before
            .zip(first)
            .and_then(|(from, cql_type)| ranges::beyond(cql_type, &from, &read));
        true
    }

    /// Ends the stretch sooner: where the bucket ends, or half-way. `last` is the first clustering value of the row
    /// that was read last in this stretch. `false` if there is no shorter stretch.
    pub(super) fn shorten(
        &mut self,
        schema: &TableSchema,
        buckets: &[Bucket],
        last: Option<&[u8]>,
    ) -> bool {
        let Some((cql_type, descending)) = first_column(schema) else {
            return false;
        };
        let from = last.or(self.behind.as_deref());
        let ends = || buckets.iter().filter_map(|bucket| bucket.first.first());
        let end = ends().find(|end| is_behind(cql_type, descending, end, from));
        let up_to = match (&self.up_to, end) {
            (None, Some(end)) => Some(end.to_vec()),
            (up_to, _) => {
                let (low, high) = match descending {
                    true => (up_to.as_deref(), from),
                    false => (from, up_to.as_deref()),
                };
                ranges::between(cql_type, low, high)
            }
        };
        let is_shorter = up_to.is_some();
        self.up_to = up_to.or(self.up_to.take());
        is_shorter
    }
}

fn first_column(schema: &TableSchema) -> Option<(&CqlType, bool)> {
    let first = schema.clustering.first()?;
    Some((&first.column.cql_type, first.descending))
}

fn is_behind(cql_type: &CqlType, descending: bool, value: &[u8], from: Option<&[u8]>) -> bool {
    let order = |from| crate::schema::order::compare(cql_type, value, from);
    let order = from.map(order);
    match order {
        // It is not known how Cassandra treats an empty value as a bound.
        _ if value.is_empty() => false,
        None => true,
        Some(order) => order.is_some_and(|order| order.is_gt() != descending && order.is_ne()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ClusteringColumn, Column};

    /// What a read of an ascending or descending partition of ints may meet.
    const GRAVES_MAX: usize = 10;

    fn schema(descending: bool) -> TableSchema {
        let column = |name: &str| Column {
            name: name.to_owned(),
            cql_type: CqlType::Int,
        };
        TableSchema {
            keyspace: "ks".to_owned(),
            table: "t".to_owned(),
            partition_key: vec![column("k")],
            clustering: vec![ClusteringColumn {
                column: column("c"),
                descending,
            }],
            statics: Vec::new(),
            regulars: Vec::new(),
            indexed: Vec::new(),
            replication: Vec::new(),
            is_repaired_by_reads: true,
        }
    }

    fn bucket(first: Option<i32>) -> Bucket {
        Bucket {
            first: first
                .map(|value| value.to_be_bytes().into())
                .into_iter()
                .collect(),
            row_count: 1,
            byte_count: 1,
            home: None,
        }
    }

    fn int(value: &[u8]) -> i32 {
        i32::from_be_bytes(value.try_into().expect("an int"))
    }

    /// Where a stretch begins and ends, as numbers that grow in clustering order.
    fn places(stretch: &Stretch, descending: bool) -> (i64, i64) {
        let place = |value: &Vec<u8>| match descending {
            true => -i64::from(int(value)),
            false => i64::from(int(value)),
        };
        let begin = stretch.behind.as_ref().map_or(i64::MIN, place);
        (begin, stretch.up_to.as_ref().map_or(i64::MAX, place))
    }

    #[test]
    fn stretches_follow_each_other_and_none_is_too_much() {
        for descending in [false, true] {
            let schema = schema(descending);
            let sign = if descending { -1 } else { 1 };
            let buckets =
                [None, Some(-50), Some(1000)].map(|first| bucket(first.map(|c| c * sign)));
            // At the head, in a gap of a bucket, and behind everything.
            let graves: Vec<i64> = [-900..-870, 100..140, 5_000_000..5_000_030]
                .into_iter()
                .flatten()
                .collect();
            let (mut stretch, mut end, mut count) = (Stretch::default(), i64::MIN, 0);
            loop {
                let met = |(from, to): (i64, i64)| {
                    graves
                        .iter()
                        .filter(|at| (from + 1..=to).contains(at))
                        .count()
                };
                while met(places(&stretch, descending)) > GRAVES_MAX {
                    assert!(stretch.shorten(&schema, &buckets, None), "{stretch:?}");
                }
                let (from, to) = places(&stretch, descending);
                assert_eq!(from, end);
                (end, count) = (to, count + 1);
                assert!(count < 200, "so many stretches");
                if !stretch.go_on(&schema) {
                    break;
                }
            }
            assert_eq!(end, i64::MAX);
        }
    }

    #[test]
    fn a_stretch_is_shortened_behind_the_row_that_was_read_last() {
        let schema = schema(false);
        let mut stretch = Stretch::default();
        let buckets = [None, Some(10), Some(100)].map(bucket);
        let last = 10_i32.to_be_bytes();
        let mut ends = Vec::new();
        while stretch.shorten(&schema, &buckets, Some(&last)) {
            ends.push(places(&stretch, false).1);
        }
        assert_eq!(ends, [100, 55, 32, 21, 15, 12, 11]);
        assert_eq!(places(&stretch, false), (i64::MIN, 11));
    }

    #[test]
    fn what_cannot_be_counted_is_cut_between_buckets_only() {
        let mut schema = schema(false);
        schema.clustering[0].column.cql_type = CqlType::Inet;
        let buckets = [None, Some(7)].map(bucket);
        let mut stretch = Stretch::default();
        assert!(stretch.shorten(&schema, &buckets, None));
        assert!(!stretch.shorten(&schema, &buckets, None));
        assert!(stretch.go_on(&schema));
        assert_eq!(stretch.up_to, None);
        schema.clustering.clear();
        assert!(!Stretch::default().shorten(&schema, &buckets, None));
    }
}
