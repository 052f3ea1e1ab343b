//! The order of collections, tuples and vectors: element by element, as `order` compares each.

use std::cmp::Ordering;

use super::CqlType;
use super::order::compare as compare_values;

/// Compares two values that are not empty.
pub(super) fn compare(cql_type: &CqlType, a: &[u8], b: &[u8]) -> Option<Ordering> {
    match cql_type {
        CqlType::List(element) => {
            let (a, b) = (elements(a, &[element])?, elements(b, &[element])?);
            compare_elements(&[element], &a, &b)
        }
        CqlType::Set(element) => {
            let (a, b) = (sorted(a, &[element])?, sorted(b, &[element])?);
            compare_elements(&[element], &a, &b)
        }
        CqlType::Map(key, value) => {
            let types: [&CqlType; 2] = [key, value];
            let (a, b) = (sorted(a, &types)?, sorted(b, &types)?);
            compare_elements(&types, &a, &b)
        }
        CqlType::Tuple(fields) => {
            compare_fields(fields, &components(fields, a)?, &components(fields, b)?)
        }
        CqlType::Vector(element, dimension) => {
            let width = fixed_width(element)?;
            if width.checked_mul(*dimension)? != a.len() || a.len() != b.len() {
                return None;
            }
            let (a, b): (Vec<_>, Vec<_>) = (a.chunks(width).collect(), b.chunks(width).collect());
            compare_elements(&[element], &a, &b)
        }
        _ => None,
    }
}

/// Compares element by element, cycling through `types`; of two that begin alike the shorter one comes first.
fn compare_elements(types: &[&CqlType], a: &[&[u8]], b: &[&[u8]]) -> Option<Ordering> {
    for (cql_type, (a, b)) in types.iter().cycle().zip(a.iter().zip(b)) {
        match compare_values(cql_type, a, b)? {
            Ordering::Equal => {}
            different => return Some(different),
        }
    }
    Some(a.len().cmp(&b.len()))
}

/// A field that is null, or left out at the end, comes before every value.
fn compare_fields(
    fields: &[CqlType],
    a: &[Option<&[u8]>],
    b: &[Option<&[u8]>],
) -> Option<Ordering> {
    for (field, (a, b)) in fields.iter().zip(a.iter().zip(b)) {
        let order = match (a, b) {
            (Some(a), Some(b)) => compare_values(field, a, b)?,
            _ => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

/// The elements of a collection, whose types are `types` in turn.
fn elements<'a>(bytes: &'a [u8], types: &[&CqlType]) -> Option<Vec<&'a [u8]>> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    let mut elements = Vec::new();
    for cql_type in types.iter().cycle().take(count.checked_mul(types.len())?) {
        let element = take(&mut rest)??;
        // Cassandra stores an empty number as null, and then fails to compare it.
        if element.is_empty() && !has_meaningful_empty(cql_type) {
            return None;
        }
        elements.push(element);
    }
    rest.is_empty().then_some(elements)
}

fn has_meaningful_empty(cql_type: &CqlType) -> bool {
    matches!(cql_type, CqlType::Ascii | CqlType::Blob | CqlType::Text)
}

/// The elements of a set or map. Cassandra sorts a client's value before it stores it, so only a value that is sorted
/// and has no duplicates is what Cassandra will compare.
fn sorted<'a>(bytes: &'a [u8], types: &[&CqlType]) -> Option<Vec<&'a [u8]>> {
    let elements = elements(bytes, types)?;
    let key_type = types.first()?;
    let keys = || elements.iter().step_by(types.len());
    for (key, next) in keys().zip(keys().skip(1)) {
        if compare_values(key_type, key, next)? != Ordering::Less {
            return None;
        }
    }
    Some(elements)
}

/// A tuple's fields; fields left out at the end are null.
fn components<'a>(fields: &[CqlType], mut bytes: &'a [u8]) -> Option<Vec<Option<&'a [u8]>>> {
    let mut components = Vec::with_capacity(fields.len());
    for _ in fields {
        components.push(match bytes {
            [] => None,
            _ => take(&mut bytes)?,
        });
    }
    bytes.is_empty().then_some(components)
}

/// Takes a length and that many bytes; a negative length is a null.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        *bytes = rest;
        return Some(None);
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(Some(value))
}

/// The width of the types whose values are in a vector without their lengths.
fn fixed_width(element: &CqlType) -> Option<usize> {
    match element.unfrozen() {
        CqlType::Boolean => Some(1),
        CqlType::Float | CqlType::Int => Some(4),
        CqlType::BigInt | CqlType::Double | CqlType::Timestamp => Some(8),
        CqlType::Uuid | CqlType::TimeUuid => Some(16),
        _ => None,
    }
}
