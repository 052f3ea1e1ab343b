//! The process of `narrows worker`: the split pipeline without a proxy. It serves no drivers; `/metrics`, `/livez` and
//! `/readyz` are those of a proxy.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::admin::{self, AdminState, Readiness};
use crate::app::{AppError, bind, detect_wide, until_told_to_stop};
use crate::config::Config;
use crate::detect::WideReads;
use crate::known::service::{Role, Service};
use crate::pipeline::run::service::PipelineService;
use crate::telemetry::metrics::Metrics;
use crate::tls;
use crate::upstream::balance::Balance;
use crate::upstream::control::{Control, Health};
use crate::upstream::dial::Dialer;
use crate::upstream::pool::PoolConfig;

/// Splits partitions until SIGTERM or SIGINT.
pub async fn run(config: Config, metrics: Metrics) -> Result<(), AppError> {
    let admin = bind(config.admin.listen, "admin.listen")?;
    let upstream_tls = config.upstream.tls.as_ref();
    let upstream_tls = upstream_tls.map(tls::load_upstream).transpose()?;
    let dialer = Dialer::new(config.upstream.connect_timeout, upstream_tls);
    let (balance, suspicion) = (Arc::new(Balance::default()), Arc::new(Notify::new()));
    let schema_changed = Arc::new(Notify::new());
    let mut service = Service::start(&config, Role::Worker, schema_changed.clone())?;
    let pool = PoolConfig::new(
        dialer.clone(),
        config.upstream.credentials.clone(),
        balance.clone(),
        suspicion.clone(),
    );
    let known = service.wide_row.known.clone();
    let reads = WideReads::default();
    let pipeline = PipelineService::start(&config, known, Arc::new(pool), reads.clone())?;
    // No sessions see anything here, but nodes may be asked.
    let detect = detect_wide(&config, &mut service, reads);
    let control = Control {
        config: config.upstream.clone(),
        dialer,
        balance,
        published: watch::Sender::new(None),
        health: watch::Sender::new(Health::Starting),
        suspicion,
        schema_changed,
    };
    let readiness = Readiness::default();
    let state = AdminState {
        readiness: readiness.clone(),
        metrics,
    };
    let mut loaded = service.loaded.clone();
    let serve = tokio::spawn(admin::serve(admin, state, std::future::pending::<()>()));
    let follow = tokio::spawn(control.run());
    let ready = tokio::spawn(async move {
        readiness.set_not_ready("what is split is not known yet");
        if loaded.wait_for(|loaded| *loaded).await.is_ok() {
            readiness.set_ready();
        }
    });
    tracing::info!("splitting partitions of the watched tables");
    until_told_to_stop().await?;
    let stopped = tokio::task::spawn_blocking(move || {
        pipeline.stop();
        service.stop();
    });
    if stopped.await.is_err() {
        tracing::error!("stopping panicked; please report this");
    }
    for task in detect {
        task.abort();
    }
    for task in [serve, follow, ready] {
        task.abort();
    }
    tracing::info!("stopped");
    Ok(())
}
