//! Requests of background work: on our own v5 connections, at the pace that the throttle allows.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::throttle::{Throttle, Went};
use crate::upstream::pool::{Pool, PoolError, SubRead, SubReply};

/// Beyond Cassandra's own limits, so that its answer comes first.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Requests {
    pool: Rc<Pool>,
    throttle: Rc<Throttle>,
}

impl Requests {
    pub fn new(pool: Rc<Pool>, throttle: Rc<Throttle>) -> Self {
        Self { pool, throttle }
    }

    /// Executes a statement on a replica of the partition. `bytes`: about how much the request and its reply are.
    pub async fn execute(
        &self,
        text: &str,
        request: &SubRead<'_>,
        (replication, partition): (&[(String, String)], &[u8]),
        bytes: usize,
    ) -> Result<SubReply, PoolError> {
        self.throttle.take(bytes).await;
        let route = self.pool.replicas(replication, partition);
        let prepared = self.pool.prepared(text, &route, PATIENCE).await?;
        let began = Instant::now();
        let result = self
            .pool
            .execute(&prepared, request, &route, PATIENCE)
            .await;
        self.throttle.note(began.elapsed(), went(&result));
        result
    }
}

/// Unavailable, overloaded, bootstrapping, and timeouts of writes and reads.
const BUSY: [i32; 5] = [0x1000, 0x1001, 0x1002, 0x1100, 0x1200];

fn went<T>(result: &Result<T, PoolError>) -> Went {
    match result {
        Err(PoolError::Timeout(_)) => Went::Badly,
        Err(PoolError::Refused { code, .. }) if BUSY.contains(code) => Went::Badly,
        _ => Went::Well,
    }
}
