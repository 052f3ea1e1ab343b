//! Parses each kind of setting: returns its typed value, or a sentence that says what was expected.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::filter::spec;
use crate::schema::names::TableName;
use crate::schema::replication::Replication;
use crate::statement::lexer::{Lexer, Token};
use crate::watched::{BucketUnit, LateWrites, Mode, SHARDS_MAX};

use tracing_subscriber::EnvFilter;

use super::reader::Setting;
use super::units::{parse_bytes, parse_duration, show_bytes, show_duration};
use super::{ContactPoint, LogFormat, Network, Secret, TopologyMode};

/// The port on which Cassandra listens by default.
const CASSANDRA_PORT: u16 = 9042;

/// The port on which Redis listens by default.
const REDIS_PORT: u16 = 6379;

/// The longest name of a keyspace that Cassandra accepts.
const KEYSPACE_LENGTH_MAX: usize = 48;

/// A file with more than this is not a password file; it may be a device that never ends.
const PASSWORD_BYTES_MAX: u64 = 4096;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

type Checked<T> = Result<T, String>;

pub(super) fn text(setting: &Setting) -> Checked<String> {
    match setting.text() {
        Some("") => Err("is empty; remove it to leave it unset".to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err("expected a string in quotes".to_owned()),
    }
}

pub(super) fn secret(setting: &Setting) -> Checked<Secret> {
    text(setting).map(Secret::new)
}

pub(super) fn boolean(setting: &Setting) -> Checked<bool> {
    setting
        .boolean()
        .ok_or_else(|| "expected true or false".to_owned())
}

/// A whole number within the range.
pub(super) fn count<T: TryFrom<u64> + PartialOrd + Display>(
    range: RangeInclusive<T>,
) -> impl FnOnce(&Setting) -> Checked<T> {
    move |setting| {
        let number = setting
            .integer()
            .and_then(|number| T::try_from(number).ok());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                format!(
                    "expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
            })
    }
}

/// A size within the range, with a unit or as a plain number of bytes.
pub(super) fn bytes<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl FnOnce(&Setting) -> Checked<T> {
    move |setting| {
        let size = setting.integer().or_else(|| parse_bytes(setting.text()?));
        let size = size
            .filter(|size| range.contains(size))
            .and_then(|size| T::try_from(size).ok());
        size.ok_or_else(|| {
            let (min, max) = (show_bytes(*range.start()), show_bytes(*range.end()));
            format!("expected a size such as \"64KiB\", \"16MiB\" or a number of bytes, from {min} to {max}")
        })
    }
}

/// A duration within the range.
pub(super) fn duration(
    range: RangeInclusive<Duration>,
) -> impl FnOnce(&Setting) -> Checked<Duration> {
    move |setting| {
        let duration = setting.text().and_then(parse_duration);
        duration.filter(|duration| range.contains(duration)).ok_or_else(|| {
            let (min, max) = (show_duration(*range.start()), show_duration(*range.end()));
            format!("expected a duration such as \"500ms\", \"5s\", \"10m\" or \"1h\", from {min} to {max}")
        })
    }
}

/// A duration within the range, or "off".
pub(super) fn duration_or_off(
    range: RangeInclusive<Duration>,
) -> impl FnOnce(&Setting) -> Checked<Option<Duration>> {
    move |setting| match setting.text() {
        Some("off") => Ok(None),
        _ => duration(range)(setting)
            .map(Some)
            .map_err(|error| format!("{error}, or \"off\"")),
    }
}

/// A duration that is stored as a number of seconds.
pub(super) fn whole_seconds(
    range: RangeInclusive<Duration>,
) -> impl FnOnce(&Setting) -> Checked<Duration> {
    move |setting| {
        let duration = duration(range)(setting)?;
        if duration.subsec_nanos() == 0 {
            Ok(duration)
        } else {
            Err("expected whole seconds".to_owned())
        }
    }
}

pub(super) fn socket_address(setting: &Setting) -> Checked<SocketAddr> {
    setting.text().and_then(|text| text.parse().ok()).ok_or_else(|| {
        "expected an address with a port, such as \"127.0.0.1:9142\" or \"[::1]:9142\"; host names are not resolved".to_owned()
    })
}

/// An address that a driver can dial.
pub(super) fn advertised_address(setting: &Setting) -> Checked<SocketAddr> {
    let address = socket_address(setting)?;
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err("expected an address and port that drivers can connect to".to_owned());
    }
    Ok(address)
}

