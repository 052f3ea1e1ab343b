//! The shared cache with a real Redis: whatever Redis does, look-ups find the right layout, and a metric says why it came
//! from where it came. The store is a closure here; no Cassandra is needed.

mod login;
mod outages;
mod values;

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use narrows::config::RedisSettings;
use narrows::known::cache::{Layouts, Tier, Timing};
use narrows::known::shared_cache::{Fetched, SharedCache};
use narrows::schema::bucket::Bucket;
use narrows::schema::names::{PartitionKey, TableName};
use narrows::wide_row::layout::{BucketProof, Layout, LayoutId, Proof};
use narrows::wide_row::names::Generation;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::support::PATIENCE;
use crate::support::redis::Redis;

/// A busy machine must not fail a test that is about something else.
const PATIENT: Timing = Timing {
    absent_ttl: PATIENCE,
    store: PATIENCE,
    lookup: PATIENCE,
};

/// The runtime that carries connections: a thread of its own, as the main thread is in the process.
static HOME: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.expect("a runtime")
}

fn settings(address: SocketAddr) -> RedisSettings {
    RedisSettings {
        host: address.ip().to_string(),
        port: address.port(),
        username: None,
        password: None,
        database: 0,
        tls: None,
        // Only a Redis that says nothing needs it short.
        timeout: PATIENCE,
        entry_ttl: Duration::from_secs(3600),
    }
}

/// One proxy's look-ups, with a runtime and metrics of their own. Its memory holds nothing, so that every look-up asks the
/// shared cache.
struct Proxy {
    layouts: Layouts,
    shared: SharedCache,
    metrics: PrometheusHandle,
    runtime: Runtime,
}

impl Proxy {
    fn new(settings: RedisSettings) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let (layouts, shared) = metrics::with_local_recorder(&recorder, || {
            let shared = SharedCache::new(settings, HOME.clone()).expect("right TLS files");
            shared.set_scope(SCOPE);
            (
                Layouts::with_timing(0, Some(shared.clone()), PATIENT),
                shared,
            )
        });
        Self {
            layouts,
            shared,
            metrics: recorder.handle(),
            runtime: runtime(),
        }
    }

    /// Another thread of the same process.
    fn thread(&self) -> Self {
        Self {
            layouts: Layouts::with_timing(0, Some(self.shared.clone()), PATIENT),
            shared: self.shared.clone(),
            metrics: self.metrics.clone(),
            runtime: runtime(),
        }
    }

    /// Where the layout was found; that it is the right one is asserted.
    fn look_up(&self, id: &LayoutId) -> Tier {
        let read_store = || async { Ok::<_, String>(Some(layout(id))) };
        let seal = layout(id).seal();
        let found = self.layouts.get(id, seal, read_store);
        let found = self.runtime.block_on(found);
        let found = found.expect("the store always answers");
        assert_eq!(found.layout.as_deref(), Some(&layout(id)));
        found.tier
    }

    fn fetch(&self, id: &LayoutId) -> Fetched {
        let seal = layout(id).seal().expect("proven");
        self.runtime.block_on(self.shared.get(id, &seal))
    }

    /// How often the shared cache had this outcome.
    fn shared(&self, outcome: &str) -> u64 {
        self.series(&format!(
            "narrows_lookup_total{{tier=\"shared\",outcome=\"{outcome}\"}}"
        ))
    }

    fn series(&self, series: &str) -> u64 {
        let text = self.metrics.render();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value
            .and_then(|value| value.parse().ok())
            .expect("a series")
    }
}

const SCOPE: &str = "Test Cluster/narrows";

/// A layout that no other test uses.
fn fresh_id() -> LayoutId {
    static GENERATION: AtomicI32 = AtomicI32::new(1);
    LayoutId {
        table: TableName::new("metrics", "by_sensor"),
        key: PartitionKey::new(*b"topsecret"),
        generation: Generation(GENERATION.fetch_add(1, Ordering::Relaxed)),
    }
}

fn layout(id: &LayoutId) -> Layout {
    let bucket = |first: &[&[u8]]| Bucket {
        first: first.iter().map(|value| (*value).into()).collect(),
        row_count: 10,
        byte_count: 1000,
        home: None,
    };
    let buckets = vec![bucket(&[]), bucket(&[b"2024-01-01"])];
    proven(Layout::new(id.clone(), "wide_by_sensor_1", "s", buckets))
}

/// The layout as verify would leave it.
pub(crate) fn proven(layout: Layout) -> Layout {
    let buckets = layout.buckets.iter().map(|bucket| BucketProof {
        row_count: bucket.row_count,
        first_expiry: None,
        uneven_from: None,
        checksum: [0; 16],
    });
    let proof = Proof {
        as_of: 1,
        anchors: Vec::new(),
        buckets: buckets.collect(),
    };
    layout.prove(proof).expect("sound")
}

/// Waits until Redis holds the layout that a look-up left there.
fn await_stored(redis: &Redis, id: &LayoutId) {
    let mut get = ::redis::cmd("GET");
    get.arg(id.shared_key(SCOPE));
    crate::support::eventually("redis holds the layout", || {
        let bytes: Option<Vec<u8>> = redis.run(&get);
        (bytes? == layout(id).encode()?).then_some(())
    });
}
