//! Joins the buckets' results of COUNT, MIN and MAX.

use std::cmp::Ordering;

use super::readable::Aggregate;
use crate::protocol::types::Write;
use crate::schema::order;

/// The row of one bucket, or of all buckets joined so far.
pub type Joined = Vec<Option<Vec<u8>>>;

/// The bytes of the row in a result.
pub fn encode(row: &Joined) -> Vec<u8> {
    let mut out = Vec::new();
    for value in row {
        out.put_bytes(value.as_deref());
    }
    out
}

/// `None`: the values do not fit the aggregates.
pub fn join(aggregates: &[Aggregate], into: Joined, row: Joined) -> Option<Joined> {
    if into.len() != aggregates.len() || row.len() != aggregates.len() {
        return None;
    }
    let pairs = aggregates.iter().zip(into.into_iter().zip(row));
    pairs
        .map(|(aggregate, (a, b))| one(aggregate, a, b))
        .collect()
}

fn one(aggregate: &Aggregate, a: Option<Vec<u8>>, b: Option<Vec<u8>>) -> Option<Option<Vec<u8>>> {
    let (cql_type, keeps) = match aggregate {
        Aggregate::Count => return Some(Some(sum(a?, b?)?)),
        Aggregate::Min(cql_type) => (cql_type, Ordering::Less),
        Aggregate::Max(cql_type) => (cql_type, Ordering::Greater),
    };
    Some(match (a, b) {
        (Some(a), Some(b)) => {
            let ordering = order::compare(cql_type, &a, &b)?;
            Some(if ordering == keeps { a } else { b })
        }
        (a, b) => a.or(b),
    })
}

/// Counts are bigint, and wrap as Cassandra's own would.
fn sum(a: Vec<u8>, b: Vec<u8>) -> Option<Vec<u8>> {
    let number = |bytes: Vec<u8>| Some(i64::from_be_bytes(bytes.try_into().ok()?));
    Some(number(a)?.wrapping_add(number(b)?).to_be_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::CqlType;

    fn int(value: i32) -> Option<Vec<u8>> {
        Some(value.to_be_bytes().to_vec())
    }

    fn long(value: i64) -> Option<Vec<u8>> {
        Some(value.to_be_bytes().to_vec())
    }

    #[test]
    fn joins_counts_and_extremes_and_skips_buckets_without_rows() {
        let aggregates = [
            Aggregate::Count,
            Aggregate::Min(CqlType::Int),
            Aggregate::Max(CqlType::Int),
        ];
        let joined = join(
            &aggregates,
            vec![long(2), int(-5), int(7)],
            vec![long(3), int(-6), int(6)],
        );
        let joined = joined.expect("fits");
        assert_eq!(joined, [long(5), int(-6), int(7)]);
        let joined = join(&aggregates, vec![long(0), None, None], joined);
        assert_eq!(joined, Some(vec![long(5), int(-6), int(7)]));
    }

    #[test]
    fn rows_of_another_form_are_refused() {
        assert_eq!(join(&[Aggregate::Count], vec![int(1)], vec![long(1)]), None);
        assert_eq!(join(&[Aggregate::Count], vec![None], vec![long(1)]), None);
        assert_eq!(join(&[Aggregate::Count], vec![], vec![long(1)]), None);
    }
}
