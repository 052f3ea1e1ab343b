//! Split tables: made once however many workers want one at the same moment, and dropped a day after their last use, never
//! sooner, and never what a person made.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use narrows::pipeline::cleanup::tables::drop_unused;
use narrows::schema::TableSchema;
use narrows::schema::bucket::Bucket;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;
use narrows::wide_row::store::{Detected, Found, MadeTable, SplitId, SplitTables, Store};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use uuid::Uuid;

use super::control::{Control, SHARDS};
use crate::support::cluster::old_cluster;
use crate::support::{Cluster, Keyspace, cluster, control_cluster};

pub(super) const HOUR: i64 = 3_600_000;

/// A control keyspace, and an original `t` with a replica on every node.
pub(super) struct World {
    pub(super) control: Control,
    pub(super) keyspace: Keyspace,
}

impl World {
    pub(super) async fn create(cluster: &Cluster) -> Self {
        let replicas = cluster.nodes().len();
        let everywhere = format!("'class': 'SimpleStrategy', 'replication_factor': {replicas}");
        let world = Self {
            control: Control::create(cluster).await,
            keyspace: Keyspace::replicated(cluster, &everywhere, &[]),
        };
        world
            .run("CREATE TABLE {}.t (k int, c int, v text, PRIMARY KEY (k, c))")
            .await;
        world
    }

    /// With the original's keyspace in the place of `{}`.
    pub(super) async fn run(&self, statement: &str) {
        let statement = statement.replace("{}", &self.keyspace.name);
        let result = self
            .control
            .session
            .query_unpaged(statement.as_str(), ())
            .await;
        result.unwrap_or_else(|error| panic!("{statement}: {error}"));
        let agreed = self.control.session.await_schema_agreement().await;
        agreed.expect("agreement");
    }

    pub(super) fn store(&self) -> &Store {
        &self.control.store
    }

    pub(super) fn table(&self, name: &str) -> TableName {
        TableName::new(&self.keyspace.name, name)
    }

    async fn schema(&self, name: &str) -> Arc<TableSchema> {
        let described = self
            .store()
            .describe(&self.table(name))
            .await
            .expect("readable");
        described.schema.expect("a table")
    }

    pub(super) async fn split_table(&self) -> String {
        let schema = self.schema("t").await;
        self.store().split_table(&schema).await.expect("made")
    }

    /// Looks at the split tables as if it were so many hours later. Returns how many were dropped.
    async fn look(&self, hours: i64) -> usize {
        let (schema, now) = (self.schema("t").await, unix_millis() + hours * HOUR);
        let dropped = drop_unused(self.store(), &schema, SHARDS, now).await;
        dropped.expect("looked at")
    }

    pub(super) async fn made(&self) -> Vec<MadeTable> {
        let schema = self.schema("t").await;
        let made = self
            .store()
            .made_tables(&self.table("t"), Some(&schema))
            .await;
        made.expect("read")
    }

    pub(super) async fn exists(&self, name: &str) -> bool {
        let described = self.store().describe(&self.table(name)).await;
        described.expect("readable").table_id.is_some()
    }

    pub(super) fn id(&self) -> SplitId {
        let key = PartitionKey::new(1_i32.to_be_bytes());
        SplitId::new(self.table("t"), key, SHARDS)
    }

    async fn detect(&self) -> Generation {
        match self.store().detect(&self.id(), Found::default()).await {
            Ok(Detected::New(generation)) => generation,
            other => panic!("not detected: {other:?}"),
        }
    }

    pub(super) async fn write_layout(&self, generation: Generation, split_table: &str) -> LayoutId {
        let id = self.id();
        let bucket = Bucket {
            first: Vec::new(),
            row_count: 1,
            byte_count: 1,
            home: None,
        };
        let id = LayoutId {
            table: id.table,
            key: id.key,
            generation,
        };
        let layout = Layout::new(id.clone(), split_table, "by hand", vec![bucket]);
        self.store().write_layout(&layout).await.expect("written");
        id
    }
}

/// A session whose every request goes to this node.
async fn session_on(node: SocketAddr) -> Arc<Session> {
    let target = NodeIdentifier::NodeAddress(node);
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::One)
        .load_balancing_policy(SingleTargetLoadBalancingPolicy::new(target, None))
        .build();
    let builder = SessionBuilder::new()
        .known_node_addr(node)
        .fetch_schema_metadata(false)
        .default_execution_profile_handle(profile.into_handle());
    Arc::new(builder.build().await.expect("the node answers"))
}

async fn table_id(session: &Session, table: &TableName) -> Option<Uuid> {
    let text = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let names = (table.keyspace.as_str(), table.table.as_str());
    let result = session.query_unpaged(text, names).await.expect("readable");
    let rows = result.into_rows_result().expect("rows");
    let row = rows.maybe_first_row::<(Uuid,)>().expect("an id");
    row.map(|(id,)| id)
}

