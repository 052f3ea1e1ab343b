//! Partitions with more tombstones in one place than Cassandra reads at a time: a scan of the original finds every row once,
//! in order and from every checkpoint, and verify compares every row.

use narrows::pipeline::original::partition::Partition;
use narrows::pipeline::original::scan::{Position, Scan};
use narrows::pipeline::verify::{
    Checked, Difference, DifferenceKind, Patience, Verification, Verified, VerifyError,
};
use narrows::protocol::types::Cursor;
use narrows::schema::bucket::Bucket;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::schema::{ColumnRow, TableSchema};
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;
use tokio::task::LocalSet;

use super::requests;
use crate::exactness::seconds_now;
use crate::support::{Cluster, Codec, Keyspace, RawClient, cluster};

/// A row of nulls is that many tombstones.
const COLUMNS: usize = 100;
/// Cassandra gives up at 100,000.
const GRAVES: std::ops::Range<i32> = 1_000..2_200;
const LIVING: [std::ops::Range<i32>; 2] = [0..120, 5_000..5_120];
/// Where the copy's second bucket begins.
const MIDDLE: i32 = 5_010;

pub(super) fn schema(keyspace: &str, table: &str, order: &str) -> TableSchema {
    let row = |name: String, kind: &str, position, cql_type: &str| ColumnRow {
        name,
        kind: kind.into(),
        position,
        clustering_order: if kind == "clustering" { order } else { "none" }.into(),
        cql_type: cql_type.into(),
    };
    let mut rows = vec![
        row("k".into(), "partition_key", 0, "int"),
        row("c".into(), "clustering", 0, "int"),
    ];
    rows.extend((0..COLUMNS).map(|number| row(format!("v{number:02}"), "regular", -1, "int")));
    let schema = TableSchema::from_rows(keyspace, table, rows, Vec::new(), Vec::new());
    schema.expect("a table")
}

pub(super) fn create(table: &str, order: &str) -> [String; 2] {
    let columns: Vec<String> = (0..COLUMNS)
        .map(|number| format!("v{number:02} int"))
        .collect();
    let columns = columns.join(", ");
    let order = format!("WITH CLUSTERING ORDER BY (c {order})");
    [
        format!("CREATE TABLE {table} (k int, c int, {columns}, PRIMARY KEY (k, c)) {order}"),
        format!(
            "CREATE TABLE wide_{table}_1 (k int, narrows_generation int, narrows_bucket int, c int, {columns}, \
             PRIMARY KEY ((k, narrows_generation, narrows_bucket), c)) {order}"
        ),
    ]
}

pub(super) fn fill(client: &mut RawClient, table: &str, order: &str) {
    let nulls: Vec<String> = (0..COLUMNS)
        .map(|number| format!("v{number:02} = null"))
        .collect();
    let nulls = nulls.join(", ");
    let graves: Vec<String> = GRAVES
        .map(|c| format!("UPDATE {table} SET {nulls} WHERE k = 1 AND c = {c}"))
        .collect();
    let living = || LIVING.into_iter().flatten();
    let rows: Vec<String> = living()
        .map(|c| {
            format!("INSERT INTO {table} (k, c, v00) VALUES (1, {c}, {c}) USING TIMESTAMP {c}")
        })
        .collect();
    let copies: Vec<String> = living()
        .map(|c| {
            let bucket = i32::from(if order == "asc" { c >= MIDDLE } else { c <= MIDDLE });
            format!(
                "INSERT INTO wide_{table}_1 (k, narrows_generation, narrows_bucket, c, v00) VALUES (1, 1, {bucket}, {c}, {c}) \
                 USING TIMESTAMP {c}"
            )
        })
        .collect();
    let batches = graves.chunks(10).chain(rows.chunks(60));
    for batch in batches.chain(copies.chunks(60)) {
        client.query(&format!(
            "BEGIN UNLOGGED BATCH {} APPLY BATCH",
            batch.join("; ")
        ));
    }
}

