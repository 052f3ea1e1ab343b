//! The rows of the control keyspace that tell proxies of a split, written through the store as a worker would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use narrows::schema::bucket::Bucket;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::watched::Mode;
use narrows::wide_row::clock::unix_millis;
use narrows::wide_row::found_by::FoundBy;
use narrows::wide_row::layout::{Layout, LayoutId};
use narrows::wide_row::names::Generation;
use narrows::wide_row::state::{PostSplitData, PreSplitData, Standing, State, Step, Transition};
use narrows::wide_row::store::{
    Detected, Found, Lease, Leased, Outcome, Split, SplitId, Store, StoreError,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::support::PATIENCE;
use crate::support::driver::session;

pub(crate) const SHARDS: u32 = 4;
const STRATEGY: &str = "random_boundaries";
const LEASE: Duration = Duration::from_secs(60);
/// Changes of splits under way at a time.
const SIDE_BY_SIDE: usize = 8;
/// Between two attempts at what the store did not answer.
const PAUSE: Duration = Duration::from_millis(10);
const WANTED: &str = "the test wants it";
/// Somebody asked for it.
const BY_HAND: Found = Found {
    bytes: None,
    by: Some(FoundBy::Hand),
};
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
        let store = runtime.block_on(async { Store::open(session(nodes).await, keyspace).await });
        Self {
            store: Arc::new(store.expect("the schema is there")),
            runtime,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// For what has no name here. Its driver is ours, and ends with us.
    pub(crate) fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    pub(crate) fn id(table: TableName, key: &[&[u8]]) -> SplitId {
        let key = PartitionKey::from_components(key).expect("a key");
        SplitId::new(table, key, SHARDS)
    }

    /// A proxy has looked at all watched tables: splits of a table that nobody has seen are not believed.
    pub(crate) fn is_seen(&self, table: &TableName) -> bool {
        let rows = self.patiently(async || self.store.read_watched().await);
        let row = rows.iter().find(|row| row.table.name == *table);
        row.is_some_and(|row| row.seen.table_id.is_some())
    }

    /// Says that a partition is wide. Returns the generation that begins with it.
    pub(crate) fn nominate(&self, id: &SplitId) -> Generation {
        match self.try_nominate(id) {
            Detected::New(generation) => generation,
            other => panic!("not detected: {other:?}"),
        }
    }

    /// The same where there may be something against it. What waits for a hint has not begun.
    pub(crate) fn try_nominate(&self, id: &SplitId) -> Detected {
        let detected = self.runtime.block_on(self.detect(id, BY_HAND));
        let waits = |split: Split| {
            let is_later = |time: i64| time > unix_millis();
            split.standing.state == State::Detected && split.not_before.is_some_and(is_later)
        };
        match self.split(id).is_some_and(waits) {
            true => Detected::NotYet,
            false => detected,
        }
    }

    /// A change that the store did not answer may have taken place: what has begun since is ours, nobody else nominates.
    async fn detect(&self, id: &SplitId, found: Found) -> Detected {
        let read = async || Ok(self.store.read_key(id).await?.generation);
        let before = patience(read).await;
        let detected = patience(async || self.store.detect(id, found).await).await;
        match (detected, patience(read).await) {
            (Detected::Known, Some(now)) if Some(now) > before => Detected::New(now),
            (detected, _) => detected,
        }
    }

    /// The longest that any proxy announced.
    pub(crate) fn max_staleness(&self) -> Option<Duration> {
        self.patiently(async || self.store.read_max_staleness().await)
    }

    pub(crate) fn set_paused(&self, table: &TableName, paused: bool) {
        let set = self.store.set_paused(table, paused);
        assert!(self.runtime.block_on(set).expect("answered"), "is watched");
    }

    pub(crate) fn mode(&self, table: &TableName) -> Mode {
        let rows = self.patiently(async || self.store.read_watched().await);
        let row = rows.into_iter().find(|row| row.table.name == *table);
        row.expect("it is watched").table.mode
    }

    pub(crate) fn set_mode(&self, table: &TableName, mode: Mode) {
        let set = self.store.set_mode(table, mode);
        assert!(self.runtime.block_on(set).expect("answered"), "is watched");
    }

    /// All that is known of a split.
    pub(crate) fn split(&self, id: &SplitId) -> Option<Split> {
        self.patiently(async || self.store.read_split(id).await)
    }

    /// The layout of one generation.
    pub(crate) fn layout(&self, id: &LayoutId) -> Option<Layout> {
        self.patiently(async || self.store.read_layout(id).await)
    }

    /// From nothing, or from an end, to GUARDED; the generation names the buckets to be written.
    pub(crate) fn begin(&self, id: &SplitId) -> (Generation, Lease) {
        self.runtime.block_on(async {
            // By hand: a serial read, or a write, makes others wait.
            let (generation, lease) = self.lease(id, BY_HAND).await;
            for step in [Step::Plan(PreSplitData::default()), Step::Guard, Step::Copy] {
                self.step(id, &lease, step).await;
            }
            (generation, lease)
        })
    }

    async fn lease(&self, id: &SplitId, found: Found) -> (Generation, Lease) {
        let generation = match self.detect(id, found).await {
            Detected::New(generation) => generation,
            other => panic!("not detected: {other:?}"),
        };
        let acquire = async || self.store.acquire(id, "oracle", LEASE, &WORKABLE).await;
        match patience(acquire).await {
            Leased::Held(lease) => (generation, lease),
            Leased::Lost => panic!("no lease"),
        }
    }

    /// Brings partitions that are not split each into its state, without buckets: nothing may be read of them.
    pub(crate) fn bring(&self, splits: &[(SplitId, State)]) {
        let bring = |(id, state): &(SplitId, State)| self.bring_one(id.clone(), *state);
        let brought = futures::stream::iter(splits.iter().map(bring));
        let brought = brought.buffer_unordered(SIDE_BY_SIDE);
        self.runtime.block_on(brought.collect::<Vec<()>>());
    }

    async fn bring_one(&self, id: SplitId, state: State) {
        let (generation, lease) = self.lease(&id, Found::default()).await;
        let steps = [
            (State::Planned, Step::Plan(PreSplitData::default())),
            (State::Guarded, Step::Guard),
            (State::Copying, Step::Copy),
            (State::Verifying, Step::Verify),
            (
                State::Completed,
                completed(PreSplitData::default(), PostSplitData::default()),
            ),
        ];
        let last = match state {
            State::Invalidated => State::Guarded,
            other => other,
        };
        let count = steps.iter().position(|(reached, _)| *reached == last);
        for (_, step) in steps.into_iter().take(count.map_or(0, |count| count + 1)) {
            self.step(&id, &lease, step).await;
        }
        if state == State::Invalidated {
            let end = async || self.store.invalidate(&id, generation, WANTED).await;
            let ended = patience(end).await;
            assert!(matches!(ended, Outcome::Applied(_)), "{ended:?}");
        }
    }

    /// Writes the proven layout and puts the split into service.
    pub(crate) fn complete(&self, id: &SplitId, begun: &(Generation, Lease), layout: &Layout) {
        let rows = layout.buckets.iter().map(|bucket| bucket.row_count as i64);
        let post = PostSplitData {
            split_table: layout.split_table.clone(),
            strategy: layout.strategy.clone(),
            target_event_buckets: layout.buckets.len() as i32,
            row_count: rows.sum(),
            ..PostSplitData::default()
        };
        self.runtime.block_on(async {
            patience(async || self.store.write_layout(layout).await).await;
            self.step(id, &begun.1, Step::Verify).await;
            patience(async || self.store.write_proof(layout).await).await;
            let sealed = patience(async || self.store.seal(id, &begun.1, layout).await).await;
            assert!(matches!(sealed, Some(Outcome::Applied(_))), "{sealed:?}");
            let pre = PreSplitData {
                row_count: post.row_count,
                ..PreSplitData::default()
            };
            self.step(id, &begun.1, completed(pre, post)).await;
        });
    }

    /// A layout of these buckets, before it is proven.
    pub(crate) fn unproven(
        id: &SplitId,
        generation: Generation,
        split_table: &str,
        buckets: Vec<Bucket>,
    ) -> Layout {
        let id = LayoutId {
            table: id.table.clone(),
            key: id.key.clone(),
            generation,
        };
        Layout::new(id, split_table, STRATEGY, buckets)
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    async fn step(&self, id: &SplitId, lease: &Lease, step: Step) {
        let key = patience(async || self.store.read_key(id).await).await;
        let standing = key.standing.expect("there is a split");
        let transition = Transition::step(standing, step).expect("legal");
        let stepped = patience(async || self.store.step(id, lease, &transition).await).await;
        assert!(matches!(stepped, Outcome::Applied(_)), "{stepped:?}");
    }

    pub(crate) fn standing(&self, id: &SplitId) -> Option<Standing> {
        let key = self.patiently(async || self.store.read_key(id).await);
        key.standing
    }

    fn patiently<T>(&self, ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
        self.runtime.block_on(patience(ask))
    }

    /// Whether it was in service until now.
    pub(crate) fn invalidate(&self, id: &SplitId, generation: Generation) -> bool {
        match self.patiently(async || self.store.invalidate(id, generation, WANTED).await) {
            Outcome::Applied(_) => true,
            Outcome::Lost => false,
        }
    }
}

fn completed(original: PreSplitData, copy: PostSplitData) -> Step {
    Step::Complete { original, copy }
}

/// What may be asked again, on a machine that is too busy to answer at once.
async fn patience<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(StoreError::Unreachable(_) | StoreError::Unknown(_))
                if Instant::now() < deadline =>
            {
                tokio::time::sleep(PAUSE).await;
            }
            other => return other.expect("the store answers"),
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
