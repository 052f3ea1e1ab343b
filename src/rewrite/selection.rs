//! What a SELECT selects: values of single rows, or aggregates that can be joined.

use super::Reason;
use super::functions::is_scalar;
use super::readable::{Aggregate, Answer};
use crate::schema::{CqlType, TableSchema};
use crate::statement::select::{Item, Select, Selection, Selector};
use crate::statement::term::TermKind;

pub(super) fn answer(select: &Select, schema: &TableSchema) -> Result<Answer, Reason> {
    let items = match &select.selection {
        Selection::All if schema.is_star_ordered() => return Ok(Answer::Rows),
        // The order of the columns is hard to tell.
        Selection::All => return Err(Reason::Selection),
        Selection::Items(items) => items,
    };
    // A split table has two more columns, which no client may see.
    let known = |name: &str| schema.column(name).is_some();
    if items.iter().all(|item| is_per_row(&item.selector, &known)) {
        return Ok(Answer::Rows);
    }
    if !items.iter().any(|item| is_aggregate(&item.selector)) {
        return Err(Reason::Selection);
    }
    // LIMIT counts the one row of an aggregate. Cassandra refuses PER PARTITION LIMIT.
    if select.json || select.per_partition_limit.is_some() {
        return Err(Reason::Aggregate);
    }
    let aggregates: Option<Vec<_>> = items.iter().map(|item| aggregate(item, schema)).collect();
    aggregates.map(Answer::Aggregates).ok_or(Reason::Aggregate)
}

/// Whether it may return far less than it reads, because it filters or aggregates.
pub(super) fn condenses(select: &Select) -> bool {
    let aggregates = match &select.selection {
        Selection::All => false,
        Selection::Items(items) => items.iter().any(|item| might_aggregate(&item.selector)),
    };
    select.allow_filtering || select.group_by || aggregates
}

/// Whether the value might be computed from many rows; a function that is not known might be an aggregate.
fn might_aggregate(selector: &Selector) -> bool {
    match selector {
        Selector::CountRows => true,
        Selector::Call {
            keyspace,
            name,
            arguments,
        } => !is_scalar(keyspace.as_deref(), name) || arguments.iter().any(might_aggregate),
        Selector::Cast(of) => might_aggregate(of),
        Selector::Composed(parts) => parts.iter().any(might_aggregate),
        Selector::Column(_) | Selector::Part(_) | Selector::Term(_) => false,
    }
}

/// Whether the value is computed from one row alone, whichever partition that is in.
pub(super) fn is_per_row(selector: &Selector, known: &dyn Fn(&str) -> bool) -> bool {
    let all = |parts: &[Selector]| parts.iter().all(|part| is_per_row(part, known));
    match selector {
        Selector::Column(name) => known(name),
        Selector::CountRows => false,
        Selector::Call {
            keyspace,
            name,
            arguments,
        } => is_scalar(keyspace.as_deref(), name) && all(arguments),
        Selector::Cast(of) => is_per_row(of, known),
        // The brackets may contain a call of any function.
        Selector::Part(_) => false,
        // The type of a marker depends on its context, and its name would be in the reply.
        Selector::Term(term) => matches!(term.kind, TermKind::Literal(_)),
        Selector::Composed(parts) => all(parts),
    }
}

fn is_aggregate(selector: &Selector) -> bool {
    match selector {
        Selector::CountRows => true,
        Selector::Call {
            keyspace: None,
            name,
            ..
        } => matches!(name.as_str(), "count" | "min" | "max"),
        _ => false,
    }
}

fn aggregate(item: &Item, schema: &TableSchema) -> Option<Aggregate> {
    let (name, arguments) = match &item.selector {
        Selector::CountRows => return Some(Aggregate::Count),
        Selector::Call {
            keyspace: None,
            name,
            arguments,
        } => (name.as_str(), arguments.as_slice()),
        _ => return None,
    };
    let [Selector::Column(column)] = arguments else {
        return None;
    };
    let (column, _) = schema.column(column)?;
    match name {
        "count" => Some(Aggregate::Count),
        "min" => ordered(&column.cql_type).then(|| Aggregate::Min(column.cql_type.clone())),
        "max" => ordered(&column.cql_type).then(|| Aggregate::Max(column.cql_type.clone())),
        _ => None,
    }
}

/// Types whose MIN and MAX follow the clustering order, and whose values have only one serialized form.
fn ordered(cql_type: &CqlType) -> bool {
    use CqlType::{
        Ascii, BigInt, Blob, Boolean, Date, Inet, Int, SmallInt, Text, Time, TimeUuid, Timestamp,
        TinyInt, Uuid,
    };
    matches!(
        cql_type,
        Ascii
            | BigInt
            | Blob
            | Boolean
            | Date
            | Inet
            | Int
            | SmallInt
            | Text
            | Time
            | TimeUuid
            | Timestamp
            | TinyInt
            | Uuid
    )
}
