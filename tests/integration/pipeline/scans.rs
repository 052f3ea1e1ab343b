//! A scan of the original finds every row once, in order, also past more tombstones than Cassandra reads at a time, and from
//! every checkpoint.

use narrows::pipeline::partition::Partition;
use narrows::pipeline::scan::{Position, Scan};
use narrows::protocol::types::Cursor;
use narrows::schema::{ColumnRow, TableSchema};
use narrows::wide_row::names::PartitionKey;
use tokio::task::LocalSet;

use super::requests;
use crate::exactness::seconds_now;
use crate::support::{Cluster, Codec, Keyspace, RawClient, cluster};

/// A row of nulls is that many tombstones.
const COLUMNS: usize = 100;
/// Cassandra gives up at 100,000.
const GRAVES: std::ops::Range<i32> = 1_000..2_200;
const LIVING: [std::ops::Range<i32>; 2] = [0..120, 5_000..5_120];

fn schema(keyspace: &str, table: &str, order: &str) -> TableSchema {
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

fn create(table: &str, order: &str) -> String {
    let columns: Vec<String> = (0..COLUMNS)
        .map(|number| format!("v{number:02} int"))
        .collect();
    format!(
        "CREATE TABLE {table} (k int, c int, {}, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c {order})",
        columns.join(", ")
    )
}

fn fill(client: &mut RawClient, table: &str) {
    let nulls: Vec<String> = (0..COLUMNS)
        .map(|number| format!("v{number:02} = null"))
        .collect();
    let nulls = nulls.join(", ");
    let graves: Vec<String> = GRAVES
        .map(|c| format!("UPDATE {table} SET {nulls} WHERE k = 1 AND c = {c}"))
        .collect();
    let living: Vec<String> = LIVING
        .into_iter()
        .flatten()
        .map(|c| format!("INSERT INTO {table} (k, c, v00) VALUES (1, {c}, {c})"))
        .collect();
    for batch in graves.chunks(10).chain(living.chunks(60)) {
        client.query(&format!(
            "BEGIN UNLOGGED BATCH {} APPLY BATCH",
            batch.join("; ")
        ));
    }
}

/// Every page by a scan of its own, from the checkpoint of the one before.
async fn scanned(cluster: &Cluster, schema: &TableSchema) -> Vec<i32> {
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
        let number = |value: &[u8]| i32::from_be_bytes(value.try_into().expect("an int"));
        found.extend(rows.iter().map(|row| number(&row.clustering[0])));
        let mut checkpoint = Vec::new();
        scan.position().write(&mut checkpoint);
        position = Position::read(&mut Cursor::new(&checkpoint)).expect("as it was written");
    }
}

#[test]
fn a_scan_passes_tombstones_in_either_direction_and_goes_on_from_any_page() {
    let cluster = cluster();
    let (ascending, descending) = (create("up", "ASC"), create("down", "DESC"));
    let keyspace = Keyspace::create(&cluster, &[&ascending, &descending]);
    let mut client = RawClient::connect(cluster.node(), Codec::V4);
    client.query(&format!("USE {}", keyspace.name));
    for table in ["up", "down"] {
        fill(&mut client, table);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let mut expected: Vec<i32> = LIVING.into_iter().flatten().collect();
    for (table, order) in [("up", "asc"), ("down", "desc")] {
        let schema = schema(&keyspace.name, table, order);
        let found = LocalSet::new().block_on(&runtime, scanned(&cluster, &schema));
        assert_eq!(found, expected, "{table}");
        expected.reverse();
    }
}
