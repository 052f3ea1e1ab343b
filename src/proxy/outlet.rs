//! The writer of one side of a session, and the line of those who want to write a message there.
//!
//! The line is fair: whoever came first writes first. The relay sees whether anybody waits, so that it lets them in
//! between two messages and otherwise writes as much as it has at once.

use std::cell::Cell;

use tokio::sync::{Mutex, MutexGuard};

use crate::transport::Writer;

pub(super) struct Outlet {
    writer: Mutex<Writer>,
    waiting: Cell<usize>,
}

impl Outlet {
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            writer: Mutex::new(writer),
            waiting: Cell::new(0),
        }
    }

    /// Waits until no message is being written.
    pub(super) async fn lock(&self) -> MutexGuard<'_, Writer> {
        if let Ok(writer) = self.writer.try_lock() {
            return writer;
        }
        let _waiting = Waiting::begin(&self.waiting);
        self.writer.lock().await
    }

    /// Whether somebody waits to write a message.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }
}

/// Counts one who waits, until this is dropped: some stop waiting.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