pub(super) fn contact_points(setting: &Setting) -> Checked<Vec<ContactPoint>> {
    let items = setting
        .list()
        .filter(|items| !items.is_empty())
        .ok_or_else(|| {
            "expected a list of at least one host, such as [\"10.0.0.1:9042\", \"cassandra-2\"]"
                .to_owned()
        })?;
    items
        .into_iter()
        .map(|text| host_and_port(text, CASSANDRA_PORT))
        .collect()
}

pub(super) fn redis_address(setting: &Setting) -> Checked<ContactPoint> {
    host_and_port(&text(setting)?, REDIS_PORT)
}

fn host_and_port(text: &str, port_default: u16) -> Checked<ContactPoint> {
    let expected =
        || format!("{text:?} is not a host; expected \"name\", \"name:port\" or \"[IPv6]:port\"");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(expected)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| expected())?;
            (host, port)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(expected)?,
        None if port.is_empty() => port_default,
        None => return Err(expected()),
    };
    if host.is_empty()
        || host.contains(|letter: char| letter.is_whitespace() || "/@\"".contains(letter))
    {
        return Err(expected());
    }
    Ok(ContactPoint {
        host: host.to_owned(),
        port,
    })
}

/// A file that can be opened now; it is opened again for use.
pub(super) fn readable_file(setting: &Setting) -> Checked<PathBuf> {
    let path = PathBuf::from(text(setting)?);
    let is_file = File::open(&path)
        .and_then(|file| file.metadata())
        .map(|metadata| !metadata.is_dir());
    match is_file {
        Ok(true) => Ok(path),
        Ok(false) => Err("is a directory; expected a file".to_owned()),
        Err(error) => Err(format!(
            "cannot be read ({error}); check the path and its permissions"
        )),
    }
}

/// A directory in which a file can be created now.
pub(super) fn writable_directory(setting: &Setting) -> Checked<PathBuf> {
    let path = PathBuf::from(text(setting)?);
    if !path.is_dir() {
        return Err("is not a directory; create it, or remove the setting".to_owned());
    }
    // Only creating a file proves it: permissions say nothing about a file system that is mounted read-only.
    let probe = path.join(format!(".narrows-{}", std::process::id()));
    File::create(&probe)
        .and_then(|_| std::fs::remove_file(&probe))
        .map_err(|error| format!("cannot be written ({error}); check its permissions"))?;
    Ok(path)
}

/// The password in a file, without the line break that editors add.
pub(super) fn password_file(setting: &Setting) -> Checked<Secret> {
    let path = readable_file(setting)?;
    let mut content = String::new();
    File::open(path)
        .and_then(|file| {
            file.take(PASSWORD_BYTES_MAX + 1)
                .read_to_string(&mut content)
        })
        .map_err(|error| format!("cannot be read ({error}); expected one line of text"))?;
    if content.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(format!(
            "is longer than {PASSWORD_BYTES_MAX} bytes; expected one line of text"
        ));
    }
    let password = content.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.contains('\n') {
        return Err("expected a file with the password on one line and nothing else".to_owned());
    }
    Ok(Secret::new(password))
}

pub(super) fn topology_mode(setting: &Setting) -> Checked<TopologyMode> {
    match setting.text() {
        Some("single") => Ok(TopologyMode::Single),
        Some("mirror") => Ok(TopologyMode::Mirror),
        _ => Err("expected \"single\" or \"mirror\"".to_owned()),
    }
}

pub(super) fn network(setting: &Setting) -> Checked<Network> {
    let expected = || {
        "expected an IPv4 network such as \"127.0.0.0/8\", with a prefix from 8 to 30".to_owned()
    };
    let (address, prefix_len) = setting
        .text()
        .and_then(|text| text.split_once('/'))
        .ok_or_else(expected)?;
    let address: Ipv4Addr = address.parse().map_err(|_| expected())?;
    let prefix_len: u8 = prefix_len.parse().map_err(|_| expected())?;
    if !(8..=30).contains(&prefix_len) {
        return Err(expected());
    }
    let network = Network {
        address,
        prefix_len,
    };
    let first = network.mirror(Ipv4Addr::UNSPECIFIED);
    if first != address {
        return Err(format!(
            "has bits set after the prefix; did you mean {first}/{prefix_len}?"
        ));
    }
    Ok(network)
}

