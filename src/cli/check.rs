//! `narrows check`, the part that needs no network: reads the configuration and the files it names, and either lists
//! every mistake or shows what would run. The probe of the cluster comes after it; nothing here binds or connects.

use std::path::Path;

use crate::config::{Config, LogFormat, TopologyMode, show_bytes, show_duration};
use crate::tls;

/// The configuration with all its files found usable, or every mistake, one per line. Also the first step of `run`.
pub fn configuration(
    path: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, String> {
    let config =
        Config::load(path, environment).map_err(|mistakes| with_newline(mistakes.to_string()))?;
    let mut mistakes = Vec::new();
    if let Some(Err(error)) = config.client.tls.as_ref().map(tls::ClientSide::load) {
        mistakes.push(format!("client TLS: {error}"));
    }
    if let Some(Err(error)) = config.upstream.tls.as_ref().map(tls::load_upstream) {
        mistakes.push(format!("upstream TLS: {error}"));
    }
    let redis_tls = config.redis.as_ref().and_then(|redis| redis.tls.as_ref());
    if let Some(Err(error)) = redis_tls.map(tls::load_upstream) {
        mistakes.push(format!("redis TLS: {error}"));
    }
    if mistakes.is_empty() {
        Ok(config)
    } else {
        Err(with_newline(mistakes.join("\n")))
    }
}

/// What would run, for a person to compare with what was meant.
pub fn summary(config: &Config) -> String {
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
        "configuration is right; this would run:\n{}",
        lines.concat()
    )
}

fn with_newline(text: String) -> String {
    text + "\n"
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
    if !config.control.enabled {
        return "off, nothing is watched".to_owned();
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
    format!("keyspace {}, {tables}", config.control.keyspace)
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
            "off, nothing is watched",
        ] {
            assert!(summary.contains(part), "{summary}");
        }
    }
}
