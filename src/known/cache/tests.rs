//! Look-ups without a shared cache: what is remembered, what is asked again, and who asks. The tiers with a real Redis are
//! tested in `tests/integration/redis.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::sync::oneshot;

use super::*;
use crate::schema::bucket::Bucket;
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::names::Generation;

const ROOM: u64 = 1 << 20;
/// Nothing ends by itself within a test.
const PATIENT: Timing = Timing {
    absent_ttl: Duration::from_secs(3600),
    store: Duration::from_secs(3600),
    lookup: Duration::from_secs(3600),
};

fn id(generation: i32) -> LayoutId {
    LayoutId {
        table: TableName::new("metrics", "by_sensor"),
        key: PartitionKey::new(*b"key"),
        generation: Generation(generation),
    }
}

fn layout(id: &LayoutId) -> Layout {
    let bucket = Bucket {
        first: vec![],
        row_count: 10,
        byte_count: 1000,
        home: None,
    };
    Layout::new(id.clone(), "wide_by_sensor_1", "s", vec![bucket])
}

/// A store that counts how often it is asked.
#[derive(Default)]
struct Store {
    asked: AtomicUsize,
}

impl Store {
    async fn read(&self, layout: Option<Layout>) -> Result<Option<Layout>, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(layout)
    }

    async fn fail(&self) -> Result<Option<Layout>, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err("no replica".into())
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Layouts whose metrics are their own.
fn layouts(memory_bytes: u64, timing: Timing) -> (Layouts, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let layouts = ::metrics::with_local_recorder(&recorder, || {
        Layouts::with_timing(memory_bytes, None, timing)
    });
    (layouts, recorder.handle())
}

fn assert_series(rendered: &PrometheusHandle, series: &str) {
    let text = rendered.render();
    assert!(text.lines().any(|line| line == series), "{series}\n{text}");
}

#[tokio::test]
async fn a_layout_is_read_once_and_then_remembered() {
    let (layouts, rendered) = layouts(ROOM, PATIENT);
    let store = Store::default();
    for tier in [Tier::Store, Tier::Memory, Tier::Memory] {
        let read = || store.read(Some(layout(&id(1))));
        let found = layouts.get(&id(1), None, read).await.unwrap();
        assert_eq!(found.tier, tier);
        assert_eq!(found.layout.as_deref(), Some(&layout(&id(1))));
    }
    assert_eq!(store.asked(), 1);
    for series in [
        "narrows_lookup_total{tier=\"memory\",outcome=\"miss\"} 1",
        "narrows_lookup_total{tier=\"memory\",outcome=\"hit\"} 2",
        "narrows_lookup_total{tier=\"store\",outcome=\"hit\"} 1",
        "narrows_lookup_seconds_count{tier=\"memory\"} 3",
        "narrows_lookup_seconds_count{tier=\"store\"} 1",
        "narrows_lookup_cache_entries 1",
    ] {
        assert_series(&rendered, series);
    }
    let bytes = weigh(&id(1), Some(&layout(&id(1))));
    assert_series(&rendered, &format!("narrows_lookup_cache_bytes {bytes}"));
}

#[tokio::test]
async fn each_generation_has_its_own_layout() {
    let (layouts, _) = layouts(ROOM, PATIENT);
    let store = Store::default();
    for generation in [1, 2, 1, 2] {
        let id = id(generation);
        let found = layouts
            .get(&id, None, || store.read(Some(layout(&id))))
            .await;
        assert!(found.unwrap().layout.unwrap().is_of(&id));
    }
    assert_eq!(store.asked(), 2);
}

#[tokio::test]
async fn that_there_is_none_is_remembered_while_it_is_believed() {
    let (layouts, rendered) = layouts(ROOM, PATIENT);
    let store = Store::default();
    for tier in [Tier::Store, Tier::Memory] {
        let found = layouts
            .get(&id(1), None, || store.read(None))
            .await
            .unwrap();
        assert_eq!(found, Found { layout: None, tier });
    }
    assert_eq!(store.asked(), 1);
    assert_series(
        &rendered,
        "narrows_lookup_total{tier=\"store\",outcome=\"miss\"} 1",
    );
}

#[tokio::test]
async fn that_there_is_none_is_asked_again_when_it_is_believed_no_longer() {
    let timing = Timing {
        absent_ttl: Duration::ZERO,
        ..PATIENT
    };
    let (layouts, _) = layouts(ROOM, timing);
    let store = Store::default();
    let found = layouts
        .get(&id(1), None, || store.read(None))
        .await
        .unwrap();
    assert_eq!(found.layout, None);
    let read = || store.read(Some(layout(&id(1))));
    let found = layouts.get(&id(1), None, read).await.unwrap();
    assert_eq!(found.layout.as_deref(), Some(&layout(&id(1))));
    // What is there stays, whatever holds for what is not.
    let found = layouts
        .get(&id(1), None, || store.read(None))
        .await
        .unwrap();
    assert_eq!(found.tier, Tier::Memory);
    assert_eq!(store.asked(), 2);
}

