//! How much memory the replies of one connection hold, and what follows from that: a client that does not read must not
//! fill the memory that all clients share.
//!
//! A read that begins while its connection has much unsent waits: its reply would wait behind the others anyway. It
//! holds nothing but its request meanwhile. The wait ends as the client reads, or with the session.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::{Mutex, MutexGuard, Notify};

/// A read waits while its connection holds more than this.
pub(super) const MUCH: usize = 16 << 20;
/// The part of the shared memory that one connection may hold.
const PART: usize = 4;

pub(super) struct Share {
    used: Cell<usize>,
    max: usize,
    /// Some of it was given back.
    freed: Notify,
    /// Reads that had to wait go on one by one: nobody knows how much the next one will hold.
    turn: Mutex<()>,
}

/// A part of a share that is in use. Dropping it gives it back.
pub(super) struct Taken {
    share: Rc<Share>,
    bytes: usize,
}

impl Share {
    /// The share of one connection in a memory of this size.
    pub(super) fn new(memory: usize) -> Rc<Self> {
        Rc::new(Self {
            used: Cell::new(0),
            max: memory / PART,
            freed: Notify::new(),
            turn: Mutex::new(()),
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

    pub(super) fn is_in_use(&self) -> bool {
        self.used.get() > 0
    }

    /// Waits until the connection holds no more than this, and those who came before have had their turn. If there was
    /// nothing to wait for, others need not wait for this read, either.
    pub(super) async fn turn(&self, most: usize) -> Option<MutexGuard<'_, ()>> {
        if self.used.get() <= most && self.turn.try_lock().is_ok() {
            return None;
        }
        let turn = self.turn.lock().await;
        while self.used.get() > most {
            self.freed.notified().await;
        }
        Some(turn)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let share = &self.share;
        share.used.set(share.used.get() - self.bytes);
        // Only whoever has the turn waits for this.
        share.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_connection_holds_no_more_than_its_share() {
        let share = Share::new(400);
        let most = share.take(100).expect("there is room");
        assert!(share.take(1).is_none());
        drop(most);
        assert!(!share.is_in_use() && share.take(100).is_some());
    }

    #[test]
    fn reads_wait_while_much_is_unsent_and_go_on_one_by_one() {
        let share = Share::new(400);
        let mut context = Context::from_waker(Waker::noop());
        let unsent = [share.take(30), share.take(30)].map(Option::unwrap);
        let mut first = Box::pin(share.turn(40));
        let mut second = Box::pin(share.turn(40));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        let [one, other] = unsent;
        drop(one);
        assert!(second.as_mut().poll(&mut context).is_pending());
        let turn = first.as_mut().poll(&mut context);
        assert!(turn.is_ready());
        // A read that comes now waits behind both, although little is unsent.
        let mut third = Box::pin(share.turn(40));
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop((turn, other));
        assert!(second.as_mut().poll(&mut context).is_ready());
        assert!(third.as_mut().poll(&mut context).is_ready());
        drop((first, second, third));
        let mut free = Box::pin(share.turn(40));
        let turn = free.as_mut().poll(&mut context);
        assert!(matches!(turn, std::task::Poll::Ready(None)));
    }
}