#[tokio::test]
async fn workers_on_different_nodes_make_one_split_table() {
    let cluster = cluster();
    let world = World::create(&cluster).await;
    let mut workers = Vec::new();
    for node in cluster.nodes().iter().cycle().take(3) {
        let session = session_on(*node).await;
        let store = Store::open(session.clone(), &world.control.keyspace.name).await;
        workers.push((session, store.expect("the schema is there")));
    }
    let [one, two, three] = &workers[..] else {
        panic!("three workers");
    };
    for round in 0..4 {
        let name = format!("t{round}");
        world
            .run(&format!(
                "CREATE TABLE {{}}.{name} (k int, c int, v text, PRIMARY KEY (k, c))"
            ))
            .await;
        let schema = world.schema(&name).await;
        let made = tokio::join!(
            one.1.split_table(&schema),
            two.1.split_table(&schema),
            three.1.split_table(&schema)
        );
        let expected = format!("wide_{name}_1");
        for made in [made.0, made.1, made.2] {
            assert_eq!(made.expect("made or found"), expected);
        }
        let table = world.table(&expected);
        let mut ids = BTreeSet::new();
        for (session, _) in &workers {
            ids.insert(table_id(session, &table).await.expect("on every node"));
        }
        assert_eq!(ids.len(), 1, "{ids:?}");
        let mut insert = scylla::statement::Statement::new(format!(
            "INSERT INTO {}.{expected} (k, c, narrows_generation, narrows_bucket, v) VALUES (1, 1, 1, 0, 'x')",
            world.keyspace.name
        ));
        insert.set_consistency(Consistency::All);
        let written = one.0.query_unpaged(insert, ()).await;
        written.expect("every node knows the table by this id");
    }
}

#[tokio::test]
async fn a_worker_that_died_while_it_made_a_table_holds_nobody_up_for_ever() {
    for cluster in [control_cluster(), old_cluster()] {
        let world = World::create(&cluster).await;
        let row = format!(
            "WHERE keyspace_name = '{}' AND table_name = 't' AND split_table = 'wide_t_1'",
            world.keyspace.name
        );
        let control = &world.control;
        // Before it made anything.
        control
            .run(&format!(
                "UPDATE {{}}.split_table USING TTL 2 SET lease = 'dead' {row}"
            ))
            .await;
        assert_eq!(world.split_table().await, "wide_t_1");
        // After it made the table, before it wrote that down.
        control
            .run(&format!("DELETE FROM {{}}.split_table {row}"))
            .await;
        assert_eq!(world.split_table().await, "wide_t_1");
        assert_eq!(world.made().await.len(), 1);
    }
}

#[tokio::test]
async fn a_split_table_goes_a_day_after_its_last_use_and_its_name_is_not_used_again() {
    for cluster in [control_cluster(), old_cluster()] {
        let world = World::create(&cluster).await;
        assert_eq!(world.split_table().await, "wide_t_1");
        // First seen unused, and then for less than a day.
        assert_eq!((world.look(0).await, world.look(23).await), (0, 0));
        // Used again: the day begins anew.
        assert_eq!(world.split_table().await, "wide_t_1");
        assert_eq!((world.look(25).await, world.look(48).await), (0, 0));
        assert!(world.exists("wide_t_1").await);
        assert_eq!(world.look(50).await, 1);
        assert!(!world.exists("wide_t_1").await && world.exists("t").await);
        assert_eq!(world.look(100).await, 0);
        let prospect = world
            .store()
            .expected_split_table(&*world.schema("t").await)
            .await;
        let prospect = prospect.expect("read");
        assert_eq!(
            (prospect.name.as_str(), prospect.exists),
            ("wide_t_2", false)
        );
        assert_eq!(world.split_table().await, "wide_t_2");
    }
}

#[tokio::test]
async fn whatever_refers_to_a_split_table_keeps_it() {
    let world = World::create(&control_cluster()).await;
    assert_eq!(world.split_table().await, "wide_t_1");
    // It is to be planned, and would go there.
    let generation = world.detect().await;
    assert_eq!((world.look(0).await, world.look(25).await), (0, 0));
    // It is planned, and out of service with its table: its buckets wait for their clean-up.
    let layout = world.write_layout(generation, "wide_t_1").await;
    let store = world.store();
    let table = world.table("t");
    store
        .take_out_of_service(&table, SHARDS)
        .await
        .expect("out");
    assert_eq!((world.look(0).await, world.look(25).await), (0, 0));
    // They are gone.
    store.delete_layout(&layout).await.expect("deleted");
    assert_eq!((world.look(0).await, world.look(25).await), (0, 1));
}

#[tokio::test]
async fn a_table_of_an_older_schema_goes_while_the_present_one_is_used() {
    let world = World::create(&control_cluster()).await;
    assert_eq!(world.split_table().await, "wide_t_1");
    world.run("ALTER TABLE {}.t ADD w int").await;
    let generation = world.detect().await;
    assert_eq!(world.split_table().await, "wide_t_2");
    world.write_layout(generation, "wide_t_2").await;
    assert_eq!((world.look(0).await, world.look(25).await), (0, 1));
    assert!(!world.exists("wide_t_1").await && world.exists("wide_t_2").await);
    assert_eq!(world.split_table().await, "wide_t_2");
}

