//! The configuration: everything that an operator can set, typed and checked.
//!
//! Settings come from one TOML file; `NARROWS__SECTION__KEY` variables override them. `reader` collects every mistake
//! in both, `sections` turns the settings into the structs below, and `changes` says which of them a running proxy can
//! reload. Nothing here binds a port or opens a connection. Files that settings name are opened, so that a wrong path
//! is found before anything starts.

mod changes;
mod control;
mod mistakes;
mod pipeline;
mod reader;
mod redis;
mod sections;
mod table;
#[cfg(test)]
mod tests;
mod units;
mod values;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use changes::{changed_without_restart, with_reloadable};
pub use mistakes::{Mistake, Mistakes};
pub(crate) use units::{show_bytes, show_duration};

use crate::schema::replication::Replication;
use crate::watched::WatchedTable;

/// Every setting, checked. `Config::default()` applies without a file and without variables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    pub client: Client,
    pub upstream: Upstream,
    pub topology: Topology,
    pub limits: Limits,
    pub admin: Admin,
    pub log: Log,
    pub runtime: Runtime,
    pub control: Control,
    /// `None`: the proxies share no cache.
    pub redis: Option<RedisSettings>,
    pub pipeline: Pipeline,
    /// The `[[table]]` entries, each table once.
    pub tables: Vec<WatchedTable>,
}

impl Config {
    /// Reads the file, if there is one, and then the variables, which override it. `Err` lists every mistake.
    pub fn load(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Mistakes> {
        let mut reader = reader::Reader::default();
        if let Some(path) = path {
            reader.read_file(path)?;
        }
        reader.read_environment(environment);
        let config = sections::read(&mut reader);
        reader.finish()?;
        Ok(config)
    }
}

/// The environment variables of this process, for [`Config::load`]. Text that is not UTF-8 cannot be one of our
/// settings, but must not prevent the start either, so it is passed on with replacement characters.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (lossy(name), lossy(value)))
}

/// `[client]`: where drivers connect.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    pub listen: SocketAddr,
    /// TLS towards drivers; `None` is plain TCP.
    pub tls: Option<ClientSideTls>,
}

/// TLS towards drivers, with the certificate that the proxy presents.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSideTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// If set, a driver must present a certificate signed by one of these authorities.
    pub client_ca: Option<PathBuf>,
}

/// `[upstream]`: the Cassandra cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Never empty.
    pub contact_points: Vec<ContactPoint>,
    /// `None`: the data centre of the first contact point that answers.
    pub data_center: Option<String>,
    /// For the proxy's own connections only; clients always log in as themselves.
    pub credentials: Option<Credentials>,
    pub connect_timeout: Duration,
    pub tls: Option<UpstreamTls>,
    /// The operator accepts that all clients share the identity of the upstream client certificate.
    pub shared_identity: bool,
}

/// A host name or address of Cassandra, not yet resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContactPoint {
    /// Without brackets, even for IPv6.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for ContactPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// Name and password of the proxy's own role.
#[derive(Debug, Clone, PartialEq)]
pub struct Credentials {
    pub username: String,
    pub password: Secret,
}

/// A text that must not reach a log: it has no `Display`, and its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// TLS towards Cassandra, and towards Redis.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamTls {
    /// Required, because the proxy may run in an empty root file system without any authorities.
    pub ca: PathBuf,
    /// The certificate that the proxy presents; for Cassandra only together with `shared_identity`.
    pub certificate_and_key: Option<(PathBuf, PathBuf)>,
    pub verify_hostname: bool,
}

/// `[topology]`: what drivers learn about the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    pub mode: TopologyMode,
    /// `single` only: the address that drivers see, if it differs from the one they connected to.
    pub advertise: Option<SocketAddr>,
    /// `mirror` only: the network of the mirrored addresses.
    pub network: Network,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyMode {
    /// Drivers see one node, the proxy.
    Single,
    /// Drivers see every node, each at a listener of its own.
    Mirror,
}

