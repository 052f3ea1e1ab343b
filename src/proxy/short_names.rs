//! Reads that were taken out of the stream and whose unqualified names mean a table of the connection's keyspace.
//!
//! Cassandra must not see a USE before such a read that the client sent ahead of it. So the USE waits in the request
//! loop. The reads do not let it wait for long: they turn to the original at once, and are forwarded ahead of it.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct ShortNames {
    reads: Cell<usize>,
    /// A USE waits for these reads.
    use_waits: Cell<bool>,
    changed: Notify,
}

/// One such read, until it is answered or forwarded.
pub(super) struct ShortRead(Rc<ShortNames>);

impl ShortNames {
    /// Whether a USE must wait. If so, the reads are told to hurry.
    pub(super) fn hold_up_use(&self) -> bool {
        let must_wait = self.reads.get() > 0;
        self.use_waits.set(must_wait);
        if must_wait {
            self.changed.notify_waiters();
        }
        must_wait
    }

    pub(super) fn use_waits(&self) -> bool {
        self.use_waits.get()
    }

    /// Ends when no such read is left.
    pub(super) async fn none_left(&self) {
        self.until(|| self.reads.get() == 0).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if is_so() {
                return;
            }
            changed.await;
        }
    }
}

impl ShortRead {
    pub(super) fn begin(names: &Rc<ShortNames>) -> Self {
        names.reads.set(names.reads.get() + 1);
        Self(names.clone())
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.0.use_waits()
    }

    /// Ends when a USE waits for this read.
    pub(super) async fn hurried(&self) {
        self.0.until(|| self.is_hurried()).await;
    }
}

impl Drop for ShortRead {
    fn drop(&mut self) {
        self.0.reads.set(self.0.reads.get() - 1);
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_use_waits_for_the_reads_before_it_and_hurries_them() {
        let names = Rc::new(ShortNames::default());
        assert!(!names.hold_up_use());
        let (one, two) = (ShortRead::begin(&names), ShortRead::begin(&names));
        let mut hurried = Box::pin(one.hurried());
        assert!(hurried.as_mut().now_or_never().is_none());
        assert!(names.hold_up_use() && names.use_waits());
        assert!(hurried.as_mut().now_or_never().is_some());
        assert!(two.hurried().now_or_never().is_some());
        let mut left = Box::pin(names.none_left());
        assert!(left.as_mut().now_or_never().is_none());
        drop(hurried);
        drop(one);
        assert!(left.as_mut().now_or_never().is_none());
        drop(two);
        assert!(left.as_mut().now_or_never().is_some());
        assert!(!names.hold_up_use() && !names.use_waits());
    }
}