/// The keys of all rows, which are ints.
async fn scanned(cluster: &Cluster, schema: &TableSchema) -> Vec<i32> {
    let keys = scanned_keys(cluster, schema).await;
    let number = |value: Vec<u8>| i32::from_be_bytes(value.try_into().expect("an int"));
    keys.into_iter().map(number).collect()
}

/// Every page by a scan of its own, from the checkpoint of the one before.
async fn scanned_keys(cluster: &Cluster, schema: &TableSchema) -> Vec<Vec<u8>> {
    let requests = requests(cluster.node()).await;
    let key = PartitionKey::new(1_i32.to_be_bytes());
    let partition = Partition::new(schema, &key).expect("a key");
    let (now, mut position, mut found) = (seconds_now(), Position::default(), Vec::new());
    loop {
        let mut scan = Scan::new(&requests, schema, &partition, now, position);
        let rows = scan.next().await.expect("readable in narrower ranges");
        if rows.is_empty() {
            return found;
        }
        // A scan that turned round would find rows again and again.
        assert!(found.len() <= 1_000, "there are not so many rows");
        found.extend(rows.iter().map(|row| row.clustering[0].to_vec()));
        let mut checkpoint = Vec::new();
        scan.position().write(&mut checkpoint);
        position = Position::read(&mut Cursor::new(&checkpoint)).expect("as it was written");
    }
}

async fn verified(cluster: &Cluster, schema: &TableSchema) -> Result<Verified, VerifyError> {
    let key = PartitionKey::new(1_i32.to_be_bytes());
    let bucket = |first: &[i32]| Bucket {
        first: first.iter().map(|c| c.to_be_bytes().into()).collect(),
        row_count: 1,
        byte_count: 1,
        home: None,
    };
    let layout = Layout::new(
        LayoutId {
            table: TableName::new(&schema.keyspace, &schema.table),
            key: key.clone(),
            generation: Generation(1),
        },
        format!("wide_{}_1", schema.table),
        "by hand".to_owned(),
        vec![bucket(&[]), bucket(&[MIDDLE])],
    );
    let verification = Verification {
        requests: &requests(cluster.node()).await,
        schema,
        key: &key,
        layout: &layout,
        now: seconds_now(),
        patience: Patience {
            reread: [std::time::Duration::ZERO; 3],
            ..Patience::default()
        },
        from: Checked::default(),
        progress: &|_| {},
    };
    verification.run().await
}

/// Both tables with their copies, and the runtime to read them.
struct World {
    cluster: Cluster,
    keyspace: Keyspace,
    client: RawClient,
    runtime: tokio::runtime::Runtime,
}

const TABLES: [(&str, &str); 2] = [("up", "asc"), ("down", "desc")];

