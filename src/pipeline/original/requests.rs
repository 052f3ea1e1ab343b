//! Requests of background work, on our own v5 connections and at the pace that the throttle allows.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::throttle::{Throttle, Went};
use crate::upstream::pool::{Pool, PoolError, Prepared, SubRead, SubReply};

/// Longer than Cassandra's own timeouts, so that its answer comes first.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Requests {
    pool: Rc<Pool>,
    throttle: Rc<Throttle>,
}

impl Requests {
    pub fn new(pool: Rc<Pool>, throttle: Rc<Throttle>) -> Self {
        Self { pool, throttle }
    }

    /// Approximate number of bytes that one request should read or write.
    pub fn request_bytes(&self) -> usize {
        self.throttle.request_bytes()
    }

    /// Whether a request may be sent while another is under way.
    pub fn go_side_by_side(&self) -> bool {
        self.throttle.lets_side_by_side()
    }

    /// Executes a statement on a replica of the partition. `bytes` is the approximate size of the request and its
    /// reply.
    pub async fn execute(
        &self,
        text: &str,
        request: &SubRead<'_>,
        (replication, partition): (&[(String, String)], &[u8]),
        bytes: usize,
    ) -> Result<SubReply, PoolError> {
        let _turn = self.throttle.take(bytes).await;
        let route = self.pool.replicas(replication, partition);
        let prepared = self.pool.prepared(text, &route, PATIENCE).await?;
        let began = Instant::now();
        let result = self
            .pool
            .execute(&prepared, request, &route, PATIENCE)
            .await;
        self.throttle.note(bytes, began.elapsed(), went(&result));
        result
    }

    pub async fn prepare(&self, text: &str) -> Result<Arc<Prepared>, PoolError> {
        self.pool.prepared(text, &[], PATIENCE).await
    }

    /// Writes a batch, and retries while the cluster is busy. That is safe, because each attempt writes the same.
    pub async fn batch(
        &self,
        statements: &[Arc<Prepared>],
        body: &[u8],
        (replication, partition): (&[(String, String)], &[u8]),
    ) -> Result<(), PoolError> {
        let mut pause = PAUSE_MIN;
        loop {
            let turn = self.throttle.take(body.len()).await;
            let route = self.pool.replicas(replication, partition);
            let began = Instant::now();
            let result = self.pool.batch(statements, body, &route, PATIENCE).await;
            let went = went(&result);
            self.throttle.note(body.len(), began.elapsed(), went);
            drop(turn);
            match result {
                Err(_) if went == Went::Badly && pause < PAUSE_MAX => {}
                result => return result.map(drop),
            }
            sleep(pause).await;
            pause *= 2;
        }
    }
}

/// Pauses between attempts to write while the cluster is busy. When the longest is reached, the write is given up for
/// now.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// Unavailable, overloaded, bootstrapping, and timeouts of writes and reads.
const BUSY: [i32; 5] = [0x1000, 0x1001, 0x1002, 0x1100, 0x1200];

fn went<T>(result: &Result<T, PoolError>) -> Went {
    match result {
        Err(PoolError::Timeout(_)) => Went::Badly,
        Err(PoolError::Refused { code, .. }) if BUSY.contains(code) => Went::Badly,
        _ => Went::Well,
    }
}
