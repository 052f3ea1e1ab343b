//! A memory limit that all sessions share for one purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
}

/// A reserved part of a budget. Dropping it returns the bytes.
#[derive(Debug)]
pub(super) struct Reserved {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max,
        })
    }

    /// `None`: too little of the budget is left.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        let mut reserved = Reserved {
            budget: self.clone(),
            bytes: 0,
        };
        reserved.grow(bytes).then_some(reserved)
    }
}

impl Reserved {
    /// Reserves more. `false`: too little of the budget is left, and nothing was reserved.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.budget.max {
            self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
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
        assert!(!six.grow(5));
        assert!(six.grow(4));
        assert!(budget.reserve(1).is_none());
        drop(six);
        assert!(budget.reserve(10).is_some());
    }
}
