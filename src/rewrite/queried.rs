//! The columns on which it depends whether a SELECT finds a row. Pure.
//!
//! Cassandra skips a cell of a column that is not selected if it is older than the row's marker. Once the marker has
//! expired, such a row is hidden from statements that select none of its living columns. A copy of the row needs no
//! marker, and shows it. So a statement finds the same rows on both sides only if it does not depend on that.

use std::collections::BTreeSet;

use super::readable::Answer;
use crate::schema::TableSchema;
use crate::statement::select::{Item, Select, Selection, Selector};

/// By what a statement finds rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queried {
    /// The regular columns that it selects.
    pub columns: Vec<String>,
    /// The places in its reply that have a value only if such a column has one. A row with a value there is found,
    /// whatever its marker is.
    pub telling: Vec<usize>,
}

/// The regular columns by which the statement finds rows; `None` if it finds all of them. That is so if it selects all
/// columns or none (Cassandra then looks at all cells), if it filters by a regular column (a row that matches has it),
/// and if it only aggregates regular columns (a row without them does not count).
pub(super) fn queried(
    select: &Select,
    schema: &TableSchema,
    (answer, filters): (&Answer, bool),
) -> Option<Queried> {
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
    let tells = |item: &Item| tells(&item.selector).is_some_and(is_regular);
    let rows = matches!(answer, Answer::Rows) && !select.json;
    let telling = (0..items.len()).filter(|place| rows && tells(&items[*place]));
    (!is_whole).then(|| Queried {
        columns: columns.into_iter().map(str::to_owned).collect(),
        telling: telling.collect(),
    })
}

/// The column without which the selector has no value. Other functions may turn nothing into something.
fn tells(selector: &Selector) -> Option<&str> {
    match selector {
        Selector::Column(name) => Some(name),
        Selector::Call {
            keyspace: None,
            name,
            arguments,
        } if matches!(name.as_str(), "writetime" | "ttl") => match &arguments[..] {
            [Selector::Column(column)] => Some(column),
            _ => None,
        },
        _ => None,
    }
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
