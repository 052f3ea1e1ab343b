//! What drivers see of the cluster: the columns of the topology tables that are overridden, and their values. Pure.
//!
//! An address that a driver would dial is never a real one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::Network;
use crate::protocol::response::event::ip_from_bytes;
use crate::protocol::response::result::{Row, Rows, value};
use crate::statement::topology::TopologyTable;
use crate::upstream::cluster::Cluster;

/// How the cluster is presented to one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presented {
    /// One node, the proxy itself.
    Single { address: SocketAddr },
    /// Every node at an address of its own on one port.
    Mirror { network: Network, port: u16 },
}

/// A column's value as the client sees it: encoded, and as a CQL literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Presentation {
    pub(super) bytes: Vec<u8>,
    pub(super) literal: String,
}

pub(super) type Overrides = Vec<(&'static str, Presentation)>;

/// The columns that hold a node's address.
fn address_columns(table: TopologyTable) -> &'static [&'static str] {
    match table {
        TopologyTable::Local => &["rpc_address", "broadcast_address", "listen_address"],
        TopologyTable::Peers => &["peer", "rpc_address", "preferred_ip"],
        TopologyTable::PeersV2 => &["peer", "native_address", "preferred_ip"],
    }
}

fn port_columns(table: TopologyTable) -> &'static [&'static str] {
    match table {
        TopologyTable::Local => &["rpc_port", "broadcast_port", "listen_port"],
        TopologyTable::Peers => &[],
        TopologyTable::PeersV2 => &["peer_port", "native_port", "preferred_port"],
    }
}

/// In a ring of one node any token means the same, so one that never changes is enough.
const SINGLE_TOKEN: &str = "0";

impl Presented {
    /// The address at which the client reaches a node. In `single`, this is always the proxy's.
    pub fn address_of(&self, real: IpAddr) -> SocketAddr {
        match self {
            Self::Single { address } => *address,
            Self::Mirror { network, port } => {
                SocketAddr::new(mirrored(*network, real).into(), *port)
            }
        }
    }

    /// The columns of a row that are overridden. Null columns stay null.
    pub(super) fn overrides(
        &self,
        table: TopologyTable,
        rows: &Rows,
        row: &Row,
        home: Option<&Home>,
    ) -> Overrides {
        let get = |name: &str| value(&rows.names, row, name);
        // Every row of the peers tables has at least `peer`, which is part of the key.
        let columns = ["native_address", "rpc_address", "peer", "broadcast_address"];
        let real = columns
            .iter()
            .find_map(|column| get(column))
            .and_then(ip_from_bytes);
        let address = self.address_of(real.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let mut overrides = Vec::new();
        for column in address_columns(table) {
            overrides.push((*column, inet(address.ip())));
        }
        for column in port_columns(table) {
            overrides.push((*column, int(address.port().into())));
        }
        if let Self::Single { address } = self {
            let cluster = get("cluster_name").unwrap_or_default();
            overrides.push(("host_id", uuid(invented_host_id(cluster, *address))));
            overrides.push(("tokens", text_set(SINGLE_TOKEN)));
            if let Some(home) = home {
                overrides.push(("data_center", text(&home.data_center)));
                overrides.push(("rack", text(&home.rack)));
            }
        }
        overrides.retain(|(column, _)| get(column).is_some());
        overrides
    }
}

/// The data centre and rack of the one node that `single` shows: in the preferred data centre, whichever node is behind
/// a connection. A driver that sees another data centre ignores the only node it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    data_center: String,
    rack: String,
}

impl Home {
    /// Takes the rack of the data centre's first node. `None`: the data centre has no known node.
    pub(super) fn of(cluster: &Cluster) -> Option<Self> {
        let local = cluster
            .nodes
            .iter()
            .filter(|node| node.data_center == cluster.data_center);
        let first = local.min_by_key(|node| node.host_id)?;
        Some(Self {
            data_center: first.data_center.clone(),
            rack: first.rack.clone(),
        })
    }
}

/// The network's prefix with the host bits of the real address. An IPv6 address has no meaningful host bits, so a hash
/// of it takes their place.
fn mirrored(network: Network, real: IpAddr) -> Ipv4Addr {
    match real {
        IpAddr::V4(real) => network.mirror(real),
        IpAddr::V6(real) => {
            let hash = fnv1a_128(&[&real.octets()]);
            network.mirror(Ipv4Addr::from_bits((hash >> 64) as u32))
        }
    }
}

/// The host id of the one node that `single` shows. It depends only on the cluster and the listener, so restarts and
/// other upstream nodes do not change it. Otherwise drivers would see their node replaced.
fn invented_host_id(cluster_name: &[u8], address: SocketAddr) -> [u8; 16] {
    let mut id =
        fnv1a_128(&[b"narrows", cluster_name, address.to_string().as_bytes()]).to_be_bytes();
    // RFC 9562 §5.8: version 8 is for custom formats.
    id[6] = id[6] & 0x0F | 0x80;
    id[8] = id[8] & 0x3F | 0x80;
    id
}

/// FNV-1a with 128 bits: stable across builds and versions, which the standard library's hashers are not.
fn fnv1a_128(parts: &[&[u8]]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = parts
        .iter()
        .flat_map(|part| part.iter().chain(std::iter::once(&0)));
    bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

fn inet(ip: IpAddr) -> Presentation {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    Presentation {
        bytes,
        literal: format!("(inet)'{ip}'"),
    }
}

fn int(number: i32) -> Presentation {
    Presentation {
        bytes: number.to_be_bytes().to_vec(),
        literal: format!("(int){number}"),
    }
}

fn uuid(id: [u8; 16]) -> Presentation {
    Presentation {
        bytes: id.to_vec(),
        literal: format!("(uuid){}", uuid_text(id)),
    }
}

fn text(text: &str) -> Presentation {
    Presentation {
        bytes: text.as_bytes().to_vec(),
        literal: format!("(text)'{}'", text.replace('\'', "''")),
    }
}

fn text_set(member: &str) -> Presentation {
    use crate::protocol::types::Write;
    let mut bytes = Vec::new();
    bytes.put_int(1);
    bytes.put_bytes(Some(member.as_bytes()));
    Presentation {
        bytes,
        literal: format!("(set<text>){{'{member}'}}"),
    }
}

fn uuid_text(id: [u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9142);

    #[test]
    fn the_invented_host_id_is_stable() {
        let id = invented_host_id(b"prod", ADDRESS);
        // This literal guards against a change that would make every driver see a new node after an upgrade.
        assert_eq!(uuid_text(id), "76c0fd29-e279-8093-be31-d193ecd52efb");
        assert_ne!(id, invented_host_id(b"test", ADDRESS));
        assert_ne!(
            id,
            invented_host_id(b"prod", SocketAddr::new(ADDRESS.ip(), 9143))
        );
    }

    #[test]
    fn mirrored_addresses_keep_their_host_bits() {
        let network = Network {
            address: Ipv4Addr::new(127, 0, 0, 0),
            prefix_len: 8,
        };
        let mirror = Presented::Mirror {
            network,
            port: 9142,
        };
        let real: IpAddr = "10.1.2.3".parse().expect("an address");
        assert_eq!(mirror.address_of(real).to_string(), "127.1.2.3:9142");
        let v6: IpAddr = "2001:db8::7".parse().expect("an address");
        assert!(mirror.address_of(v6).ip().is_loopback());
    }
}
