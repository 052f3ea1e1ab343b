//! The process of a proxy: builds everything from the configuration, runs until SIGTERM or SIGINT, reloads on SIGHUP.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::admin::Readiness;
use crate::cli::check;
use crate::config::{
    self, Config, Enabled, TopologyMode, changed_without_restart, with_reloadable,
};
use crate::finding::{Change, Finding};
use crate::known::service::Role;
use crate::process::{AppError, Background, bind, serve_admin, spawn};
use crate::proxy::arrival::Target;
use crate::proxy::threads::Threads;
use crate::proxy::{Proxy, listener, mirror};
use crate::telemetry::logs::LogControl;
use crate::telemetry::metrics::Metrics;
use crate::tls;
use crate::upstream::control::{Control, Health};
use crate::wide_row::schema::definition::CATALOG;

/// Maximum number of session threads if `runtime.threads` is 0: a sidecar is a guest on its machine.
const AUTOMATIC_THREADS_MAX: usize = 4;

pub struct App {
    /// The configuration in effect, including reloads.
    config: Config,
    config_path: Option<PathBuf>,
    logs: LogControl,
    proxy: Arc<Proxy>,
    threads: Arc<Threads>,
    readiness: Readiness,
    tasks: Vec<AbortHandle>,
    /// `None` in a relay.
    background: Option<Background>,
    /// What a relay that looks for a control keyspace begins or ends to run.
    changes: mpsc::Receiver<Change>,
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(
    config: Config,
    config_path: Option<PathBuf>,
    logs: LogControl,
    metrics: Metrics,
) -> Result<(), AppError> {
    let mut signals = Signals::install()?;
    let mut app = App::start(config, config_path, logs, metrics)?;
    signals.until_stopped(&mut app).await;
    app.stop().await;
    Ok(())
}

impl App {
    fn start(
        config: Config,
        config_path: Option<PathBuf>,
        logs: LogControl,
        metrics: Metrics,
    ) -> Result<Self, AppError> {
        allow_open_files(config.limits.connections);
        let admin = bind(config.admin.listen, "admin.listen")?;
        let (client_tls, upstream_tls) = load_tls(&config)?;
        let mut control = Control::new(config.upstream.clone(), upstream_tls);
        let is_looking = config.control.enabled == Enabled::IfFound;
        if is_looking {
            control = control.looking_for(&config.control.keyspace, CATALOG);
        }
        let control = Arc::new(control);
        let background = match config.control.enabled {
            Enabled::Yes => Some(Background::start(&config, Role::Proxy, &control)?),
            Enabled::IfFound | Enabled::No => None,
        };
        let service = background.as_ref().map(|background| &background.service);
        let proxy = Arc::new(Proxy::new(
            config.clone(),
            control.balance.clone(),
            control.suspicion.clone(),
            client_tls,
            control.dialer.clone(),
            service.map(|service| service.wide_row.clone()),
        ));
        let threads = Arc::new(Threads::start(threads(&config))?);
        let readiness = Readiness::default();
        serve_admin(admin, readiness.clone(), metrics);
        // A relay that looks for a control keyspace accepts nobody and is not ready before it has looked.
        let accepting = watch::Sender::new(!is_looking);
        let loaded = watch::Sender::new(!is_looking);
        let health = follow_health(
            control.health.subscribe(),
            service.map_or_else(|| loaded.subscribe(), |service| service.loaded.clone()),
            proxy.clone(),
            readiness.clone(),
        );
        let mut tasks = vec![
            spawn(health),
            listen(&proxy, &threads, &control, accepting.subscribe())?,
        ];
        let (changed, changes) = mpsc::channel(1);
        if is_looking {
            let finding = Finding {
                config: config.clone(),
                control: control.clone(),
                proxy: proxy.clone(),
                threads: threads.clone(),
                changes: changed,
                accepting,
                loaded,
            };
            tasks.push(spawn(finding.run()));
        }
        tasks.push(spawn(async move { control.run().await }));
        Ok(Self {
            config,
            config_path,
            logs,
            proxy,
            threads,
            readiness,
            tasks,
            background,
            changes,
        })
    }

    fn change(&mut self, change: Change) {
        let ended = match change {
            Change::Begun(background) => self.background.replace(background),
            Change::Ended => self.background.take(),
        };
        if let Some(ended) = ended {
            // Waiting for its threads blocks.
            tokio::task::spawn_blocking(move || ended.stop());
        }
    }

    /// Applies the settings that need no restart, and logs the others that changed. An invalid file changes nothing.
    fn reload(&mut self) {
        let fresh = match check::configuration(self.config_path.as_deref(), config::environment()) {
            Ok(fresh) => fresh,
            Err(mistakes) => {
                tracing::error!(
                    mistakes = mistakes.trim_end(),
                    "configuration not reloaded because it has mistakes"
                );
                return;
            }
        };
        let (reloaded, needs_restart) = changed_without_restart(&self.config, &fresh);
        let taken = with_reloadable(&self.config, &fresh);
        let (client_tls, upstream_tls) = match load_tls(&taken) {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!(%error, "configuration not reloaded");
                return;
            }
        };
        if let Err(error) = self.logs.set_level(&taken.log.level) {
            tracing::error!(%error, "log.level not reloaded");
        }
        allow_open_files(taken.limits.connections);
        self.proxy.reload(&taken, client_tls, upstream_tls);
        let service = self.background.as_ref().map(|running| &running.service);
        if let Some(Err(error)) = service.map(|service| service.reload(&taken)) {
            tracing::error!(%error, "TLS files of Redis not reloaded");
        }
        self.config = taken;
        tracing::info!(
            changed = reloaded.join(", "),
            "configuration and TLS files reloaded"
        );
        if !needs_restart.is_empty() {
            tracing::warn!(
                settings = needs_restart.join(", "),
                "these settings changed and need a restart"
            );
        }
    }

