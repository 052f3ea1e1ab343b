//! A control keyspace of its own for each test, made from the files under `cql/`.

use std::sync::Arc;

use narrows::schema::names::{PartitionKey, TableName};
use narrows::watched::WatchedTable;
use narrows::wide_row::store::{SplitId, Store};
use scylla::client::session::Session;

use crate::support::{Cluster, Keyspace, driver, keyspace};

pub(crate) const SHARDS: u32 = 4;
/// Of four shards the numbers are 4 to 7.
pub(crate) const FIRST_SHARD: i32 = 4;

/// The keyspace, and a store on it.
pub(crate) struct Control {
    pub(crate) keyspace: Keyspace,
    pub(crate) session: Arc<Session>,
    pub(crate) store: Arc<Store>,
}

impl Control {
    /// A replica on every node.
    pub(crate) async fn create(cluster: &Cluster) -> Self {
        let replicas = cluster.nodes().len();
        let simple = format!("'class': 'SimpleStrategy', 'replication_factor': {replicas}");
        Self::replicated(cluster, &simple).await
    }

    pub(crate) async fn replicated(cluster: &Cluster, replication: &str) -> Self {
        let keyspace = Keyspace::replicated(cluster, replication, &[]);
        let statements = keyspace::control_tables(&keyspace.name);
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        keyspace.run(&statements);
        let session = session(cluster).await;
        let store = Store::open(session.clone(), &keyspace.name)
            .await
            .expect("the schema is there");
        // Watched, and seen: splits of a table that nobody has looked at are not believed.
        store.watch(&watched_table()).await.expect("watched");
        let row = store.read_watched().await.expect("read").remove(0);
        let seen = store.set_seen(&row, &row.seen).await;
        seen.expect("written down");
        Self {
            keyspace,
            session,
            store: Arc::new(store),
        }
    }

    /// Runs a statement with the keyspace's name in the place of `{}`.
    pub(crate) async fn run(&self, statement: &str) {
        let statement = statement.replace("{}", &self.keyspace.name);
        let result = self.session.query_unpaged(statement.as_str(), ()).await;
        result.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// A driver of its own for each caller.
pub(crate) async fn session(cluster: &Cluster) -> Arc<Session> {
    driver::session(cluster.nodes()).await
}

pub(crate) fn table() -> TableName {
    TableName::new("shop", "orders")
}

/// The table of the tests, with few shards.
pub(crate) fn watched_table() -> WatchedTable {
    let mut watched = WatchedTable::new(table());
    watched.shards = SHARDS;
    watched
}

pub(crate) fn split(key: &str) -> SplitId {
    SplitId::new(table(), PartitionKey::new(key.as_bytes()), SHARDS)
}

/// The key as a literal of CQL.
pub(crate) fn key_in_cql(id: &SplitId) -> String {
    let bytes = id.key.bytes().iter();
    bytes.fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
