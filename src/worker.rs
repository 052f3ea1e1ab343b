//! The process of `narrows worker`: the split pipeline without a proxy. It serves no drivers, but has the same
//! `/metrics`, `/livez` and `/readyz` as a proxy.

use crate::admin::Readiness;
use crate::config::Config;
use crate::known::service::Role;
use crate::process::{AppError, Background, bind, serve_admin, spawn, until_told_to_stop};
use crate::telemetry::metrics::Metrics;
use crate::tls;
use crate::upstream::control::Control;

/// Splits partitions until SIGTERM or SIGINT.
pub async fn run(config: Config, metrics: Metrics) -> Result<(), AppError> {
    let admin = bind(config.admin.listen, "admin.listen")?;
    let upstream_tls = config.upstream.tls.as_ref();
    let upstream_tls = upstream_tls.map(tls::load_upstream).transpose()?;
    let control = Control::new(config.upstream.clone(), upstream_tls);
    let background = Background::start(&config, Role::Worker, &control)?;
    let readiness = Readiness::default();
    serve_admin(admin, readiness.clone(), metrics);
    spawn(async move { control.run().await });
    let mut loaded = background.service.loaded.clone();
    spawn(async move {
        readiness.set_not_ready("it is not known yet which partitions are split");
        if loaded.wait_for(|loaded| *loaded).await.is_ok() {
            readiness.set_ready();
        }
    });
    tracing::info!("splitting partitions of the watched tables");
    until_told_to_stop().await?;
    let stopped = tokio::task::spawn_blocking(move || background.stop());
    if stopped.await.is_err() {
        tracing::error!("stopping panicked; please report this");
    }
    tracing::info!("stopped");
    Ok(())
}
