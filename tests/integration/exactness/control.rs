//! The rows of the control keyspace that tell proxies of a split, written through the store as a worker would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use narrows::wide_row::layout::{Bucket, Layout};
use narrows::wide_row::names::{Generation, PartitionKey, TableName};
use narrows::wide_row::state::{PostSplitData, PreSplitData, Standing, State, Step, Transition};
use narrows::wide_row::store::{Detected, Found, Lease, Leased, Outcome, Split, SplitId, Store};
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub(crate) const SHARDS: u32 = 4;
const STRATEGY: &str = "random_boundaries";
const LEASE: Duration = Duration::from_secs(60);
const WORKABLE: [State; 5] = [
    State::Detected,
    State::Planned,
    State::Guarded,
    State::Copying,
    State::Verifying,
];

/// A store whose driver lives on a thread of its own, so that a test without a runtime can use it.
pub(crate) struct Control {
    store: Arc<Store>,
    runtime: Arc<Runtime>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// The schema must be there: a proxy has made it.
    pub(crate) fn open(nodes: &[SocketAddr], keyspace: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Arc::new(runtime.expect("a runtime"));
        let (end, ended) = oneshot::channel();
        let driven = runtime.clone();
        let thread = std::thread::spawn(move || drop(driven.block_on(ended)));
        let store = runtime.block_on(async {
            let builder = SessionBuilder::new().known_nodes_addr(nodes);
            let session = Arc::new(builder.build().await.expect("the cluster answers"));
            Store::open(session, keyspace).await
        });
        Self {
            store: Arc::new(store.expect("the schema is there")),
            runtime,
            end: Some(end),
            thread: Some(thread),
        }
    }

    pub(crate) fn id(table: TableName, key: &[&[u8]]) -> SplitId {
        let key = PartitionKey::from_components(key).expect("a key");
        SplitId::new(table, key, SHARDS)
    }

    /// A proxy has looked at all watched tables: splits of a table that nobody has seen are not believed.
    pub(crate) fn is_seen(&self, table: &TableName) -> bool {
        let rows = self.runtime.block_on(self.store.read_watched());
        let rows = rows.expect("readable");
        let row = rows.iter().find(|row| row.table.name == *table);
        row.is_some_and(|row| row.seen.table_id.is_some())
    }

    /// Says that a partition is wide.
    pub(crate) fn nominate(&self, id: &SplitId) {
        let found = Found {
            bytes: None,
            by_hand: true,
        };
        let detected = self.runtime.block_on(self.store.detect(id, found));
        assert!(matches!(detected, Ok(Detected::New(_))), "{detected:?}");
    }

    /// All that is known of a split.
    pub(crate) fn split(&self, id: &SplitId) -> Option<Split> {
        let split = self.runtime.block_on(self.store.read_split(id));
        split.expect("readable")
    }

    /// From nothing, or from an end, to GUARDED; the generation names the buckets to be written.
    pub(crate) fn begin(&self, id: &SplitId) -> (Generation, Lease) {
        self.runtime.block_on(async {
            let generation = match self.store.detect(id, Found::default()).await {
                Ok(Detected::New(generation)) => generation,
                other => panic!("not detected: {other:?}"),
            };
            let lease = match self.store.acquire(id, "oracle", LEASE, &WORKABLE).await {
                Ok(Leased::Held(lease)) => lease,
                other => panic!("no lease: {other:?}"),
            };
            for step in [Step::Plan(PreSplitData::default()), Step::Guard, Step::Copy] {
                self.step(id, &lease, step).await;
            }
            (generation, lease)
        })
    }

    /// Writes the layout and puts the split into service.
    pub(crate) fn complete(
        &self,
        id: &SplitId,
        split_table: &str,
        begun: &(Generation, Lease),
        buckets: Vec<Bucket>,
    ) {
        let post = PostSplitData {
            split_table: split_table.to_owned(),
            strategy: STRATEGY.to_owned(),
            target_event_buckets: buckets.len() as i32,
            row_count: buckets.iter().map(|bucket| bucket.row_count as i64).sum(),
            ..PostSplitData::default()
        };
        let layout = Layout {
            table: id.table.clone(),
            key: id.key.clone(),
            generation: begun.0,
            split_table: split_table.to_owned(),
            strategy: STRATEGY.to_owned(),
            buckets,
        };
        self.runtime.block_on(async {
            self.store.write_layout(&layout).await.expect("written");
            self.step(id, &begun.1, Step::Verify).await;
            self.step(id, &begun.1, Step::Complete(post)).await;
        });
    }

    async fn step(&self, id: &SplitId, lease: &Lease, step: Step) {
        let key = self.store.read_key(id).await.expect("readable");
        let standing = key.standing.expect("there is a split");
        let transition = Transition::step(standing, step).expect("legal");
        match self.store.step(id, lease, &transition).await {
            Ok(Outcome::Applied(_)) => {}
            other => panic!("not applied: {other:?}"),
        }
    }

    pub(crate) fn standing(&self, id: &SplitId) -> Option<Standing> {
        let key = self.runtime.block_on(self.store.read_key(id));
        key.expect("readable").standing
    }

    /// Whether it was in service until now.
    pub(crate) fn invalidate(&self, id: &SplitId, generation: Generation) -> bool {
        let invalidate = self.store.invalidate(id, generation, "the test wants it");
        match self.runtime.block_on(invalidate).expect("answered") {
            Outcome::Applied(_) => true,
            Outcome::Lost => false,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It only drives the runtime; whatever went wrong there has been said by the test.
            drop(thread.join());
        }
    }
}
