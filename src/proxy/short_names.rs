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
    /// USEs that are being prepared on the session's node.
    coming: Cell<usize>,
    changed: Notify,
}

/// One such read, until it is answered or forwarded.
pub(super) struct ShortRead(Rc<ShortNames>);

/// A USE that is judged again once it is prepared. No such read may begin behind it meanwhile: the USE would wait for the
/// read, and the read for its turn behind the USE.
pub(super) struct ComingUse(Rc<ShortNames>);

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

    /// Whether a USE has not been forwarded yet.
    pub(super) fn use_waits(&self) -> bool {
        self.use_waits.get() || self.coming.get() > 0
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
        self.0.use_waits.get()
    }

    /// Ends when a USE waits for this read.
    pub(super) async fn hurried(&self) {
        self.0.until(|| self.is_hurried()).await;
    }
}

impl ComingUse {
    pub(super) fn begin(names: &Rc<ShortNames>) -> Self {
        names.coming.set(names.coming.get() + 1);
        Self(names.clone())
    }
}

impl Drop for ComingUse {
    fn drop(&mut self) {
        self.0.coming.set(self.0.coming.get() - 1);
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

    #[test]
    fn behind_a_use_that_is_being_prepared_names_are_unsettled() {
        let names = Rc::<ShortNames>::default();
        let read = ShortRead::begin(&names);
        let coming = ComingUse::begin(&names);
        assert!(names.use_waits());
        assert!(!read.is_hurried(), "it may still be answered");
        drop((read, coming));
        assert!(!names.use_waits() && !names.hold_up_use());
    }
}
