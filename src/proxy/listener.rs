//! Accepts clients and hands them to the session threads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::sleep;

use super::arrival::{Arrival, Target};
use super::shared::Proxy;
use super::threads::Threads;

/// Accepting fails when the process has no file descriptors left; trying again at once would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts clients until its task is aborted.
pub async fn accept(
    listener: TcpListener,
    target: Target,
    proxy: Arc<Proxy>,
    threads: Arc<Threads>,
) {
    loop {
        match accept_one(&listener, target, &proxy).await {
            Ok(Some(arrival)) => threads.hand_over(arrival).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// `None`: too many connections are being turned away already, so this one was closed at once.
async fn accept_one(
    listener: &TcpListener,
    target: Target,
    proxy: &Arc<Proxy>,
) -> io::Result<Option<Arrival>> {
    let (stream, peer) = listener.accept().await?;
    let Some(admission) = proxy.admit() else {
        return Ok(None);
    };
    // The thread that runs the session registers the socket with its own runtime.
    let stream = stream.into_std()?;
    Ok(Some(Arrival {
        proxy: proxy.clone(),
        stream,
        peer,
        target,
        admission,
    }))
}
