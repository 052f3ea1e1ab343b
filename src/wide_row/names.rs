//! The nouns of a split, each a type of its own so that none is taken for another. Pure.

use std::fmt;

use crate::filter;

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

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The shard of `wide_row` that holds this key: equal ranges of the filter's hash, so that more shards are
    /// parts of fewer.
    pub fn shard(&self, shards: u32) -> i32 {
        // A shard count comes from an int column, so this cannot be cut.
        filter::shard_of(filter::hash(&self.0), shards as usize) as i32
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
