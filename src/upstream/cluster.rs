//! What Narrows knows of the cluster: its nodes, as `system.local` and `system.peers` list them. Pure.

use std::net::{IpAddr, SocketAddr};

use crate::protocol::response::event::ip_from_bytes;
use crate::protocol::response::result::{Row, Rows, value};
use crate::protocol::types::Cursor;

pub const LOCAL: &str = "SELECT * FROM system.local WHERE key='local'";
pub const PEERS_V2: &str = "SELECT * FROM system.peers_v2";
pub const PEERS: &str = "SELECT * FROM system.peers";
/// The one partitioner whose tokens we can compute; it is Cassandra's default.
const MURMUR3: &str = "Murmur3Partitioner";

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub host_id: [u8; 16],
    /// Where we reach it.
    pub address: SocketAddr,
    /// The address that it announces to drivers; a different one behind NAT.
    pub advertised: IpAddr,
    pub data_center: String,
    pub rack: String,
    pub release_version: String,
    /// Where its ranges end on the ring of Murmur3Partitioner; empty with any other partitioner.
    pub tokens: Vec<i64>,
    /// Whether it accepts connections.
    pub up: bool,
}

/// The cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    pub name: String,
    /// The data centre that connections prefer.
    pub data_center: String,
    pub nodes: Vec<Node>,
}

impl Cluster {
    pub fn node_at(&self, address: SocketAddr) -> Option<&Node> {
        self.nodes.iter().find(|node| node.address == address)
    }

    pub fn node(&self, host_id: [u8; 16]) -> Option<&Node> {
        self.nodes.iter().find(|node| node.host_id == host_id)
    }

    /// Reads the rows of both tables. Rows that lack what a driver needs are skipped, as drivers do.
    pub fn read(
        local: &Rows,
        peers: &Rows,
        dialled: SocketAddr,
        data_center: Option<&str>,
    ) -> Option<Self> {
        let first = local.rows.first()?;
        let mut own = read_node(&local.names, first, dialled.port())?;
        // In some networks a node is reached at another address than it announces; the one that worked is right.
        own.address = dialled;
        let text = |name| {
            local
                .first(name)
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let data_center = data_center.map_or_else(|| own.data_center.clone(), str::to_owned);
        let others = peers
            .rows
            .iter()
            .filter_map(|row| read_node(&peers.names, row, dialled.port()));
        let mut nodes: Vec<Node> = std::iter::once(own).chain(others).collect();
        if !text("partitioner").is_some_and(|name| name.ends_with(MURMUR3)) {
            nodes.iter_mut().for_each(|node| node.tokens.clear());
        }
        Some(Self {
            name: text("cluster_name")?,
            data_center,
            nodes,
        })
    }
}

fn read_node(names: &[String], row: &Row, default_port: u16) -> Option<Node> {
    let get = |name: &str| value(names, row, name);
    let text = |name: &str| get(name).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    let int = |name: &str| {
        get(name)
            .and_then(|bytes| bytes.try_into().ok())
            .map(i32::from_be_bytes)
    };
    let inet = |name: &str| get(name).and_then(ip_from_bytes);
    let ip = inet("native_address").or_else(|| inet("rpc_address"))?;
    let port = int("native_port")
        .or_else(|| int("rpc_port"))
        .and_then(|port| u16::try_from(port).ok());
    Some(Node {
        host_id: get("host_id")?.try_into().ok()?,
        address: SocketAddr::new(ip, port.unwrap_or(default_port)),
        advertised: ip,
        data_center: text("data_center")?,
        rack: text("rack")?,
        release_version: text("release_version").unwrap_or_default(),
        tokens: get("tokens").and_then(tokens).unwrap_or_default(),
        up: true,
    })
}

/// Tokens from a `set<text>`. `None` if Murmur3Partitioner did not write them.
fn tokens(bytes: &[u8]) -> Option<Vec<i64>> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count("set").ok()?;
    let mut tokens = Vec::new();
    for _ in 0..count {
        let text = cursor.long_string().ok()?;
        tokens.push(text.parse().ok()?);
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::types::Write;

    fn set(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_int(texts.len() as i32);
        for text in texts {
            bytes.put_long_string(text);
        }
        bytes
    }

    #[test]
    fn reads_tokens_and_refuses_those_of_other_partitioners() {
        assert_eq!(tokens(&set(&[])), Some(vec![]));
        let extremes = ["-9223372036854775808", "0", "9223372036854775807"];
        assert_eq!(tokens(&set(&extremes)), Some(vec![i64::MIN, 0, i64::MAX]));
        let random = "85070591730234615865843651857942052864";
        assert_eq!(tokens(&set(&["1", random])), None);
        let whole = set(&["12", "34"]);
        for end in 0..whole.len() {
            assert_eq!(tokens(&whole[..end]), None, "{end}");
        }
    }
}
