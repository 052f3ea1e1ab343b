//! Runs what a proxy needs to know what is split: on a thread of its own, so that a full load or a slow Redis holds up
//! no session and no accept.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;

use super::cache::Layouts;
use super::clock::BootClock;
use super::follow::{Follower, Following};
use super::lookup::Lookup;
use super::retire::Retirer;
use super::shared_cache::SharedCache;
use super::slot::StoreSlot;
use crate::config::Config;
use crate::known::Known;
use crate::sighting::{self, Sightings};
use crate::tls::{self, TlsError};
use crate::wide_row::open::{open, until_done};
use crate::wide_row::store::{Store, StoreError};

/// Before following begins again after a panic.
const PANIC_PAUSE: Duration = Duration::from_millis(500);
/// Beyond it the comparison after the hint window has to find what was not written down.
const FINISH_PATIENCE: Duration = Duration::from_secs(5);
/// What is remembered of keys, as a share of what layouts may take.
const KEYS_SHARE: u64 = 4;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("cannot start the thread that follows the control keyspace: {0}")]
    Thread(#[from] io::Error),
}

/// What the process does beside following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Proxy,
    /// Forwards no writes, so no guard waits for it.
    Worker,
}

/// What sessions ask.
#[derive(Clone)]
pub struct WideRow {
    pub known: Arc<Known>,
    pub lookup: Arc<Lookup>,
    pub retirer: Arc<Retirer>,
    /// Where what may be wide is told.
    pub sightings: Sightings,
}

/// The thread, for whoever started it.
pub struct Service {
    pub wide_row: WideRow,
    /// What sessions told, for whoever detects wide partitions; taken once.
    pub sightings: Option<sighting::Receiver>,
    pub store: Arc<StoreSlot>,
    /// Everything was loaded once.
    pub loaded: watch::Receiver<bool>,
    shared: Option<SharedCache>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Service {
    pub fn start(
        config: &Config,
        role: Role,
        schema_changed: Arc<Notify>,
    ) -> Result<Self, ServiceError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let control = &config.control;
        let following = Following {
            poll_interval: control.poll_interval,
            max_staleness: control.max_staleness,
            snapshots: control.snapshot_directory.clone(),
            clock: Arc::new(BootClock),
            runtime: runtime.handle().clone(),
            loaded: watch::Sender::new(false),
            schema_changed,
        };
        let loaded = following.loaded.subscribe();
        let slot = Arc::new(StoreSlot::default());
        let known = Arc::new(Known::new(following.freshness()));
        let handle = runtime.handle().clone();
        let shared = config
            .redis
            .clone()
            .map(|redis| SharedCache::new(redis, handle));
        let bytes = control.layout_cache_bytes as u64;
        let shared = shared.transpose()?;
        let layouts = Layouts::new(bytes, shared.clone());
        let lookup = Arc::new(Lookup::new(slot.clone(), bytes / KEYS_SHARE, layouts));
        let retirer = Retirer::new(slot.clone(), runtime.handle().clone());
        let mut follower = Follower::new(following, known.clone(), slot.clone());
        follower.begin(&config.tables);
        let (stop, stopped) = oneshot::channel();
        let (sightings, receiver) = Sightings::channel(sighting::WAITING_MAX);
        let run = Run {
            config: config.clone(),
            role,
            slot: slot.clone(),
            follower,
            retirer: retirer.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("narrows-follow".to_owned())
            .spawn(move || run.on(runtime, stopped))?;
        Ok(Self {
            wide_row: WideRow {
                known,
                lookup,
                retirer,
                sightings,
            },
            sightings: Some(receiver),
            store: slot,
            loaded,
            shared,
            stop,
            thread,
        })
    }

    /// Takes over new TLS files of Redis. The session of the control keyspace keeps those it was opened with.
    pub fn reload(&self, config: &Config) -> Result<(), TlsError> {
        if let (Some(shared), Some(redis)) = (&self.shared, &config.redis) {
            let tls = redis.tls.as_ref().map(tls::load_upstream);
            shared.set_tls(tls.transpose()?);
        }
        Ok(())
    }

    /// Stops following and keeps the filters for the next start. Blocks until that is done.
    pub fn stop(self) {
        // Gone already: then it has panicked, and joining says so.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("following the control keyspace panicked; please report this");
        }
    }
}

struct Run {
    config: Config,
    role: Role,
    slot: Arc<StoreSlot>,
    follower: Follower,
    retirer: Arc<Retirer>,
}

impl Run {
    fn on(mut self, runtime: Runtime, mut stopped: oneshot::Receiver<()>) {
        loop {
            let followed = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    tokio::select! {
                        () = self.follow() => {}
                        _ = &mut stopped => {}
                    }
                });
            }));
            if followed.is_ok() {
                break;
            }
            tracing::error!(
                "following the control keyspace panicked, and begins again; please report this"
            );
            runtime.block_on(sleep(PANIC_PAUSE));
        }
        // Sessions have ended; what their last writes did to splits is still being written down.
        runtime.block_on(self.retirer.finish(FINISH_PATIENCE));
        self.follower.saving()();
        // Requests that still wait for the store get their answer: a doubt.
        runtime.shutdown_background();
    }

    async fn follow(&mut self) {
        let told =
            "the control keyspace cannot be used yet; writes wait, reads go to the originals";
        let store = Arc::new(until_done(told, async || open(&self.config).await).await);
        self.slot.set(store.clone());
        let told = "what the configuration says could not be compared with the control keyspace, trying again";
        until_done(told, async || self.seed(&store).await).await;
        self.follower.run(store).await;
    }

    /// Says how old what this proxy goes by may become.
    async fn announce(&self, store: &Store) -> Result<(), StoreError> {
        let own = self.config.control.max_staleness;
        let longest = store.announce_max_staleness(own).await?;
        if longest > own {
            tracing::info!(
                ?own,
                ?longest,
                "another proxy has, or had, a longer control.max_staleness; splits wait for the longest before they are copied"
            );
        }
        Ok(())
    }

    /// Tables of the configuration begin to be watched; where the store differs, it wins. Before anything is known that a
    /// write could go by, workers are told of it.
    async fn seed(&self, store: &Store) -> Result<(), StoreError> {
        if self.role == Role::Proxy {
            self.announce(store).await?;
        }
        let rows = store.read_watched().await?;
        for table in &self.config.tables {
            match rows.iter().find(|row| row.table.name == table.name) {
                None => store.watch(table).await?,
                Some(row) => {
                    let settings = table.differences(&row.table);
                    if !settings.is_empty() {
                        tracing::warn!(
                            table = %table.name,
                            settings = settings.join(", "),
                            "the configuration file differs from watched_table, which wins"
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