#[tokio::test]
async fn what_a_person_made_is_never_dropped() {
    let world = World::create(&control_cluster()).await;
    let create = "CREATE TABLE {}.wide_t_1 (k int, c int, v text, narrows_generation int, narrows_bucket int, \
        PRIMARY KEY ((k, narrows_generation, narrows_bucket), c))";
    // It fits, so it is used; and does not carry the mark.
    world.run(create).await;
    assert_eq!(world.split_table().await, "wide_t_1");
    assert_eq!((world.look(0).await, world.look(25).await), (0, 0));
    assert!(world.exists("wide_t_1").await);
    // What is dropped is not used again, whoever made it; nor what takes the place of one that was ours, mark and all.
    world.run("DROP TABLE {}.wide_t_1").await;
    assert_eq!(world.split_table().await, "wide_t_2");
    assert_eq!(world.look(0).await, 0);
    world.run("DROP TABLE {}.wide_t_2").await;
    let create = create.replace("wide_t_1", "wide_t_2");
    world
        .run(&format!("{create} WITH comment = 'Narrows: buckets of t'"))
        .await;
    assert_eq!(world.look(25).await, 0);
    assert!(world.exists("wide_t_2").await);
    assert_eq!(world.split_table().await, "wide_t_3");
}

#[tokio::test]
async fn tables_that_were_dropped_replaced_or_truncated_are_found_and_given_up() {
    for cluster in [control_cluster(), old_cluster()] {
        let world = World::create(&cluster).await;
        let (store, table) = (world.store(), world.table("t"));
        let look = async || store.read_split_tables(&table).await.expect("looked at");
        assert_eq!(look().await, SplitTables::default());
        assert_eq!(world.split_table().await, "wide_t_1");
        // A user's own, which only has such a name.
        world
            .run("CREATE TABLE {}.wide_t_7 (k int PRIMARY KEY, narrows_generation int, narrows_bucket int)")
            .await;
        let found = look().await;
        assert_eq!(found.names, BTreeSet::from(["wide_t_1".to_owned()]));
        assert!(found.lost.is_empty() && found.in_use.contains_key("wide_t_1"));
        let first = found.in_use["wide_t_1"];
        world.run("DROP TABLE {}.wide_t_1").await;
        let found = look().await;
        assert!(found.names.is_empty() && found.in_use.is_empty());
        assert_eq!(found.lost.get("wide_t_1"), Some(&first));
        // And made anew.
        world
            .run(
                "CREATE TABLE {}.wide_t_1 (k int, c int, v text, narrows_generation int, narrows_bucket int, \
                 PRIMARY KEY ((k, narrows_generation, narrows_bucket), c))",
            )
            .await;
        let found = look().await;
        assert_eq!(found.lost.get("wide_t_1"), Some(&first));
        assert_eq!(found.names.len(), 1);
        store
            .give_up_lost(&table, "wide_t_1", first)
            .await
            .expect("given up");
        let found = look().await;
        assert!(found.lost.is_empty() && found.in_use.is_empty());
        assert_eq!(found.names.len(), 1, "clients still leave it alone");
        assert_eq!(world.split_table().await, "wide_t_2");
        // One that is not recorded: a person made it, and nobody has used it yet.
        world
            .run(
                "CREATE TABLE {}.wide_t_3 (k int, c int, v text, narrows_generation int, narrows_bucket int, \
                 PRIMARY KEY ((k, narrows_generation, narrows_bucket), c))",
            )
            .await;
        let third = look().await.in_use["wide_t_3"];
        store
            .give_up_lost(&table, "wide_t_3", third)
            .await
            .expect("given up");
        let in_use: Vec<String> = look().await.in_use.into_keys().collect();
        assert_eq!(in_use, ["wide_t_2"]);
        assert!(world.exists("wide_t_3").await);
    }
}

#[tokio::test]
async fn a_table_that_is_used_at_the_last_moment_is_not_given_up() {
    let world = World::create(&control_cluster()).await;
    world.split_table().await;
    world.look(0).await;
    let (store, table) = (world.store(), world.table("t"));
    let made = world.made().await.remove(0);
    assert!(made.unused_since.is_some());
    let now = unix_millis() + 25 * HOUR;
    world.split_table().await;
    assert!(!store.give_up(&table, &made, now).await.expect("answered"));
    // Given up, and the worker died before it dropped it: nobody uses it, and another drops it.
    world.look(0).await;
    let made = world.made().await.remove(0);
    assert!(store.give_up(&table, &made, now).await.expect("answered"));
    assert_eq!(world.split_table().await, "wide_t_2");
    assert!(world.exists("wide_t_1").await);
    assert_eq!(world.look(0).await, 1);
    assert!(!world.exists("wide_t_1").await);
}
