//! Many rows that each end in a second of their own: with their cells, by their marker, or never.

use std::cell::RefCell;
use std::time::Duration;

use narrows::pipeline::verify::{
    Checked, DifferenceKind, Patience, Verification, Verified, VerifyError,
};
use narrows::schema::TableSchema;
use narrows::schema::bucket::Bucket;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;
use tokio::task::LocalSet;

use super::{requests, schema_of};
use crate::exactness::seconds_now;
use crate::exactness::wire::Wire;
use crate::support::request::Value;
use crate::support::{Cluster, Keyspace, cluster, scale};

const BUCKETS: usize = 3;
/// Where they begin, in twenty-fourths of all rows: the first is so large that there are checkpoints in its middle.
const STARTS: [i32; BUCKETS] = [0, 21, 23];
/// Microseconds.
const TIME: i64 = 1_700_000_000_000_000;
const TABLES: [&str; 2] = [
    "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
    "CREATE TABLE wide_t_1 (k int, c int, v text, narrows_generation int, narrows_bucket int, \
     PRIMARY KEY ((k, narrows_generation, narrows_bucket), c)) WITH CLUSTERING ORDER BY (c DESC)",
];

fn rows() -> i32 {
    1200 * scale() as i32
}

/// The TTLs of a row's marker and cell; 0 for one that stays, none for a cell that is not there.
fn ttls(c: i32) -> (i32, Option<i32>) {
    match c % 6 {
        0 => (0, None),
        1 => (10_000 + 7 * (c / 60), None),
        2 => (0, Some(5000 + c)),
        3 => (20_000 + c / 100, Some(9000)),
        _ => (5000 + c, Some(5000 + c)),
    }
}

struct World {
    wire: Wire,
    keyspace: Keyspace,
    now: i32,
}

impl World {
    fn create(cluster: &Cluster) -> Self {
        let mut world = Self {
            wire: Wire::open(cluster.node()),
            keyspace: Keyspace::create(cluster, &TABLES),
            now: seconds_now(),
        };
        for c in 0..rows() {
            world.write(c, ttls(c), None);
            world.write(c, ttls(c), Some(1));
        }
        world.wire.settle();
        world
    }

    fn write(&mut self, c: i32, (marker, cell): (i32, Option<i32>), generation: Option<i32>) {
        let keyspace = &self.keyspace.name;
        let mut key = vec![Value::int(1), Value::int(c)];
        let (mut table, mut hidden, mut markers) = ("t", "", "?, ?");
        let mut equal = "k = ? AND c = ?";
        if let Some(generation) = generation {
            key.extend([Value::int(generation), Value::int(bucket_of(c))]);
            (table, hidden) = ("wide_t_1", ", narrows_generation, narrows_bucket");
            markers = "?, ?, ?, ?";
            equal = "k = ? AND c = ? AND narrows_generation = ? AND narrows_bucket = ?";
        }
        let insert = format!(
            "INSERT INTO {keyspace}.{table} (k, c{hidden}) VALUES ({markers}) USING TIMESTAMP ? AND TTL ?"
        );
        let mut values = key.clone();
        values.extend([Value::long(TIME), Value::int(marker)]);
        self.wire.write(&insert, values, self.now);
        if let Some(ttl) = cell {
            let update = format!(
                "UPDATE {keyspace}.{table} USING TIMESTAMP ? AND TTL ? SET v = ? WHERE {equal}"
            );
            let mut values = vec![Value::long(TIME), Value::int(ttl), Value::text("v")];
            values.extend(key);
            self.wire.write(&update, values, self.now);
        }
    }

    async fn verify(&self, cluster: &Cluster) -> Result<Verified, VerifyError> {
        self.verify_from(cluster, Checked::default(), &|_| {}).await
    }

