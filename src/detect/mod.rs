//! Finds wide partitions by what sessions see of their reads (`sighting`) and, where that is configured, by what
//! nodes say of themselves (`top_partitions`). One event per partition, not one per read; what is remembered is bounded,
//! however many partitions are read.
//!
//! The rules:
//! - *Size*: the pages of one scan, chained by their paging states, have `wide_bytes` together, or one page does. Scans are
//!   never summed: a narrow partition that is read a thousand times is not wide. A page that was not seen makes its scan
//!   look smaller, never larger.
//! - *Read-size and row-index warnings, failures for size or too many tombstones*: upstream itself says so, once is enough.
//! - *Timeouts, other failures, slow answers, tombstone warnings* can have other causes, a node that is down above all.
//!   They count when three of them were of the same partition, ten seconds or more apart within ten minutes, and the
//!   table meanwhile answered ten reads well for each sign of another partition, and ten at all.
//! - *A node's list* in `system.top_partitions`: `wide_bytes` or more, or as many tombstones as no read gets over.
//! - A partition that was reported is not reported again within the hour.
//!
//! An event nominates; that a partition is wide is for `plan` to find, which reads all of it.

mod detector;
mod fingerprint;
mod metrics;
mod reads;
mod recent;
mod scans;
mod sink;
mod suspects;
pub mod top_partitions;

use std::sync::Arc;
use std::time::Instant;

pub use detector::{Detector, TableFacts};
pub use reads::WideReads;
pub use sink::{Recorder, Sink};

use crate::known::{Known, Watched};
use crate::schema::names::{PartitionKey, TableName};
use crate::sighting::Receiver;
use crate::upstream::ring::token;
use crate::watched::Mode;
use metrics::Metrics;

/// A partition that was found wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub table: TableName,
    pub key: PartitionKey,
    /// How much the scan had read that gave it away, or a node says that it holds, if it was that.
    pub bytes: Option<u64>,
    pub reason: Reason,
}

/// What gave a partition away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Size,
    /// Upstream warned of its size.
    Warning,
    Tombstones,
    /// Upstream refused to read so much.
    TooLarge,
    Timeouts,
    Failures,
    Slow,
}

impl Reason {
    pub const ALL: [Self; 7] = [
        Self::Size,
        Self::Warning,
        Self::Tombstones,
        Self::TooLarge,
        Self::Timeouts,
        Self::Failures,
        Self::Slow,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Warning => "warning",
            Self::Tombstones => "tombstones",
            Self::TooLarge => "too_large",
            Self::Timeouts => "timeouts",
            Self::Failures => "failures",
            Self::Slow => "slow",
        }
    }
}

/// Detects until nobody can see anything any more. What was found is logged and counted in every mode but `off`, and goes
/// to the sink in mode `serve`.
pub async fn run(mut receiver: Receiver, known: Arc<Known>, reads: WideReads, mut sink: impl Sink) {
    let metrics = Metrics::register();
    let mut detector = Detector::new(reads);
    while let Some(sighting) = receiver.next().await {
        let table = &sighting.table;
        let Some(watched) = known.table(&table.keyspace, &table.table) else {
            continue;
        };
        let mode = watched.mode();
        if mode == Mode::Off {
            continue;
        }
        let event = detector.see(sighting, facts(&watched), Instant::now());
        metrics.scans_open.set(detector.open_scans() as f64);
        let Some(event) = event else { continue };
        Metrics::count(&event);
        tell(&event, mode);
        if mode == Mode::Serve {
            sink.take(&watched, event);
        }
    }
}

fn facts(watched: &Watched) -> TableFacts {
    TableFacts {
        wide_bytes: watched.settings().wide_bytes,
        answers: watched.answers.total(),
    }
}

/// Keys are a client's data; by the token an operator finds the partition.
fn tell(event: &Event, mode: Mode) {
    tracing::info!(
        table = %event.table,
        token = token(event.key.bytes()),
        bytes = event.bytes,
        reason = event.reason.as_str(),
        mode = mode.as_str(),
        "a partition seems to be wide"
    );
}

#[cfg(test)]
mod tests;
