//! A keyspace of its own for each test, made directly on the cluster.
//!
//! No test drops it, because Cassandra flushes every table of the node when one is dropped. `make integration` takes the
//! clusters down in the end.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::{Cluster, Codec, RawClient, eventually, request};

/// Schema changes side by side in one cluster only make each other slow. Each cluster has its own turns.
static TURNS: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

const CONTROL: [&str; 5] = [
    include_str!("../../../cql/002_watched_table.cql"),
    include_str!("../../../cql/003_wide_row.cql"),
    include_str!("../../../cql/004_wide_row_layout.cql"),
    include_str!("../../../cql/005_split_table.cql"),
    include_str!("../../../cql/006_fleet.cql"),
];

pub(crate) struct Keyspace {
    pub(crate) name: String,
    node: SocketAddr,
}

impl Keyspace {
    /// Creates the keyspace and runs `statements` in it. The names of all keyspaces have the same length.
    pub(crate) fn create(cluster: &Cluster, statements: &[&str]) -> Self {
        let one = "'class': 'SimpleStrategy', 'replication_factor': 1";
        Self::replicated(cluster, one, statements)
    }

    /// The same with this replication.
    pub(crate) fn replicated(cluster: &Cluster, replication: &str, statements: &[&str]) -> Self {
        let keyspace = Self {
            name: unique_name(),
            node: cluster.node(),
        };
        let name = &keyspace.name;
        let create = creation(name, replication);
        let using = format!("USE {name}");
        let mut all = vec![create.as_str(), using.as_str()];
        all.extend(statements);
        keyspace.run(&all);
        keyspace
    }

    /// A keyspace with `statements`, and a control keyspace with all its tables. They are made in one go: on three nodes it
    /// takes a second until all agree, and a proxy that makes the tables itself waits for that after each.
    pub(crate) fn with_control(
        cluster: &Cluster,
        [replication, of_control]: [&str; 2],
        statements: &[&str],
    ) -> [Self; 2] {
        let both = [0, 1].map(|_| Self {
            name: unique_name(),
            node: cluster.node(),
        });
        let mut all = vec![
            creation(&both[0].name, replication),
            creation(&both[1].name, of_control),
            format!("USE {}", both[0].name),
        ];
        all.extend(statements.iter().map(|text| (*text).to_owned()));
        all.extend(control_tables(&both[1].name));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        both[0].run(&all);
        both
    }

    /// Changes the schema, and returns when all nodes know of it.
    pub(crate) fn run(&self, statements: &[&str]) {
        alone(self.node, || {
            let mut client = RawClient::connect(self.node, Codec::V4);
            for statement in statements {
                client.query(statement);
            }
            settle(&mut client);
        });
    }
}

fn creation(name: &str, replication: &str) -> String {
    format!("CREATE KEYSPACE {name} WITH replication = {{{replication}}}")
}

/// The statements that make the tables of a control keyspace.
pub(crate) fn control_tables(keyspace: &str) -> Vec<String> {
    let own = format!("{keyspace}.");
    let statements = CONTROL.iter().flat_map(|file| statements(file));
    statements
        .map(|text| text.replace("narrows.", &own))
        .collect()
}

/// The statements of a file: no text in ours holds a semicolon outside of comments.
fn statements(file: &str) -> Vec<String> {
    let lines = file
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    let text: Vec<&str> = lines.collect();
    let text = text.join("\n");
    let statements = text.split(';').map(str::trim);
    statements
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}
/// Runs schema changes while no other test does in the cluster of this node.
pub(crate) fn alone<T>(node: SocketAddr, change: impl FnOnce() -> T) -> T {
    let IpAddr::V4(ip) = node.ip() else {
        panic!("{node} is IPv4");
    };
    // The third byte is the cluster's. Two clusters with one turn would only wait for each other.
    let turn = usize::from(ip.octets()[2]) % TURNS.len();
    let _turn = TURNS[turn].lock().unwrap_or_else(PoisonError::into_inner);
    change()
}

/// Waits until all nodes have one schema, as a driver does on a direct connection.
pub(crate) fn settle(client: &mut RawClient) {
    eventually("all nodes have one schema", || agreed(client));
}

fn agreed(client: &mut RawClient) -> Option<()> {
    let mut schemas = |table: &str| {
        let text = format!("SELECT schema_version FROM system.{table}");
        client.send(0, super::opcode::QUERY, &request::query(Codec::V4, &text));
        client.receive().rows().rows
    };
    let local = schemas("local");
    schemas("peers")
        .iter()
        .all(|row| *row == local[0])
        .then_some(())
}

fn unique_name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    format!(
        "t{:08x}_{:06}_{count:03}",
        now.as_secs() as u32,
        std::process::id() % 1_000_000
    )
}
