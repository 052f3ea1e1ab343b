//! Who shares whose reading.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::known::breaker::FAILURES_MAX;
use crate::wide_row::names::Version;

/// Readings that wait until they are let through, and then report the version that was current when they were *sent*:
/// the worst that a store may do.
struct Slow {
    current: AtomicI64,
    sent: AtomicUsize,
    gate: Semaphore,
}

impl ReadShard for Slow {
    async fn read_shard(&self, shard: i32) -> Result<ShardReading, StoreError> {
        let version = self.current.load(Ordering::SeqCst);
        self.sent.fetch_add(1, Ordering::SeqCst);
        let permit = self.gate.acquire().await.expect("open");
        permit.forget();
        if version < 0 {
            return Err(StoreError::Unreachable("no answer".into()));
        }
        Ok(ShardReading {
            shard,
            version: Version(version),
            epoch: 0,
            epoch_version: Version(0),
        })
    }
}

fn validations() -> (Arc<Slow>, Arc<Validations<Slow>>) {
    let slow = Arc::new(Slow {
        current: AtomicI64::new(1),
        sent: AtomicUsize::new(0),
        gate: Semaphore::new(0),
    });
    let metrics = Metrics {
        sent: Counter::noop(),
        failed: Counter::noop(),
        asked: Counter::noop(),
        skipped: Counter::noop(),
    };
    let validations = Validations::new(slow.clone(), 2, Handle::current(), metrics);
    (slow, Arc::new(validations))
}

fn ask(
    validations: &Arc<Validations<Slow>>,
    shard: i32,
) -> tokio::task::JoinHandle<Result<ShardReading, Unvalidated>> {
    let validations = validations.clone();
    tokio::spawn(async move { validations.validate(shard).await })
}

async fn until_sent(slow: &Slow, count: usize) {
    while slow.sent.load(Ordering::SeqCst) < count {
        tokio::task::yield_now().await;
    }
}

fn version(answer: Result<ShardReading, Unvalidated>) -> i64 {
    answer.expect("read").version.0
}

#[tokio::test]
async fn a_request_never_shares_a_reading_that_was_sent_before_it_came() {
    let (slow, validations) = validations();
    let first = ask(&validations, 2);
    until_sent(&slow, 1).await;
    // Something changes, and then more requests come: they must see it, and share one reading.
    slow.current.store(2, Ordering::SeqCst);
    let later: Vec<_> = (0..50).map(|_| ask(&validations, 2)).collect();
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(slow.sent.load(Ordering::SeqCst), 1, "one at a time");
    slow.gate.add_permits(1);
    assert_eq!(version(first.await.unwrap()), 1);
    until_sent(&slow, 2).await;
    slow.gate.add_permits(1);
    for request in later {
        assert_eq!(version(request.await.unwrap()), 2);
    }
    assert_eq!(slow.sent.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn shards_do_not_wait_for_each_other() {
    let (slow, validations) = validations();
    let one = ask(&validations, 2);
    let two = ask(&validations, 3);
    until_sent(&slow, 2).await;
    slow.gate.add_permits(2);
    assert_eq!(version(one.await.unwrap()), 1);
    assert_eq!(version(two.await.unwrap()), 1);
    assert!(validations.validate(4).await.is_err());
    assert!(validations.validate(1).await.is_err());
    assert!(validations.validate(-1).await.is_err());
}

#[tokio::test]
async fn a_failed_reading_fails_only_those_who_shared_it() {
    let (slow, validations) = validations();
    slow.current.store(-1, Ordering::SeqCst);
    let first = ask(&validations, 2);
    until_sent(&slow, 1).await;
    slow.current.store(7, Ordering::SeqCst);
    let second = ask(&validations, 2);
    slow.gate.add_permits(2);
    assert!(matches!(first.await.unwrap(), Err(Unvalidated::Failed(_))));
    assert_eq!(version(second.await.unwrap()), 7);
    // And when nobody waits, nothing is read.
    assert_eq!(slow.sent.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_request_that_goes_away_takes_nobody_with_it() {
    let (slow, validations) = validations();
    let gone = ask(&validations, 2);
    until_sent(&slow, 1).await;
    gone.abort();
    let stays = ask(&validations, 2);
    slow.gate.add_permits(2);
    assert_eq!(version(stays.await.unwrap()), 1);
}

/// Fails as often as it takes for the shard to be left alone.
async fn failed_too_often(slow: &Slow, validations: &Arc<Validations<Slow>>) {
    slow.current.store(-1, Ordering::SeqCst);
    slow.gate.add_permits(FAILURES_MAX as usize);
    for _ in 0..FAILURES_MAX {
        let failed = validations.validate(2).await;
        assert!(matches!(failed, Err(Unvalidated::Failed(_))), "{failed:?}");
    }
}

#[tokio::test]
async fn a_shard_that_fails_again_and_again_is_not_read_for_a_while() {
    let (slow, validations) = validations();
    failed_too_often(&slow, &validations).await;
    let sent = slow.sent.load(Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(validations.validate(2).await, Err(Unvalidated::Skipped));
    }
    assert_eq!(slow.sent.load(Ordering::SeqCst), sent, "nothing was read");
    // Another shard is read as before.
    slow.current.store(3, Ordering::SeqCst);
    slow.gate.add_permits(1);
    assert_eq!(version(validations.validate(3).await), 3);
}

#[tokio::test]
async fn one_probe_finds_out_that_the_shard_is_back_while_nobody_waits_for_it() {
    let (slow, validations) = validations();
    failed_too_often(&slow, &validations).await;
    slow.current.store(9, Ordering::SeqCst);
    let sent = slow.sent.load(Ordering::SeqCst);
    let mut probe = ask(&validations, 2);
    while slow.sent.load(Ordering::SeqCst) == sent {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if probe.is_finished() {
            assert_eq!(probe.await.unwrap(), Err(Unvalidated::Skipped));
            probe = ask(&validations, 2);
        }
    }
    for _ in 0..10 {
        assert_eq!(validations.validate(2).await, Err(Unvalidated::Skipped));
    }
    slow.gate.add_permits(2);
    assert_eq!(version(probe.await.unwrap()), 9);
    assert_eq!(version(validations.validate(2).await), 9);
}

#[tokio::test]
async fn those_who_wait_when_the_shard_is_given_up_are_told_at_once() {
    let (slow, validations) = validations();
    slow.current.store(-1, Ordering::SeqCst);
    slow.gate.add_permits(FAILURES_MAX as usize - 1);
    for _ in 1..FAILURES_MAX {
        assert!(validations.validate(2).await.is_err());
    }
    let last = ask(&validations, 2);
    until_sent(&slow, FAILURES_MAX as usize).await;
    let waiting = ask(&validations, 2);
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    slow.gate.add_permits(1);
    assert!(matches!(last.await.unwrap(), Err(Unvalidated::Failed(_))));
    assert_eq!(waiting.await.unwrap(), Err(Unvalidated::Skipped));
    assert_eq!(slow.sent.load(Ordering::SeqCst), FAILURES_MAX as usize);
}
