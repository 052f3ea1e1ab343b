//! The registry of prepared statements: which ids this proxy has seen prepared, and what they mean.
//!
//! One per process, since drivers prepare on one connection and execute on another. An id that is not here is
//! answered UNPREPARED, so that the driver prepares it through us; that makes the bound harmless and a restart cheap.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::statement::Shape;

pub struct Registry {
    capacity: usize,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<Box<[u8]>, Entry>,
    /// Ids in the order they came; the oldest that was not used since it was last considered is evicted.
    queue: VecDeque<Box<[u8]>>,
}

struct Entry {
    shape: Arc<Shape>,
    used: AtomicBool,
}

impl Registry {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            known: RwLock::default(),
        }
    }

    pub fn get(&self, id: &[u8]) -> Option<Arc<Shape>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let entry = known.by_id.get(id)?;
        entry.used.store(true, Ordering::Relaxed);
        Some(entry.shape.clone())
    }

    /// Remembers an id and returns how many are known now.
    pub fn insert(&self, id: &[u8], shape: Shape) -> usize {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry {
            shape: Arc::new(shape),
            used: AtomicBool::new(false),
        };
        if known.by_id.insert(id.into(), entry).is_none() {
            known.queue.push_back(id.into());
            if known.by_id.len() > self.capacity {
                known.evict_one();
            }
        }
        known.by_id.len()
    }
}

impl Known {
    /// The second chance: each entry that was used meanwhile goes to the back once.
    fn evict_one(&mut self) {
        while let Some(id) = self.queue.pop_front() {
            let used = self
                .by_id
                .get(&id)
                .is_some_and(|entry| entry.used.swap(false, Ordering::Relaxed));
            if used {
                self.queue.push_back(id);
            } else {
                self.by_id.remove(&id);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let registry = Registry::new(3);
        registry.insert(b"hot", Shape::Other);
        for id in 0..100_u8 {
            assert!(registry.get(b"hot").is_some(), "{id}");
            assert!(registry.insert(&[id], Shape::Other) <= 3);
        }
        assert_eq!(registry.get(&[5]), None);
        assert_eq!(registry.get(&[99]).as_deref(), Some(&Shape::Other));
    }

    #[test]
    fn preparing_again_replaces_the_meaning() {
        let registry = Registry::new(3);
        registry.insert(b"id", Shape::Other);
        assert_eq!(registry.insert(b"id", Shape::Use), 1);
        assert_eq!(registry.get(b"id").as_deref(), Some(&Shape::Use));
    }
}
