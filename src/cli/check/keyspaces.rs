//! What `narrows check` finds in the schema of the cluster: watched tables that do not exist, and keyspaces of which the
//! loss of one node loses a quorum.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Enabled, show_duration};
use crate::protocol::ProtocolError;
use crate::protocol::types::Cursor;
use crate::schema::replication::Replication;
use crate::upstream::UpstreamError;
use crate::upstream::cluster::Cluster;
use crate::upstream::connection::Connection;
use crate::wide_row::schema::definition::{CATALOG, keyspace_in_cql};

/// The keyspaces that exist, by name.
pub(super) type Keyspaces = BTreeMap<String, Keyspace>;

#[derive(Debug, Default)]
pub(super) struct Keyspace {
    /// `None`: a strategy that is not known here.
    replication: Option<Replication>,
    tables: BTreeSet<String>,
}

/// Reads the control keyspace, and the keyspaces of the watched tables.
pub(super) async fn read(
    config: &Config,
    connection: &mut Connection,
) -> Result<Keyspaces, UpstreamError> {
    let mut found = Keyspaces::new();
    let watched = config.tables.iter().map(|table| &table.name.keyspace);
    let names: BTreeSet<&String> = watched.chain([&config.control.keyspace]).collect();
    for name in names {
        let which = format!("WHERE keyspace_name = '{}'", name.replace('\'', "''"));
        let query = format!("SELECT replication FROM system_schema.keyspaces {which}");
        let keyspace = connection.query(&query).await?;
        let Some(row) = keyspace.rows.first() else {
            continue;
        };
        let query = format!("SELECT table_name FROM system_schema.tables {which}");
        let tables = connection.query(&query).await?;
        let tables = tables.rows.iter().filter_map(|row| row.first()?.as_deref());
        let replication = row
            .first()
            .and_then(|value| text_map(value.as_deref()?).ok());
        let keyspace = Keyspace {
            replication: replication.and_then(Replication::copied),
            tables: tables
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
        };
        found.insert(name.clone(), keyspace);
    }
    Ok(found)
}

/// A `map<text, text>` (native_protocol_v4 §6).
fn text_map(value: &[u8]) -> Result<BTreeMap<String, String>, ProtocolError> {
    let mut value = Cursor::new(value);
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let count = value.count("map")?;
    (0..count)
        .map(|_| Ok((text(value.bytes()?), text(value.bytes()?))))
        .collect()
}

/// One line for each warning or note.
pub(super) fn warnings(config: &Config, cluster: &Cluster, found: &Keyspaces) -> Vec<String> {
    let control = found.get(&config.control.keyspace);
    let is_made = control.is_some_and(|control| control.tables.contains(CATALOG));
    let mut lines = Vec::new();
    match config.control.enabled {
        Enabled::No => return lines,
        Enabled::IfFound if !is_made => return lines,
        Enabled::IfFound => lines.push(format!(
            "note: control keyspace {} exists; a proxy with this configuration follows it and checks writes against \
             what is split\n",
            config.control.keyspace
        )),
        Enabled::Yes => lines.extend(missing_tables(config, found)),
    }
    lines.extend(of_control(config, cluster, found));
    let watched: BTreeSet<&String> = config
        .tables
        .iter()
        .map(|table| &table.name.keyspace)
        .collect();
    for name in watched {
        let replication = found
            .get(name)
            .and_then(|keyspace| keyspace.replication.as_ref());
        lines.extend(replication.and_then(|replication| {
            let scarce = scarce(replication, cluster)?;
            Some(format!(
                "warning: keyspace {name} of watched tables has {}. When one node is lost, lightweight transactions and \
                 quorum reads of its tables fail, with or without Narrows, and none of its partitions can be split. \
                 {}\n",
                scarce.copies, alter(name, replication, &scarce)
            ))
        }));
    }
    lines
}

fn missing_tables(config: &Config, found: &Keyspaces) -> Vec<String> {
    let missing = config.tables.iter().filter_map(|table| {
        let name = &table.name;
        let why = match found.get(&name.keyspace) {
            Some(keyspace) if keyspace.tables.contains(&name.table) => return None,
            Some(_) => "its keyspace has no such table".to_owned(),
            None => format!("there is no keyspace {}", name.keyspace),
        };
        Some(format!(
            "warning: table {name} does not exist in the cluster: {why}; Narrows watches nothing until it is created. \
             Names are spelled as in Cassandra: capitals count\n"
        ))
    });
    missing.collect()
}

