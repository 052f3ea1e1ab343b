//! Opens the store: connects to the control keyspace and applies or verifies its schema.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::schema::{self, SchemaError};
use super::store::connect::{ConnectError, connect};
use super::store::{Store, StoreError};
use crate::config::Config;

/// First pause between attempts to reach the control keyspace; it doubles up to `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Schema(#[from] SchemaError),
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Retries until it succeeds; logs an error only if it differs from the previous one.
pub(crate) async fn until_done<T, E: Display>(
    told: &str,
    attempt: impl AsyncFn() -> Result<T, E>,
) -> T {
    let (mut pause, mut last) = (RETRY_MIN, String::new());
    loop {
        let error = match attempt().await {
            Ok(done) => return done,
            Err(error) => error.to_string(),
        };
        if error != last {
            tracing::warn!(%error, "{told}");
        }
        last = error;
        sleep(pause).await;
        pause = (2 * pause).min(RETRY_MAX);
    }
}

/// Connects, then applies or verifies the schema.
pub(crate) async fn open(config: &Config) -> Result<Store, OpenError> {
    let session = Arc::new(connect(config).await?);
    let keyspace = &config.control.keyspace;
    if config.control.apply_schema {
        let applied = schema::apply(&session, &config.control, &config.tables).await?;
        if !applied.made.is_empty() {
            tracing::info!(made = applied.made.join(", "), "control keyspace created");
        }
    } else {
        schema::verify(&session, keyspace).await?;
    }
    Ok(Store::open(session, keyspace).await?)
}

/// Checks that a proxy could follow this control keyspace: that it has the schema, and our role the rights. Changes
/// nothing, and needs no quorum.
pub(crate) async fn try_out(config: &Config) -> Result<(), OpenError> {
    let store = open(config).await?;
    Ok(store.prove_rights(&config.control.keyspace).await?)
}
