//! Holds the reply to a schema change until the cluster agrees on the new schema.
//!
//! Drivers wait for agreement by reading `system.peers`. Through `single` that table is empty, so they do not wait, and
//! their next statement could reach a node that does not know the new schema yet.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::shared::Proxy;
use super::wire::Wire;
use crate::config::TopologyMode;
use crate::protocol::header::opcode;
use crate::protocol::response::event::ip_from_bytes;
use crate::protocol::response::result::{self, value};
use crate::protocol::{Envelope, Header, response};

const LOCAL: &str = "SELECT schema_version FROM system.local WHERE key='local'";
const PEERS: &str = "SELECT rpc_address, schema_version FROM system.peers";
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Whether the proxy must wait. Drivers that see all nodes wait by themselves.
pub(super) fn is_ours(proxy: &Proxy) -> bool {
    proxy.config.topology.mode == TopologyMode::Single
}

pub(super) fn is_schema_change(header: Header, body: &[u8]) -> bool {
    let kind = || response::message(header, body)?.int();
    header.opcode == opcode::RESULT && kind() == Ok(result::kind::SCHEMA_CHANGE)
}

/// Returns the reply unchanged once the nodes agree or the time is up.
pub(super) async fn wait(wire: &Wire, reply: Envelope) -> Envelope {
    let patience = wire.proxy.config.limits.schema_agreement_timeout;
    if patience.is_zero() {
        return reply;
    }
    wire.proxy.metrics.held_schema_changes.increment(1);
    let deadline = Instant::now() + patience;
    let agreement = async {
        while agree(wire).await == Some(false) {
            sleep(POLL_EVERY).await;
        }
    };
    if timeout_at(deadline, agreement).await.is_err() {
        tracing::warn!(
            "nodes do not agree on the schema yet, answering the client's statement anyway"
        );
    }
    reply
}

/// Whether all live nodes report one schema version. `None`: upstream did not say.
async fn agree(wire: &Wire) -> Option<bool> {
    let local = wire.ask_rows(LOCAL).await?;
    let peers = wire.ask_rows(PEERS).await?;
    let version = local.first("schema_version")?;
    for row in &peers.rows {
        let schema = value(&peers.names, row, "schema_version");
        let address = value(&peers.names, row, "rpc_address").and_then(ip_from_bytes);
        // Rows without these are remnants of nodes that left; drivers skip them as well.
        let (Some(schema), Some(address)) = (schema, address) else {
            continue;
        };
        if schema != version && is_up(wire, address).await {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether a node is up. A dead node must not hold up every schema change.
async fn is_up(wire: &Wire, address: IpAddr) -> bool {
    let proxy = &wire.proxy;
    let cluster = proxy.balance.cluster();
    match cluster.nodes.iter().find(|node| node.advertised == address) {
        Some(node) => {
            // It may have died just now, so ask the control connection to check the nodes.
            proxy.suspicion.notify_one();
            node.up
        }
        None => {
            proxy
                .dialer
                .answers(SocketAddr::new(address, wire.upstream_address.port()))
                .await
        }
    }
}