    async fn stop(self) {
        self.readiness.set_not_ready("stopping");
        for task in &self.tasks {
            task.abort();
        }
        let deadline = Instant::now() + self.proxy.drain_timeout();
        // Waiting for threads blocks, and this thread must still close the listeners and answer `/readyz`.
        let drained = tokio::task::spawn_blocking(move || {
            if let Some(background) = &self.background {
                background.begin_to_stop();
            }
            self.threads.drain(deadline);
            if let Some(background) = self.background {
                background.stop();
            }
        });
        if drained.await.is_err() {
            tracing::error!("draining panicked; please report this");
        }
        tracing::info!("stopped");
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn until_stopped(&mut self, app: &mut App) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hang_up.recv() => app.reload(),
                Some(change) = app.changes.recv() => app.change(change),
            }
        }
        tracing::info!("stopping; requests in flight are still answered");
    }
}

/// Listens where drivers connect: at one address, or at one for each node. Clients wait until they may be accepted.
fn listen(
    proxy: &Arc<Proxy>,
    threads: &Arc<Threads>,
    control: &Control,
    accepting: watch::Receiver<bool>,
) -> Result<AbortHandle, AppError> {
    let (proxy, threads) = (proxy.clone(), threads.clone());
    Ok(match proxy.config.topology.mode {
        TopologyMode::Single => {
            let address = proxy.config.client.listen;
            let socket = bind(address, "client.listen")?;
            tracing::info!(%address, "listening for clients");
            let accept = listener::accept(socket, Target::Any, proxy, threads);
            spawn(once(accepting, accept))
        }
        TopologyMode::Mirror => {
            let follow = mirror::follow(proxy, threads, control.published.subscribe());
            spawn(once(accepting, follow))
        }
    })
}

/// Begins when this is true.
async fn once(mut begin: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    if begin.wait_for(|begin| *begin).await.is_ok() {
        work.await;
    }
}

type LoadedTls = (
    Option<Arc<rustls::ServerConfig>>,
    Option<Arc<rustls::ClientConfig>>,
);

fn load_tls(config: &Config) -> Result<LoadedTls, tls::TlsError> {
    let client = config
        .client
        .tls
        .as_ref()
        .map(tls::ClientSide::load)
        .transpose()?;
    let upstream = config
        .upstream
        .tls
        .as_ref()
        .map(tls::load_upstream)
        .transpose()?;
    Ok((client, upstream))
}

/// Every client needs two file descriptors. The soft limit is often 1024, for the sake of programs that use select().
fn allow_open_files(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const OTHERS: u64 = 256;
    let wanted = 2 * connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(current),
            ..limit
        },
    );
    if raised.is_err() || current < wanted {
        tracing::warn!(
            wanted,
            limit = current,
            "limits.connections needs more open files; raise the hard limit (ulimit -Hn) or lower the setting"
        );
    }
}

fn threads(config: &Config) -> usize {
    match config.runtime.threads {
        0 => std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(AUTOMATIC_THREADS_MAX),
        threads => threads,
    }
}

/// Ready means that a client that connects now will be served, including its writes.
async fn follow_health(
    mut health: watch::Receiver<Health>,
    mut loaded: watch::Receiver<bool>,
    proxy: Arc<Proxy>,
    readiness: Readiness,
) {
    let mode = proxy.config.topology.mode;
    let mut mirrored = proxy.mirrored.subscribe();
    loop {
        let now = health.borrow_and_update().clone();
        let listens = mode == TopologyMode::Single || !mirrored.borrow_and_update().is_empty();
        let is_loaded = *loaded.borrow_and_update();
        match (now, mode) {
            (Health::Connected, _) if !listens => {
                readiness.set_not_ready("no node is mirrored yet")
            }
            (Health::Connected, _) | (Health::Blind(_), TopologyMode::Single) if !is_loaded => {
                readiness.set_not_ready("it is not known yet which partitions are split")
            }
            (Health::Connected, _) | (Health::Blind(_), TopologyMode::Single) => {
                readiness.set_ready()
            }
            (Health::Starting, _) => readiness.set_not_ready("no upstream node is known yet"),
            (Health::Blind(reason) | Health::Lost(reason), _) => readiness.set_not_ready(&reason),
        }
        let changed = tokio::select! {
            changed = health.changed() => changed,
            changed = mirrored.changed() => changed,
            Ok(()) = loaded.changed() => Ok(()),
        };
        if changed.is_err() {
            return;
        }
    }
}
