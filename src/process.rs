//! The parts that both kinds of process share: `app` is a proxy, `worker` runs the pipeline alone.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::AbortHandle;

use crate::admin::{self, AdminState, Readiness};
use crate::config::Config;
use crate::detect::top_partitions::Poll;
use crate::detect::{self, Recorder, WideReads};
use crate::known::service::{Role, Service, ServiceError};
use crate::pipeline::run::service::PipelineService;
use crate::telemetry::metrics::Metrics;
use crate::tls::TlsError;
use crate::transport;
use crate::upstream::control::Control;

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("cannot listen on {address} ({setting}): {source}")]
    Listen {
        address: SocketAddr,
        setting: &'static str,
        source: io::Error,
    },
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

impl From<ServiceError> for AppError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Tls(error) => Self::Tls(error),
            ServiceError::Thread(error) => Self::Io(error),
        }
    }
}

/// What a process that watches tables runs beside its sessions: following, detection, and the pipeline if enabled.
pub(crate) struct Background {
    pub(crate) service: Service,
    pipeline: Option<PipelineService>,
    detection: Vec<AbortHandle>,
}

impl Background {
    pub(crate) fn start(config: &Config, role: Role, control: &Control) -> Result<Self, AppError> {
        let mut service = Service::start(config, role, control.schema_changed.clone())?;
        let reads = WideReads::default();
        let pipeline = match config.pipeline.enabled || role == Role::Worker {
            true => {
                let known = service.wide_row.known.clone();
                let pool = control.pool_config();
                let started = PipelineService::start(config, known, pool, reads.clone())?;
                Some(started)
            }
            false => None,
        };
        let detection = detect_wide(config, &mut service, reads);
        Ok(Self {
            service,
            pipeline,
            detection,
        })
    }

    /// Stops detection, and lets the pipeline begin nothing more.
    pub(crate) fn begin_to_stop(&self) {
        for task in &self.detection {
            task.abort();
        }
        if let Some(pipeline) = &self.pipeline {
            pipeline.begin_to_stop();
        }
    }

    /// Blocks until the pipeline has written its checkpoints and the filters are saved.
    pub(crate) fn stop(self) {
        self.begin_to_stop();
        if let Some(pipeline) = self.pipeline {
            pipeline.stop();
        }
        self.service.stop();
    }
}

/// Detects wide partitions from what sessions see and, if configured, from what nodes list. A worker has no sessions,
/// but can ask the nodes.
fn detect_wide(config: &Config, service: &mut Service, reads: WideReads) -> Vec<AbortHandle> {
    let Some(receiver) = service.sightings.take() else {
        return Vec::new();
    };
    let (store, known) = (service.store.clone(), service.wide_row.known.clone());
    let sink = Recorder::new(store.clone(), reads.clone());
    let mut tasks = vec![spawn(detect::run(receiver, known.clone(), reads, sink))];
    if let Some(every) = config.pipeline.poll_top_partitions {
        let sightings = service.wide_row.sightings.clone();
        let poll = Poll {
            every,
            store,
            known,
            sightings,
        };
        tasks.push(spawn(poll.run()));
    }
    tasks
}

/// Serves health and metrics until the process ends.
pub(crate) fn serve_admin(listener: TcpListener, readiness: Readiness, metrics: Metrics) {
    let state = AdminState { readiness, metrics };
    spawn(admin::serve(listener, state, std::future::pending::<()>()));
}

pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(future).abort_handle()
}

pub(crate) fn bind(address: SocketAddr, setting: &'static str) -> Result<TcpListener, AppError> {
    transport::listen(address).map_err(|source| AppError::Listen {
        address,
        setting,
        source,
    })
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn until_told_to_stop() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; work in progress is saved in checkpoints");
    Ok(())
}
