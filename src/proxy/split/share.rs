//! How much memory the reads of one connection and their replies hold, and what follows from that: a client that does
//! not read must not fill the memory that all clients share.
//!
//! A read that begins while its connection has much unsent waits: its reply would wait behind the others anyway. It
//! holds nothing but its request meanwhile. The wait ends as the client reads, with a USE behind the read, or with the
//! session.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::{Mutex, Notify};

/// A read waits while its connection has more unsent than this, or than half of its share.
const MUCH: usize = 16 << 20;
/// The part of the shared memory that one connection may hold.
const PART: usize = 4;
/// Expected of a read that had to wait, until its reply is known: not all that wait go on at once.
const EXPECTED: usize = 1 << 20;

pub(super) struct Share {
    max: usize,
    used: Cell<usize>,
    /// Bytes of replies that are complete and wait for the client to read.
    unsent: Cell<usize>,
    /// Bytes that reads in progress may add to these.
    expected: Cell<usize>,
    /// What reads in progress held when one of them last found no room.
    refused: Cell<usize>,
    /// `unsent` or `expected` became less.
    sent: Notify,
    /// Reads that wait do so in a line. Only the first of them looks at the numbers.
    line: Mutex<()>,
}

/// A part of a share that is in use. Dropping it gives it back.
pub(super) struct Taken {
    share: Rc<Share>,
    bytes: usize,
}

/// A reply that is on its way to the client. Dropping this means that it was sent.
pub(super) struct Unsent {
    share: Rc<Share>,
    bytes: usize,
}

/// The reply of a read that had to wait. Dropping this means that its size is known.
pub(super) struct Expected(Rc<Share>);

impl Share {
    /// The share of one connection in a memory of this size.
    pub(super) fn new(memory: usize) -> Rc<Self> {
        Rc::new(Self {
            max: memory / PART,
            used: Cell::new(0),
            unsent: Cell::new(0),
            expected: Cell::new(0),
            refused: Cell::new(0),
            sent: Notify::new(),
            line: Mutex::new(()),
        })
    }

    /// For a part of a reply. `None`: the connection holds too much already.
    pub(super) fn take(self: &Rc<Self>, bytes: usize) -> Option<Taken> {
        let taken = self.take_for_request(bytes);
        if taken.is_none() {
            let alone = bytes > self.max;
            self.refused.set(if alone {
                usize::MAX
            } else {
                self.in_progress()
            });
        }
        taken
    }

    /// The same for a request.
    pub(super) fn take_for_request(self: &Rc<Self>, bytes: usize) -> Option<Taken> {
        let used = self.used.get().saturating_add(bytes);
        (used <= self.max).then(|| {
            self.used.set(used);
            Taken {
                share: self.clone(),
                bytes,
            }
        })
    }

    /// What reads hold that have no complete reply yet.
    fn in_progress(&self) -> usize {
        self.used.get().saturating_sub(self.unsent.get())
    }

    pub(super) fn sending(self: &Rc<Self>, bytes: usize) -> Unsent {
        self.unsent.set(self.unsent.get() + bytes);
        Unsent {
            share: self.clone(),
            bytes,
        }
    }

    /// Whether a read that has just found no room, and has given back what it held, may find some once the client has
    /// read. A read that held most of the share by itself needs more than there is.
    pub(super) fn has_room_later(&self) -> bool {
        let own = self.refused.take().saturating_sub(self.in_progress());
        self.has_unsent() && own <= self.max / 2
    }

    fn has_unsent(&self) -> bool {
        self.unsent.get() > 0
    }

    /// Waits until the connection has not much unsent, nor expects much.
    pub(super) async fn little_unsent(self: &Rc<Self>) -> Option<Expected> {
        let most = MUCH.min(self.max / 2);
        self.once(|| self.unsent.get() + self.expected.get() <= most)
            .await
    }

    /// Waits until the client has read everything that is complete. A read that is still reading may take long, and the
    /// client has nothing to read of it.
    pub(super) async fn nothing_unsent(self: &Rc<Self>) -> Option<Expected> {
        self.once(|| !self.has_unsent()).await
    }

    /// The read that waited keeps what is returned until its reply is known.
    async fn once(self: &Rc<Self>, is_so: impl Fn() -> bool) -> Option<Expected> {
        if is_so() && self.line.try_lock().is_ok() {
            return None;
        }
        let _first = self.line.lock().await;
        while !is_so() {
            self.sent.notified().await;
        }
        self.expected.set(self.expected.get() + EXPECTED);
        Some(Expected(self.clone()))
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

impl Drop for Expected {
    fn drop(&mut self) {
        let expected = &self.0.expected;
        expected.set(expected.get() - EXPECTED);
        self.0.sent.notify_one();
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
    fn reads_in_progress_are_not_unsent() {
        let share = Share::new(400 * MIB);
        let mut context = Context::from_waker(Waker::noop());
        let unsent = share.sending(17 * MIB);
        let mut first = pin!(share.little_unsent());
        assert!(first.as_mut().poll(&mut context).is_pending());
        drop(unsent);
        let first = first.as_mut().poll(&mut context);
        assert!(matches!(first, Poll::Ready(Some(_))));
        assert!(!share.has_unsent(), "a long read only expects a reply");
        let free = pin!(share.nothing_unsent()).poll(&mut context);
        assert!(matches!(free, Poll::Ready(None)));
        let _unsent = share.sending(15 * MIB + 1);
        let mut next = pin!(share.little_unsent());
        assert!(next.as_mut().poll(&mut context).is_pending(), "the sum");
    }

    #[test]
    fn only_what_others_hold_is_worth_a_wait() {
        let share = Share::new(400);
        let (waits, own) = (share.take(60), share.take(30));
        let unsent = share.sending(60);
        assert!(share.take(20).is_none());
        drop(own);
        assert!(share.has_room_later());
        drop((waits, unsent));
        let (waits, own) = (share.take(10), share.take(80));
        let unsent = share.sending(10);
        assert!(share.take(20).is_none());
        drop(own);
        assert!(!share.has_room_later(), "it held most of the share itself");
        assert!(share.take(101).is_none());
        assert!(!share.has_room_later(), "no share is so large");
        assert!(
            share.has_room_later(),
            "another read, which lacked room elsewhere"
        );
        drop((waits, unsent));
        assert!(!share.has_room_later(), "nothing is unsent");
    }
}
