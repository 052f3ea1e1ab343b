//! A watched table `((series uuid, day int), ts)` with splits, and EXECUTE bodies that read other partitions of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use narrows::filter::{FusePolicy, Installed, Policies, TableFilter};
use narrows::known::clock::{BootClock, Clock};
use narrows::known::freshness::Freshness;
use narrows::known::slot::{StoreSlot, TableShards};
use narrows::known::validate::{self, Validations};
use narrows::known::{Known, Watched};
use narrows::protocol::response::result::kind;
use narrows::protocol::types::Write;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::schema::{ClusteringColumn, Column, CqlType, TableSchema};
use narrows::watched::WatchedTable;
use narrows::wide_row::store::Described;
use tokio::runtime::Handle;
use uuid::Uuid;

const KEYSPACE: &str = "plant";
const TABLE: &str = "reading";
const DAYS: usize = 100;
const STALENESS: Duration = Duration::from_secs(3600);

/// A list of one table, all of whose splits are known.
pub(crate) fn known(splits: usize, runtime: &Handle) -> Result<Known> {
    let name = TableName::new(KEYSPACE, TABLE);
    let settings = WatchedTable::new(name.clone());
    let fresh = freshness(settings.shards as usize);
    let reader = TableShards {
        store: Arc::new(StoreSlot::default()),
        table: name,
    };
    let shards = settings.shards;
    let validations = Validations::new(
        Arc::new(reader),
        shards,
        runtime.clone(),
        validate::Metrics::register(&settings.name.to_string()),
    );
    let filter = filter(splits, shards as usize)?;
    let watched = Watched::new(settings, filter, fresh, validations);
    let described = Described {
        table_id: Some(Uuid::nil()),
        columns: None,
        schema: Some(Arc::new(schema())),
    };
    watched.set_seen(true, described.table_id);
    watched.set_schema(&described);
    let known = Known::new(freshness(1));
    known.set([Arc::new(watched)]);
    Ok(known)
}

/// All parts were refreshed just now.
fn freshness(parts: usize) -> Freshness {
    let freshness = Freshness::new(Arc::new(BootClock), STALENESS, parts);
    for part in 0..parts {
        freshness.record(part, BootClock.now());
    }
    freshness
}

fn filter(splits: usize, shards: usize) -> Result<TableFilter> {
    let filter = TableFilter::new(Policies::from([Arc::new(FusePolicy) as _]), shards);
    let mut sharded = vec![Vec::new(); filter.shards()];
    for number in 0..splits {
        let (series, day) = key(number, 1);
        let key = PartitionKey::from_components(&[&series, &day]).context("a key")?;
        sharded[filter.shard_of(key.bytes())].push(key.bytes().to_vec());
    }
    for (shard, keys) in sharded.iter().enumerate() {
        let installed = filter.rebuild_shard(shard, keys);
        ensure!(installed == Installed::Yes, "nobody else rebuilds");
    }
    Ok(filter)
}

fn schema() -> TableSchema {
    let column = |name: &str, cql_type| Column {
        name: name.to_owned(),
        cql_type,
    };
    TableSchema {
        keyspace: KEYSPACE.to_owned(),
        table: TABLE.to_owned(),
        partition_key: vec![column("series", CqlType::Uuid), column("day", CqlType::Int)],
        clustering: vec![ClusteringColumn {
            column: column("ts", CqlType::Timestamp),
            descending: true,
        }],
        statics: Vec::new(),
        regulars: vec![column("value", CqlType::Double)],
        indexed: Vec::new(),
        is_repaired_by_reads: true,
        replication: Vec::new(),
    }
}

/// EXECUTEs of a statement, each of a partition that is not split (native_protocol_v5 §4.1.6).
pub(crate) fn executes(id: [u8; 16], count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| execute(id, number)).collect()
}

fn execute(id: [u8; 16], number: usize) -> Vec<u8> {
    const LOCAL_QUORUM: u16 = 6;
    const VALUES_AND_PAGE_SIZE: i32 = 0x01 | 0x04;
    let (series, day) = key(number, 2);
    let mut body = Vec::new();
    body.put_short_bytes(&id);
    body.put_short_bytes(&id);
    body.put_short(LOCAL_QUORUM);
    body.put_int(VALUES_AND_PAGE_SIZE);
    body.put_short(4);
    body.put_bytes(Some(&series));
    body.put_bytes(Some(&day));
    body.put_bytes(Some(&1_700_000_000_000_i64.to_be_bytes()));
    body.put_bytes(Some(&100_i32.to_be_bytes()));
    body.put_int(5000);
    body
}

/// A page of the original: 100 rows, the last there are, without the columns' names (native_protocol_v5 §4.2.5.2).
pub(crate) fn reply() -> Vec<u8> {
    const NO_METADATA: i32 = 0x04;
    const ROWS: i32 = 100;
    let mut body = Vec::new();
    body.put_int(kind::ROWS);
    body.put_int(NO_METADATA);
    body.put_int(2);
    body.put_int(ROWS);
    for row in 0..i64::from(ROWS) {
        body.put_bytes(Some(&row.to_be_bytes()));
        body.put_bytes(Some(&(row as f64).to_be_bytes()));
    }
    body
}

fn key(number: usize, kind: u64) -> ([u8; 16], [u8; 4]) {
    let series = (number / DAYS) as u64;
    let day = (number % DAYS) as u32;
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&scramble(series * 4 + kind).to_be_bytes());
    uuid[8..].copy_from_slice(&scramble(!(series * 4 + kind)).to_be_bytes());
    (uuid, day.to_be_bytes())
}

/// The finalizer of splitmix64: a bijection, so different series stay different.
fn scramble(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
