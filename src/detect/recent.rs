//! A map with a bounded number of entries: when it is full, a new entry evicts the one that was put longest ago. Pure:
//! the caller says what time it is.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

pub(super) struct Recent<K, V> {
    limit: usize,
    next: u64,
    entries: HashMap<K, Entry<V>>,
    /// The keys in the order in which they were put.
    order: BTreeMap<u64, K>,
}

struct Entry<V> {
    place: u64,
    put: Instant,
    value: V,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            next: 0,
            entries: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Adds an entry as the newest, in place of an earlier one with the same key.
    pub(super) fn put(&mut self, key: K, value: V, now: Instant) {
        self.remove(&key);
        let place = self.next;
        self.next += 1;
        self.order.insert(place, key);
        let put = now;
        self.entries.insert(key, Entry { place, put, value });
        if self.entries.len() > self.limit {
            self.remove_oldest();
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.place);
        Some(entry.value)
    }

    /// Removes the entries that were put at least this long ago.
    pub(super) fn expire(&mut self, age: Duration, now: Instant) {
        while let Some((_, key)) = self.order.first_key_value() {
            let entry = self.entries.get(key);
            if entry.is_some_and(|entry| now.saturating_duration_since(entry.put) < age) {
                return;
            }
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_putting_again_makes_new() {
        let now = Instant::now();
        let mut recent = Recent::new(3);
        for key in [1, 2, 3, 1, 4] {
            recent.put(key, key * 10, now);
        }
        assert_eq!(recent.len(), 3);
        assert_eq!((recent.get(&1), recent.get(&2)), (Some(&10), None));
        assert_eq!(recent.remove(&1), Some(10));
        assert_eq!((recent.len(), recent.order.len()), (2, 2));
    }

    #[test]
    fn what_is_old_expires() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut recent = Recent::new(10);
        for key in 0..5 {
            recent.put(key, (), now + second * key);
        }
        recent.expire(2 * second, now + 4 * second);
        assert_eq!(recent.len(), 2);
        recent.expire(second, now + 60 * second);
        assert_eq!((recent.len(), recent.order.len()), (0, 0));
    }
}
