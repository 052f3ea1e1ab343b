//! The stream ids of one connection. Pure.
//!
//! An id whose request was given up is not used again before its late reply has arrived: otherwise that reply would be
//! taken for another request's, and a client would see rows that it did not ask for.

/// An id in use. The serial number tells its request from later ones with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) id: i16,
    serial: u64,
}

/// Who a reply belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered<T> {
    Waiter(T),
    /// Its request was given up.
    Late,
    /// Nothing was asked on this stream.
    Unknown,
}

enum Slot<T> {
    Free,
    Waiting(u64, T),
    GivenUp,
}

pub(super) struct Streams<T> {
    slots: Vec<Slot<T>>,
    free: Vec<i16>,
    serial: u64,
    max: i16,
}

impl<T> Streams<T> {
    pub(super) fn new(max: i16) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            max,
        }
    }

    /// Takes a free id. `None`: all are in use.
    pub(super) fn take(&mut self, waiter: T) -> Option<Stream> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let next = i16::try_from(self.slots.len()).ok()?;
                if next >= self.max {
                    return None;
                }
                self.slots.push(Slot::Free);
                next
            }
        };
        self.serial += 1;
        *self.slot(id)? = Slot::Waiting(self.serial, waiter);
        Some(Stream {
            id,
            serial: self.serial,
        })
    }

    /// Takes note of a reply; its id is free again.
    pub(super) fn answered(&mut self, id: i16) -> Answered<T> {
        let before = self
            .slot(id)
            .map(|slot| std::mem::replace(slot, Slot::Free));
        let answered = match before {
            None | Some(Slot::Free) => return Answered::Unknown,
            Some(Slot::Waiting(_, waiter)) => Answered::Waiter(waiter),
            Some(Slot::GivenUp) => Answered::Late,
        };
        self.free.push(id);
        answered
    }

    /// Nobody waits for this reply any more. Does nothing if it has arrived.
    pub(super) fn give_up(&mut self, stream: Stream) {
        if let Some(slot) = self.slot(stream.id)
            && matches!(slot, Slot::Waiting(serial, _) if *serial == stream.serial)
        {
            *slot = Slot::GivenUp;
        }
    }

    pub(super) fn is_given_up(&self, id: i16) -> bool {
        let slot = usize::try_from(id)
            .ok()
            .and_then(|index| self.slots.get(index));
        matches!(slot, Some(Slot::GivenUp))
    }

    /// The connection has ended: dropping the waiters tells all who wait.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
        self.max = 0;
    }

    fn slot(&mut self, id: i16) -> Option<&mut Slot<T>> {
        self.slots.get_mut(usize::try_from(id).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_used_again_once_answered_and_end_at_the_limit() {
        let mut streams = Streams::new(2);
        let ids = [streams.take("a"), streams.take("b"), streams.take("c")];
        assert_eq!(ids.map(|s| s.map(|s| s.id)), [Some(0), Some(1), None]);
        assert_eq!(streams.answered(0), Answered::Waiter("a"));
        assert_eq!(streams.take("d").map(|s| s.id), Some(0));
        assert_eq!(streams.answered(1), Answered::Waiter("b"));
        assert_eq!(streams.answered(1), Answered::Unknown);
    }

    #[test]
    fn an_id_given_up_waits_for_its_late_reply() {
        let mut streams = Streams::new(1);
        let stream = streams.take("a").expect("free");
        streams.give_up(stream);
        assert!(streams.is_given_up(0));
        assert_eq!(streams.take("b"), None);
        assert_eq!(streams.answered(0), Answered::Late);
        assert!(!streams.is_given_up(0));
        assert!(streams.take("b").is_some());
    }

    #[test]
    fn giving_up_after_the_reply_does_not_touch_the_next_request() {
        let mut streams = Streams::new(1);
        let first = streams.take("a").expect("free");
        assert_eq!(streams.answered(0), Answered::Waiter("a"));
        let second = streams.take("b").expect("free");
        streams.give_up(first);
        assert!(!streams.is_given_up(second.id));
        assert_eq!(streams.answered(0), Answered::Waiter("b"));
    }

    #[test]
    fn ids_that_were_never_used_are_unknown() {
        let mut streams = Streams::<()>::new(4);
        for id in [i16::MIN, -1, 0, 3, i16::MAX] {
            assert_eq!(streams.answered(id), Answered::Unknown, "{id}");
            assert!(!streams.is_given_up(id), "{id}");
        }
    }

    #[test]
    fn nothing_is_taken_after_the_end() {
        let mut streams = Streams::new(4);
        let stream = streams.take("a").expect("free");
        streams.clear();
        streams.give_up(stream);
        assert_eq!(streams.take("b"), None);
        assert_eq!(streams.answered(0), Answered::Unknown);
    }
}
