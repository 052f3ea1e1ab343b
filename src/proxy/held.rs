//! A limit on how many requests of one session the proxy works on at a time.

use std::cell::Cell;
use std::rc::Rc;

/// Counts a request as being worked on until this is dropped.
pub(super) struct Held(Rc<Cell<usize>>);

impl Held {
    /// `None`: the limit is reached.
    pub(super) fn begin(count: &Rc<Cell<usize>>, limit: usize) -> Option<Self> {
        (count.get() < limit).then(|| Self::unlimited(count))
    }

    /// For a reply to a request that was within the limit when it arrived.
    pub(super) fn unlimited(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
