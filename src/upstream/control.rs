//! The control connection: one connection of our own that learns the cluster's nodes and follows their changes.
//!
//! It publishes them through [`Balance`] and a watch channel. Without it (if Narrows has no role on a cluster that asks
//! for logins), the contact points stay the only nodes, and the proxy says so. In a relay it also looks whether a table
//! exists, by which the relay finds a control keyspace that others made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::balance::{Balance, backoff};
use super::cluster::{self, Cluster};
use super::connection::{Connection, read_event};
use super::pool::PoolConfig;
use super::{UpstreamError, dial::Dialer};
use crate::config::{ContactPoint, Upstream};
use crate::protocol::response::event::Event;

const NODES: &str = "narrows_upstream_nodes";

/// Interval at which everything is read again, with or without an event.
const REFRESH_EVERY: Duration = Duration::from_secs(15);
/// A connection that lasted longer than this resets the back-off.
const STEADY: Duration = Duration::from_secs(5);
/// Pause after an event: events come in bursts, and `system.peers` is written a little after them.
const SETTLE: Duration = Duration::from_millis(300);

/// How well upstream is known at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Starting,
    Connected,
    /// Nodes answer, but ask for a login that Narrows does not have: the contact points are all it knows.
    Blind(String),
    Lost(String),
}

pub struct Control {
    config: Upstream,
    pub dialer: Dialer,
    pub balance: Arc<Balance>,
    /// The newest view of the cluster; `None` until the first.
    pub published: watch::Sender<Option<Arc<Cluster>>>,
    pub health: watch::Sender<Health>,
    /// Notified when a connection was lost: check the nodes soon.
    pub suspicion: Arc<Notify>,
    /// Notified when the schema changed, so that known tables are described again.
    pub schema_changed: Arc<Notify>,
    sought: Option<Sought>,
    /// Whether the table that is looked for exists, sent with every look; `None` until the first.
    pub found: watch::Sender<Option<bool>>,
}

struct Sought {
    keyspace: String,
    query: String,
}

impl Sought {
    /// Whether the table may have come or gone.
    fn is_concerned(&self, event: Event<'_>) -> bool {
        match event {
            Event::Table { keyspace, .. } => keyspace == self.keyspace,
            Event::Schema => true,
            Event::Node { .. } | Event::Other => false,
        }
    }
}

impl Control {
    pub fn new(config: Upstream, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        Self {
            dialer: Dialer::new(config.connect_timeout, tls),
            config,
            balance: Arc::default(),
            published: watch::Sender::new(None),
            health: watch::Sender::new(Health::Starting),
            suspicion: Arc::default(),
            schema_changed: Arc::default(),
            sought: None,
            found: watch::Sender::new(None),
        }
    }

