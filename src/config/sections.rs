//! The sections of a proxy: their defaults, their limits, and the rules between their settings.
//!
//! `docker/narrows.toml` documents the same settings for operators; a test keeps the two equal.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::{Reader, Section};
use super::{
    Admin, Client, ClientSideTls, Config, ContactPoint, Credentials, Limits, Log, LogFormat,
    Network, Runtime, Topology, TopologyMode, Upstream, UpstreamTls, control, pipeline, redis,
    table, values,
};

/// Timers beyond a week are mistakes, and the bound keeps their arithmetic from overflowing.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The protocol itself limits a message to 256 MB, so no larger setting makes sense.
const REQUEST_BYTES: RangeInclusive<u64> = 4 << 10..=256 << 20;

/// A smaller page would hold a row or two; a larger one would not protect the memory of a sidecar.
const PAGE_BYTES: RangeInclusive<u64> = 64 << 10..=128 << 20;

/// With less, hardly a page of a wide partition would fit.
const SPLIT_READ_BYTES: RangeInclusive<u64> = 16 << 20..=64 << 30;

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

impl Default for Client {
    fn default() -> Self {
        Self {
            listen: loopback(9142),
            tls: None,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            contact_points: vec![ContactPoint {
                host: "127.0.0.1".to_owned(),
                port: 9042,
            }],
            data_center: None,
            credentials: None,
            connect_timeout: Duration::from_secs(5),
            tls: None,
            shared_identity: false,
        }
    }
}

impl Default for Topology {
    fn default() -> Self {
        let network = Network {
            address: Ipv4Addr::new(127, 0, 0, 0),
            prefix_len: 8,
        };
        Self {
            mode: TopologyMode::Single,
            advertise: None,
            network,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            request_bytes: 16 << 20,
            prepared_statements: 100_000,
            max_page_bytes: None,
            split_read_bytes: 512 << 20,
            idle_timeout: Duration::from_secs(600),
            handshake_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            schema_agreement_timeout: Duration::from_secs(10),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: loopback(9180),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Human,
        }
    }
}

/// Asks for every setting. A missing or wrong one keeps its default; mistakes stay in the reader.
pub(super) fn read(reader: &mut Reader) -> Config {
    let entries = reader.entries("table");
    let control = control::read(reader.section("control"), !entries.is_empty());
    let config = Config {
        tables: table::read(reader, entries, &control.keyspace),
        control,
        redis: redis::read(reader),
        pipeline: pipeline::read(reader.section("pipeline")),
        client: client(reader.section("client")),
        upstream: upstream(reader.section("upstream")),
        topology: topology(reader.section("topology")),
        limits: limits(reader.section("limits")),
        admin: admin(reader.section("admin")),
        log: log(reader.section("log")),
        runtime: runtime(reader.section("runtime")),
    };
    check_listeners(reader, &config);
    config
}

fn client(mut section: Section<'_>) -> Client {
    let mut client = Client::default();
    section.set("listen", &mut client.listen, values::socket_address);
    let pair = certificate_and_key(&mut section);
    let client_ca = section.optional("tls_client_ca", values::readable_file);
    if section.has("tls_client_ca") && !section.has("tls_certificate") {
        section.mistake(
            "tls_client_ca",
            "needs client.tls_certificate and client.tls_key as well",
        );
    }
    client.tls = pair.map(|(certificate, key)| ClientSideTls {
        certificate,
        key,
        client_ca,
    });
    client
}

fn upstream(mut section: Section<'_>) -> Upstream {
    let mut upstream = Upstream::default();
    section.set(
        "contact_points",
        &mut upstream.contact_points,
        values::contact_points,
    );
    upstream.data_center = section.optional("data_center", values::text);
    upstream.credentials = credentials(&mut section);
    section.set(
        "connect_timeout",
        &mut upstream.connect_timeout,
        wait_from(Duration::from_millis(10)),
    );
    section.set(
        "shared_identity",
        &mut upstream.shared_identity,
        values::boolean,
    );
    upstream.tls = tls_towards(&mut section);
    if upstream.tls.is_some() && section.has("tls_certificate") && !upstream.shared_identity {
        section.mistake(
            "tls_certificate",
            "would give every client the proxy's identity if Cassandra uses MutualTlsAuthenticator; remove it, or \
             accept that with upstream.shared_identity = true",
        );
    }
    upstream
}

fn credentials(section: &mut Section<'_>) -> Option<Credentials> {
    let username = section.optional("username", values::text);
    let password = section.optional("password", values::secret);
    let from_file = section.optional("password_file", values::password_file);
    match (
        section.has("username"),
        section.has("password"),
        section.has("password_file"),
    ) {
        (_, true, true) => section.mistake(
            "password_file",
            "is set together with upstream.password; keep one of them",
        ),
        (false, true, _) | (false, _, true) => {
            section.mistake("username", "is missing; the password needs one")
        }
        (true, false, false) => {
            section.mistake(
                "username",
                "has no password; add upstream.password_file or upstream.password",
            );
        }
        _ => {}
    }
    Some(Credentials {
        username: username?,
        password: password.or(from_file)?,
    })
}

