//! One proxy's knowledge of what is split, without the proxy.

use std::sync::Arc;
use std::time::Duration;

use narrows::filter::Target;
use narrows::known::cache::{Layouts, Timing};
use narrows::known::clock::BootClock;
use narrows::known::follow::{Follower, Following};
use narrows::known::freshness::Age;
use narrows::known::lookup::{Doubt, Lookup, LookupAnswer};
use narrows::known::shared_cache::SharedCache;
use narrows::known::slot::StoreSlot;
use narrows::known::{Known, Watched};
use narrows::wide_row::store::SplitId;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::control::{Control, table};
use crate::support::PATIENCE;

pub(crate) struct Knowing {
    pub(crate) known: Arc<Known>,
    pub(crate) lookup: Lookup,
    follower: JoinHandle<()>,
}

impl Knowing {
    /// Follows the control keyspace, and returns when everything was loaded.
    pub(crate) async fn start(control: &Control, shared: Option<SharedCache>) -> Self {
        let following = Following {
            poll_interval: Duration::from_millis(50),
            max_staleness: PATIENCE,
            min_filter_keys: 1000,
            snapshots: None,
            clock: Arc::new(BootClock),
            runtime: Handle::current(),
            loaded: watch::Sender::new(false),
            schema_changed: Arc::default(),
        };
        let known = Arc::new(Known::new(following.freshness(1)));
        let slot = Arc::new(StoreSlot::default());
        slot.set(control.store.clone());
        let patient = Timing {
            store: PATIENCE,
            lookup: PATIENCE,
            ..Timing::default()
        };
        let layouts = Layouts::with_timing(1 << 20, shared, patient);
        let mut loaded = following.loaded.subscribe();
        let mut follower = Follower::new(following, known.clone(), slot.clone());
        let store = control.store.clone();
        let follower = tokio::spawn(async move { follower.run(store).await });
        let all = tokio::time::timeout(PATIENCE, loaded.wait_for(|loaded| *loaded));
        all.await
            .expect("loaded in time")
            .expect("the follower lives");
        Self {
            known,
            lookup: Lookup::new(slot, 1 << 20, layouts),
            follower,
        }
    }

    pub(crate) fn watched(&self) -> Arc<Watched> {
        let table = table();
        let watched = self.known.table(&table.keyspace, &table.table);
        watched.expect("the table is watched")
    }

    pub(crate) fn might_be_split(&self, id: &SplitId) -> bool {
        self.watched().might_be_split(&Target::key(id.key.bytes()))
    }

    /// One answer, which may be a doubt for want of time.
    pub(crate) async fn find_once(&self, id: &SplitId) -> LookupAnswer {
        self.lookup.find(&self.watched(), &id.key).await
    }

    /// The answer, asked for again as long as a busy machine makes it too late.
    pub(crate) async fn find(&self, id: &SplitId) -> LookupAnswer {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            match self.find_once(id).await {
                LookupAnswer::Doubt(Doubt::Validation | Doubt::Key)
                    if std::time::Instant::now() < deadline =>
                {
                    // A shard that failed too often is left alone for a while.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                standing => return standing,
            }
        }
    }

    /// Waits for a poll that begins after this call.
    pub(crate) async fn polled(&self) {
        let since = std::time::Instant::now();
        eventually("a poll", || {
            let age = self.watched().freshness.since_refresh();
            age.is_some_and(|age| age < since.elapsed())
        })
        .await;
        assert_eq!(self.watched().freshness.age(), Age::Fresh);
    }
}

impl Drop for Knowing {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Asks until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(
            std::time::Instant::now() < deadline,
            "never happened: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Asks until the answer is a doubt, for want of a validation.
pub(crate) async fn eventually_doubt(knowing: &Knowing, id: &SplitId) {
    eventually_standing(knowing, id, &LookupAnswer::Doubt(Doubt::Validation)).await;
}

pub(crate) async fn eventually_standing(knowing: &Knowing, id: &SplitId, standing: &LookupAnswer) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let now = knowing.find_once(id).await;
        if now == *standing {
            return;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "never {standing:?}, still {now:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
