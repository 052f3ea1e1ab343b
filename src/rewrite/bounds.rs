//! Chooses the buckets that can hold rows of a SELECT. A bound that cannot be compared excludes no bucket.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Reason;
use super::bind::{Bound, list_elements};
use super::readable::{ClusteringRestriction, Order, Readable};
use crate::protocol::types::Cursor;
use crate::schema::bucket::Bucket;
use crate::schema::{ClusteringColumn, CqlType, order};
use crate::statement::select::{InValues, Operator};
use crate::statement::term::{Literal, Term, TermKind};

/// Maximum number of points and ranges. A column that would exceed it counts as unrestricted, as do all after it.
const RANGES_MAX: usize = 256;

type Values<'a> = Vec<Cow<'a, [u8]>>;

/// Rows between two prefixes, in clustering order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Range<'a> {
    from: Edge<'a>,
    to: Edge<'a>,
}

/// A prefix of clustering values; an empty one is no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Edge<'a> {
    values: Values<'a>,
    /// Rows that begin with the prefix are excluded.
    is_open: bool,
}

/// The buckets to read, in the order in which their rows are wanted. Never empty: an empty result also needs a bucket.
pub fn buckets(readable: &Readable, bound: &Bound<'_>, buckets: &[Bucket]) -> Vec<usize> {
    let clustering = &readable.schema.clustering;
    let ranges = ranges(readable, bound);
    let might_have = |number: &usize| {
        let next = buckets.get(number + 1);
        ranges
            .iter()
            .any(|range| range.might_meet(clustering, &buckets[*number], next))
    };
    let mut chosen: Vec<usize> = (0..buckets.len()).filter(might_have).collect();
    if chosen.is_empty() {
        chosen.push(0);
    }
    if readable.order == Order::Reversed {
        chosen.reverse();
    }
    chosen
}

/// Refuses null, unset, empty and computed values in a clustering bound: only Cassandra knows what they mean.
pub(super) fn check(readable: &Readable, bound: &Bound<'_>) -> Result<(), Reason> {
    for restriction in &readable.clustering {
        let fine = match restriction {
            ClusteringRestriction::Compare(places, _, term) => is_plain(bound, term, places.len()),
            ClusteringRestriction::In(places, InValues::List(terms)) => {
                terms.iter().all(|term| is_plain(bound, term, places.len()))
            }
            ClusteringRestriction::In(places, InValues::Marker(index)) => {
                let elements = bound.marker(*index).and_then(list_elements);
                elements.is_some_and(|elements| {
                    let mut elements = elements.into_iter();
                    elements.all(|element| are_plain_bytes(element, places.len()))
                })
            }
        };
        if !fine {
            return Err(Reason::Value);
        }
    }
    Ok(())
}

fn is_plain(bound: &Bound<'_>, term: &Term, columns: usize) -> bool {
    match &term.kind {
        TermKind::Marker(index) => bound
            .marker(*index)
            .is_some_and(|bytes| are_plain_bytes(bytes, columns)),
        TermKind::Literal(Literal::Null) => false,
        TermKind::Literal(Literal::Text(text)) => !text.is_empty(),
        TermKind::Literal(Literal::Blob(bytes)) => !bytes.is_empty(),
        TermKind::Literal(_) => true,
        // A call may return another value each time, or need a right that the client lacks.
        TermKind::Other => false,
        TermKind::Tuple(terms) => terms.iter().all(|term| is_plain(bound, term, 1)),
    }
}

fn are_plain_bytes(bytes: &[u8], columns: usize) -> bool {
    match columns {
        1 => !bytes.is_empty(),
        _ => tuple_elements(bytes, columns)
            .is_some_and(|values| values.iter().all(|value| !value.is_empty())),
    }
}

impl Range<'_> {
    fn might_meet(
        &self,
        clustering: &[ClusteringColumn],
        bucket: &Bucket,
        next: Option<&Bucket>,
    ) -> bool {
        let compare = |first: &Bucket, edge: &Edge<'_>| {
            let first: Vec<&[u8]> = first.first.iter().map(|value| &**value).collect();
            let edge: Vec<&[u8]> = edge.values.iter().map(|value| &**value).collect();
            order::compare_clustering(clustering, &first, &edge)
        };
        // All rows of the bucket come before the first row of the next.
        let ends_before = next.is_some_and(|next| match compare(next, &self.from) {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => {
                self.from.is_open || self.from.values.len() == clustering.len()
            }
            _ => false,
        });
        let begins_after = !bucket.first.is_empty()
            && match compare(bucket, &self.to) {
                Some(Ordering::Greater) => true,
                Some(Ordering::Equal) => self.to.is_open,
                _ => false,
            };
        !ends_before && !begins_after
    }
}

fn ranges<'a>(readable: &Readable, bound: &Bound<'a>) -> Vec<Range<'a>> {
    let clustering = &readable.schema.clustering;
    let mut ranges = vec![Range::default()];
    let mut place = 0;
    while place < clustering.len() {
        let Some((points, width)) = points(readable, bound, place) else {
            break;
        };
        if ranges.len().saturating_mul(points.len()) > RANGES_MAX {
            return ranges;
        }
        ranges = with_points(&ranges, &points);
        place += width;
    }
    if place < clustering.len() {
        let (from, to) = slice(readable, bound, place);
        for range in &mut ranges {
            range.from.extend(&from);
            range.to.extend(&to);
        }
    }
    ranges
}