    /// Looks whether this table exists: first of all, after schema changes, and at intervals.
    pub fn looking_for(mut self, keyspace: &str, table: &str) -> Self {
        let quoted = |name: &str| name.replace('\'', "''");
        self.sought = Some(Sought {
            keyspace: keyspace.to_owned(),
            query: format!(
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}' AND table_name = '{}'",
                quoted(keyspace),
                quoted(table)
            ),
        });
        self
    }

    /// Configuration of our own pooled connections to the nodes found here.
    pub fn pool_config(&self) -> Arc<PoolConfig> {
        Arc::new(PoolConfig::new(
            self.dialer.clone(),
            self.config.credentials.clone(),
            self.balance.clone(),
            self.suspicion.clone(),
        ))
    }

    /// Runs for ever.
    pub async fn run(&self) {
        let mut failures = 0;
        let mut last_trouble = String::new();
        loop {
            let began = Instant::now();
            let error = match self.connect().await {
                // One lost node says nothing about the others: they are tried before the health changes.
                Ok(connection) => {
                    let error = self.follow(connection).await;
                    tracing::info!(%error, "control connection lost");
                    error
                }
                Err(error) => {
                    self.report(&error, &mut last_trouble);
                    error
                }
            };
            if began.elapsed() > STEADY {
                failures = 0;
                last_trouble.clear();
            }
            if failures > 0
                || !matches!(
                    error,
                    UpstreamError::Closed(_) | UpstreamError::Broken { .. }
                )
            {
                sleep(backoff(failures)).await;
            }
            failures += 1;
        }
    }

    fn report(&self, error: &UpstreamError, last_trouble: &mut String) {
        let trouble = error.to_string();
        // The same error every few seconds is worth no warning.
        if trouble == *last_trouble {
            tracing::debug!(error = %trouble, "no control connection");
        } else {
            tracing::warn!(error = %trouble, "no control connection, trying again");
        }
        last_trouble.clone_from(&trouble);
        self.health.send_replace(match error {
            UpstreamError::LoginRequired(_) => Health::Blind(trouble),
            _ => Health::Lost(trouble),
        });
    }

    async fn connect(&self) -> Result<Connection, UpstreamError> {
        let contact_points = resolve(&self.config.contact_points).await;
        if let Ok(addresses) = &contact_points {
            self.balance.set_contact_points(addresses.clone());
        }
        // At first, the contact points are tried in the order given, which may decide the data centre. Later, all known
        // nodes come first, the best ones in front.
        let mut candidates = match *self.published.borrow() {
            Some(_) => self.balance.candidates(std::time::Instant::now()),
            None => Vec::new(),
        };
        for address in contact_points? {
            if !candidates.contains(&address) {
                candidates.push(address);
            }
        }
        let mut last = None;
        for address in candidates {
            match Connection::open(&self.dialer, address, self.config.credentials.as_ref()).await {
                Ok(connection) => return Ok(connection),
                // A node that asks for a login is the more useful error to report.
                Err(error) if !matches!(last, Some(UpstreamError::LoginRequired(_))) => {
                    last = Some(error)
                }
                Err(_) => {}
            }
        }
        Err(last.unwrap_or_else(|| UpstreamError::NoneReachable("no address".to_owned())))
    }

    /// Follows the cluster until the connection breaks.
    async fn follow(&self, mut connection: Connection) -> UpstreamError {
        if let Err(error) = connection.register().await {
            return error;
        }
        loop {
            // Clients of a relay wait for its first look, so it comes first.
            if let Err(error) = self.look(&mut connection).await {
                return error;
            }
            if let Err(error) = self.refresh(&mut connection).await {
                return error;
            }
            let mut due = Instant::now() + REFRESH_EVERY;
            loop {
                tokio::select! {
                    () = sleep_until(due) => break,
                    () = self.suspicion.notified() => due = due.min(Instant::now() + SETTLE),
                    event = connection.next_event() => match event {
                        Ok(event) => match read_event(&event) {
                            Ok(Event::Node { .. }) => due = due.min(Instant::now() + SETTLE),
                            Ok(event @ (Event::Schema | Event::Table { .. })) => {
                                self.schema_changed.notify_one();
                                let sought = self.sought.as_ref();
                                if sought.is_some_and(|sought| sought.is_concerned(event))
                                    && let Err(error) = self.look(&mut connection).await
                                {
                                    return error;
                                }
                            }
                            Ok(Event::Other) | Err(_) => {}
                        },
                        Err(error) => return error,
                    },
                }
            }
        }
    }

    async fn look(&self, connection: &mut Connection) -> Result<(), UpstreamError> {
        let Some(sought) = &self.sought else {
            return Ok(());
        };
        let found = match connection.query(&sought.query).await {
            Ok(rows) => !rows.rows.is_empty(),
            // A node without `system_schema` has no control keyspace either.
            Err(UpstreamError::Refused { .. }) => false,
            Err(error) => return Err(error),
        };
        self.found.send_replace(Some(found));
        Ok(())
    }

    async fn refresh(&self, connection: &mut Connection) -> Result<(), UpstreamError> {
        // Once chosen, the data centre stays, wherever the control connection moves.
        let chosen = self
            .published
            .borrow()
            .as_ref()
            .map(|cluster| cluster.data_center.clone());
        let data_center = self.config.data_center.clone().or(chosen);
        let mut cluster = read_cluster(connection, data_center.as_deref()).await?;
        self.probe(&mut cluster).await;
        let cluster = Arc::new(cluster);
        count_nodes(&cluster);
        self.balance.set_cluster(cluster.clone());
        self.health.send_replace(Health::Connected);
        self.published.send_if_modified(|published| {
            let changed = published.as_ref() != Some(&cluster);
            if changed {
                announce(published.as_deref(), &cluster);
                *published = Some(cluster);
            }
            changed
        });
        Ok(())
    }

    /// Checks which nodes accept connections, all at once.
    async fn probe(&self, cluster: &mut Cluster) {
        let mut probes = tokio::task::JoinSet::new();
        for node in &cluster.nodes {
            let (dialer, address) = (self.dialer.clone(), node.address);
            probes.spawn(async move { (address, dialer.answers(address).await) });
        }
        while let Some(result) = probes.join_next().await {
            let Ok((address, up)) = result else { continue };
            for node in cluster
                .nodes
                .iter_mut()
                .filter(|node| node.address == address)
            {
                node.up = up;
            }
        }
    }
}

