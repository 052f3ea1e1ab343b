//! What each node reports about itself: its schema version, and when it truncated which table. TRUNCATE sends no event.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Store, StoreError, not_understood};

/// A node that hangs must not delay the answers of the others.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
const LOCAL: &str = "SELECT host_id, schema_version, truncated_at FROM system.local";

/// What one node reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    pub host_id: Uuid,
    pub schema_version: Option<Uuid>,
    /// By table id, in milliseconds since 1970.
    pub truncated_at: HashMap<Uuid, i64>,
}

impl Store {
    /// Asks every node that we are connected to, at once. Nodes that do not answer are left out: a TRUNCATE or a schema
    /// change reaches all nodes, so one that answers is enough to notice.
    pub async fn read_nodes(&self) -> Vec<NodeFacts> {
        let mut asked = JoinSet::new();
        for node in self.session.get_cluster_state().get_nodes_info() {
            if node.is_connected() {
                asked.spawn(read_node(self.session.clone(), node.host_id));
            }
        }
        let mut facts = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(node)) = answer {
                facts.push(node);
            }
        }
        facts
    }
}

/// The name that all nodes of a cluster have in common.
pub(super) async fn cluster_name(session: &Session) -> Result<String, StoreError> {
    let text = "SELECT cluster_name FROM system.local";
    let result = session.query_unpaged(text, ()).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    let (name,) = rows.first_row::<(String,)>().map_err(not_understood)?;
    Ok(name)
}

async fn read_node(session: Arc<Session>, host_id: Uuid) -> Result<NodeFacts, StoreError> {
    let result = session.query_unpaged(to_node(LOCAL, host_id), ()).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    type Row = (Uuid, Option<Uuid>, Option<HashMap<Uuid, Vec<u8>>>);
    let (host_id, schema_version, truncated) = rows.first_row::<Row>().map_err(not_understood)?;
    let truncated_at = truncated.unwrap_or_default();
    Ok(NodeFacts {
        host_id,
        schema_version,
        truncated_at: truncated_at
            .into_iter()
            .filter_map(|(table, record)| Some((table, truncated_millis(&record)?)))
            .collect(),
    })
}

/// A statement that only this node answers, from tables of its own.
pub(super) fn to_node(text: &str, host_id: Uuid) -> Statement {
    let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(host_id), None);
    let mut statement = Statement::new(text);
    statement.set_load_balancing_policy(Some(target));
    statement.set_consistency(Consistency::One);
    statement.set_request_timeout(Some(NODE_TIMEOUT));
    statement
}

/// A record is a commit log position and then, in its last eight bytes, the time.
fn truncated_millis(record: &[u8]) -> Option<i64> {
    let last = record.last_chunk::<8>()?;
    Some(i64::from_be_bytes(*last))
}