/// Too few replicas of the control keyspace, as it is or would be created.
fn of_control(config: &Config, cluster: &Cluster, found: &Keyspaces) -> Option<String> {
    let name = &config.control.keyspace;
    let existing = found.get(name);
    let replication = match existing {
        Some(keyspace) => keyspace.replication.clone()?,
        None => future_replication(config, cluster, found),
    };
    let scarce = scarce(&replication, cluster)?;
    let (has, remedy) = match existing {
        Some(_) => ("has", alter(name, &replication, &scarce)),
        None => (
            "does not exist yet, and would be created with",
            format!(
                "What to do: {}set control.replication = \"{}\" before the first start",
                scarce.first,
                replication.with_enough()
            ),
        ),
    };
    Some(format!(
        "warning: the control keyspace {name} {has} {}. When one node is lost, its lightweight transactions and quorum \
         reads fail: splits cannot be retired, so writes to split partitions are refused; other writes go on for \
         control.max_staleness ({}). {remedy}\n",
        scarce.copies,
        show_duration(config.control.max_staleness),
    ))
}

/// As `wide_row::schema` chooses it.
fn future_replication(config: &Config, cluster: &Cluster, found: &Keyspaces) -> Replication {
    let first = config.tables.first();
    let copied = first.and_then(|table| found.get(&table.name.keyspace)?.replication.clone());
    let configured = config.control.replication.clone();
    configured.or(copied).unwrap_or_else(|| {
        let data_centers = cluster.nodes.iter().map(|node| node.data_center.as_str());
        Replication::for_data_centers(data_centers)
    })
}

/// More than one replica at a time would let two new ones, still empty, make up a quorum.
fn alter(name: &str, replication: &Replication, scarce: &Scarce) -> String {
    let more = replication.with_one_more();
    let again = match more.scarce().is_empty() {
        true => "",
        false => "; then do the same again, one more replica at a time, up to 3",
    };
    format!(
        "What to do: {}run ALTER KEYSPACE {} WITH replication = {more}, then `nodetool repair --full {name}` on every node{again}",
        scarce.first,
        keyspace_in_cql(name),
    )
}

/// Too few replicas, in words.
struct Scarce {
    copies: String,
    /// What comes before more replicas: as many nodes.
    first: String,
}

