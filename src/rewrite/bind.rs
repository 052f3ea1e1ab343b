//! Binds values to a [`Readable`], to find the partitions that it reads and how many rows it wants.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::Reason;
use super::readable::{KeyPart, Readable};
use crate::protocol::types::{Cursor, Value};
use crate::schema::names::PartitionKey;
use crate::schema::{CqlType, literal, order};
use crate::statement::select::InValues;
use crate::statement::term::{Marker, Term, TermKind};

/// A partition key IN over more partitions than this is left to the original.
pub const KEYS_MAX: usize = 128;

/// The values of a request, one for each marker of its text.
pub struct Bound<'a> {
    values: Values<'a>,
}

enum Values<'a> {
    /// Already in the order of the markers.
    AsSent(&'a [(Option<&'a str>, Value<'a>)]),
    Sorted(Vec<Value<'a>>),
    Kept(&'a [Option<Box<[u8]>>]),
}

/// Copies of the values that live as long as the work on the request; null and unset have no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptValues(Vec<Option<Box<[u8]>>>);

impl KeptValues {
    pub fn bound(&self) -> Bound<'_> {
        Bound {
            values: Values::Kept(&self.0),
        }
    }
}

/// One partition that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The serialized value of each column.
    pub components: Vec<Vec<u8>>,
    pub key: PartitionKey,
}

/// Maximum number of rows; `None`: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub rows: Option<u32>,
    pub per_partition: Option<u32>,
}

impl<'a> Bound<'a> {
    /// Puts values in the order of the markers. Named values may come in any order.
    pub fn new(
        markers: &[Marker],
        values: &'a [(Option<&'a str>, Value<'a>)],
    ) -> Result<Self, Reason> {
        if !are_named(values) {
            let fits = values.len() == markers.len();
            let values = Values::AsSent(values);
            return fits.then_some(Self { values }).ok_or(Reason::Value);
        }
        let find = |marker: &Marker| {
            let mut same = values
                .iter()
                .filter(|(name, _)| *name == marker.name.as_deref());
            // Only Cassandra knows which of two values of the same name counts.
            match (same.next(), same.next()) {
                (Some((_, value)), None) => Ok(*value),
                _ => Err(Reason::Value),
            }
        };
        let values = markers.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self {
            values: Values::Sorted(values),
        })
    }

    /// Copies the values, so that they outlive the message that they came in.
    pub fn keep(&self) -> KeptValues {
        let count = match &self.values {
            Values::AsSent(values) => values.len(),
            Values::Sorted(values) => values.len(),
            Values::Kept(values) => values.len(),
        };
        let value = |index| self.marker(index).map(Box::from);
        KeptValues((0..count).map(value).collect())
    }

    /// The bytes of a marker; null and unset have none.
    pub(super) fn marker(&self, index: usize) -> Option<&'a [u8]> {
        let value = match &self.values {
            Values::AsSent(values) => values.get(index).map(|(_, value)| value),
            Values::Sorted(values) => values.get(index),
            Values::Kept(values) => return values.get(index)?.as_deref(),
        };
        match value {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The bytes of a term for a column of this type, if they can be determined.
    pub(super) fn term(&self, term: &Term, cql_type: &CqlType) -> Option<Cow<'a, [u8]>> {
        match &term.kind {
            TermKind::Marker(index) => self.marker(*index).map(Cow::Borrowed),
            TermKind::Literal(constant) => literal::encode(constant, cql_type).map(Cow::Owned),
            TermKind::Tuple(_) | TermKind::Other => None,
        }
    }

    /// The single values of `IN`, if they can be determined.
    pub(super) fn list(&self, values: &InValues, cql_type: &CqlType) -> Option<Vec<Cow<'a, [u8]>>> {
        match values {
            InValues::Marker(index) => {
                let elements = list_elements(self.marker(*index)?)?;
                Some(elements.into_iter().map(Cow::Borrowed).collect())
            }
            InValues::List(terms) => terms.iter().map(|term| self.term(term, cql_type)).collect(),
        }
    }
}

/// Whether the values of a request have names: all of them, or none.
pub(super) fn are_named(values: &[(Option<&str>, Value<'_>)]) -> bool {
    values.first().is_some_and(|(name, _)| name.is_some())
}

/// The elements of a serialized list without nulls (native_protocol_v5 §6.12).
pub(super) fn list_elements(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    nullable_elements(bytes, usize::MAX)?.into_iter().collect()
}

/// The elements of a serialized list of at most `max` elements.
pub(super) fn nullable_elements(bytes: &[u8], max: usize) -> Option<Vec<Option<&[u8]>>> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count("list").ok().filter(|count| *count <= max)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        elements.push(cursor.bytes().ok()?);
    }
    cursor.rest().is_empty().then_some(elements)
}

