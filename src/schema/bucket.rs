//! Buckets: the narrow partitions that hold the rows of a wide one, and the columns that identify them in split tables.
//! Pure.

use std::fmt;

/// The columns of a split table that no client ever sees.
pub const GENERATION: &str = "narrows_generation";
pub const BUCKET: &str = "narrows_bucket";

/// One narrow partition: a contiguous range of the original's rows.
#[derive(Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The serialized clustering values of its first row; empty in bucket 0, which begins where the partition does.
    pub first: Vec<Box<[u8]>>,
    pub row_count: u64,
    pub byte_count: u64,
    /// Its generation and number in the split table. `None`: the generation of its layout, and its place there.
    pub home: Option<(i32, i32)>,
}

/// Boundaries are a client's data: only their number is shown.
impl fmt::Debug for Bucket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Bucket")
            .field("first", &format_args!("{} values", self.first.len()))
            .field("row_count", &self.row_count)
            .field("byte_count", &self.byte_count)
            .finish()
    }
}
