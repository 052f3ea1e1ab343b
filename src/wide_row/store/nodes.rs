//! What Cassandra says of itself: of a table its schema, of a node its schema version and when it truncated which table.
//! TRUNCATE sends no event.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Store, StoreError, not_understood};
use crate::filter;
use crate::wide_row::names::TableName;

/// A node that hangs must not hold up the others' news.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
const LOCAL: &str = "SELECT host_id, schema_version, truncated_at FROM system.local";

const TABLE: &str =
    "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
/// In the order of their names.
const COLUMNS: &str = "SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns \
    WHERE keyspace_name = ? AND table_name = ?";

/// One node's own words.
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

async fn read_node(
    session: Arc<scylla::client::session::Session>,
    host_id: Uuid,
) -> Result<NodeFacts, StoreError> {
    let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(host_id), None);
    let mut statement = Statement::new(LOCAL);
    statement.set_load_balancing_policy(Some(target));
    statement.set_consistency(Consistency::One);
    statement.set_request_timeout(Some(NODE_TIMEOUT));
    let result = session.query_unpaged(statement, ()).await?;
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

/// A record is a commit log position and then, in its last eight bytes, the time.
fn truncated_millis(record: &[u8]) -> Option<i64> {
    let last = record.last_chunk::<8>()?;
    Some(i64::from_be_bytes(*last))
}

/// What the schema says of a table; nothing if it does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Described {
    pub table_id: Option<Uuid>,
    /// A fingerprint of its columns: their names, kinds, places and types.
    pub columns: Option<i64>,
}

impl Store {
    pub async fn describe(&self, table: &TableName) -> Result<Described, StoreError> {
        let names = (table.keyspace.as_str(), table.table.as_str());
        let result = self.session.query_unpaged(TABLE, names).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let id = rows.maybe_first_row::<(Uuid,)>().map_err(not_understood)?;
        let Some((table_id,)) = id else {
            return Ok(Described::default());
        };
        let result = self.session.query_unpaged(COLUMNS, names).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let mut text = String::new();
        type Column = (String, String, i32, String, String);
        for row in rows.rows::<Column>().map_err(not_understood)? {
            let column = row.map_err(not_understood)?;
            text.push_str(&format!("{column:?}"));
        }
        Ok(Described {
            table_id: Some(table_id),
            columns: Some(filter::hash(text.as_bytes()) as i64),
        })
    }
}
