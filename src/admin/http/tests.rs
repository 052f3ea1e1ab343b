//! The admin server over real sockets.

use std::net::SocketAddr;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

struct Server {
    address: SocketAddr,
    readiness: Readiness,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let readiness = Readiness::default();
    let state = AdminState {
        readiness: readiness.clone(),
        metrics: Metrics::detached(),
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, state, stopped));
    Server {
        address,
        readiness,
        stop,
        task,
    }
}

impl Server {
    async fn send(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        stream.write_all(request).await.expect("connected");
        let mut response = String::new();
        stream
            .read_to_string(&mut response)
            .await
            .expect("answered and closed");
        response
    }

    async fn get(&self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
    }
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("none")
}

fn body(response: &str) -> &str {
    response
        .split_once("\r\n\r\n")
        .map_or("none", |(_, body)| body)
}

#[tokio::test]
async fn shows_liveness_and_readiness_with_its_reason() {
    let server = start().await;
    assert_eq!(body(&server.get("/livez").await), "ok\n");
    let starting = server.get("/readyz").await;
    assert_eq!((status(&starting), body(&starting)), ("503", "starting\n"));
    server.readiness.set_ready();
    assert_eq!(status(&server.get("/readyz").await), "200");
    server.readiness.set_not_ready("no upstream node answers");
    assert_eq!(
        body(&server.get("/readyz").await),
        "no upstream node answers\n"
    );
}

#[tokio::test]
async fn shows_metrics_in_the_prometheus_format() {
    let response = start().await.get("/metrics?x=1").await;
    assert!(
        response.contains("Content-Type: text/plain; version=0.0.4\r\n"),
        "{response}"
    );
    assert!(body(&response).contains("narrows_build_info"), "{response}");
}

#[tokio::test]
async fn refuses_with_the_right_status() {
    let server = start().await;
    assert_eq!(status(&server.get("/").await), "200");
    assert_eq!(status(&server.get("/none").await), "404");
    assert_eq!(status(&server.send(b"garbage\r\n\r\n").await), "400");
    let refused = server
        .send(b"POST /livez HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
        .await;
    assert_eq!(status(&refused), "405");
    assert!(refused.contains("Allow: GET, HEAD\r\n"), "{refused}");
    let endless = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(status(&server.send(endless.as_bytes()).await), "431");
}

#[tokio::test]
async fn head_has_the_length_but_no_body() {
    let server = start().await;
    let response = server.send(b"HEAD /livez HTTP/1.1\r\n\r\n").await;
    assert!(response.contains("Content-Length: 3\r\n"), "{response}");
    assert_eq!(body(&response), "");
}

#[tokio::test]
async fn silent_connections_are_closed_and_let_others_in() {
    let server = start().await;
    let before = tokio::time::Instant::now();
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        silent.push(TcpStream::connect(server.address).await.expect("listening"));
    }
    assert_eq!(status(&server.get("/livez").await), "200");
    assert!(
        before.elapsed() >= CONNECTION_TIMEOUT,
        "served above the limit of connections"
    );
}

#[tokio::test]
async fn stops_when_told() {
    let server = start().await;
    server.stop.send(()).expect("running");
    server.task.await.expect("no panic");
    assert!(TcpStream::connect(server.address).await.is_err());
}