impl<'a> Edge<'a> {
    fn extend(&mut self, by: &Self) {
        self.values.extend(by.values.iter().cloned());
        self.is_open = by.is_open;
    }
}

fn with_points<'a>(ranges: &[Range<'a>], points: &[Values<'a>]) -> Vec<Range<'a>> {
    let extended = |range: &Range<'a>, point: &Values<'a>| {
        let mut range = range.clone();
        range.from.values.extend(point.iter().cloned());
        range.to.values.extend(point.iter().cloned());
        range
    };
    let each = ranges
        .iter()
        .flat_map(|range| points.iter().map(move |point| extended(range, point)));
    each.collect()
}

/// The single values to which a relation restricts the column at `place`, with those of the following columns that the
/// same relation names; and the number of these columns.
fn points<'a>(
    readable: &Readable,
    bound: &Bound<'a>,
    place: usize,
) -> Option<(Vec<Values<'a>>, usize)> {
    let types = |places: &[usize]| -> Vec<&CqlType> {
        let clustering = &readable.schema.clustering;
        places
            .iter()
            .map(|place| &clustering[*place].column.cql_type)
            .collect()
    };
    let follows = |places: &[usize]| places.iter().copied().eq(place..place + places.len());
    readable.clustering.iter().find_map(|restriction| {
        let points = match restriction {
            ClusteringRestriction::Compare(places, Operator::Equal, term) if follows(places) => {
                vec![tuple(bound, term, &types(places))?]
            }
            ClusteringRestriction::In(places, values) if follows(places) => {
                in_values(bound, values, &types(places))?
            }
            _ => return None,
        };
        Some((points, width(restriction)))
    })
}

fn width(restriction: &ClusteringRestriction) -> usize {
    match restriction {
        ClusteringRestriction::Compare(places, ..) | ClusteringRestriction::In(places, _) => {
            places.len()
        }
    }
}

fn in_values<'a>(
    bound: &Bound<'a>,
    values: &InValues,
    types: &[&CqlType],
) -> Option<Vec<Values<'a>>> {
    if let [only] = types {
        let values = bound.list(values, only)?;
        return Some(values.into_iter().map(|value| vec![value]).collect());
    }
    match values {
        InValues::Marker(index) => {
            let elements = list_elements(bound.marker(*index)?)?;
            elements
                .into_iter()
                .map(|element| tuple_elements(element, types.len()))
                .collect()
        }
        InValues::List(terms) => terms.iter().map(|term| tuple(bound, term, types)).collect(),
    }
}

/// The values of a term for columns of these types.
fn tuple<'a>(bound: &Bound<'a>, term: &Term, types: &[&CqlType]) -> Option<Values<'a>> {
    match &term.kind {
        TermKind::Tuple(terms) if terms.len() == types.len() => terms
            .iter()
            .zip(types)
            .map(|(term, cql_type)| bound.term(term, cql_type))
            .collect(),
        TermKind::Marker(index) if types.len() > 1 => {
            tuple_elements(bound.marker(*index)?, types.len())
        }
        _ => match types {
            [only] => Some(vec![bound.term(term, only)?]),
            _ => None,
        },
    }
}

/// The values of a serialized tuple, all of which must be present.
fn tuple_elements(bytes: &[u8], count: usize) -> Option<Values<'_>> {
    let mut cursor = Cursor::new(bytes);
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(Cow::Borrowed(cursor.bytes().ok()??));
    }
    cursor.rest().is_empty().then_some(values)
}

/// Bounds of the columns from `place` on, in clustering order. A relation on a tuple compares by value, whatever the
/// clustering order of its columns. So where their orders are mixed, only the first column gives a bound.
fn slice<'a>(readable: &Readable, bound: &Bound<'a>, place: usize) -> (Edge<'a>, Edge<'a>) {
    let clustering = &readable.schema.clustering;
    let (mut from, mut to) = (Edge::default(), Edge::default());
    for restriction in &readable.clustering {
        let ClusteringRestriction::Compare(places, operator, term) = restriction else {
            continue;
        };
        if places.first() != Some(&place) || *operator == Operator::Equal {
            continue;
        }
        let types: Vec<&CqlType> = places
            .iter()
            .map(|place| &clustering[*place].column.cql_type)
            .collect();
        let Some(mut values) = tuple(bound, term, &types) else {
            continue;
        };
        let descending = clustering[place].descending;
        let contiguous = places.iter().copied().eq(place..place + places.len());
        let uniform = contiguous
            && places
                .iter()
                .all(|place| clustering[*place].descending == descending);
        if !uniform {
            values.truncate(1);
        }
        let edge = Edge {
            is_open: values.len() == places.len()
                && matches!(operator, Operator::Greater | Operator::Less),
            values,
        };
        let is_lower = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
        // If there are two bounds on one side, either is right. Cassandra refuses most such pairs.
        if is_lower != descending {
            from = edge;
        } else {
            to = edge;
        }
    }
    (from, to)
}
