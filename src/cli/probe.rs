//! `narrows check`, the part that needs the network: is upstream there, is it a version that Narrows supports, and
//! what would clients see? Binds nothing and changes nothing.

use crate::config::{Config, TopologyMode};
use crate::proxy::Presented;
use crate::tls;
use crate::upstream::UpstreamError;
use crate::upstream::cluster::{Cluster, Node};
use crate::upstream::connection::Connection;
use crate::upstream::control::{read_cluster, resolve};
use crate::upstream::dial::Dialer;

/// The oldest Cassandra that Narrows is tested with.
const MAJOR_MIN: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("{0}")]
    Upstream(#[from] UpstreamError),
    #[error("{0}")]
    Tls(#[from] tls::TlsError),
    #[error(
        "{address} runs Cassandra {version}; Narrows needs 4.0 or newer: 3.x has no protocol v5 and no \
         system.peers_v2, and is not tested. Upgrade the cluster, or connect without Narrows"
    )]
    TooOld {
        address: std::net::SocketAddr,
        version: String,
    },
}

/// Looks at the cluster through the first contact point that answers.
pub async fn probe(config: &Config) -> Result<String, ProbeError> {
    let tls = config
        .upstream
        .tls
        .as_ref()
        .map(tls::load_upstream)
        .transpose()?;
    let dialer = Dialer::new(config.upstream.connect_timeout, tls);
    let mut connection = connect(config, &dialer).await?;
    let cluster = read_cluster(&mut connection, config.upstream.data_center.as_deref()).await?;
    for node in &cluster.nodes {
        supported(node)?;
    }
    Ok(report(config, &cluster))
}

async fn connect(config: &Config, dialer: &Dialer) -> Result<Connection, ProbeError> {
    let mut last = None;
    for address in resolve(&config.upstream.contact_points).await? {
        match Connection::open(dialer, address, config.upstream.credentials.as_ref()).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(last
        .unwrap_or_else(|| UpstreamError::NoneReachable("no address".to_owned()))
        .into())
}

fn supported(node: &Node) -> Result<(), ProbeError> {
    let major = node
        .release_version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major < MAJOR_MIN => Err(ProbeError::TooOld {
            address: node.address,
            version: node.release_version.clone(),
        }),
        _ => Ok(()),
    }
}

fn report(config: &Config, cluster: &Cluster) -> String {
    let mut out = format!(
        "upstream answers: cluster \"{}\", {} node(s), data centre {}\n",
        cluster.name,
        cluster.nodes.len(),
        cluster.data_center
    );
    let network = config.topology.network;
    let mirror = Presented::Mirror {
        network,
        port: config.client.listen.port(),
    };
    for node in &cluster.nodes {
        let Node {
            address,
            data_center,
            rack,
            release_version,
            ..
        } = node;
        out.push_str(&format!(
            "  {address:<22} {data_center}/{rack}, Cassandra {release_version}"
        ));
        if config.topology.mode == TopologyMode::Mirror {
            out.push_str(&format!(
                ", seen by clients at {}",
                mirror.address_of(node.advertised)
            ));
        }
        out.push('\n');
    }
    if !cluster
        .nodes
        .iter()
        .any(|node| node.data_center == cluster.data_center)
    {
        let names: std::collections::BTreeSet<_> =
            cluster.nodes.iter().map(|node| &node.data_center).collect();
        out.push_str(&format!(
            "warning: no node is in upstream.data_center; the cluster has {names:?}\n"
        ));
    }
    let port = config.client.listen.port();
    if config.topology.mode == TopologyMode::Mirror && port != 9042 {
        out.push_str(&format!("note: the Node.js driver needs protocolOptions.port = {port}; with client.listen on port 9042 no driver \
             needs a setting\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(version: &str) -> Node {
        Node {
            host_id: [0; 16],
            address: std::net::SocketAddr::from(([127, 0, 0, 1], 9042)),
            advertised: std::net::Ipv4Addr::LOCALHOST.into(),
            data_center: "dc1".to_owned(),
            rack: "r1".to_owned(),
            release_version: version.to_owned(),
            tokens: Vec::new(),
            up: true,
        }
    }

    #[test]
    fn refuses_versions_before_4_with_the_reason() {
        for version in ["2.2.19", "3.0.30", "3.11.17"] {
            let error = supported(&node(version)).expect_err("too old").to_string();
            assert!(
                error.contains(version) && error.contains("4.0 or newer"),
                "{error}"
            );
        }
        for version in ["4.0.13", "4.1.10", "5.0.6", "5.1-SNAPSHOT", "unknown"] {
            assert!(supported(&node(version)).is_ok(), "{version}");
        }
    }
}
