//! A partition of a table by its fingerprint, so that what is remembered has the same size whatever its key.

use twox_hash::XxHash3_64;

use crate::schema::names::{PartitionKey, TableName};

/// Two partitions with the same fingerprint are not met in practice; one would be reported for the other, and found narrow.
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
