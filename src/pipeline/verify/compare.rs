//! Compares one row of the original with its copy, cell by cell. Pure.

use super::difference::DifferenceKind;
use super::row::{Cells, Row};
use crate::schema::TableSchema;

/// What differs, and in which column.
pub(super) type Found<'a> = (DifferenceKind, Option<&'a str>);

/// The first difference between two rows at the same place in clustering order.
pub(super) fn compare<'s>(
    schema: &'s TableSchema,
    original: &Row<'_>,
    copy: &Row<'_>,
) -> Option<Found<'s>> {
    if original.key != copy.key {
        return Some((DifferenceKind::Key, None));
    }
    let pairs = original.columns.iter().zip(&copy.columns);
    let found = pairs.zip(&schema.regulars).find_map(|((a, b), column)| {
        compare_cells(a, b).map(|kind| (kind, Some(column.name.as_str())))
    });
    // Both sides are read with the same columns; if they were not, the rows could not be called equal.
    let is_whole = original.columns.len() == copy.columns.len();
    found.or((!is_whole).then_some((DifferenceKind::Value, None)))
}

fn compare_cells(original: &Cells<'_>, copy: &Cells<'_>) -> Option<DifferenceKind> {
    match (original.value, copy.value) {
        (Some(_), None) => return Some(DifferenceKind::MissingCell),
        (None, Some(_)) => return Some(DifferenceKind::ExtraCell),
        (a, b) if a != b => return Some(DifferenceKind::Value),
        _ => {}
    }
    if original.written != copy.written {
        return Some(DifferenceKind::WriteTime);
    }
    (original.ttl != copy.ttl).then_some(DifferenceKind::Expiry)
}
