//! Signs of wide partitions, on their way from sessions to detection.
//!
//! Sending never waits: if the queue is full, a sighting is dropped and counted, since wide partitions are read again.
//! Clients choose the keys, which may be long, so the queue is bounded in bytes as well as in number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Counter, counter};
use tokio::sync::mpsc;

use crate::schema::names::{PartitionKey, TableName};

pub(super) const DROPPED_TOTAL: &str = "narrows_detect_sightings_dropped_total";

/// A read that takes this long or longer is worth a look. By default, Cassandra logs queries as slow at half of this.
pub const SLOW: Duration = Duration::from_secs(1);
/// A read that condenses what it reads is worth a look from here on: Cassandra's default for slow queries.
pub const LONG: Duration = Duration::from_millis(500);
/// Maximum number of sightings in the queue.
pub const WAITING_MAX: usize = 4096;
/// Maximum size of all keys in the queue.
const KEY_BYTES_MAX: usize = 8 << 20;

/// A sign about one partition of a watched table: from the original's reply to a read, or from a node's own list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub table: TableName,
    pub key: PartitionKey,
    pub what: Seen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Page(SeenPage),
    Warning(Warning),
    Failure(Failure),
    Top(Top),
}

/// One page of a scan. Paging states are represented by their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenPage {
    /// The paging state of the request; `None` for the first page of a scan.
    pub goes_on_from: Option<u64>,
    /// The paging state of the reply; `None` for the last page.
    pub ends_at: Option<u64>,
    /// The size of the reply's body, uncompressed.
    pub bytes: u64,
    /// 0 if it was not read, as when the head of the reply was too long.
    pub rows: u64,
    /// From the request to the beginning of the reply.
    pub latency: Duration,
    /// It aggregates or filters: it may have read far more than it returned.
    pub condenses: bool,
}

/// What upstream warned about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// A replica read, or the coordinator put together, a large amount of data.
    ReadSize,
    /// The partition's row index is large.
    RowIndex,
    Tombstones,
}

/// How upstream failed to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// In v3, every read failure looks like this.
    Timeout,
    TombstoneOverload,
    /// More was read than upstream allows.
    TooLarge,
    /// A read failure for any other reason.
    ReadFailure,
}

/// The partition's size or tombstones, as a node listed it among its largest partitions during a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    Bytes(u64),
    Tombstones(u64),
}

/// The sending side, for every session.
#[derive(Clone)]
pub struct Sightings {
    sender: mpsc::Sender<Sighting>,
    key_bytes: Arc<AtomicUsize>,
    dropped: Counter,
}

/// The receiving side; there is one.
pub struct Receiver {
    receiver: mpsc::Receiver<Sighting>,
    key_bytes: Arc<AtomicUsize>,
}

impl Sightings {
    pub fn channel(limit: usize) -> (Self, Receiver) {
        let (sender, receiver) = mpsc::channel(limit.max(1));
        let key_bytes = Arc::new(AtomicUsize::new(0));
        let sightings = Self {
            sender,
            key_bytes: key_bytes.clone(),
            dropped: counter!(DROPPED_TOTAL),
        };
        let receiver = Receiver {
            receiver,
            key_bytes,
        };
        (sightings, receiver)
    }

    pub fn send(&self, sighting: Sighting) {
        let bytes = sighting.key.bytes().len();
        let before = self.key_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= KEY_BYTES_MAX;
        if !fits || self.sender.try_send(sighting).is_err() {
            self.key_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.increment(1);
        }
    }
}

impl Receiver {
    /// `None`: all senders are gone.
    pub async fn next(&mut self) -> Option<Sighting> {
        let sighting = self.receiver.recv().await?;
        let bytes = sighting.key.bytes().len();
        self.key_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(sighting)
    }
}

/// The number of reads of single partitions of one table that were answered without trouble. It tells detection that
/// the table as a whole is well.
#[derive(Debug, Default)]
pub struct Answers(AtomicU64);

impl Answers {
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(key: usize) -> Sighting {
        Sighting {
            table: TableName::new("ks", "t"),
            key: PartitionKey::new(vec![7; key]),
            what: Seen::Failure(Failure::Timeout),
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_dropped_and_the_rest_arrives_in_order() {
        let (sightings, mut receiver) = Sightings::channel(3);
        for key in 1..=5 {
            sightings.send(sighting(key));
        }
        drop(sightings);
        for key in 1..=3 {
            assert_eq!(receiver.next().await, Some(sighting(key)));
        }
        assert_eq!(receiver.next().await, None);
    }

    #[tokio::test]
    async fn long_keys_make_no_more_room_than_their_bytes_until_they_are_received() {
        let (sightings, mut receiver) = Sightings::channel(1000);
        let long = KEY_BYTES_MAX / 2;
        for _ in 0..3 {
            sightings.send(sighting(long));
        }
        assert_eq!(receiver.next().await, Some(sighting(long)));
        sightings.send(sighting(1));
        sightings.send(sighting(long));
        drop(sightings);
        assert_eq!(receiver.next().await, Some(sighting(long)));
        assert_eq!(receiver.next().await, Some(sighting(1)));
        assert_eq!(receiver.next().await, None);
    }

    #[test]
    fn sending_to_nobody_does_no_harm() {
        let (sightings, receiver) = Sightings::channel(3);
        drop(receiver);
        sightings.send(sighting(1));
        assert_eq!(sightings.key_bytes.load(Ordering::Relaxed), 0);
    }
}