/// `EnvFilter` takes any word without `=` for the name of a module, so a misspelled level is caught here.
pub(super) fn log_level(setting: &Setting) -> Checked<String> {
    let expected = || {
        "expected off, error, warn, info, debug or trace, or a filter such as \"info,narrows::proxy=debug\"".to_owned()
    };
    let filter = setting
        .text()
        .filter(|text| !text.is_empty())
        .ok_or_else(expected)?;
    let is_level = |word: &str| LEVELS.contains(&word.trim().to_ascii_lowercase().as_str());
    if !filter
        .split(',')
        .all(|word| word.contains('=') || is_level(word))
        || EnvFilter::try_new(filter).is_err()
    {
        return Err(expected());
    }
    Ok(filter.to_owned())
}

pub(super) fn log_format(setting: &Setting) -> Checked<LogFormat> {
    match setting.text() {
        Some("human") => Ok(LogFormat::Human),
        Some("json") => Ok(LogFormat::Json),
        _ => Err("expected \"human\" or \"json\"".to_owned()),
    }
}

/// A keyspace of our own, as Cassandra spells it.
pub(super) fn control_keyspace(setting: &Setting) -> Checked<String> {
    let name = text(setting)?;
    if !is_name(&name) || name.len() > KEYSPACE_LENGTH_MAX || is_system(&name) {
        return Err(format!(
            "expected a name of at most {KEYSPACE_LENGTH_MAX} letters, digits and _ that is not one of Cassandra's own"
        ));
    }
    Ok(name)
}

pub(super) fn replication(setting: &Setting) -> Checked<Replication> {
    setting.text().and_then(Replication::parse).ok_or_else(|| {
        "expected a map as in CREATE KEYSPACE, such as \"{'class': 'NetworkTopologyStrategy', 'dc1': 3}\"".to_owned()
    })
}

/// `keyspace.table` as in CQL: without quotes, names are case-insensitive.
pub(super) fn table_name(setting: &Setting) -> Checked<TableName> {
    let expected = "expected a table with its keyspace, such as \"plant.reading\"; quote names with \
                    capitals: 'Plant.\"Reading\"'";
    let text = setting.text().ok_or(expected)?;
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let [keyspace, dot, table] = tokens.as_slice() else {
        return Err(expected.to_owned());
    };
    let names = keyspace.name(text).zip(table.name(text));
    let (keyspace, table) = names
        .filter(|(keyspace, table)| dot.is_symbol('.') && is_name(keyspace) && is_name(table))
        .ok_or(expected)?;
    if is_system(&keyspace) {
        return Err("is one of Cassandra's own tables, which cannot be watched".to_owned());
    }
    Ok(TableName::new(keyspace, table))
}

pub(super) fn table_mode(setting: &Setting) -> Checked<Mode> {
    setting
        .text()
        .and_then(Mode::parse)
        .ok_or_else(|| one_of(Mode::ALL.map(Mode::as_str)))
}

pub(super) fn late_writes(setting: &Setting) -> Checked<LateWrites> {
    let words = LateWrites::ALL.map(LateWrites::as_str);
    setting
        .text()
        .and_then(LateWrites::parse)
        .ok_or_else(|| one_of(words))
}

pub(super) fn bucket_unit(setting: &Setting) -> Checked<BucketUnit> {
    setting
        .text()
        .and_then(BucketUnit::parse)
        .ok_or_else(|| one_of(BucketUnit::ALL.map(BucketUnit::as_str)))
}

/// The number of shards of a watched table.
pub(super) fn shards(setting: &Setting) -> Checked<u32> {
    let shards = count(1..=SHARDS_MAX)(setting)?;
    if shards.is_power_of_two() {
        return Ok(shards);
    }
    Err("expected a power of two, such as 16 or 256".to_owned())
}

/// The policies of a filter.
pub(super) fn filter(setting: &Setting) -> Checked<Vec<String>> {
    let expected = "expected a list of policies, such as [\"fuse16\"]";
    let policies: Vec<&str> = setting.list().ok_or(expected)?;
    let policies: Vec<String> = policies.into_iter().map(str::to_owned).collect();
    spec::parse(&policies).map_err(|error| error.to_string())?;
    Ok(policies)
}

fn one_of<const N: usize>(words: [&str; N]) -> String {
    let quoted = words.map(|word| format!("\"{word}\""));
    format!("expected one of {}", quoted.join(", "))
}

/// What Cassandra allows in the names of keyspaces and tables, quoted or not.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}
