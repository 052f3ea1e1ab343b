//! Verify: proves that the buckets of one generation hold exactly what the original partition holds.
//!
//! It streams both sides in clustering order and compares every cell with its write time and expiry, every row's place,
//! and how long rows live. It shares no code with the copier but the requests and the halving of ranges, so that one
//! mistake cannot be made twice. It writes nothing, and holds one page of each side, however large the partition is.

mod checked;
mod checksum;
mod compare;
mod difference;
mod facts;
mod lifetime;
mod pass;
mod reader;
mod restriction;
mod row;
mod stream;
mod stretch;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::time::Duration;

pub use self::checked::Checked;
pub use self::difference::{Difference, DifferenceKind};

use self::pass::Pass;
use self::reader::Reader;
use crate::pipeline::original::requests::Requests;
use crate::schema::names::PartitionKey;
use crate::schema::{TableSchema, order as value_order};
use crate::upstream::pool::PoolError;
use crate::wide_row::layout::{Layout, Proof};

/// One generation to be proven.
pub struct Verification<'a> {
    pub requests: &'a Requests,
    /// Schema of the original.
    pub schema: &'a TableSchema,
    pub key: &'a PartitionKey,
    pub layout: &'a Layout,
    /// The seconds since 1970 at which both sides are read.
    pub now: i32,
    pub patience: Patience,
    /// Where to resume; the default is the beginning.
    pub from: Checked,
    /// Called now and then with what has been found equal so far.
    pub progress: &'a dyn Fn(&Checked),
}

/// How long verify waits for temporary trouble to pass.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// When a row that differs is read again, counted from when the difference was seen.
    pub reread: [Duration; 3],
    /// Pause before a failed read is retried; longer each time.
    pub retry: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            reread: [0, 5, 30].map(Duration::from_secs),
            retry: Duration::from_secs(1),
        }
    }
}

/// What both sides hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub row_count: u64,
    pub cell_count: u64,
    /// Bytes of clustering values and cells.
    pub byte_count: u64,
    /// Computed of each side by itself, and found to be the same.
    pub checksum: [u8; 16],
    pub bucket_checksums: Vec<[u8; 16]>,
    /// What readers may rely on.
    pub proof: Proof,
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("the copy differs: {0}")]
    Differs(Difference),
    #[error("a read failed: {0}")]
    Request(#[from] PoolError),
    #[error("the partition key does not fit this table")]
    Key,
    #[error("the layout's buckets do not follow each other in clustering order")]
    Layout,
    #[error("the rows are not in a known clustering order")]
    Order,
    #[error(
        "no cell differs, but the checksums of original and copy do, so the comparison itself is wrong; please report this"
    )]
    Checksum,
    #[error("a reply was not understood")]
    NotUnderstood,
}

impl Verification<'_> {
    /// Returns what both sides hold if they are equal, or else the first difference.
    pub async fn run(&self) -> Result<Verified, VerifyError> {
        self.check_layout()?;
        let reader = Reader::new(self)?;
        Pass::new(&reader).run().await
    }

    /// Checks that every boundary is a whole clustering key, and comes after the one before it.
    fn check_layout(&self) -> Result<(), VerifyError> {
        let boundaries = self.layout.buckets.get(1..).ok_or(VerifyError::Layout)?;
        let columns = self.schema.clustering.len();
        let is_whole = boundaries
            .iter()
            .all(|bucket| bucket.first.len() == columns);
        if !is_whole || !self.layout.is_sound() {
            return Err(VerifyError::Layout);
        }
        for pair in boundaries.windows(2) {
            let keys = pair.iter().map(|bucket| bucket.first.iter());
            let keys: Vec<Vec<&[u8]>> = keys.map(|key| key.map(|v| &**v).collect()).collect();
            if !order(self.schema, &keys[0], &keys[1])?.is_lt() {
                return Err(VerifyError::Layout);
            }
        }
        Ok(())
    }
}

/// The order of two whole clustering keys.
fn order(schema: &TableSchema, a: &[&[u8]], b: &[&[u8]]) -> Result<Ordering, VerifyError> {
    value_order::compare_clustering(&schema.clustering, a, b).ok_or(VerifyError::Order)
}
