//! `narrows check`: reads the configuration and the files that it names, and lists every mistake or shows what would
//! run; then connects to the cluster, checks its version, shows what clients would see, and warns of watched tables that
//! do not exist, of settings without effect on them, and of too few replicas. Binds and changes nothing.

mod keyspaces;
mod watched;

use std::collections::BTreeSet;
use std::path::Path;

use super::exit;
use crate::config::{Config, Enabled, LogFormat, TopologyMode, show_bytes, show_duration};
use crate::proxy::Presented;
use crate::tls;
use crate::upstream::UpstreamError;
use crate::upstream::cluster::{Cluster, Node};
use crate::upstream::connection::Connection;
use crate::upstream::control::{read_cluster, resolve};
use crate::upstream::dial::Dialer;

/// The oldest major version of Cassandra that Narrows supports.
const MAJOR_MIN: u32 = 4;

/// Loads the configuration and the files that it names. `Err` lists every mistake, one per line. Also the first step of
/// `run`.
pub fn configuration(
    path: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, String> {
    let config = Config::load(path, environment).map_err(|mistakes| format!("{mistakes}\n"))?;
    let (client, upstream) = (config.client.tls.as_ref(), config.upstream.tls.as_ref());
    let redis = config.redis.as_ref().and_then(|redis| redis.tls.as_ref());
    let files = [
        (
            "client",
            client.and_then(|tls| tls::ClientSide::load(tls).err()),
        ),
        (
            "upstream",
            upstream.and_then(|tls| tls::load_upstream(tls).err()),
        ),
        ("redis", redis.and_then(|tls| tls::load_upstream(tls).err())),
    ];
    let mistakes = files
        .into_iter()
        .filter_map(|(side, error)| Some((side, error?)));
    let mistakes: Vec<String> = mistakes
        .map(|(side, error)| format!("{side} TLS: {error}\n"))
        .collect();
    match mistakes.is_empty() {
        true => Ok(config),
        false => Err(mistakes.concat()),
    }
}

/// Shows what would run and what the cluster is, after [`configuration`] found no mistake.
pub(super) async fn check(config: &Config) -> anyhow::Result<String> {
    // Printed first, because it holds whether the cluster answers or not.
    super::print(&summary(config));
    probe(config).await
}

/// What would run, so that an operator can compare it with what they meant.
fn summary(config: &Config) -> String {
    let lines = [
        ("clients", clients(config)),
        ("upstream", upstream(config)),
        ("own login", own_login(config)),
        ("topology", topology(config)),
        ("control", control(config)),
        ("limits", limits(config)),
        (
            "admin",
            format!("http://{}/ (/metrics /livez /readyz)", config.admin.listen),
        ),
        ("log", log(config)),
        ("threads", threads(config)),
    ];
    let lines = lines.map(|(name, value)| format!("  {name:<10} {value}\n"));
    format!(
        "the configuration is valid; this would run:\n{}",
        lines.concat()
    )
}

fn clients(config: &Config) -> String {
    let tls = match &config.client.tls {
        None => "TLS off",
        Some(tls) if tls.client_ca.is_some() => "TLS on, client certificates required",
        Some(_) => "TLS on",
    };
    format!("listen on {}, {tls}", config.client.listen)
}

fn upstream(config: &Config) -> String {
    let upstream = &config.upstream;
    let hosts: Vec<String> = upstream
        .contact_points
        .iter()
        .map(ToString::to_string)
        .collect();
    let tls = match &upstream.tls {
        None => "TLS off",
        Some(tls) if tls.verify_hostname => "TLS on",
        Some(_) => "TLS on, names not verified",
    };
    let data_center = upstream
        .data_center
        .as_deref()
        .unwrap_or("of the first node that answers");
    format!("{}, {tls}, data centre {data_center}", hosts.join(" "))
}

fn own_login(config: &Config) -> String {
    match &config.upstream.credentials {
        None => "none; clients log in as themselves".to_owned(),
        Some(credentials) => format!(
            "role {}; clients log in as themselves",
            credentials.username
        ),
    }
}

fn topology(config: &Config) -> String {
    let topology = &config.topology;
    match (topology.mode, topology.advertise) {
        (TopologyMode::Single, None) => {
            "single, drivers see the address they connected to".to_owned()
        }
        (TopologyMode::Single, Some(address)) => format!("single, drivers see {address}"),
        (TopologyMode::Mirror, _) => {
            let port = config.client.listen.port();
            format!(
                "mirror, one listener per node in {}, port {port}",
                topology.network
            )
        }
    }
}

fn control(config: &Config) -> String {
    let keyspace = &config.control.keyspace;
    match config.control.enabled {
        Enabled::Yes => {}
        Enabled::IfFound => {
            return format!("keyspace {keyspace} if it exists, no table in the file");
        }
        Enabled::No => return "off, nothing is watched".to_owned(),
    }
    let tables: Vec<String> = config
        .tables
        .iter()
        .map(|table| format!("{} ({})", table.name, table.mode.as_str()))
        .collect();
    let tables = match tables.as_slice() {
        [] => "no table in the file".to_owned(),
        tables => format!("tables {}", tables.join(", ")),
    };
    format!("keyspace {keyspace}, {tables}")
}

fn limits(config: &Config) -> String {
    let limits = &config.limits;
    format!(
        "{} connections, requests up to {}, idle {}",
        limits.connections,
        show_bytes(limits.request_bytes as u64),
        show_duration(limits.idle_timeout)
    )
}

fn log(config: &Config) -> String {
    let format = match config.log.format {
        LogFormat::Human => "human",
        LogFormat::Json => "json",
    };
    format!("{}, {format}", config.log.level)
}

fn threads(config: &Config) -> String {
    match config.runtime.threads {
        0 => "automatic".to_owned(),
        count => count.to_string(),
    }
}

/// Looks at the cluster through the first contact point that answers.
async fn probe(config: &Config) -> anyhow::Result<String> {
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
    if config.control.enabled == Enabled::Yes {
        watched::look(&mut connection, &config.tables).await?;
    }
    let found = keyspaces::read(config, &mut connection).await?;
    let warnings = keyspaces::warnings(config, &cluster, &found);
    Ok(report(config, &cluster) + &warnings.concat())
}

async fn connect(config: &Config, dialer: &Dialer) -> Result<Connection, UpstreamError> {
    let mut last = None;
    for address in resolve(&config.upstream.contact_points).await? {
        match Connection::open(dialer, address, config.upstream.credentials.as_ref()).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| UpstreamError::NoneReachable("no address".to_owned())))
}

