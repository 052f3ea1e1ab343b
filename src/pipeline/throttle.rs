//! How much of the cluster background work may take: less when requests become slow or are refused, more when all is well.

use std::time::Duration;

/// How a request of ours went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    Well,
    /// Refused for overload, or not answered in time.
    Badly,
}

#[derive(Debug, Default)]
pub struct Throttle {}

impl Throttle {
    /// Waits until the cluster can bear another request that moves about so many bytes.
    pub async fn take(&self, bytes: usize) {
        let _ = bytes;
    }

    /// What the next requests are measured by.
    pub fn note(&self, latency: Duration, went: Went) {
        let _ = (latency, went);
    }
}
