//! How much memory the replies of one connection hold, and what follows from that: a client that does not read must not
//! fill the memory that all clients share.
//!
//! A read that begins while its connection has much unsent waits: its reply would wait behind the others anyway. It
//! holds nothing but its request meanwhile. The wait ends as the client reads, or with the session.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::{Mutex, Notify};

/// A read waits while its connection has more unsent than this, or than half of its share.
const MUCH: usize = 16 << 20;
/// The part of the shared memory that one connection may hold.
const PART: usize = 4;
/// Counts for the reply of a read that had to wait, until it is known: not all that wait go on at once.
const EXPECTED: usize = 1 << 20;

pub(super) struct Share {
    max: usize,
    used: Cell<usize>,
    /// Bytes of replies that wait for the client to read.
    unsent: Cell<usize>,
    /// Some of them were sent.
    sent: Notify,
    /// Reads that wait do so in a line. Only the first of them looks at `unsent`.
    line: Mutex<()>,
}

/// A part of a share that is in use. Dropping it gives it back.
pub(super) struct Taken {
    share: Rc<Share>,
    bytes: usize,
}

/// A reply that is on its way to the client, or expected to be. Dropping this means that it was sent.
pub(super) struct Unsent {
    share: Rc<Share>,
    bytes: usize,
}

impl Share {
    /// The share of one connection in a memory of this size.
    pub(super) fn new(memory: usize) -> Rc<Self> {
        Rc::new(Self {
            max: memory / PART,
            used: Cell::new(0),
            unsent: Cell::new(0),
            sent: Notify::new(),
            line: Mutex::new(()),
        })
    }

    /// `None`: the connection holds too much already.
    pub(super) fn take(self: &Rc<Self>, bytes: usize) -> Option<Taken> {
        let used = self.used.get().saturating_add(bytes);
        (used <= self.max).then(|| {
            self.used.set(used);
            Taken {
                share: self.clone(),
                bytes,
            }
        })
    }

    pub(super) fn sending(self: &Rc<Self>, bytes: usize) -> Unsent {
        self.unsent.set(self.unsent.get() + bytes);
        Unsent {
            share: self.clone(),
            bytes,
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent.get() > 0
    }

    /// Waits until the connection has not much unsent.
    pub(super) async fn little_unsent(self: &Rc<Self>) -> Option<Unsent> {
        self.unsent_at_most(MUCH.min(self.max / 2)).await
    }

    /// Waits until the client has read everything.
    pub(super) async fn nothing_unsent(self: &Rc<Self>) -> Option<Unsent> {
        self.unsent_at_most(0).await
    }

    /// The read that waited keeps what is returned until its reply is known.
    async fn unsent_at_most(self: &Rc<Self>, most: usize) -> Option<Unsent> {
        if self.unsent.get() <= most && self.line.try_lock().is_ok() {
            return None;
        }
        let _first = self.line.lock().await;
        while self.unsent.get() > most {
            self.sent.notified().await;
        }
        Some(self.sending(EXPECTED))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let used = &self.share.used;
        used.set(used.get() - self.bytes);
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        let unsent = &self.share.unsent;
        unsent.set(unsent.get() - self.bytes);
        self.share.sent.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_connection_holds_no_more_than_its_share() {
        let share = Share::new(400);
        let most = share.take(100).expect("there is room");
        assert!(share.take(1).is_none());
        drop(most);
        assert!(share.take(100).is_some());
    }

    #[test]
    fn reads_wait_while_much_is_unsent() {
        let share = Share::new(400 * MIB);
        let mut context = Context::from_waker(Waker::noop());
        let free = pin!(share.little_unsent()).poll(&mut context);
        assert!(matches!(free, Poll::Ready(None)));
        let (one, other) = (share.sending(12 * MIB), share.sending(12 * MIB));
        let mut first = pin!(share.little_unsent());
        let mut second = pin!(share.little_unsent());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(one);
        assert!(second.as_mut().poll(&mut context).is_pending(), "in line");
        let first = first.as_mut().poll(&mut context);
        assert!(matches!(first, Poll::Ready(Some(_))));
        let second = second.as_mut().poll(&mut context);
        assert!(matches!(second, Poll::Ready(Some(_))));
        drop((first, second, other));
        assert!(!share.has_unsent());
    }

    #[test]
    fn reads_that_wait_for_everything_go_on_one_by_one() {
        let share = Share::new(400 * MIB);
        let mut context = Context::from_waker(Waker::noop());
        let unsent = share.sending(1);
        let mut first = pin!(share.nothing_unsent());
        let mut second = pin!(share.nothing_unsent());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(unsent);
        let first = first.as_mut().poll(&mut context);
        assert!(matches!(first, Poll::Ready(Some(_))));
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }
}