/// Reads the cluster's nodes, from `peers_v2` where it exists, because it has ports.
pub async fn read_cluster(
    connection: &mut Connection,
    data_center: Option<&str>,
) -> Result<Cluster, UpstreamError> {
    let local = connection.query(cluster::LOCAL).await?;
    let peers = match connection.query(cluster::PEERS_V2).await {
        Err(UpstreamError::Refused { .. }) => connection.query(cluster::PEERS).await?,
        other => other?,
    };
    let address = connection.address;
    Cluster::read(&local, &peers, address, data_center).ok_or(UpstreamError::Refused {
        address,
        code: 0,
        text: "system.local has no usable row".to_owned(),
    })
}

/// All addresses of the contact points. Fails only if none resolves.
pub async fn resolve(contact_points: &[ContactPoint]) -> Result<Vec<SocketAddr>, UpstreamError> {
    let (mut addresses, mut last) = (Vec::new(), None);
    for point in contact_points {
        match tokio::net::lookup_host((point.host.as_str(), point.port)).await {
            Ok(found) => addresses.extend(found),
            Err(source) => {
                last = Some(UpstreamError::Resolve {
                    host: point.host.clone(),
                    source,
                })
            }
        }
    }
    match last {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok(addresses),
    }
}

fn count_nodes(cluster: &Cluster) {
    let up = cluster.nodes.iter().filter(|node| node.up).count();
    metrics::gauge!(NODES, "state" => "up").set(up as f64);
    metrics::gauge!(NODES, "state" => "down").set((cluster.nodes.len() - up) as f64);
}

fn announce(before: Option<&Cluster>, now: &Cluster) {
    if before.is_none() {
        let nodes = now.nodes.len();
        tracing::info!(
            cluster = now.name,
            data_center = now.data_center,
            nodes,
            "cluster found"
        );
    }
    for node in &now.nodes {
        let was_up = before
            .and_then(|cluster| cluster.node(node.host_id))
            .is_none_or(|node| node.up);
        if was_up != node.up {
            let state = if node.up { "up" } else { "down" };
            tracing::info!(node = %node.address, state, "node changed");
        }
    }
    if !now
        .nodes
        .iter()
        .any(|node| node.data_center == now.data_center)
    {
        tracing::warn!(
            data_center = now.data_center,
            "no node is in the configured upstream.data_center"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_the_sought_keyspace_make_it_look() {
        let upstream = crate::config::Config::default().upstream;
        let control = Control::new(upstream, None).looking_for("it's", "t");
        let sought = control.sought.expect("is set");
        assert!(
            sought
                .query
                .ends_with("keyspace_name = 'it''s' AND table_name = 't'")
        );
        let table = |keyspace| Event::Table {
            keyspace,
            table: "u",
        };
        assert!(sought.is_concerned(table("it's")));
        assert!(sought.is_concerned(Event::Schema));
        assert!(!sought.is_concerned(table("other")));
        assert!(!sought.is_concerned(Event::Other));
    }
}
