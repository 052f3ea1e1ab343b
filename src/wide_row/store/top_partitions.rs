//! The largest partitions that each node found in its last repair: `system.top_partitions`, a table local to each node.
//!
//! A node fills it (4.1 and later) from what full and validating repairs read, at most once an hour. Keys are stored as
//! text.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Store, StoreError, not_understood};
use crate::schema::names::TableName;
use crate::sighting::Top;

/// A node that hangs is asked again next time.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Far more than the 10 of each kind that a node lists by default.
const LISTED_MAX: usize = 1000;
const LIST: &str =
    "SELECT top_type, top FROM system.top_partitions WHERE keyspace_name = ? AND table_name = ?";

/// One partition on a node's list. Its key is a client's data, so there is no `Debug`.
pub struct TopPartition {
    /// As Cassandra prints it.
    pub key: String,
    pub top: Top,
}

/// The lists of all nodes for one table.
#[derive(Default)]
pub struct TopPartitions {
    pub partitions: Vec<TopPartition>,
    /// The error of a node whose list is missing.
    pub failed: Option<StoreError>,
}

impl Store {
    /// Asks every node that we are connected to, at once.
    pub async fn read_top_partitions(&self, table: &TableName) -> TopPartitions {
        let mut asked = JoinSet::new();
        for node in self.session.get_cluster_state().get_nodes_info() {
            if node.is_connected() {
                asked.spawn(read_node(self.session.clone(), node.host_id, table.clone()));
            }
        }
        let mut all = TopPartitions::default();
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(partitions)) => all.partitions.extend(partitions),
                Ok(Err(error)) => all.failed = Some(error),
                Err(_) => {}
            }
        }
        all
    }
}

async fn read_node(
    session: Arc<Session>,
    host_id: Uuid,
    table: TableName,
) -> Result<Vec<TopPartition>, StoreError> {
    let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(host_id), None);
    let mut statement = Statement::new(LIST);
    statement.set_load_balancing_policy(Some(target));
    statement.set_consistency(Consistency::One);
    statement.set_request_timeout(Some(NODE_TIMEOUT));
    let names = (table.keyspace.as_str(), table.table.as_str());
    let result = session.query_unpaged(statement, names).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    type Row = (String, Option<Vec<(Option<String>, Option<i64>)>>);
    let mut partitions = Vec::new();
    for row in rows.rows::<Row>().map_err(not_understood)? {
        let (kind, listed) = row.map_err(not_understood)?;
        let kind: fn(u64) -> Top = match kind.as_str() {
            "SIZES" => Top::Bytes,
            "TOMBSTONES" => Top::Tombstones,
            _ => continue,
        };
        let listed = listed.unwrap_or_default().into_iter().take(LISTED_MAX);
        partitions.extend(listed.filter_map(|(key, count)| {
            let top = kind(u64::try_from(count?).ok()?);
            Some(TopPartition { key: key?, top })
        }));
    }
    Ok(partitions)
}
