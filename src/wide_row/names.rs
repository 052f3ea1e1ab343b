//! The nouns of the record as separate types, so that one is never mistaken for another. Pure.

use std::fmt;

use crate::filter;
use crate::schema::names::PartitionKey;

impl PartitionKey {
    /// The shard of `wide_row` that holds this key. Shards are equal ranges of the filter's hash. Their numbers include
    /// the shard count: 16 shards are numbered 16 to 31, so a table that moves to 64 shards reuses none of its old
    /// ones.
    pub fn shard(&self, shards: u32) -> i32 {
        let index = filter::shard_of(filter::hash(self.bytes()), shards as usize);
        // Both come from an int column, so neither cast truncates.
        shards as i32 + index as i32
    }
}

/// One attempt at a split; never reused for its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub i32);

impl Generation {
    /// The first generation of a partition: the seconds since 2020. If it were 1, a control keyspace that was lost and
    /// recreated would count from 1 again and meet the buckets and cached layouts of earlier generations. `None` if the
    /// clock cannot be right.
    pub fn first(unix_millis: i64) -> Option<Self> {
        const SECONDS_1970_TO_2020: i64 = 1_577_836_800;
        let seconds = unix_millis / 1000 - SECONDS_1970_TO_2020;
        i32::try_from(seconds)
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(Self)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A shard's version: strictly larger after every change of any of its splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub i64);

impl Version {
    /// A larger version. It follows the clock so that independent writers rarely choose the same one, but it does not
    /// rely on the clock: if one writer's clock is ahead, all others count up from there.
    pub fn after(self, now_micros: i64) -> Self {
        Self(now_micros.max(self.0.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_shards_are_parts_of_fewer() {
        for number in 0..200_u32 {
            let key = PartitionKey::new(number.to_be_bytes());
            assert_eq!(key.shard(64) / 4, key.shard(16));
            assert!((16..32).contains(&key.shard(16)));
        }
    }

    #[test]
    fn first_generations_of_other_times_differ() {
        let year = 365 * 24 * 3600 * 1000;
        let (one, two) = (Generation::first(55 * year), Generation::first(60 * year));
        assert!(one.is_some() && one < two);
        assert_eq!(Generation::first(49 * year), None);
        assert_eq!(Generation::first(i64::MAX), None);
    }
}