#[tokio::test]
async fn errors_are_told_and_not_remembered() {
    let (layouts, rendered) = layouts(ROOM, PATIENT);
    let store = Store::default();
    for _ in 0..2 {
        let error = layouts
            .get(&id(1), None, || store.fail())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "the layout cannot be read: no replica");
    }
    assert_eq!(store.asked(), 2);
    let read = || store.read(Some(layout(&id(1))));
    assert!(
        layouts
            .get(&id(1), None, read)
            .await
            .unwrap()
            .layout
            .is_some()
    );
    assert_series(
        &rendered,
        "narrows_lookup_total{tier=\"store\",outcome=\"failed\"} 2",
    );
}

#[tokio::test]
async fn a_layout_of_another_generation_is_never_taken() {
    let (layouts, _) = layouts(ROOM, PATIENT);
    let store = Store::default();
    let read = || store.read(Some(layout(&id(2))));
    let error = layouts.get(&id(1), None, read).await.unwrap_err();
    assert!(matches!(error, LookupError::Foreign));
}

#[tokio::test]
async fn a_store_that_never_answers_ends_at_its_deadline() {
    let timing = Timing {
        store: Duration::from_millis(1),
        ..PATIENT
    };
    let (layouts, rendered) = layouts(ROOM, timing);
    let never = std::future::pending::<Result<Option<Layout>, String>>;
    let error = layouts.get(&id(1), None, never).await.unwrap_err();
    assert!(matches!(error, LookupError::StoreTimeout));
    assert_series(
        &rendered,
        "narrows_lookup_total{tier=\"store\",outcome=\"failed\"} 1",
    );
}

#[tokio::test]
async fn the_look_up_as_a_whole_has_a_deadline() {
    let timing = Timing {
        lookup: Duration::from_millis(1),
        ..PATIENT
    };
    let (layouts, rendered) = layouts(ROOM, timing);
    let never = std::future::pending::<Result<Option<Layout>, String>>;
    let error = layouts.get(&id(1), None, never).await.unwrap_err();
    assert!(matches!(error, LookupError::Timeout));
    assert_series(
        &rendered,
        "narrows_lookup_total{tier=\"memory\",outcome=\"failed\"} 1",
    );
}

#[test]
fn threads_that_ask_at_once_share_one_read() {
    const THREADS: usize = 8;
    let (layouts, _) = layouts(ROOM, PATIENT);
    let store = Store::default();
    // The one read waits until every thread has asked.
    let waiting = tokio::sync::Barrier::new(THREADS + 1);
    let read = || async {
        waiting.wait().await;
        store.read(Some(layout(&id(1)))).await
    };
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let id = id(1);
            let (found, _) = tokio::join!(layouts.get(&id, None, read), waiting.wait());
            found.unwrap()
        })
    };
    let found: Vec<Found> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    assert_eq!(store.asked(), 1);
    assert!(found.iter().all(|found| found.layout.is_some()));
    let readers = found.iter().filter(|found| found.tier == Tier::Store);
    assert_eq!(readers.count(), 1);
}

#[tokio::test]
async fn when_the_one_that_asks_gives_up_a_waiting_one_takes_over() {
    let (layouts, _) = layouts(ROOM, PATIENT);
    let store = Store::default();
    let (started, has_started) = oneshot::channel();
    let never = || async move {
        started.send(()).unwrap();
        std::future::pending::<Result<Option<Layout>, String>>().await
    };
    let id = id(1);
    let the_other_waits = async {
        has_started.await.unwrap();
        tokio::task::yield_now().await;
    };
    let gives_up = async {
        tokio::select! {
            _ = layouts.get(&id, None, never) => unreachable!("it never ends"),
            () = the_other_waits => {}
        }
    };
    let read = || store.read(Some(layout(&id)));
    let ((), found) = tokio::join!(gives_up, layouts.get(&id, None, read));
    assert_eq!(found.unwrap().tier, Tier::Store);
}

#[tokio::test]
async fn memory_is_bounded_by_bytes() {
    let each = u64::from(weigh(&id(1), Some(&layout(&id(1)))));
    let (layouts, rendered) = layouts(10 * each, PATIENT);
    let store = Store::default();
    for generation in 0..100 {
        let id = id(generation);
        let found = layouts
            .get(&id, None, || store.read(Some(layout(&id))))
            .await;
        assert!(found.unwrap().layout.is_some());
        assert!(layouts.memory.weighted_size() <= 10 * each);
    }
    assert_eq!(layouts.memory.entry_count(), 10);
    assert_series(&rendered, "narrows_lookup_cache_entries 10");
}
