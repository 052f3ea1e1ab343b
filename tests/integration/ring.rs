//! Tokens and replicas, as the cluster itself tells them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use narrows::upstream::connection::Connection;
use narrows::upstream::control::read_cluster;
use narrows::upstream::dial::Dialer;
use narrows::upstream::ring::{Ring, token};

use crate::support::cluster::old_cluster;
use crate::support::{Cluster, Codec, Keyspace, RawClient, cluster};

/// The cluster as the control connection of a node sees it.
pub(crate) async fn seen_from(node: SocketAddr) -> narrows::upstream::cluster::Cluster {
    let dialer = Dialer::new(Duration::from_secs(10), None);
    let mut connection = Connection::open(&dialer, node, None).await.expect("open");
    read_cluster(&mut connection, None).await.expect("readable")
}

/// The parts of a composite key, serialized as Cassandra does: length, bytes, zero.
fn composite(parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::new();
    for part in parts {
        key.extend((part.len() as u16).to_be_bytes());
        key.extend_from_slice(part);
        key.push(0);
    }
    key
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_tokens(cluster: &Cluster) {
    let tables = [
        "CREATE TABLE one (k blob PRIMARY KEY)",
        "CREATE TABLE two (a blob, b int, PRIMARY KEY ((a, b)))",
    ];
    let keyspace = Keyspace::create(cluster, &tables);
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    client.query(&format!("USE {}", keyspace.name));
    for length in 1..=40_u8 {
        let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(37) ^ length).collect();
        let literal = hex(&bytes);
        client.query(&format!("INSERT INTO one (k) VALUES (0x{literal})"));
        client.query(&format!("INSERT INTO two (a, b) VALUES (0x{literal}, -7)"));
        let mut ask = |of: &str, place: &str| {
            let text = format!("SELECT token({of}) AS t FROM {place}");
            let rows = client.query(&text).rows();
            let bytes = rows.only("t").expect("a token").to_vec();
            i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
        };
        let one = ask("k", &format!("one WHERE k = 0x{literal}"));
        assert_eq!(token(&bytes), one, "{length}");
        let two = ask("a, b", &format!("two WHERE a = 0x{literal} AND b = -7"));
        let key = composite(&[&bytes, &(-7_i32).to_be_bytes()]);
        assert_eq!(token(&key), two, "{length}");
    }
}

#[test]
fn tokens_are_those_that_cassandra_computes() {
    check_tokens(&cluster());
    check_tokens(&old_cluster());
}

#[tokio::test]
async fn replicas_are_those_that_nodetool_names() {
    let cluster = cluster();
    let seen = seen_from(cluster.node()).await;
    assert!(seen.nodes.iter().all(|node| !node.tokens.is_empty()));
    let ring = Ring::new(&seen);
    let strategies = [
        ("SimpleStrategy", "replication_factor", "1", "heron"),
        ("SimpleStrategy", "replication_factor", "2", "a"),
        ("NetworkTopologyStrategy", &*seen.data_center, "2", "otter"),
        (
            "NetworkTopologyStrategy",
            &*seen.data_center,
            "3",
            "kingfisher",
        ),
    ];
    let table = "CREATE TABLE t (k text PRIMARY KEY)";
    let keyspaces = strategies.map(|(class, option, copies, _)| {
        let replication = format!("'class': '{class}', '{option}': {copies}");
        Keyspace::replicated(&cluster, &replication, &[table])
    });
    // A nodetool takes seconds to start, so there is one key for each, and they start together.
    let said: Vec<String> = std::thread::scope(|scope| {
        let ask = |(keyspace, (.., key)): (&Keyspace, &(_, _, _, &'static str))| {
            let (cluster, name, key) = (&cluster, keyspace.name.clone(), *key);
            scope.spawn(move || cluster.nodetool(&["getendpoints", &name, "t", key]))
        };
        let asked: Vec<_> = keyspaces.iter().zip(&strategies).map(ask).collect();
        let said = asked.into_iter().map(|asked| asked.join().expect("said"));
        said.collect()
    });
    for ((class, option, copies, key), said) in strategies.into_iter().zip(said) {
        // As system_schema shows it.
        let full_name = format!("org.apache.cassandra.locator.{class}");
        let options = [("class", &*full_name), (option, copies)];
        let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let said: Vec<IpAddr> = said
            .split_whitespace()
            .map(|line| line.parse().expect("an address"))
            .collect();
        let found = ring.replicas(&options, key.as_bytes());
        let found: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        assert_eq!(found, said, "{class} {option} {copies}, {key}");
    }
}