fn scarce(replication: &Replication, cluster: &Cluster) -> Option<Scarce> {
    const NODES_MIN: usize = 3;
    let (mut copies, mut small) = (Vec::new(), BTreeSet::new());
    for (place, count) in replication.scarce() {
        let replicas = if count == 1 { "replica" } else { "replicas" };
        copies.push(match place {
            Some(place) => format!("{count} {replicas} in data centre {place}"),
            None => format!("{count} {replicas}"),
        });
        let is_there = |of: &str| place.is_none_or(|place| place == of);
        let nodes = cluster
            .nodes
            .iter()
            .filter(|node| is_there(&node.data_center))
            .count();
        if nodes < NODES_MIN {
            small.insert(place.map_or("the cluster".to_owned(), |place| {
                format!("data centre {place}")
            }));
        }
    }
    let first = match small.is_empty() {
        true => String::new(),
        false => {
            let small: Vec<String> = small.into_iter().collect();
            format!(
                "first add nodes until {} has {NODES_MIN}, then ",
                small.join(" and ")
            )
        }
    };
    (!copies.is_empty()).then(|| Scarce {
        copies: copies.join(" and "),
        first,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::names::TableName;
    use crate::upstream::cluster::Node;
    use crate::watched::WatchedTable;

    fn cluster(nodes: &[&str]) -> Cluster {
        let node = |data_center: &&str| Node {
            host_id: [0; 16],
            address: std::net::SocketAddr::from(([127, 0, 0, 1], 9042)),
            advertised: std::net::Ipv4Addr::LOCALHOST.into(),
            data_center: (*data_center).to_owned(),
            rack: "r1".to_owned(),
            release_version: "5.0.6".to_owned(),
            tokens: Vec::new(),
            up: true,
        };
        Cluster {
            name: "demo".to_owned(),
            data_center: "dc1".to_owned(),
            nodes: nodes.iter().map(node).collect(),
        }
    }

    fn keyspaces(all: &[(&str, &str, &[&str])]) -> Keyspaces {
        let keyspace = |(name, replication, tables): &(&str, &str, &[&str])| {
            let keyspace = Keyspace {
                replication: Replication::parse(replication),
                tables: tables.iter().map(|table| (*table).to_owned()).collect(),
            };
            ((*name).to_owned(), keyspace)
        };
        all.iter().map(keyspace).collect()
    }

    fn watching(tables: &[&str]) -> Config {
        let mut config = Config::default();
        config.control.enabled = Enabled::Yes;
        let watched = |table: &&str| WatchedTable::new(TableName::new("plant", *table));
        config.tables = tables.iter().map(watched).collect();
        config
    }

    const THREE: &str = "{'class': 'NetworkTopologyStrategy', 'dc1': '3'}";
    const TWO: &str = "{'class': 'NetworkTopologyStrategy', 'dc1': '2'}";
    const NODES: [&str; 3] = ["dc1"; 3];

    #[test]
    fn nothing_is_said_where_all_is_well() {
        let found = keyspaces(&[
            ("narrows", THREE, &["watched_table"]),
            ("plant", THREE, &["t"]),
        ]);
        let told = warnings(&watching(&["t"]), &cluster(&NODES), &found);
        assert_eq!(told, Vec::<String>::new());
    }

    #[test]
    fn missing_tables_are_named_with_the_reason() {
        let found = keyspaces(&[("narrows", THREE, &[]), ("plant", THREE, &["t"])]);
        let told = warnings(&watching(&["t", "T"]), &cluster(&NODES), &found);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("its keyspace has no such table"),
            "{told:?}"
        );
        let found = keyspaces(&[("narrows", THREE, &[])]);
        let told = warnings(&watching(&["t"]), &cluster(&NODES), &found);
        assert!(told[0].contains("there is no keyspace plant"), "{told:?}");
    }

    #[test]
    fn few_replicas_are_told_with_what_to_do() {
        let found = keyspaces(&[("narrows", TWO, &["watched_table"]), ("plant", TWO, &["t"])]);
        let told = warnings(&watching(&["t"]), &cluster(&NODES), &found);
        assert_eq!(told.len(), 2, "{told:?}");
        let enough = "WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'}, then `nodetool repair --full";
        assert!(
            told[0].starts_with(
                "warning: the control keyspace narrows has 2 replicas in data centre dc1. "
            ) && told[0].contains(&format!("run ALTER KEYSPACE narrows {enough} narrows`")),
            "{told:?}"
        );
        assert!(
            told[1].contains("keyspace plant of watched tables has 2 replicas"),
            "{told:?}"
        );
        let one = TWO.replace('2', "1");
        let found = keyspaces(&[
            ("narrows", &one, &["watched_table"]),
            ("plant", TWO, &["t"]),
        ]);
        let told = warnings(&watching(&["t"]), &cluster(&NODES), &found);
        assert!(
            told[0].contains("'dc1': '2'}, then ")
                && told[0].contains("one more replica at a time"),
            "{told:?}"
        );
        // More replicas than nodes would have no quorum at all.
        let told = warnings(&watching(&["t"]), &cluster(&["dc1", "dc1"]), &found);
        assert!(
            told[0].contains("first add nodes until data centre dc1 has 3, then run"),
            "{told:?}"
        );
    }

    #[test]
    fn replication_is_judged_before_the_keyspace_exists() {
        let found = keyspaces(&[("plant", TWO, &["t"])]);
        let mut config = watching(&["t"]);
        let told = warnings(&config, &cluster(&NODES), &found);
        assert!(
            told[0].contains("would be created with 2 replicas in data centre dc1"),
            "{told:?}"
        );
        config.control.replication = Replication::parse(THREE);
        assert_eq!(
            warnings(&config, &cluster(&NODES), &found).len(),
            1,
            "of plant alone"
        );
        config.control.replication =
            Replication::parse("{'class': 'SimpleStrategy', 'replication_factor': 1}");
        let told = warnings(&config, &cluster(&NODES), &found);
        let remedy =
            "set control.replication = \"{'class': 'SimpleStrategy', 'replication_factor': '3'}\"";
        assert!(
            told[0].contains("with 1 replica. ") && told[0].contains(remedy),
            "{told:?}"
        );
    }

    #[test]
    fn a_relay_is_told_of_a_control_keyspace_that_it_would_follow() {
        let mut config = Config::default();
        let made = keyspaces(&[("narrows", TWO, &["watched_table"])]);
        let told = warnings(&config, &cluster(&NODES), &made);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].starts_with("note: control keyspace narrows exists;"),
            "{told:?}"
        );
        let foreign = keyspaces(&[("narrows", TWO, &["other"])]);
        assert_eq!(warnings(&config, &cluster(&NODES), &foreign).len(), 0);
        config.control.enabled = Enabled::No;
        assert_eq!(warnings(&config, &cluster(&NODES), &made).len(), 0);
    }

    #[test]
    fn reads_a_replication_as_cassandra_sends_it() {
        let mut value = 1_i32.to_be_bytes().to_vec();
        for text in ["class", "LocalStrategy"] {
            value.extend(i32::try_from(text.len()).unwrap().to_be_bytes());
            value.extend(text.as_bytes());
        }
        let map = text_map(&value).expect("well-formed");
        assert_eq!(map["class"], "LocalStrategy");
        assert!(text_map(&value[..9]).is_err());
    }
}
