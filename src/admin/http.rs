//! A small HTTP/1.1 server for `/livez`, `/readyz` and `/metrics`.
//!
//! It serves one request per connection and bounds everything, so that neither a scanner nor a stuck scraper can take
//! resources from the clients. It must stay this simple: no bodies, no keep-alive, nothing that changes state.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::readiness::Readiness;
use super::request::{Method, Refusal, Request, read_request};
use crate::telemetry::metrics::Metrics;

/// Further connections wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;
/// Time limit for a whole connection, from accept to close.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept: without file descriptors, for instance, trying again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How much of an unwanted request is read and discarded, so that the answer arrives before the reset.
const DISCARD_BYTES_MAX: usize = 64 * 1024;

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4";
const INDEX: &str = "narrows admin\n\n\
    /livez    200 while the process runs\n\
    /readyz   200 when clients are served, otherwise 503 and the reason\n\
    /metrics  for Prometheus\n";

/// What the routes show.
#[derive(Clone)]
pub struct AdminState {
    pub readiness: Readiness,
    pub metrics: Metrics,
}

/// Serves until `shutdown` is ready; requests still in progress are then dropped. Meanwhile it runs the upkeep of the
/// metrics.
pub async fn serve(listener: TcpListener, state: AdminState, shutdown: impl Future) {
    let mut connections = JoinSet::new();
    let mut upkeep = interval(UPKEEP_INTERVAL);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => return,
            _ = upkeep.tick() => state.metrics.run_upkeep(),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(timeout(CONNECTION_TIMEOUT, answer_one(stream, state.clone())));
                }
                Err(error) => {
                    tracing::warn!(%error, "admin listener cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Socket errors end the connection and affect nothing else.
async fn answer_one(mut stream: TcpStream, state: AdminState) {
    let (response, method) = match read_request(&mut stream).await {
        Ok(request) => (route(&request, &state), request.method),
        Err(Refusal::Gone) => return,
        Err(Refusal::Malformed) => (
            Response::text(400, "Bad Request", "not an HTTP/1.1 request\n"),
            Method::Get,
        ),
        Err(Refusal::TooLarge) => {
            let reason = "Request Header Fields Too Large";
            (
                Response::text(431, reason, "the request head is limited to 8 KiB\n"),
                Method::Get,
            )
        }
    };
    if stream.write_all(&response.encode(method)).await.is_ok() && stream.shutdown().await.is_ok() {
        discard_rest(&mut stream).await;
    }
}

/// Closing with unread bytes sends a reset, which can overtake the answer.
async fn discard_rest(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let mut discarded = 0;
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        discarded += read;
        if discarded > DISCARD_BYTES_MAX {
            return;
        }
    }
}

fn route(request: &Request, state: &AdminState) -> Response {
    let respond: fn(&AdminState) -> Response = match request.path.as_str() {
        "/" => |_| Response::text(200, "OK", INDEX),
        "/livez" => |_| Response::text(200, "OK", "ok\n"),
        "/readyz" => ready,
        "/metrics" => |state| Response {
            content_type: PROMETHEUS,
            ..Response::text(200, "OK", state.metrics.render())
        },
        _ => return Response::text(404, "Not Found", "no such route; / lists them\n"),
    };
    match request.method {
        Method::Get | Method::Head => respond(state),
        Method::Other => Response::text(405, "Method Not Allowed", "use GET\n"),
    }
}

fn ready(state: &AdminState) -> Response {
    match state.readiness.reason() {
        None => Response::text(200, "OK", "ok\n"),
        Some(reason) => Response::text(503, "Service Unavailable", format!("{reason}\n")),
    }
}

struct Response {
    status: u16,
    reason: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn text(status: u16, reason: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            content_type: TEXT,
            body: body.into(),
        }
    }

    /// A HEAD gets the same head and no body (RFC 9110 §9.3.2); a 405 says what is allowed (§15.5.6).
    fn encode(&self, method: Method) -> Vec<u8> {
        let Self {
            status,
            reason,
            content_type,
            body,
        } = self;
        let allow = if *status == 405 {
            "Allow: GET, HEAD\r\n"
        } else {
            ""
        };
        let length = body.len();
        let mut bytes = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
        )
        .into_bytes();
        if method != Method::Head {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests;
