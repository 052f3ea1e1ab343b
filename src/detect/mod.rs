//! Finds wide partitions from what sessions see of their reads (`sighting`) and, if configured, from what nodes list
//! (`top_partitions`). It raises one event per partition, not one per read, and its memory is bounded, however many
//! partitions are read.
//!
//! The rules:
//! - *Size*: the pages of one scan, chained by their paging states, have `wide_bytes` or more together. Scans are never
//!   summed: a narrow partition that is read a thousand times is not wide. A page that was not seen makes its scan look
//!   smaller, never larger.
//! - *Read-size and row-index warnings, failures because of size or too many tombstones*: one is enough, because
//!   upstream itself says what is wrong.
//! - *Tombstone warnings* count when a partition had three of them within ten minutes, at least ten seconds apart: one
//!   read may cross a few tombstones on its way.
//! - *Timeouts, other failures, slow answers* can have other causes, above all a node that is down. They count like
//!   tombstone warnings, but only if the table meanwhile answered at least ten reads well, plus ten for each sign of
//!   another partition.
//! - *An aggregate or a filter that takes half a second or more* reads much and returns little, so no page tells its
//!   size. One is enough, but only one a minute for each table: when a whole cluster is slow, all of them are.
//! - *A node's list* in `system.top_partitions`: the partition has `wide_bytes` or more, or so many tombstones that
//!   reads fail by default.
//! - A partition that was reported is not reported again within the hour, unless it was taken for wide before and now
//!   turns out to hurt.
//!
//! An event only nominates a partition: `plan` reads all of it, and judges it by the event's reason.

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
use crate::wide_row::found_by::FoundBy;
use metrics::Metrics;

/// A partition that seems to be wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub table: TableName,
    pub key: PartitionKey,
    /// How much the scan had read, or the size that a node lists. `None`: the reason is not its size.
    pub bytes: Option<u64>,
    pub reason: FoundBy,
}

/// Runs until no sender of sightings is left. Events are logged and counted in every mode but `off`, and go to the sink
/// in mode `serve`.
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

/// Logs the token, by which an operator finds the partition. The key is the client's data and is not logged.
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
