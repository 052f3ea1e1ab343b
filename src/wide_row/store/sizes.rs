//! What nodes report about the sizes of a table's partitions, and about the tokens that spread them over the ring.

use std::time::Duration;

use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};

use super::{Store, StoreError, not_understood};
use crate::schema::names::TableName;

/// A node that hangs is skipped: the answers of the others are enough.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// A virtual table: each node answers for its own SSTables.
const LARGEST: &str = "SELECT mebibytes FROM system_views.max_partition_size WHERE keyspace_name = ? AND table_name = ?";
const PARTITIONER: &str = "SELECT partitioner FROM system.local";

impl Store {
    /// Approximate size in bytes of the largest partition that any node has in one SSTable. Data that is only in
    /// memtables, or spread over several SSTables, is not included. `None` if no node says.
    pub async fn largest_partition(&self, table: &TableName) -> Option<u64> {
        let cluster = self.session.get_cluster_state();
        let nodes = cluster.get_nodes_info().iter();
        let nodes = nodes.filter(|node| node.is_connected());
        let mut largest = None;
        for node in nodes {
            let target = NodeIdentifier::HostId(node.host_id);
            let mut statement = Statement::new(LARGEST);
            let policy = SingleTargetLoadBalancingPolicy::new(target, None);
            statement.set_load_balancing_policy(Some(policy));
            statement.set_consistency(Consistency::One);
            statement.set_request_timeout(Some(NODE_TIMEOUT));
            let names = (table.keyspace.as_str(), table.table.as_str());
            let Ok(result) = self.session.query_unpaged(statement, names).await else {
                continue;
            };
            let rows = result.into_rows_result().ok();
            let row = rows.and_then(|rows| rows.maybe_first_row::<(Option<i64>,)>().ok()?);
            let mebibytes = row.and_then(|(mebibytes,)| u64::try_from(mebibytes?).ok());
            largest = largest.max(mebibytes.map(|count| count.saturating_mul(1 << 20)));
        }
        largest
    }

    /// Whether tokens are 64-bit numbers, as they are by default.
    pub async fn has_murmur3_tokens(&self) -> Result<bool, StoreError> {
        let result = self.session.query_unpaged(PARTITIONER, ()).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let (name,) = rows.first_row::<(String,)>().map_err(not_understood)?;
        Ok(name.ends_with("Murmur3Partitioner"))
    }
}
