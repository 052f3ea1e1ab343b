//! Runs everything by which a proxy knows what is split, on a thread of its own, so that a full load or a slow Redis
//! holds up no session and no accept.

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

/// Pause before following begins again after a panic.
const PANIC_PAUSE: Duration = Duration::from_millis(500);
/// How long a stop waits for changes in progress. The comparison after the hint window finds the effects of writes that
/// were not recorded by then.
const FINISH_PATIENCE: Duration = Duration::from_secs(5);
/// Remembered keys may take the memory for layouts divided by this.
const KEYS_SHARE: u64 = 4;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("cannot start the thread that follows the control keyspace: {0}")]
    Thread(#[from] io::Error),
}

/// What the process does besides following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Proxy,
    /// Forwards no writes, so no guard waits for it.
    Worker,
}

/// What sessions use to ask about splits, retire them and report wide partitions.
#[derive(Clone)]
pub struct WideRow {
    pub known: Arc<Known>,
    pub lookup: Arc<Lookup>,
    pub retirer: Arc<Retirer>,
    /// Where sessions report partitions that may be wide.
    pub sightings: Sightings,
}

/// The handle of the thread.
pub struct Service {
    pub wide_row: WideRow,
    /// Receives what sessions report, for the detection of wide partitions; taken once.
    pub sightings: Option<sighting::Receiver>,
    pub store: Arc<StoreSlot>,
    /// Becomes true once everything has been loaded.
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
            min_filter_keys: control.min_filter_keys,
            snapshots: control.snapshot_directory.clone(),
            clock: Arc::new(BootClock),
            runtime: runtime.handle().clone(),
            loaded: watch::Sender::new(false),
            schema_changed,
        };
        let loaded = following.loaded.subscribe();
        let slot = Arc::new(StoreSlot::default());
        let known = Arc::new(Known::new(following.freshness(1)));
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
            shared: shared.clone(),
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

    /// Reloads the TLS files for Redis. The session of the control keyspace keeps those that it was opened with.
    pub fn reload(&self, config: &Config) -> Result<(), TlsError> {
        if let (Some(shared), Some(redis)) = (&self.shared, &config.redis) {
            let tls = redis.tls.as_ref().map(tls::load_upstream);
            shared.set_tls(tls.transpose()?);
        }
        Ok(())
    }

    /// Stops following and saves the filters for the next start. Blocks until that is done.
    pub fn stop(self) {
        // If the receiver is gone, the thread has panicked, and joining it says so.
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
    shared: Option<SharedCache>,
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
                "following the control keyspace panicked and is restarted; please report this"
            );
            runtime.block_on(sleep(PANIC_PAUSE));
        }
        // Sessions have ended, but what their last writes did to splits may not be recorded yet.
        runtime.block_on(self.retirer.finish(FINISH_PATIENCE));
        self.follower.saving()();
        // Look-ups that still wait for the store now end in a doubt.
        runtime.shutdown_background();
    }

    async fn follow(&mut self) {
        let told =
            "the control keyspace cannot be used yet; writes wait, reads go to the originals";
        let store = Arc::new(until_done(told, async || open(&self.config).await).await);
        if let Some(shared) = &self.shared {
            shared.set_scope(store.scope());
        }
        self.slot.set(store.clone());
        let told =
            "the configured tables could not be compared with the control keyspace, trying again";
        until_done(told, async || self.seed(&store).await).await;
        self.follower.run(store).await;
    }

    /// Announces this proxy's `max_staleness` to the fleet.
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

    /// Begins to watch the tables of the configuration; where the store differs, it wins. A proxy announces its
    /// `max_staleness` first, before it knows anything that could let a write pass.
    async fn seed(&self, store: &Store) -> Result<(), StoreError> {
        if self.role == Role::Proxy {
            self.announce(store).await?;
            self.follower.known().set_announced();
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
