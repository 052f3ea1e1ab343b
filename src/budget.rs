//! A memory limit that many share for one purpose. Whoever holds bytes holds a [`Reserved`] with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    max: usize,
}

/// A reserved part of a budget. Dropping it returns the bytes.
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max,
        })
    }

    /// `None`: too little of the budget is left.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        let mut reserved = self.nothing();
        reserved.grow_to(bytes).then_some(reserved)
    }

    /// A reservation that has no bytes yet.
    pub fn nothing(self: &Arc<Self>) -> Reserved {
        Reserved {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl Reserved {
    /// Reserves this many bytes in all. `false`: too little of the budget is left, and no more was reserved.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let before = self.budget.used.fetch_add(more, Ordering::Relaxed);
        if more > 0 && before.saturating_add(more) > self.budget.max {
            self.budget.used.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_reserved_again() {
        let budget = Budget::new(10);
        let mut six = budget.reserve(6).expect("there is room");
        assert!(budget.reserve(5).is_none());
        assert!(!six.grow_to(11));
        assert!(six.grow_to(10) && six.grow_to(3));
        assert!(budget.reserve(1).is_none() && budget.reserve(0).is_some());
        drop(six);
        assert!(budget.reserve(10).is_some());
    }
}
