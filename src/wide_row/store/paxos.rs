//! How near versions may be read. An LWT of ours commits at EACH_QUORUM where the control keyspace spans several data
//! centres. Paxos v1 then waits for a quorum in each of them, so LOCAL_QUORUM sees every acknowledged change. Paxos v2
//! (`paxos_variant`, since 4.1) waits for as many replicas, but counts them wherever they are (Cassandra's
//! `PaxosCommit`): LOCAL_QUORUM may miss a change, QUORUM may not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::nodes::to_node;
use super::{Store, StoreError, not_understood};

const VARIANT: &str = "SELECT value FROM system_views.settings WHERE name = 'paxos_variant'";

/// The setting in `fleet`: the fingerprint of the nodes that all run Paxos v1.
const PAXOS_V1: &str = "paxos_v1";

/// Which nodes are known to run Paxos v1. A node that does not answer counts as what it last said: one that changes its
/// variant by a restart is asked again when it is back.
#[derive(Default)]
pub(super) struct Proven {
    nodes: Mutex<BTreeSet<Uuid>>,
    all: AtomicBool,
}

impl Proven {
    /// `heard`: what nodes have answered, and whether it is v1. Returns whether all nodes run v1, if that has changed.
    fn hear(&self, nodes: &[Uuid], heard: &[(Uuid, bool)]) -> Option<bool> {
        let mut proven = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, is_v1) in heard {
            match is_v1 {
                true => proven.insert(*node),
                false => proven.remove(node),
            };
        }
        proven.retain(|node| nodes.contains(node));
        let all = !nodes.is_empty() && nodes.iter().all(|node| proven.contains(node));
        (self.all.swap(all, Ordering::AcqRel) != all).then_some(all)
    }
}

impl Store {
    /// Asks every node for its variant of Paxos, if it matters. A node that changes it is noticed at the next call.
    pub async fn prove_paxos(&self) {
        if self.statements.commit == Consistency::EachQuorum {
            let (nodes, heard) = self.ask_variants().await;
            self.hear(&nodes, &heard).await;
        }
    }

    /// The same at the start of a process, which may find a data centre away. Nodes that do not answer count as v1 if
    /// another process has heard so of exactly these nodes.
    pub(super) async fn prove_paxos_first(&self) {
        if self.statements.commit != Consistency::EachQuorum {
            return;
        }
        let (nodes, heard) = self.ask_variants().await;
        let recorded = match heard.len() < nodes.len() {
            true => self.read_fleet_nearby(PAXOS_V1).await.ok().flatten(),
            false => None,
        };
        if recorded == Some(fingerprint(&nodes)) {
            let is_silent = |node: &&Uuid| !heard.iter().any(|(heard, _)| heard == *node);
            let silent = nodes.iter().filter(is_silent);
            let told: Vec<_> = silent.map(|node| (*node, true)).collect();
            self.proven.hear(&nodes, &told);
        }
        self.hear(&nodes, &heard).await;
    }

    async fn ask_variants(&self) -> (Vec<Uuid>, Vec<(Uuid, bool)>) {
        let (mut nodes, mut asked) = (Vec::new(), JoinSet::new());
        for node in self.session.get_cluster_state().get_nodes_info() {
            nodes.push(node.host_id);
            if node.is_connected() {
                asked.spawn(runs_v1(self.session.clone(), node.host_id));
            }
        }
        let mut heard = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(answer)) = answer {
                heard.push(answer);
            }
        }
        (nodes, heard)
    }

    async fn hear(&self, nodes: &[Uuid], heard: &[(Uuid, bool)]) {
        let Some(all) = self.proven.hear(nodes, heard) else {
            return;
        };
        if all {
            tracing::info!(
                "all nodes run Paxos v1: the control keyspace's versions are read at LOCAL_QUORUM"
            );
        } else {
            tracing::warn!(
                "not every node is known to run Paxos v1 any more: the control keyspace's versions are read at QUORUM, \
                 across data centres"
            );
        }
        let value = if all { fingerprint(nodes) } else { 0 };
        if let Err(error) = self.write_fleet(PAXOS_V1, value).await {
            tracing::debug!(%error, "which Paxos the nodes run could not be recorded");
        }
    }

    /// A statement that reads versions, with the consistency level that it needs at present.
    pub(super) fn nearby(&self, statement: &PreparedStatement) -> PreparedStatement {
        let mut statement = statement.clone();
        statement.set_consistency(self.nearby_consistency());
        statement
    }

    /// Whether the own data centre alone knows every acknowledged change of a control keyspace that spans several.
    pub fn is_exact_nearby(&self) -> bool {
        let spans = self.statements.commit == Consistency::EachQuorum;
        spans && self.nearby_consistency() == Consistency::LocalQuorum
    }

    /// The consistency level at which versions are read at present.
    pub fn nearby_consistency(&self) -> Consistency {
        let spans = self.statements.commit == Consistency::EachQuorum;
        match spans && !self.proven.all.load(Ordering::Acquire) {
            true => Consistency::Quorum,
            false => Consistency::LocalQuorum,
        }
    }
}

/// Of the nodes as a set.
fn fingerprint(nodes: &[Uuid]) -> i64 {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    let bytes: Vec<u8> = nodes.iter().flat_map(|node| *node.as_bytes()).collect();
    crate::filter::hash(&bytes).cast_signed()
}

async fn runs_v1(session: Arc<Session>, node: Uuid) -> Result<(Uuid, bool), StoreError> {
    let result = session.query_unpaged(to_node(VARIANT, node), ()).await?;
    let rows = result.into_rows_result().map_err(not_understood)?;
    type Row = (Option<String>,);
    let row = rows.maybe_first_row::<Row>().map_err(not_understood)?;
    Ok((node, is_v1(row)))
}

/// Cassandra 4.0 has no such setting, and no other variant.
fn is_v1(row: Option<(Option<String>,)>) -> bool {
    row.is_none_or(|(value,)| value.is_some_and(|value| value.starts_with("v1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_nearby_only_while_every_node_is_known_to_run_v1() {
        let [one, two, three] = [1, 2, 3].map(Uuid::from_u128);
        let proven = Proven::default();
        assert_eq!(proven.hear(&[], &[]), None);
        assert_eq!(proven.hear(&[one, two], &[(one, true)]), None);
        assert_eq!(proven.hear(&[one, two], &[(two, true)]), Some(true));
        // A node that is down stays what it was.
        assert_eq!(proven.hear(&[one, two], &[]), None);
        let heard = [(one, true), (two, false)];
        assert_eq!(proven.hear(&[one, two], &heard), Some(false));
        assert_eq!(proven.hear(&[one], &[]), Some(true));
        assert_eq!(proven.hear(&[one, three], &[]), Some(false));
        assert_eq!(proven.hear(&[one, two], &[]), None, "it was forgotten");
    }

    #[test]
    fn only_a_setting_that_is_not_there_or_names_v1_is_v1() {
        let row = |value: &str| Some((Some(value.to_owned()),));
        assert!(is_v1(None) && is_v1(row("v1")));
        assert!(is_v1(row(
            "v1_without_linearizable_reads_or_rejected_writes"
        )));
        assert!(!is_v1(row("v2")) && !is_v1(row("v2_without_linearizable_reads")));
        assert!(!is_v1(row("v3")) && !is_v1(Some((None,))));
    }
}