impl World {
    fn create() -> Self {
        let cluster = cluster();
        let tables: Vec<String> = TABLES
            .iter()
            .flat_map(|(table, order)| create(table, order))
            .collect();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let keyspace = Keyspace::create(&cluster, &tables);
        let mut client = RawClient::connect(cluster.node(), Codec::V4);
        client.query(&format!("USE {}", keyspace.name));
        for (table, order) in TABLES {
            fill(&mut client, table, order);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Self {
            cluster,
            keyspace,
            client,
            runtime: runtime.expect("a runtime"),
        }
    }

    fn schema(&self, (table, order): (&str, &str)) -> TableSchema {
        schema(&self.keyspace.name, table, order)
    }

    fn verify(&self, table: (&str, &str)) -> Result<Verified, VerifyError> {
        let schema = self.schema(table);
        LocalSet::new().block_on(&self.runtime, verified(&self.cluster, &schema))
    }
}

#[test]
fn a_scan_passes_tombstones_in_either_direction_and_goes_on_from_any_page() {
    let world = World::create();
    let mut expected: Vec<i32> = LIVING.into_iter().flatten().collect();
    for table in TABLES {
        let schema = world.schema(table);
        let found = LocalSet::new().block_on(&world.runtime, scanned(&world.cluster, &schema));
        assert_eq!(found, expected, "{table:?}");
        expected.reverse();
    }
}

/// Rows that are called one after the other, so that the first letters are those of all of them.
#[test]
fn a_scan_passes_tombstones_between_texts() {
    const GRAVES: std::ops::Range<i32> = 3_000..4_200;
    let cluster = cluster();
    let columns: Vec<String> = (0..COLUMNS).map(|number| format!("v{number:02}")).collect();
    let table = format!(
        "CREATE TABLE named (k int, c text, {} int, PRIMARY KEY (k, c))",
        columns.join(" int, ")
    );
    let keyspace = Keyspace::create(&cluster, &[&table]);
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    client.query(&format!("USE {}", keyspace.name));
    let name = |number: i32| format!("evt-{number:06}");
    let nulls = columns.join(" = null, ");
    let graves = GRAVES.map(|number| {
        let name = name(number);
        format!("UPDATE named SET {nulls} = null WHERE k = 1 AND c = '{name}'")
    });
    let names: Vec<String> = (0..100).chain(9_000..9_100).map(name).collect();
    let rows = names
        .iter()
        .map(|name| format!("INSERT INTO named (k, c, v00) VALUES (1, '{name}', 1)"));
    let statements: Vec<String> = graves.chain(rows).collect();
    for batch in statements.chunks(10) {
        let batch = batch.join("; ");
        client.query(&format!("BEGIN UNLOGGED BATCH {batch} APPLY BATCH"));
    }
    let schema = named_schema(&keyspace.name, &columns);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let found = LocalSet::new().block_on(&runtime, scanned_keys(&cluster, &schema));
    let found: Vec<String> = found
        .into_iter()
        .map(|key| String::from_utf8(key).expect("a text"))
        .collect();
    assert_eq!(found, names);
}

fn named_schema(keyspace: &str, columns: &[String]) -> TableSchema {
    let row = |name: &str, kind: &str, cql_type: &str| ColumnRow {
        name: name.into(),
        kind: kind.into(),
        position: if kind == "regular" { -1 } else { 0 },
        clustering_order: if kind == "clustering" { "asc" } else { "none" }.into(),
        cql_type: cql_type.into(),
    };
    let mut rows = vec![
        row("k", "partition_key", "int"),
        row("c", "clustering", "text"),
    ];
    rows.extend(columns.iter().map(|name| row(name, "regular", "int")));
    let schema = TableSchema::from_rows(keyspace, "named", rows, Vec::new(), Vec::new());
    schema.expect("a table")
}

#[test]
fn verify_compares_what_lies_on_either_side_of_tombstones() {
    let mut world = World::create();
    for table in TABLES {
        let verified = world.verify(table).expect("an exact copy");
        assert_eq!(verified.row_count, 240, "{table:?}");
    }
    // The row behind the tombstones, and one before them that the original lacks.
    let (up, down) = ("wide_up_1", "wide_down_1");
    world.client.query(&format!(
        "DELETE FROM {up} WHERE k = 1 AND narrows_generation = 1 AND narrows_bucket = 0 AND c = 5000"
    ));
    world.client.query(&format!(
        "INSERT INTO {down} (k, narrows_generation, narrows_bucket, c, v00) VALUES (1, 1, 1, 1500, 1)"
    ));
    let expected = [
        (DifferenceKind::MissingRow, 0, 5000_i32),
        (DifferenceKind::ExtraRow, 1, 1500),
    ];
    for (table, (kind, bucket, key)) in TABLES.into_iter().zip(expected) {
        let found = world.verify(table);
        let Err(VerifyError::Differs(found)) = found else {
            panic!("{table:?}: {found:?}");
        };
        let expected = Difference {
            bucket,
            kind,
            column: None,
            key: vec![key.to_be_bytes().into()],
        };
        assert_eq!(found, expected, "{table:?}");
    }
}