fn supported(node: &Node) -> anyhow::Result<()> {
    let (address, version) = (node.address, &node.release_version);
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major >= MAJOR_MIN) {
        return Ok(());
    }
    let text = format!(
        "{address} runs Cassandra {version}; Narrows needs 4.0 or newer: 3.x has no protocol v5 and no \
         system.peers_v2, and is not tested. Upgrade the cluster, or connect without Narrows"
    );
    Err(exit::error(exit::UPSTREAM_UNAVAILABLE, text))
}

fn report(config: &Config, cluster: &Cluster) -> String {
    let (name, data_center) = (&cluster.name, &cluster.data_center);
    let nodes = cluster.nodes.len();
    let mut out = format!(
        "upstream answers: cluster \"{name}\", {nodes} node(s), data centre {data_center}\n"
    );
    let port = config.client.listen.port();
    let is_mirror = config.topology.mode == TopologyMode::Mirror;
    let network = config.topology.network;
    let mirror = Presented::Mirror { network, port };
    for node in &cluster.nodes {
        let seen = match is_mirror {
            true => format!(
                ", seen by clients at {}",
                mirror.address_of(node.advertised)
            ),
            false => String::new(),
        };
        let (address, version) = (node.address, &node.release_version);
        let place = format!("{}/{}", node.data_center, node.rack);
        out.push_str(&format!(
            "  {address:<22} {place}, Cassandra {version}{seen}\n"
        ));
    }
    let names: BTreeSet<_> = cluster.nodes.iter().map(|node| &node.data_center).collect();
    if !names.contains(data_center) {
        out.push_str(&format!(
            "warning: no node is in upstream.data_center; the data centres of the cluster are {names:?}\n"
        ));
    }
    if is_mirror && port != 9042 {
        out.push_str(&format!(
            "note: the Node.js driver needs protocolOptions.port = {port}; with client.listen on port 9042 no \
             driver needs a setting\n"
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> std::vec::IntoIter<(String, String)> {
        let owned: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        owned.into_iter()
    }

    #[test]
    fn lists_every_mistake_on_a_line_of_its_own() {
        let wrong = variables(&[
            ("NARROWS__LIMITS__CONNECTIONS", "0"),
            ("NARROWS__LIMTS__CONNECTIONS", "1"),
        ]);
        let mistakes = configuration(None, wrong).expect_err("two mistakes");
        assert_eq!(mistakes.lines().count(), 2, "{mistakes}");
        assert!(mistakes.ends_with('\n'));
    }

    #[test]
    fn looks_into_tls_files() {
        let not_pem = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let wrong = variables(&[
            ("NARROWS__UPSTREAM__TLS", "true"),
            ("NARROWS__UPSTREAM__TLS_CA", not_pem),
        ]);
        let mistakes = configuration(None, wrong).expect_err("no certificate");
        assert!(
            mistakes.starts_with("upstream TLS: ") && mistakes.contains("holds no certificate"),
            "{mistakes}"
        );
    }

    #[test]
    fn shows_what_would_run() {
        let config = configuration(None, std::iter::empty()).expect("defaults are right");
        let summary = summary(&config);
        for part in [
            "listen on 127.0.0.1:9142, TLS off",
            "127.0.0.1:9042, TLS off",
            "single",
            "16MiB",
            "127.0.0.1:9180",
            "keyspace narrows if it exists, no table in the file",
        ] {
            assert!(summary.contains(part), "{summary}");
        }
    }

    #[test]
    fn shows_whether_a_control_keyspace_is_followed() {
        for (enabled, shown) in [
            ("true", "keyspace narrows, no table in the file"),
            ("false", "off, nothing is watched"),
        ] {
            let variables = variables(&[("NARROWS__CONTROL__ENABLED", enabled)]);
            let config = configuration(None, variables).expect("right");
            assert_eq!(control(&config), shown);
        }
    }

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
