//! How an operator sees the proxy: logs on stderr, metrics for Prometheus.

pub mod logs;
pub mod metrics;
mod process;
