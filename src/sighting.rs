//! What sessions see of reads that may be of wide partitions, on its way to whoever detects them.
//!
//! Sending never waits: a sighting that finds no room is dropped and counted, since wide partitions are read again. Keys are
//! a client's data, so what waits is bounded in bytes as well as in number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Counter, counter};
use tokio::sync::mpsc;

use crate::schema::names::{PartitionKey, TableName};

pub(super) const DROPPED_TOTAL: &str = "narrows_detect_sightings_dropped_total";

/// A read that takes longer is worth a look. Cassandra itself logs queries as slow from half of this.
pub const SLOW: Duration = Duration::from_secs(1);
/// Sightings that wait, at most.
pub const WAITING_MAX: usize = 4096;
/// What the keys of all that wait may take.
const KEY_BYTES_MAX: usize = 8 << 20;

/// Something about one partition of a watched table: a read of it that the original answered, or a node's word.
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

/// One page of a scan. Paging states are told apart by their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenPage {
    /// Of the request; `None` for the first page of a scan.
    pub goes_on_from: Option<u64>,
    /// Of the reply; `None` for the last page.
    pub ends_at: Option<u64>,
    /// The reply's body, uncompressed.
    pub bytes: u64,
    /// 0 where the head of the reply was too long to find out.
    pub rows: u64,
    /// From the request to the beginning of the reply.
    pub latency: Duration,
}

/// What upstream warned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Much was read on a replica, or put together on the coordinator.
    ReadSize,
    /// The index of the partition's rows is large.
    RowIndex,
    Tombstones,
}

/// How upstream failed to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// In v3, every failure of a replica looks like this.
    Timeout,
    TombstoneOverload,
    /// More was read than upstream allows.
    TooLarge,
    /// For any other reason.
    ReadFailure,
}

/// How much of it a node found when it was repaired, as one of its largest partitions.
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

/// Reads of single partitions of one table that were answered with nothing to remark: by them detection knows that the
/// table as a whole is well.
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
