//! Opens the store: connects to the control keyspace and makes sure of its schema.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::schema;
use super::store::Store;
use super::store::connect::connect;
use crate::config::Config;

/// Between attempts to reach the control keyspace at first.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Tries until it works; the same trouble is told once.
pub(crate) async fn until_done<T>(told: &str, attempt: impl AsyncFn() -> Result<T, String>) -> T {
    let (mut pause, mut last) = (RETRY_MIN, String::new());
    loop {
        let error = match attempt().await {
            Ok(done) => return done,
            Err(error) => error,
        };
        if error != last {
            tracing::warn!(%error, "{told}");
        }
        last = error;
        sleep(pause).await;
        pause = (2 * pause).min(RETRY_MAX);
    }
}

/// Connects and makes sure of the schema. Errors are for people.
pub(crate) async fn open(config: &Config) -> Result<Store, String> {
    let session = connect(config).await.map_err(|error| error.to_string())?;
    let session = Arc::new(session);
    let keyspace = &config.control.keyspace;
    if config.control.apply_schema {
        let applied = schema::apply(&session, &config.control, &config.tables).await;
        let applied = applied.map_err(|error| error.to_string())?;
        if !applied.made.is_empty() {
            tracing::info!(made = applied.made.join(", "), "control keyspace made");
        }
    } else {
        let verified = schema::verify(&session, keyspace).await;
        verified.map_err(|error| error.to_string())?;
    }
    Store::open(session, keyspace)
        .await
        .map_err(|error| error.to_string())
}
