//! Which rows of a partition to read, in CQL: all, one, a stretch, or those between two keys. Pure.
//!
//! CQL compares tuples by value and not in clustering order, so rows between two keys take several reads: one for each
//! prefix of either key that is longer than their common prefix, and one for the rows in between.

use std::cmp::Ordering;

use super::row::Key;
use crate::schema::{ClusteringColumn, order};
use crate::statement::quoted;

/// What follows the partition key in WHERE, and its values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Restriction {
    pub(super) text: String,
    pub(super) values: Vec<Box<[u8]>>,
}

impl Restriction {
    pub(super) fn row(clustering: &[ClusteringColumn], key: &Key) -> Self {
        let mut one = Self::default();
        for (column, value) in clustering.iter().zip(key) {
            one.add(column, "=", value);
        }
        one
    }

    /// The rows after one value of the first clustering column and up to another, in clustering order.
    pub(super) fn stretch(
        clustering: &[ClusteringColumn],
        behind: Option<&[u8]>,
        up_to: Option<&[u8]>,
    ) -> Self {
        let mut stretch = Self::default();
        let Some(first) = clustering.first() else {
            return stretch;
        };
        for (bound, value) in [(Bound::AFTER, behind), (Bound::TO, up_to)] {
            if let Some(value) = value {
                stretch.add_bound(first, bound, value);
            }
        }
        stretch
    }

    /// The rows from one key to another, both included, in clustering order. `None` if these keys do not allow it.
    pub(super) fn between(
        clustering: &[ClusteringColumn],
        from: &Key,
        to: &Key,
    ) -> Option<Vec<Self>> {
        // It is not known how Cassandra treats an empty value as a bound.
        if from.iter().chain(to).any(|value| value.is_empty()) {
            return None;
        }
        let turn = turning_point(clustering, from, to)?;
        let last = clustering.len().checked_sub(1)?;
        if turn == last {
            let mut only = Self::prefix(clustering, from, turn);
            only.add_bound(&clustering[turn], Bound::FROM, &from[turn]);
            only.add_bound(&clustering[turn], Bound::TO, &to[turn]);
            return Some(vec![only]);
        }
        let mut all = Vec::new();
        for place in (turn + 1..=last).rev() {
            let bound = if place == last {
                Bound::FROM
            } else {
                Bound::AFTER
            };
            let mut part = Self::prefix(clustering, from, place);
            part.add_bound(&clustering[place], bound, &from[place]);
            all.push(part);
        }
        let mut middle = Self::prefix(clustering, from, turn);
        middle.add_bound(&clustering[turn], Bound::AFTER, &from[turn]);
        middle.add_bound(&clustering[turn], Bound::BEFORE, &to[turn]);
        all.push(middle);
        for place in turn + 1..=last {
            let bound = if place == last {
                Bound::TO
            } else {
                Bound::BEFORE
            };
            let mut part = Self::prefix(clustering, to, place);
            part.add_bound(&clustering[place], bound, &to[place]);
            all.push(part);
        }
        Some(all)
    }

    fn prefix(clustering: &[ClusteringColumn], key: &Key, columns: usize) -> Self {
        let mut prefix = Self::default();
        for (column, value) in clustering.iter().zip(key).take(columns) {
            prefix.add(column, "=", value);
        }
        prefix
    }

    fn add(&mut self, column: &ClusteringColumn, operator: &str, value: &[u8]) {
        let name = quoted(&column.column.name);
        self.text.push_str(&format!(" AND {name} {operator} ?"));
        self.values.push(value.into());
    }

    fn add_bound(&mut self, column: &ClusteringColumn, bound: Bound, value: &[u8]) {
        self.add(column, bound.operator(column.descending), value);
    }
}

/// A bound in clustering order.
#[derive(Clone, Copy)]
struct Bound {
    is_start: bool,
    is_included: bool,
}

impl Bound {
    const FROM: Self = Self::new(true, true);
    const AFTER: Self = Self::new(true, false);
    const TO: Self = Self::new(false, true);
    const BEFORE: Self = Self::new(false, false);

    const fn new(is_start: bool, is_included: bool) -> Self {
        Self {
            is_start,
            is_included,
        }
    }

    fn operator(self, descending: bool) -> &'static str {
        match (self.is_start != descending, self.is_included) {
            (true, true) => ">=",
            (true, false) => ">",
            (false, true) => "<=",
            (false, false) => "<",
        }
    }
}

/// The first column in which the keys differ; `None` unless they are whole and in order.
fn turning_point(clustering: &[ClusteringColumn], from: &Key, to: &Key) -> Option<usize> {
    if from.len() != clustering.len() || to.len() != clustering.len() {
        return None;
    }
    for (place, column) in clustering.iter().enumerate() {
        match order::compare(&column.column.cql_type, &from[place], &to[place])? {
            Ordering::Equal => {}
            found => {
                let is_ascending = (found == Ordering::Less) != column.descending;
                return is_ascending.then_some(place);
            }
        }
    }
    None
}
