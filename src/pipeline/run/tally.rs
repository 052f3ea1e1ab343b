//! Counts the splits of a shard by state. Pure. Of each split it keeps only a hash and a state, because there may be
//! millions.

use std::collections::HashMap;

use twox_hash::XxHash3_64;

use crate::schema::names::PartitionKey;
use crate::wide_row::state::State;

#[derive(Debug, Default)]
pub(super) struct Tally {
    states: HashMap<u64, State>,
    counts: HashMap<State, usize>,
}

impl Tally {
    pub(super) fn set(&mut self, key: &PartitionKey, state: State) {
        let hash = XxHash3_64::oneshot(key.bytes());
        let before = self.states.insert(hash, state);
        if let Some(count) = before.and_then(|before| self.counts.get_mut(&before)) {
            *count -= 1;
        }
        *self.counts.entry(state).or_default() += 1;
    }

    pub(super) fn count(&self, state: State) -> usize {
        self.counts.get(&state).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_counts_in_the_state_that_it_came_to_last() {
        let mut tally = Tally::default();
        let steps = [
            (1, State::Detected),
            (2, State::Detected),
            (1, State::Copying),
            (3, State::Completed),
            (1, State::Completed),
            (1, State::Completed),
        ];
        for (key, state) in steps {
            tally.set(&PartitionKey::new([key]), state);
        }
        let counts = State::ALL.map(|state| (state, tally.count(state)));
        let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(State::Detected, 1), (State::Completed, 2)]);
    }
}
