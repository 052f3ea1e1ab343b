//! The columns on which it depends whether a SELECT finds a row. Pure.
//!
//! Cassandra skips a cell of a column that is not selected if it is older than the row's marker. Once the marker has
//! expired, such a row is hidden from statements that select none of its living columns. A copy of the row needs no
//! marker, and shows it. So a statement finds the same rows on both sides only if it does not depend on that.

use std::collections::BTreeSet;

use super::readable::Answer;
use crate::schema::TableSchema;
use crate::statement::select::{Select, Selection, Selector};

/// The regular columns by which the statement finds rows; `None` if it finds all of them. That is so if it selects all
/// columns or none (Cassandra then looks at all cells), if it filters by a regular column (a row that matches has it),
/// and if it only aggregates regular columns (a row without them does not count).
pub(super) fn queried(
    select: &Select,
    schema: &TableSchema,
    (answer, filters): (&Answer, bool),
) -> Option<Vec<String>> {
    let items = match &select.selection {
        Selection::All => return None,
        Selection::Items(_) if filters => return None,
        Selection::Items(items) => items,
    };
    let is_regular = |name: &str| schema.regulars.iter().any(|column| column.name == name);
    let mut columns = BTreeSet::new();
    let mut all_regular = true;
    for item in items {
        let mut of_item = BTreeSet::new();
        collect(&item.selector, &mut of_item);
        all_regular &= !of_item.is_empty() && of_item.iter().all(|name| is_regular(name));
        columns.extend(of_item.into_iter().filter(|name| is_regular(name)));
    }
    let aggregates = matches!(answer, Answer::Aggregates(_));
    let is_whole =
        columns.is_empty() || columns.len() == schema.regulars.len() || aggregates && all_regular;
    (!is_whole).then(|| columns.into_iter().map(str::to_owned).collect())
}

fn collect<'s>(selector: &'s Selector, into: &mut BTreeSet<&'s str>) {
    match selector {
        Selector::Column(name) => {
            into.insert(name);
        }
        Selector::CountRows | Selector::Term(_) => {}
        Selector::Cast(part) | Selector::Part(part) => collect(part, into),
        Selector::Call {
            arguments: parts, ..
        }
        | Selector::Composed(parts) => parts.iter().for_each(|part| collect(part, into)),
    }
}
