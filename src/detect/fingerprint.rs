//! Identifies a partition of a table by a fingerprint, whose size does not depend on the length of the key.

use twox_hash::XxHash3_64;

use crate::schema::names::{PartitionKey, TableName};

/// With 128 bits, collisions do not occur in practice. In one, a partition could be reported in place of another, and
/// `plan` would find it narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PartitionFingerprint(u64, u64);

impl PartitionFingerprint {
    pub(super) fn new(table: &TableName, key: &PartitionKey) -> Self {
        let seed = table_fingerprint(table);
        let hash = |seed: u64| XxHash3_64::oneshot_with_seed(seed, key.bytes());
        Self(hash(seed), hash(!seed))
    }
}

pub(super) fn table_fingerprint(table: &TableName) -> u64 {
    let keyspace = XxHash3_64::oneshot(table.keyspace.as_bytes());
    XxHash3_64::oneshot_with_seed(keyspace, table.table.as_bytes())
}