impl Readable {
    /// The partitions that it reads, in the order in which Cassandra returns them.
    pub fn keys(&self, bound: &Bound<'_>) -> Result<Vec<Key>, Reason> {
        let mut keys = vec![Vec::new()];
        for (part, column) in self.key.iter().zip(&self.schema.partition_key) {
            let values = match part {
                KeyPart::One(term) => bound.term(term, &column.cql_type).map(|value| vec![value]),
                KeyPart::In(values) => bound.list(values, &column.cql_type),
            };
            let values = values.ok_or(Reason::KeyValue)?;
            // Cassandra decodes the elements of a bound list and encodes them again, which may change their bytes.
            let canonical = |value: &Cow<'_, [u8]>| order::is_canonical(&column.cql_type, value);
            if matches!(part, KeyPart::In(InValues::Marker(_))) && !values.iter().all(canonical) {
                return Err(Reason::KeyValue);
            }
            if keys.len().saturating_mul(values.len()) > KEYS_MAX {
                return Err(Reason::ManyKeys);
            }
            keys = extended(&keys, &values);
        }
        self.in_order(&mut keys)?;
        let key = |components: Vec<Vec<u8>>| {
            let slices: Vec<&[u8]> = components.iter().map(Vec::as_slice).collect();
            // Cassandra accepts some empty values and refuses others.
            if slices.iter().any(|value| value.is_empty()) {
                return Err(Reason::KeyValue);
            }
            let key = PartitionKey::from_components(&slices).ok_or(Reason::KeyValue)?;
            Ok(Key { components, key })
        };
        keys.into_iter().map(key).collect()
    }

    /// Divides the keys into the parts that are read one after the other, from `first` on: neighbours of the original
    /// that one `IN` can name are one part, every other key is one by itself.
    pub fn parts(
        &self,
        keys: &[Key],
        first: usize,
        is_original: impl Fn(usize) -> bool,
    ) -> Vec<Range<usize>> {
        let in_column = self.in_column();
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (number, key) in keys.iter().enumerate().skip(first) {
            let joins = |part: &&mut Range<usize>| {
                let both = keys[part.start].components.iter().zip(&key.components);
                let mut both = both.enumerate();
                is_original(part.start)
                    && is_original(number)
                    && both.all(|(index, (a, b))| in_column == Some(index) || a == b)
            };
            match parts.last_mut().filter(joins) {
                Some(part) => part.end = number + 1,
                None => parts.push(number..number + 1),
            }
        }
        parts
    }

    fn in_order(&self, keys: &mut Vec<Vec<Vec<u8>>>) -> Result<(), Reason> {
        if keys.len() < 2 {
            return if keys.is_empty() {
                Err(Reason::KeyValue)
            } else {
                Ok(())
            };
        }
        let compare = |a: &Vec<Vec<u8>>, b: &Vec<Vec<u8>>| {
            order::compare_keys(&self.schema.partition_key, a, b)
        };
        let first = keys[0].clone();
        if !keys.iter().all(|key| compare(key, &first).is_some()) {
            return Err(Reason::KeyValue);
        }
        // Keys that can be compared with the first can be compared with each other: only their form decides that.
        keys.sort_by(|a, b| compare(a, b).unwrap_or(Ordering::Equal));
        keys.dedup_by(|a, b| compare(a, b) == Some(Ordering::Equal));
        Ok(())
    }

    pub fn limits(&self, bound: &Bound<'_>) -> Result<Limits, Reason> {
        let limit = |term: &Option<Term>| {
            term.as_ref()
                .map(|term| read_limit(term, bound))
                .transpose()
        };
        Ok(Limits {
            rows: limit(&self.select.limit)?,
            per_partition: limit(&self.select.per_partition_limit)?,
        })
    }
}

fn extended(keys: &[Vec<Vec<u8>>], values: &[Cow<'_, [u8]>]) -> Vec<Vec<Vec<u8>>> {
    let with = |key: &Vec<Vec<u8>>, value: &Cow<'_, [u8]>| {
        let mut key = key.clone();
        key.push(value.to_vec());
        key
    };
    let each = keys
        .iter()
        .flat_map(|key| values.iter().map(move |value| with(key, value)));
    each.collect()
}

pub(super) fn read_limit(term: &Term, bound: &Bound<'_>) -> Result<u32, Reason> {
    let bytes = bound.term(term, &CqlType::Int).ok_or(Reason::Limit)?;
    let limit = <[u8; 4]>::try_from(&*bytes).map_err(|_| Reason::Limit)?;
    let limit = u32::try_from(i32::from_be_bytes(limit)).map_err(|_| Reason::Limit)?;
    if limit == 0 {
        return Err(Reason::Limit);
    }
    Ok(limit)
}
