//! Accepts clients and hands them to the worker threads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::sleep;

use super::Proxy;
use super::worker::{Arrival, Target, Workers};

/// Accepting fails when the process runs out of file descriptors; trying again at once would only burn the CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the listener is dropped with its task.
pub async fn accept(
    listener: TcpListener,
    target: Target,
    proxy: Arc<Proxy>,
    workers: Arc<Workers>,
) {
    loop {
        match accept_one(&listener, target, &proxy).await {
            Ok(arrival) => workers.hand_over(arrival).await,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept_one(
    listener: &TcpListener,
    target: Target,
    proxy: &Arc<Proxy>,
) -> io::Result<Arrival> {
    let (stream, peer) = listener.accept().await?;
    let admission = proxy.admit();
    match admission {
        Ok(_) => proxy.metrics.accepted.increment(1),
        Err(_) => proxy.metrics.refused.increment(1),
    }
    // The thread that carries the session registers the socket with its own runtime.
    let stream = stream.into_std()?;
    Ok(Arrival {
        proxy: proxy.clone(),
        stream,
        peer,
        target,
        admission,
    })
}
