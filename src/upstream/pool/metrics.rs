//! Metrics of the pools of all threads together.

use metrics::{Counter, Gauge, counter, gauge};

use super::PoolError;
use super::hedge::Why;

const CONNECTIONS: &str = "narrows_upstream_pool_connections";
const OPEN_FAILURES_TOTAL: &str = "narrows_upstream_pool_open_failures_total";
const REQUESTS_TOTAL: &str = "narrows_upstream_pool_requests_total";
const HEDGES_TOTAL: &str = "narrows_upstream_pool_hedges_total";
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
    given_up: Counter,
    late: Counter,
    silent: Counter,
    failed: Counter,
}

impl Metrics {
    pub(super) fn register() -> Self {
        let request = |outcome: &'static str| counter!(REQUESTS_TOTAL, "outcome" => outcome);
        let hedge = |reason: &'static str| counter!(HEDGES_TOTAL, "reason" => reason);
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
            given_up: request("given_up"),
            late: hedge("late"),
            silent: hedge("silent"),
            failed: hedge("failed"),
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

    /// Counts a request for which nobody waited until it ended.
    pub(super) fn given_up(&self) {
        self.given_up.increment(1);
    }

    /// Counts a request that was sent to another node as well.
    pub(super) fn hedged(&self, why: Why) {
        let counter = match why {
            Why::Late => &self.late,
            Why::Silent => &self.silent,
            Why::Lost | Why::Refused => &self.failed,
        };
        counter.increment(1);
    }
}
