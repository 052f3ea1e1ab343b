//! Opens the session for the control keyspace: with Narrows' own role, in its own data centre, and without retries of
//! changes.
//!
//! Changes are neither retried nor sent twice: after a lightweight transaction the caller must know the outcome of its
//! own attempt, and a retry would hide that. Reads are marked as idempotent, and go to a second node when the first
//! hangs.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{PoolSize, SelfIdentity};
use scylla::errors::NewSessionError;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::time::timeout;

use crate::config::{Config, Upstream};
use crate::tls;
use crate::upstream::UpstreamError;
use crate::upstream::cluster::Cluster;
use crate::upstream::connection::Connection;
use crate::upstream::control::{read_cluster, resolve};
use crate::upstream::dial::Dialer;

/// Longer than Cassandra itself takes to give up on a request, so that its answer comes first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Time to find all nodes and connect to them, even if some of them hang.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay after which a read also goes to a second node.
const SECOND_NODE_AFTER: Duration = Duration::from_millis(150);
/// How long a schema change may take to reach every node.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{0}")]
    Upstream(#[from] UpstreamError),
    #[error("{0}")]
    Tls(#[from] tls::TlsError),
    #[error("no node is in upstream.data_center {wanted:?}; the cluster has {known:?}")]
    DataCenter {
        wanted: String,
        known: BTreeSet<String>,
    },
    #[error("cannot open a session for the control keyspace: {0}")]
    Session(#[source] Box<NewSessionError>),
    #[error("cannot open a session for the control keyspace: no answer within {BUILD_TIMEOUT:?}")]
    Slow,
}

/// A session for the control keyspace, which need not exist yet. It lives on the runtime that calls this.
pub async fn connect(config: &Config) -> Result<Session, ConnectError> {
    let upstream = &config.upstream;
    let tls = upstream.tls.as_ref().map(tls::load_upstream).transpose()?;
    let cluster = look(upstream, tls.clone()).await?;
    let profile = profile(data_center(&cluster)?);
    let mut builder = SessionBuilder::new()
        .known_nodes(upstream.contact_points.iter().map(ToString::to_string))
        .tls_context(tls)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(upstream.connect_timeout)
        .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
        // The driver needs only this keyspace's schema, to know which nodes have a partition.
        .keyspaces_to_fetch([config.control.keyspace.as_str()])
        .fetch_full_schema_metadata(false)
        .schema_agreement_timeout(AGREEMENT_TIMEOUT)
        .custom_identity(identity())
        .driver_config_reporting(false);
    if let Some(credentials) = &upstream.credentials {
        builder = builder.user(&credentials.username, credentials.password.expose());
    }
    match timeout(BUILD_TIMEOUT, builder.build()).await {
        Ok(session) => session.map_err(|error| ConnectError::Session(Box::new(error))),
        Err(_) => Err(ConnectError::Slow),
    }
}

/// Looks at the cluster through a connection of our own first: it finds the data centre as the proxy does, and its
/// errors name the setting that is wrong.
pub(crate) async fn look(
    upstream: &Upstream,
    tls: Option<Arc<rustls::ClientConfig>>,
) -> Result<Cluster, ConnectError> {
    let dialer = Dialer::new(upstream.connect_timeout, tls);
    let mut last = UpstreamError::NoneReachable("no address".to_owned());
    for address in resolve(&upstream.contact_points).await? {
        match Connection::open(&dialer, address, upstream.credentials.as_ref()).await {
            Ok(mut connection) => {
                let data_center = upstream.data_center.as_deref();
                match read_cluster(&mut connection, data_center).await {
                    Ok(cluster) => return Ok(cluster),
                    Err(error) => last = error,
                }
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// The data centre whose nodes are asked. One without nodes is an error, because every request would fail without
/// saying why.
fn data_center(cluster: &Cluster) -> Result<&str, ConnectError> {
    let wanted = cluster.data_center.as_str();
    let nodes = cluster.nodes.iter();
    let known: BTreeSet<String> = nodes.map(|node| node.data_center.clone()).collect();
    if known.contains(wanted) {
        return Ok(wanted);
    }
    Err(ConnectError::DataCenter {
        wanted: wanted.to_owned(),
        known,
    })
}

/// LOCAL_QUORUM refers to the coordinator's data centre, so no node of another one may coordinate.
fn profile(data_center: &str) -> ExecutionProfile {
    let balancing = DefaultPolicy::builder()
        .prefer_datacenter(data_center.to_owned())
        .token_aware(true)
        .permit_dc_failover(false)
        .build();
    ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(REQUEST_TIMEOUT))
        .load_balancing_policy(balancing)
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
            max_retry_count: 1,
            retry_interval: SECOND_NODE_AFTER,
        })))
        .build()
}

fn identity() -> SelfIdentity<'static> {
    SelfIdentity::new()
        .with_application_name("narrows")
        .with_application_version(env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::cluster::Node;

    fn cluster(wanted: &str, data_centers: &[&str]) -> Cluster {
        let node = |data_center: &&str| Node {
            host_id: [0; 16],
            address: std::net::SocketAddr::from(([127, 0, 0, 1], 9042)),
            advertised: std::net::Ipv4Addr::LOCALHOST.into(),
            data_center: (*data_center).to_owned(),
            rack: "r1".to_owned(),
            release_version: "5.0".to_owned(),
            tokens: Vec::new(),
            up: true,
        };
        Cluster {
            name: "test".to_owned(),
            data_center: wanted.to_owned(),
            nodes: data_centers.iter().map(node).collect(),
        }
    }

    #[test]
    fn a_data_center_without_nodes_is_named_with_those_that_there_are() {
        let right = cluster("dc2", &["dc1", "dc2"]);
        assert_eq!(data_center(&right).expect("has nodes"), "dc2");
        let wrong = cluster("dc3", &["dc2", "dc1", "dc2"]);
        let error = data_center(&wrong).expect_err("has none").to_string();
        assert!(
            error.contains("\"dc3\"") && error.contains("{\"dc1\", \"dc2\"}"),
            "{error}"
        );
    }

    #[test]
    fn requests_are_not_retried_and_stay_in_the_data_center() {
        let profile = profile("dc1");
        assert_eq!(profile.get_consistency(), Consistency::LocalQuorum);
        assert_eq!(
            profile.get_serial_consistency(),
            Some(SerialConsistency::Serial)
        );
        let shown = format!("{:?}", profile.get_retry_policy());
        assert!(shown.contains("Fallthrough"), "{shown}");
        let shown = profile.get_load_balancing_policy().name();
        assert!(!shown.contains("PermitDatacenterFailover"), "{shown}");
    }
}
