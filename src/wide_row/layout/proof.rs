//! What verify found out about the buckets of a generation: facts that readers rely on. Pure.

/// The facts about one generation, as of the second of its comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Seconds since 1970. What had expired before is in no bucket, so a read of an earlier second is the original's.
    pub as_of: i64,
    /// The regular columns that in each row live as long as any other cell of the row. A read that selects one of them
    /// finds the same rows in the buckets as in the original, at any second.
    pub anchors: Vec<String>,
    /// One for each bucket.
    pub buckets: Vec<BucketProof>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketProof {
    pub row_count: u64,
    /// The first second in which a cell or a row marker expires, if any does.
    pub first_expiry: Option<i64>,
    /// The first second in which a row has lost one column, or never had it, while another lives on. From then on the
    /// original may hide the row from reads that do not select the living column, and the copy does not.
    pub uneven_from: Option<i64>,
    /// Of its rows; equal for the original and the copy.
    pub checksum: [u8; 16],
}

/// A proof is about buckets of one number only.
impl Proof {
    pub fn fits(&self, buckets: usize) -> bool {
        self.buckets.len() == buckets
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        let anchors = self
            .anchors
            .iter()
            .map(|name| size_of_val(name) + name.len());
        size_of::<Self>() + anchors.sum::<usize>() + size_of_val(self.buckets.as_slice())
    }
}
