//! The statements that a thread has prepared, by their text. Their number is limited; the least recently used goes
//! first. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::pace::Pace;

/// A statement of our own as a node prepared it. The same on every node that has the same schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub id: Box<[u8]>,
    pub result_metadata_id: Box<[u8]>,
    /// `<metadata>` of the result, as upstream wrote it.
    pub columns: Vec<u8>,
    pub text: Box<str>,
}

pub(super) struct Statements {
    by_text: HashMap<Box<str>, Entry>,
    max: usize,
    /// Counts uses; larger is later.
    clock: u64,
}

struct Entry {
    prepared: Arc<Prepared>,
    used: u64,
    pace: Pace,
}

impl Statements {
    pub(super) fn new(max: usize) -> Self {
        Self {
            by_text: HashMap::new(),
            max,
            clock: 0,
        }
    }

    pub(super) fn get(&mut self, text: &str) -> Option<Arc<Prepared>> {
        self.clock += 1;
        let entry = self.by_text.get_mut(text)?;
        entry.used = self.clock;
        Some(entry.prepared.clone())
    }

    /// Remembers a statement as a node prepared it. All callers share one value as long as it stays the same.
    pub(super) fn remember(&mut self, prepared: Prepared) -> Arc<Prepared> {
        if let Some(known) = self.get(&prepared.text)
            && *known == prepared
        {
            return known;
        }
        let full = self.by_text.len() >= self.max && !self.by_text.contains_key(&prepared.text);
        let oldest = || self.by_text.iter().min_by_key(|(_, entry)| entry.used);
        if full && let Some(text) = oldest().map(|(text, _)| text.clone()) {
            self.by_text.remove(&text);
        }
        let prepared = Arc::new(prepared);
        let entry = Entry {
            prepared: prepared.clone(),
            used: self.clock,
            pace: self.pace(&prepared.text),
        };
        self.by_text.insert(prepared.text.clone(), entry);
        prepared
    }

    /// One execution of a statement has taken this long.
    pub(super) fn took(&mut self, text: &str, time: Duration) {
        if let Some(entry) = self.by_text.get_mut(text) {
            entry.pace.took(time);
        }
    }

    /// How long executions of a statement take.
    pub(super) fn pace(&self, text: &str) -> Pace {
        let entry = self.by_text.get(text);
        entry.map(|entry| entry.pace).unwrap_or_default()
    }

    /// Drops a statement that is no longer valid, unless it has been replaced already.
    pub(super) fn forget(&mut self, stale: &Arc<Prepared>) {
        let same = |entry: &Entry| entry.prepared == *stale;
        if self.by_text.get(&stale.text).is_some_and(same) {
            self.by_text.remove(&stale.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: &str, metadata: u8) -> Prepared {
        Prepared {
            id: text.as_bytes().into(),
            result_metadata_id: [metadata].into(),
            columns: Vec::new(),
            text: text.into(),
        }
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let mut statements = Statements::new(2);
        statements.remember(prepared("a", 1));
        statements.remember(prepared("b", 1));
        assert!(statements.get("a").is_some());
        statements.remember(prepared("c", 1));
        let kept = ["a", "b", "c"].map(|text| statements.get(text).is_some());
        assert_eq!(kept, [true, false, true]);
    }

    #[test]
    fn what_is_prepared_again_is_the_same_until_it_changes() {
        let mut statements = Statements::new(1);
        let first = statements.remember(prepared("a", 1));
        assert!(Arc::ptr_eq(&first, &statements.remember(prepared("a", 1))));
        let second = statements.remember(prepared("a", 2));
        assert_ne!(first, second);
        assert_eq!(statements.get("a"), Some(second));
    }

    #[test]
    fn the_pace_of_a_statement_outlives_a_change_of_its_columns() {
        let mut statements = Statements::new(1);
        let unknown = statements.pace("a").delay();
        statements.took("a", Duration::from_secs(1));
        assert_eq!(statements.pace("a").delay(), unknown);
        statements.remember(prepared("a", 1));
        statements.took("a", Duration::from_secs(1));
        statements.remember(prepared("a", 2));
        assert!(statements.pace("a").delay() > unknown);
    }

    #[test]
    fn only_what_is_stale_is_forgotten() {
        let mut statements = Statements::new(1);
        let first = statements.remember(prepared("a", 1));
        let second = statements.remember(prepared("a", 2));
        statements.forget(&first);
        assert_eq!(statements.get("a"), Some(second.clone()));
        statements.forget(&second);
        assert_eq!(statements.get("a"), None);
    }
}
