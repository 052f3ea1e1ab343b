//! The nouns of a split, each a type of its own so that none is taken for another. Pure.

use std::fmt;

use crate::filter;
use crate::protocol::types::Cursor;

/// A table, as Cassandra spells it: without quotes, with its capitals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    pub keyspace: String,
    pub table: String,
}

impl TableName {
    pub fn new(keyspace: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            keyspace: keyspace.into(),
            table: table.into(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.keyspace, self.table)
    }
}

/// The serialized partition key of the original: what Cassandra hashes to a token. A key of one column is its bytes; of
/// several, each as a length of two bytes, the bytes, and a zero.
///
/// Keys are a client's data: `Debug` and `Display` show none of it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionKey(Box<[u8]>);

impl PartitionKey {
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// From the serialized values of its columns. `None` for no columns, and for values longer than Cassandra allows.
    pub fn from_components(components: &[&[u8]]) -> Option<Self> {
        let fits = |component: &&[u8]| component.len() <= usize::from(u16::MAX);
        if components.is_empty() || !components.iter().all(fits) {
            return None;
        }
        if let [only] = components {
            return Some(Self::new(*only));
        }
        let length: usize = components.iter().map(|component| component.len() + 3).sum();
        let mut bytes = Vec::with_capacity(length);
        for component in components {
            let length = u16::try_from(component.len()).ok()?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(component);
            bytes.push(0);
        }
        Some(Self::new(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The serialized values of its `count` columns. `None`: it is not a key of so many.
    pub fn components(&self, count: usize) -> Option<Vec<&[u8]>> {
        match count {
            0 => None,
            1 => Some(vec![&self.0]),
            _ => {
                let mut cursor = Cursor::new(&self.0);
                let mut components = Vec::with_capacity(count);
                for _ in 0..count {
                    components.push(cursor.short_bytes().ok()?);
                    (cursor.byte().ok()? == 0).then_some(())?;
                }
                cursor.rest().is_empty().then_some(components)
            }
        }
    }

    /// The shard of `wide_row` that holds this key. Shards are equal ranges of the filter's hash. Their numbers say how many
    /// there are, too: of 16 shards they are 16 to 31, so that a table moved to 64 shards uses none of its old ones.
    pub fn shard(&self, shards: u32) -> i32 {
        let index = filter::shard_of(filter::hash(&self.0), shards as usize);
        // Both come from an int column, so nothing is cut.
        shards as i32 + index as i32
    }
}

impl fmt::Debug for PartitionKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PartitionKey({} bytes)", self.0.len())
    }
}

/// One attempt at a split; never reused for its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub i32);

impl Generation {
    /// The first of a partition: the seconds since 2020. Were it 1, a control keyspace that was lost and made anew would
    /// count from there again, and meet the buckets and the cached layouts of the generations before. `None` for a clock
    /// that cannot be right.
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
    /// A larger one. It follows the clock, so that independent writers rarely choose the same, but depends on it for
    /// nothing: behind a clock that is ahead, all others count up.
    pub fn after(self, now_micros: i64) -> Self {
        Self(now_micros.max(self.0.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_serialized_as_cassandra_hashes_them() {
        let key = |components: &[&[u8]]| PartitionKey::from_components(components);
        assert_eq!(key(&[b"one"]).unwrap().bytes(), b"one");
        assert_eq!(
            key(&[b"one", b"", &[7]]).unwrap().bytes(),
            b"\x00\x03one\x00\x00\x00\x00\x00\x01\x07\x00"
        );
        for components in [&[&b"one"[..]][..], &[b"one", b"", &[7]]] {
            let key = key(components).unwrap();
            assert_eq!(key.components(components.len()).unwrap(), components);
            assert_eq!(key.components(components.len() + 1), None);
        }
        assert_eq!(key(&[]), None);
        assert_eq!(key(&[&[0; 65_536]]), None);
        assert_eq!(key(&[b"a", &[0; 65_536]]), None);
    }

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
