//! The layout of a split: which buckets a generation has and where each begins. It is all that a reader needs.
//!
//! It is written once per generation and never changed, so no copy of it can be out of date. When verify has proven the
//! buckets, their [`Proof`] joins it, and the key's own row names the [`Seal`] of both: a reader takes no other layout
//! for this one, wherever it found it. Pure; `codec` is its form as bytes.

mod codec;
mod proof;
#[cfg(test)]
mod tests;

pub use proof::{BucketProof, Proof};

use std::fmt::{self, Write as _};

use super::names::Generation;
use crate::schema::bucket::Bucket;
use crate::schema::names::{PartitionKey, TableName};

/// Maximum number of buckets. Strategies stay far below it; it bounds the cost of a wrong number.
pub const BUCKETS_MAX: usize = 4096;
/// Maximum size of an encoded layout: above the largest layout with usual clustering keys, and small enough to hold in
/// memory.
pub const LAYOUT_BYTES_MAX: usize = 4 << 20;

/// Why bytes are not the requested layout, or why a layout cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("the value is not a layout")]
    NotALayout,
    #[error("the layout has format version {0}, which this version cannot read")]
    OtherVersion(u8),
    #[error("the layout is damaged")]
    Damaged,
    #[error("the layout is not the one that was proven")]
    OtherSeal,
    #[error("the layout belongs to another partition or generation")]
    Foreign,
    #[error("the layout exceeds {LAYOUT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the layout has a horizon, which this version cannot serve")]
    Horizon,
}

/// Identifies a layout: one attempt at the split of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LayoutId {
    pub table: TableName,
    pub key: PartitionKey,
    pub generation: Generation,
}

impl LayoutId {
    /// The key of this layout in a cache that many proxies share, perhaps proxies of several clusters: `scope` tells
    /// these apart.
    pub fn shared_key(&self, scope: &str) -> String {
        let Self {
            table,
            key,
            generation,
        } = self;
        let mut text = format!("narrows:v2:{scope}:layout:{table}:");
        text.reserve(2 * key.bytes().len() + 12);
        for byte in key.bytes() {
            write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        }
        write!(text, ":{generation}").expect("writing to a string cannot fail");
        text
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        let Self { table, key, .. } = self;
        size_of::<Self>() + table.keyspace.len() + table.table.len() + key.bytes().len()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The original.
    pub table: TableName,
    pub key: PartitionKey,
    pub generation: Generation,
    /// The table that holds the buckets, in the original's keyspace.
    pub split_table: String,
    /// The name of the strategy that chose the boundaries.
    pub strategy: String,
    /// In clustering order.
    pub buckets: Vec<Bucket>,
    /// The value of the first clustering column at which the original takes over. `None`: the buckets hold all rows.
    pub horizon: Option<Box<[u8]>>,
    /// Set once the buckets are proven, by a version that records that.
    proven: Option<Box<Proven>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Proven {
    proof: Proof,
    seal: Seal,
}

/// The SHA-256 of a proven layout as bytes. Nobody can make another layout with the same seal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seal(pub [u8; 32]);

/// In hexadecimal, as cqlsh shows it.
impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl Layout {
    /// A layout of these buckets, not proven yet.
    pub fn new(
        id: LayoutId,
        split_table: impl Into<String>,
        strategy: impl Into<String>,
        buckets: Vec<Bucket>,
    ) -> Self {
        let LayoutId {
            table,
            key,
            generation,
        } = id;
        Self {
            table,
            key,
            generation,
            split_table: split_table.into(),
            strategy: strategy.into(),
            buckets,
            horizon: None,
            proven: None,
        }
    }

    pub fn unproven(self) -> Self {
        Self {
            proven: None,
            ..self
        }
    }

    /// Only a layout whose buckets hold all rows can be served: this version asks nobody else.
    pub fn served(self) -> Result<Self, LayoutError> {
        match self.horizon {
            None => Ok(self),
            Some(_) => Err(LayoutError::Horizon),
        }
    }

    pub fn proof(&self) -> Option<&Proof> {
        self.proven.as_ref().map(|proven| &proven.proof)
    }

    /// `None` for a layout that is not proven.
    pub fn seal(&self) -> Option<Seal> {
        self.proven.as_ref().map(|proven| proven.seal)
    }

    /// The key of a bucket in the split table: its generation and its number.
    pub fn home(&self, index: usize) -> (i32, i32) {
        let bucket = self.buckets.get(index);
        let own = (self.generation.0, i32::try_from(index).unwrap_or(i32::MAX));
        bucket.and_then(|bucket| bucket.home).unwrap_or(own)
    }

    pub fn id(&self) -> LayoutId {
        LayoutId {
            table: self.table.clone(),
            key: self.key.clone(),
            generation: self.generation,
        }
    }

    pub fn is_of(&self, id: &LayoutId) -> bool {
        self.generation == id.generation && self.key == id.key && self.table == id.table
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        let values = self.buckets.iter().flat_map(|bucket| &bucket.first);
        let values: usize = values.map(|value| size_of_val(value) + value.len()).sum();
        size_of::<Self>()
            + self.table.keyspace.len()
            + self.table.table.len()
            + self.key.bytes().len()
            + self.split_table.len()
            + self.strategy.len()
            + size_of_val(self.buckets.as_slice())
            + values
            + self.horizon.as_ref().map_or(0, |value| value.len())
            + self.proof().map_or(0, Proof::bytes)
    }

    /// Whether the buckets are consistent: 1 to [`BUCKETS_MAX`] of them, the first without a boundary, all others with
    /// boundaries of equally many values.
    pub fn is_sound(&self) -> bool {
        let Some((head, tail)) = self.buckets.split_first() else {
            return false;
        };
        let values = tail.first().map_or(1, |bucket| bucket.first.len());
        self.buckets.len() <= BUCKETS_MAX
            && head.first.is_empty()
            && values > 0
            && tail.iter().all(|bucket| bucket.first.len() == values)
    }
}
