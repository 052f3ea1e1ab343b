//! The counters of the request path. Handles are made once; labels come from closed sets.

use metrics::{Counter, Gauge, counter, gauge};

use super::split::fallback::SplitMetrics;

pub(super) const CONNECTIONS: &str = "narrows_proxy_connections";
pub(super) const ACCEPTED_TOTAL: &str = "narrows_proxy_accepted_total";
pub(super) const REFUSED_TOTAL: &str = "narrows_proxy_refused_total";
pub(super) const REQUESTS_TOTAL: &str = "narrows_proxy_requests_total";
pub(super) const REPLIES_TOTAL: &str = "narrows_proxy_replies_total";
pub(super) const CLIENT_BYTES_TOTAL: &str = "narrows_proxy_client_bytes_total";
pub(super) const UPSTREAM_BYTES_TOTAL: &str = "narrows_proxy_upstream_bytes_total";
pub(super) const CLOSES_TOTAL: &str = "narrows_proxy_closes_total";
pub(super) const HELD_SCHEMA_CHANGES_TOTAL: &str = "narrows_proxy_held_schema_changes_total";
pub(super) const HELD_WRITES_TOTAL: &str = "narrows_proxy_held_writes_total";
pub(super) const DIAL_FAILURES_TOTAL: &str = "narrows_upstream_dial_failures_total";
pub(super) const PREPARED_UPSTREAM_TOTAL: &str = "narrows_proxy_prepared_upstream_total";
pub(super) const PREPARED_STATEMENTS: &str = "narrows_proxy_prepared_statements";

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    Client,
    Upstream,
    ClientProtocol,
    UpstreamProtocol,
    Handshake,
    Idle,
    Drain,
    Panic,
}

impl Close {
    const ALL: [Self; 8] = [
        Self::Client,
        Self::Upstream,
        Self::ClientProtocol,
        Self::UpstreamProtocol,
        Self::Handshake,
        Self::Idle,
        Self::Drain,
        Self::Panic,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Upstream => "upstream",
            Self::ClientProtocol => "client_protocol",
            Self::UpstreamProtocol => "upstream_protocol",
            Self::Handshake => "handshake",
            Self::Idle => "idle",
            Self::Drain => "drain",
            Self::Panic => "panic",
        }
    }
}

pub struct Metrics {
    pub connections: Gauge,
    pub accepted: Counter,
    pub refused: Counter,
    /// Forwarded requests, by far the largest group.
    pub forwarded: Counter,
    /// Requests answered UNPREPARED because this proxy had not seen the id.
    pub unprepared: Counter,
    /// Reads of topology tables, whose rows were replaced.
    pub topology: Counter,
    /// Requests that the proxy itself refused.
    pub rejected: Counter,
    pub replies: Counter,
    pub client_bytes: Counter,
    pub upstream_bytes: Counter,
    pub held_schema_changes: Counter,
    /// Writes that waited for a refresh and were then forwarded.
    pub held_writes_released: Counter,
    pub held_writes_refused: Counter,
    pub dial_failures: Counter,
    pub prepared: Gauge,
    /// Statements that the proxy prepared on a node before their first use there.
    pub prepared_upstream: Counter,
    pub(super) split: SplitMetrics,
    closes: [Counter; Close::ALL.len()],
}

impl Metrics {
    pub fn register() -> Self {
        let decision = |decision: &'static str| counter!(REQUESTS_TOTAL, "decision" => decision);
        let held_write = |outcome: &'static str| counter!(HELD_WRITES_TOTAL, "outcome" => outcome);
        Self {
            connections: gauge!(CONNECTIONS),
            accepted: counter!(ACCEPTED_TOTAL),
            refused: counter!(REFUSED_TOTAL),
            forwarded: decision("forwarded"),
            unprepared: decision("unprepared"),
            topology: decision("topology"),
            rejected: decision("rejected"),
            replies: counter!(REPLIES_TOTAL),
            client_bytes: counter!(CLIENT_BYTES_TOTAL),
            upstream_bytes: counter!(UPSTREAM_BYTES_TOTAL),
            held_schema_changes: counter!(HELD_SCHEMA_CHANGES_TOTAL),
            held_writes_released: held_write("released"),
            held_writes_refused: held_write("refused"),
            dial_failures: counter!(DIAL_FAILURES_TOTAL),
            prepared: gauge!(PREPARED_STATEMENTS),
            prepared_upstream: counter!(PREPARED_UPSTREAM_TOTAL),
            split: SplitMetrics::register(),
            closes: Close::ALL.map(|close| counter!(CLOSES_TOTAL, "reason" => close.label())),
        }
    }

    pub fn closed(&self, close: Close) {
        self.closes[close as usize].increment(1);
    }
}