    async fn verify_from(
        &self,
        cluster: &Cluster,
        from: Checked,
        progress: &dyn Fn(&Checked),
    ) -> Result<Verified, VerifyError> {
        let key = PartitionKey::new(1_i32.to_be_bytes());
        let layout = self.layout(&key);
        let run = async {
            let verification = Verification {
                requests: &requests(cluster.node()).await,
                schema: &schema(&self.keyspace.name),
                key: &key,
                layout: &layout,
                now: self.now,
                patience: Patience {
                    reread: [Duration::ZERO; 3],
                    retry: Duration::from_millis(100),
                },
                from,
                progress,
            };
            verification.run().await
        };
        LocalSet::new().run_until(run).await
    }

    fn layout(&self, key: &PartitionKey) -> Layout {
        let bucket = |number: usize| Bucket {
            first: match number {
                0 => Vec::new(),
                _ => vec![first_of(number).to_be_bytes().into()],
            },
            row_count: 1,
            byte_count: 1,
            home: None,
        };
        Layout::new(
            LayoutId {
                table: TableName::new(&self.keyspace.name, "t"),
                key: key.clone(),
                generation: Generation(1),
            },
            "wide_t_1".to_owned(),
            "by hand".to_owned(),
            (0..BUCKETS).map(bucket).collect(),
        )
    }
}

/// Rows are in descending order.
fn first_of(bucket: usize) -> i32 {
    rows() - 1 - STARTS[bucket] * rows() / 24
}

fn bucket_of(c: i32) -> i32 {
    (0..BUCKETS).filter(|bucket| first_of(*bucket) >= c).count() as i32 - 1
}

fn schema(keyspace: &str) -> TableSchema {
    let columns = [
        ("k", "partition_key", 0, "none", "int"),
        ("c", "clustering", 0, "desc", "int"),
        ("v", "regular", -1, "none", "text"),
    ];
    schema_of(keyspace, &columns, 1)
}

#[tokio::test]
async fn rows_end_in_their_own_second_or_there_is_a_difference() {
    let cluster = cluster();
    let mut world = World::create(&cluster);
    let verified = world.verify(&cluster).await.expect("an exact copy");
    assert_eq!(verified.row_count, rows() as u64);
    // Each is put right before the next one is wrong: of two lives of the same time the longer one wins, so that the
    // original must be given it, too.
    for c in [1003, 102, 37] {
        let (marker, cell) = ttls(c);
        world.write(c, (marker + 1, cell), Some(1));
        world.wire.settle();
        match world.verify(&cluster).await {
            Err(VerifyError::Differs(difference)) => {
                assert_eq!(difference.kind, DifferenceKind::Marker, "{c}");
                assert_eq!(difference.bucket, bucket_of(c) as usize, "{c}");
                assert_eq!(*difference.key[0], c.to_be_bytes(), "{c}");
            }
            other => panic!("{c}: {other:?}"),
        }
        world.write(c, (marker + 1, cell), None);
        world.wire.settle();
        world.verify(&cluster).await.expect("both live longer");
    }
}

#[tokio::test]
async fn a_comparison_goes_on_from_any_checkpoint_and_comes_to_the_same_end() {
    let cluster = cluster();
    let mut world = World::create(&cluster);
    let checkpoints = RefCell::new(Vec::new());
    let keep = |found: &Checked| {
        checkpoints
            .borrow_mut()
            .push((found.row_count, found.checkpoint()))
    };
    let whole = world.verify_from(&cluster, Checked::default(), &keep).await;
    let whole = whole.expect("an exact copy");
    let checkpoints = checkpoints.into_inner();
    assert!(checkpoints.len() > BUCKETS, "none within a bucket");
    assert_eq!(
        checkpoints.last().map(|(rows, _)| *rows),
        Some(rows() as u64)
    );
    let last = rows() - 1;
    // The first row of all is wrong, which only those see who begin before it.
    world.write(last, (ttls(last).0 + 9, ttls(last).1), Some(1));
    world.wire.settle();
    for (rows, bytes) in &checkpoints {
        let from = Checked::read(bytes).expect("as it was written");
        let verified = world.verify_from(&cluster, from, &|_| {}).await;
        assert_eq!(verified.expect("behind it all is equal"), whole, "{rows}");
    }
    let beginning = world.verify(&cluster).await;
    assert!(
        matches!(beginning, Err(VerifyError::Differs(_))),
        "{beginning:?}"
    );
}
