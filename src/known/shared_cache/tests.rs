//! The shared cache before servers that speak as much Redis as a test needs; a real one is in `tests/integration/redis.rs`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::Secret;
use crate::known::breaker::{BACK_OFF_MIN, FAILURES_MAX};
use crate::schema::names::{PartitionKey, TableName};
use crate::wide_row::names::Generation;

fn settings(address: SocketAddr, timeout: Duration) -> RedisSettings {
    RedisSettings {
        host: address.ip().to_string(),
        port: address.port(),
        username: None,
        password: Some(Secret::new("topsecret")),
        database: 0,
        tls: None,
        timeout,
        entry_ttl: Duration::from_secs(60),
    }
}

const SEAL: Seal = Seal([7; 32]);

fn id() -> LayoutId {
    LayoutId {
        table: TableName::new("metrics", "by_sensor"),
        key: PartitionKey::new(*b"key"),
        generation: Generation(1),
    }
}

/// A server that answers everything with nothing until `answers` has a permit, and with `+OK` then.
struct Mute {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    answers: Arc<Semaphore>,
}

impl Mute {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mute = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            answers: Arc::new(Semaphore::new(0)),
        };
        let (connections, answers) = (mute.connections.clone(), mute.answers.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let answers = answers.clone();
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    while let Ok(1..) = stream.read(&mut request).await {
                        answers.acquire().await.unwrap().forget();
                        stream.write_all(b"+OK\r\n").await.unwrap();
                    }
                });
            }
        });
        mute
    }
}

fn cache(address: SocketAddr, timeout: Duration) -> SharedCache {
    let cache = SharedCache::new(settings(address, timeout), Handle::current()).unwrap();
    cache.set_scope("cluster/narrows");
    cache
}

#[tokio::test]
async fn connects_to_nobody_before_it_is_asked() {
    let mute = Mute::start().await;
    let _cache = cache(mute.address, Duration::from_millis(1));
    tokio::task::yield_now().await;
    assert_eq!(mute.connections.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_slow_connection_goes_on_while_questions_run_out_of_time() {
    let mute = Mute::start().await;
    let cache = cache(mute.address, Duration::from_millis(5));
    for _ in 1..FAILURES_MAX {
        let fetched = cache.get(&id(), &SEAL).await;
        assert_eq!(fetched, Fetched::Failed(SharedCacheError::Timeout));
    }
    mute.answers.add_permits(1);
    let connection = cache.inner.link.connection().await;
    assert!(connection.is_ok(), "the login is answered now");
    assert_eq!(mute.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_server_that_never_answers_is_asked_no_more_after_a_few_failures() {
    let mute = Mute::start().await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let cache =
        metrics::with_local_recorder(&recorder, || cache(mute.address, Duration::from_millis(1)));
    let breaker_open = |expected: &str| {
        let text = recorder.handle().render();
        let line = format!("narrows_redis_breaker_open {expected}");
        assert!(text.lines().any(|found| found == line), "{text}");
    };
    breaker_open("0");
    for _ in 0..FAILURES_MAX {
        let fetched = cache.get(&id(), &SEAL).await;
        assert_eq!(fetched, Fetched::Failed(SharedCacheError::Timeout));
    }
    assert_eq!(cache.get(&id(), &SEAL).await, Fetched::Skipped);
    breaker_open("1");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_failure_and_not_an_error() {
    let address = Mute::start().await.address;
    // Nothing listens on another loopback address's port.
    let address = SocketAddr::from(([127, 99, 0, 1], address.port()));
    let cache = cache(address, Duration::from_secs(60));
    let refused = SharedCacheError::Connect(std::io::ErrorKind::ConnectionRefused);
    for _ in 0..2 {
        assert_eq!(
            cache.get(&id(), &SEAL).await,
            Fetched::Failed(refused.clone())
        );
    }
}

#[tokio::test]
async fn an_answer_of_the_wrong_kind_is_a_failure() {
    let mute = Mute::start().await;
    mute.answers.add_permits(2);
    let cache = cache(mute.address, Duration::from_secs(60));
    assert_eq!(
        cache.get(&id(), &SEAL).await,
        Fetched::Failed(SharedCacheError::Protocol)
    );
}

#[tokio::test]
async fn a_probe_that_nobody_waits_for_leaves_its_place() {
    let mute = Mute::start().await;
    let cache = cache(mute.address, Duration::from_secs(60));
    let past = Instant::now() - BACK_OFF_MIN;
    for _ in 0..FAILURES_MAX {
        cache.inner.breaker().failed(Admission::Normal, past);
    }
    let id = id();
    {
        let mut probe = Box::pin(cache.get(&id, &SEAL));
        tokio::select! {
            biased;
            _ = &mut probe => unreachable!("nobody answers"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(cache.get(&id, &SEAL).await, Fetched::Skipped);
    }
    let admitted = cache.inner.breaker().admit(Instant::now());
    assert_eq!(admitted, Some(Admission::Probe));
}

#[tokio::test]
async fn a_dropped_cache_ends_its_connection() {
    let mute = Mute::start().await;
    mute.answers.add_permits(1);
    let cache = cache(mute.address, Duration::from_secs(60));
    let connection = cache.inner.link.connection().await.unwrap();
    drop(cache);
    let mut connection = connection;
    let answer: redis::RedisResult<()> = redis::cmd("PING").query_async(&mut connection).await;
    assert_eq!(
        SharedCacheError::from(answer.unwrap_err()),
        SharedCacheError::Lost
    );
}