/// The `tls` setting and its files, towards Cassandra or Redis.
pub(super) fn tls_towards(section: &mut Section<'_>) -> Option<UpstreamTls> {
    let name = section.name().to_owned();
    let mut enabled = false;
    let mut verify_hostname = true;
    section.set("tls", &mut enabled, values::boolean);
    section.set("tls_verify_hostname", &mut verify_hostname, values::boolean);
    let ca = section.optional("tls_ca", values::readable_file);
    let certificate_and_key = certificate_and_key(section);
    if !enabled {
        for key in ["tls_ca", "tls_certificate", "tls_key"]
            .into_iter()
            .filter(|key| section.has(key))
            .collect::<Vec<_>>()
        {
            section.mistake(
                key,
                format!(
                    "has no effect while {name}.tls is off; set {name}.tls = true or remove it"
                ),
            );
        }
        return None;
    }
    if !section.has("tls_ca") {
        section.mistake(
            "tls_ca",
            format!(
                "is required when {name}.tls = true; name a PEM file with the authorities that signed the server's \
                 certificate (the proxy has no system store to fall back on)"
            ),
        );
    }
    Some(UpstreamTls {
        ca: ca?,
        certificate_and_key,
        verify_hostname,
    })
}

/// `tls_certificate` and `tls_key`, which only make sense together.
fn certificate_and_key(
    section: &mut Section<'_>,
) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    let certificate = section.optional("tls_certificate", values::readable_file);
    let key = section.optional("tls_key", values::readable_file);
    match (section.has("tls_certificate"), section.has("tls_key")) {
        (true, false) => section.mistake("tls_key", "is missing; tls_certificate needs it"),
        (false, true) => section.mistake("tls_certificate", "is missing; tls_key needs it"),
        _ => {}
    }
    certificate.zip(key)
}

fn topology(mut section: Section<'_>) -> Topology {
    let mut topology = Topology::default();
    section.set("mode", &mut topology.mode, values::topology_mode);
    topology.advertise = section.optional("advertise", values::advertised_address);
    section.set("network", &mut topology.network, values::network);
    if topology.mode == TopologyMode::Mirror && section.has("advertise") {
        section.mistake(
            "advertise",
            "is for topology.mode = \"single\" only; mirror takes addresses from topology.network",
        );
    }
    topology
}

fn limits(mut section: Section<'_>) -> Limits {
    let mut limits = Limits::default();
    let second = Duration::from_secs(1);
    section.set(
        "connections",
        &mut limits.connections,
        values::count(1..=1_000_000),
    );
    section.set(
        "request_bytes",
        &mut limits.request_bytes,
        values::bytes(REQUEST_BYTES),
    );
    section.set(
        "prepared_statements",
        &mut limits.prepared_statements,
        values::count(1..=10_000_000),
    );
    limits.max_page_bytes = section.optional("max_page_bytes", values::bytes(PAGE_BYTES));
    section.set(
        "split_read_bytes",
        &mut limits.split_read_bytes,
        values::bytes(SPLIT_READ_BYTES),
    );
    section.set("idle_timeout", &mut limits.idle_timeout, wait_from(second));
    section.set(
        "handshake_timeout",
        &mut limits.handshake_timeout,
        wait_from(Duration::from_millis(100)),
    );
    section.set(
        "drain_timeout",
        &mut limits.drain_timeout,
        wait_from(Duration::ZERO),
    );
    section.set(
        "schema_agreement_timeout",
        &mut limits.schema_agreement_timeout,
        wait_from(Duration::ZERO),
    );
    limits
}

fn admin(mut section: Section<'_>) -> Admin {
    let mut admin = Admin::default();
    section.set("listen", &mut admin.listen, values::socket_address);
    admin
}

fn log(mut section: Section<'_>) -> Log {
    let mut log = Log::default();
    section.set("level", &mut log.level, values::log_level);
    section.set("format", &mut log.format, values::log_format);
    log
}

fn runtime(mut section: Section<'_>) -> Runtime {
    let mut runtime = Runtime::default();
    section.set("threads", &mut runtime.threads, values::count(0..=1024));
    runtime
}

fn check_listeners(reader: &mut Reader, config: &Config) {
    let listen = config.client.listen;
    if listen == config.admin.listen && listen.port() != 0 {
        reader.section("admin").mistake(
            "listen",
            format!("client.listen is {listen} too; give one of them another port"),
        );
    }
    if config.topology.mode == TopologyMode::Mirror && listen.port() == 0 {
        reader.section("client").mistake(
            "listen",
            "topology.mode = \"mirror\" needs one fixed port for all its listeners",
        );
    }
}

pub(super) fn wait_from(
    min: Duration,
) -> impl FnOnce(&super::reader::Setting) -> Result<Duration, String> {
    values::duration(min..=WAIT_MAX)
}
