//! The one connection to Redis, for all threads of the process.
//!
//! A task on a long-lived runtime connects and then runs the connection to its end, because the sessions' runtimes come
//! and go. A caller waits for that task as long as it likes: a slow attempt goes on without it, and the next caller
//! joins the same attempt. TCP and TLS are ours, so no certificate authority but the configured one is ever trusted.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::error::SharedCacheError;
use crate::config::RedisSettings;
use crate::transport;

/// An attempt to connect that takes longer fails, and the next caller starts a new one.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Link {
    settings: RedisSettings,
    runtime: Handle,
    state: Mutex<State>,
}

struct State {
    tls: Option<Arc<ClientConfig>>,
    current: Option<Attempt>,
}

/// One connection, from the first packet to its end.
struct Attempt {
    outcome: watch::Receiver<Outcome>,
    task: AbortHandle,
}

/// `None`: still connecting.
type Outcome = Option<Result<MultiplexedConnection, SharedCacheError>>;
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Link {
    pub(super) fn new(
        settings: RedisSettings,
        tls: Option<Arc<ClientConfig>>,
        runtime: Handle,
    ) -> Self {
        Self {
            settings,
            runtime,
            state: Mutex::new(State { tls, current: None }),
        }
    }

    /// Takes effect with the next connection; the present one stays.
    pub(super) fn set_tls(&self, tls: Option<Arc<ClientConfig>>) {
        self.state().tls = tls;
    }

    /// The connection, as soon as there is one. Has no deadline of its own.
    pub(super) async fn connection(&self) -> Result<MultiplexedConnection, SharedCacheError> {
        let mut outcome = self.outcome();
        let known = outcome.wait_for(Option::is_some).await;
        // An attempt that is aborted drops the sender without an outcome.
        let known = known.map_err(|_| SharedCacheError::Lost)?;
        known.clone().unwrap_or(Err(SharedCacheError::Lost))
    }

    /// Ends the connection, if there is one: it may hang where a new one would not. An attempt to connect goes on.
    pub(super) fn drop_connection(&self) {
        let mut state = self.state();
        let connected = |attempt: &mut Attempt| attempt.outcome.borrow().is_some();
        if let Some(attempt) = state.current.take_if(connected) {
            attempt.task.abort();
        }
    }

    fn outcome(&self) -> watch::Receiver<Outcome> {
        let mut state = self.state();
        let current = state.current.as_ref();
        // A task that has ended, however it did, has no connection to give.
        if let Some(attempt) = current.filter(|attempt| !attempt.task.is_finished()) {
            return attempt.outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        let opening = open(self.settings.clone(), state.tls.clone());
        let task = self.runtime.spawn(live(opening, sender)).abort_handle();
        state.current = Some(Attempt {
            outcome: outcome.clone(),
            task,
        });
        outcome
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(attempt) = self.state().current.take() {
            attempt.task.abort();
        }
    }
}

/// Connects, and runs the connection until either side ends it.
async fn live(
    opening: impl Future<Output = Result<(MultiplexedConnection, Driver), SharedCacheError>>,
    outcome: watch::Sender<Outcome>,
) {
    let opened = tokio::time::timeout(CONNECT_PATIENCE, opening).await;
    match opened.unwrap_or(Err(SharedCacheError::Timeout)) {
        Ok((connection, driver)) => {
            outcome.send_replace(Some(Ok(connection)));
            driver.await;
        }
        Err(error) => {
            outcome.send_replace(Some(Err(error)));
        }
    }
}

async fn open(
    settings: RedisSettings,
    tls: Option<Arc<ClientConfig>>,
) -> Result<(MultiplexedConnection, Driver), SharedCacheError> {
    let address = (settings.host.as_str(), settings.port);
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        transport::configure(&stream)?;
        Ok(stream)
    };
    let stream = connect
        .await
        .map_err(|error: std::io::Error| SharedCacheError::Connect(error.kind()))?;
    let Some(tls) = tls else {
        return log_in(&settings, stream).await;
    };
    let failed = |reason: &dyn ToString| SharedCacheError::Tls(reason.to_string());
    let name = ServerName::try_from(settings.host.clone()).map_err(|error| failed(&error))?;
    let connector = tokio_rustls::TlsConnector::from(tls);
    let stream = connector.connect(name, stream).await;
    log_in(&settings, stream.map_err(|error| failed(&error))?).await
}

async fn log_in(
    settings: &RedisSettings,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(MultiplexedConnection, Driver), SharedCacheError> {
    let mut login = RedisConnectionInfo::default()
        .set_db(settings.database)
        // Nobody reads the library's name, and an ACL user may lack the right to set it.
        .set_skip_set_lib_name();
    if let Some(username) = &settings.username {
        login = login.set_username(username);
    }
    if let Some(password) = &settings.password {
        login = login.set_password(password.expose());
    }
    // The caller has a deadline for the question as a whole.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&login, stream, config).await?;
    Ok((connection, Box::pin(driver)))
}
