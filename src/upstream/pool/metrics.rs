//! Metrics of the pools of all threads together.

use metrics::{Counter, Gauge, counter, gauge};

use super::PoolError;

const CONNECTIONS: &str = "narrows_upstream_pool_connections";
const OPEN_FAILURES_TOTAL: &str = "narrows_upstream_pool_open_failures_total";
const REQUESTS_TOTAL: &str = "narrows_upstream_pool_requests_total";
const PREPARES_TOTAL: &str = "narrows_upstream_pool_prepares_total";

pub(super) struct Metrics {
    pub(super) connections: Gauge,
    pub(super) open_failures: Counter,
    pub(super) prepares: Counter,
    answered: Counter,
    refused: Counter,
    changed: Counter,
    timeout: Counter,
    no_room: Counter,
    broken: Counter,
    unreachable: Counter,
    invalid: Counter,
}

impl Metrics {
    pub(super) fn register() -> Self {
        let request = |outcome: &'static str| counter!(REQUESTS_TOTAL, "outcome" => outcome);
        Self {
            connections: gauge!(CONNECTIONS),
            open_failures: counter!(OPEN_FAILURES_TOTAL),
            prepares: counter!(PREPARES_TOTAL),
            answered: request("answered"),
            refused: request("refused"),
            changed: request("changed"),
            timeout: request("timeout"),
            no_room: request("no_room"),
            broken: request("broken"),
            unreachable: request("unreachable"),
            invalid: request("invalid"),
        }
    }

    /// Counts how an EXECUTE or BATCH ended.
    pub(super) fn ended<T>(&self, result: &Result<T, PoolError>) {
        let counter = match result {
            Ok(_) => &self.answered,
            Err(PoolError::Refused { .. }) => &self.refused,
            Err(PoolError::Changed) => &self.changed,
            Err(PoolError::Timeout(_)) => &self.timeout,
            Err(PoolError::NoRoom) => &self.no_room,
            Err(PoolError::Broken(_) | PoolError::Unsent(_)) => &self.broken,
            Err(PoolError::Unreachable) => &self.unreachable,
            Err(PoolError::Protocol { .. } | PoolError::Encode(_)) => &self.invalid,
        };
        counter.increment(1);
    }
}