/// An IPv4 prefix whose host bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    pub address: Ipv4Addr,
    pub prefix_len: u8,
}

impl Network {
    /// This network's prefix with the host bits of the real address: 10.1.2.3 in 127.0.0.0/8 is 127.1.2.3.
    pub fn mirror(self, real: Ipv4Addr) -> Ipv4Addr {
        let host_bits = u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        Ipv4Addr::from(u32::from(self.address) & !host_bits | u32::from(real) & host_bits)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix_len)
    }
}

/// `[limits]`: what one proxy accepts and how long it waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub connections: usize,
    pub request_bytes: usize,
    pub prepared_statements: usize,
    /// Size at which pages of watched tables are cut short; `None`: they are not.
    pub max_page_bytes: Option<usize>,
    /// Memory for reads of split partitions, of all clients together.
    pub split_read_bytes: usize,
    pub idle_timeout: Duration,
    pub handshake_timeout: Duration,
    /// Zero: the proxy does not wait for requests in flight.
    pub drain_timeout: Duration,
    /// Zero: replies to schema changes are not held.
    pub schema_agreement_timeout: Duration,
}

/// `[admin]`: the listener for metrics and health.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    pub listen: SocketAddr,
}

/// `[log]`: what is logged and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// A `tracing` filter, checked: a level, or `level,target=level,…`.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Human,
    Json,
}

/// `[runtime]`: how much of the machine is used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runtime {
    /// Zero: chosen from the number of cores.
    pub threads: usize,
}

/// `[control]`: the keyspace that says what is split.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    pub enabled: Enabled,
    /// As Cassandra spells it: without quotes, with its capitals.
    pub keyspace: String,
    /// `None`: the same as for the keyspace of the first watched table.
    pub replication: Option<Replication>,
    /// Whether to create missing parts of the keyspace at the start.
    pub apply_schema: bool,
    pub poll_interval: Duration,
    /// At least twice `poll_interval`.
    pub max_staleness: Duration,
    pub layout_cache_bytes: usize,
    /// A shard of a filter with fewer keys than this holds them exactly.
    pub min_filter_keys: usize,
    /// Directory in which filters survive a restart; `None`: they are not saved.
    pub snapshot_directory: Option<PathBuf>,
}

/// `control.enabled`: whether a proxy follows the control keyspace, and so checks writes against what is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// `true`, or unset with a `[[table]]`.
    Yes,
    /// Unset without a `[[table]]`: a relay, until it finds a control keyspace. It never creates one.
    IfFound,
    /// `false`.
    No,
}

/// `[pipeline]`: the background work that splits partitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// For `narrows run` only; `narrows worker` always splits.
    pub enabled: bool,
    /// Number of partitions that may be read, copied or compared at the same time.
    pub splits_at_a_time: usize,
    /// `None`: only the throttle limits the rate.
    pub bytes_per_second: Option<u64>,
    /// Whether to send small requests with pauses in between, which grow when the cluster becomes slow.
    pub throttle: bool,
    /// Time after which other workers take over the work of one that died.
    pub lease: Duration,
    /// How long a guard waits before the copy begins; `None`: derived from `max_staleness` and the cluster's write
    /// timeout.
    pub settle: Option<Duration>,
    /// Interval between comparisons of a split in service with its original; `None`: no further comparison after the
    /// first.
    pub audit_every: Option<Duration>,
    /// Interval at which nodes are asked for their largest partitions; `None`: never.
    pub poll_top_partitions: Option<Duration>,
}

/// `[redis]`: the cache that all proxies share.
#[derive(Debug, Clone, PartialEq)]
pub struct RedisSettings {
    /// Without brackets, even for IPv6.
    pub host: String,
    pub port: u16,
    /// `None` with a password: Redis' default user.
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub database: i64,
    pub tls: Option<UpstreamTls>,
    /// Limit for one request, including the connect.
    pub timeout: Duration,
    pub entry_ttl: Duration,
}
