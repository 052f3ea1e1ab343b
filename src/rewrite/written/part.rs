//! The values that a statement gives to one partition key column. Their bytes must be those that Cassandra would store.

use super::{Found, KEYS_MAX, NoKeys};
use crate::rewrite::bind::{Bound, nullable_elements};
use crate::schema::{CqlType, literal, order};
use crate::statement::select::{Columns, InValues, Operator, Relation, RelationKind};
use crate::statement::term::{Literal, Term, TermKind};

/// One value of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Marker(usize),
    Constant(Vec<u8>),
}

/// Values of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    Of(Vec<Part>),
    /// A marker for a whole list.
    List(usize),
}

impl Part {
    pub(super) fn find(term: &Term, cql_type: &CqlType) -> Found<Self> {
        match &term.kind {
            TermKind::Marker(index) => Ok(Self::Marker(*index)),
            TermKind::Literal(Literal::Null) => Err(NoKeys::Refused),
            TermKind::Literal(Literal::Text(text)) if is_ambiguous(text) => Err(NoKeys::Unknown),
            TermKind::Literal(constant) => {
                let value = literal::encode(constant, cql_type);
                value.map(Self::Constant).ok_or(NoKeys::Unknown)
            }
            TermKind::Tuple(_) | TermKind::Other => Err(NoKeys::Unknown),
        }
    }

    /// Cassandra refuses null and unset.
    pub(super) fn value<'v>(&'v self, bound: &Bound<'v>) -> Found<&'v [u8]> {
        match self {
            Self::Marker(index) => bound.marker(*index).ok_or(NoKeys::Refused),
            Self::Constant(value) => Ok(value),
        }
    }
}

/// Whether the text may have had invalid UTF-8, which Cassandra replaces, too, but by another number of characters.
pub(super) fn is_ambiguous(text: &str) -> bool {
    text.contains(char::REPLACEMENT_CHARACTER)
}

impl Choice {
    pub(super) fn find(relation: &Relation, cql_type: &CqlType) -> Found<Self> {
        match &relation.kind {
            RelationKind::Compare {
                columns: Columns::One(_),
                operator: Operator::Equal,
                term,
            } => Ok(Self::Of(vec![Part::find(term, cql_type)?])),
            RelationKind::In {
                columns: Columns::One(_),
                values: InValues::Marker(index),
            } => Ok(Self::List(*index)),
            RelationKind::In {
                columns: Columns::One(_),
                values: InValues::List(terms),
            } => {
                let parts = terms.iter().map(|term| Part::find(term, cql_type));
                parts.collect::<Found<_>>().map(Self::Of)
            }
            // Cassandra refuses ranges of partition keys, and tuples of them.
            _ => Err(NoKeys::Refused),
        }
    }

    pub(super) fn values<'v>(
        &'v self,
        bound: &Bound<'v>,
        cql_type: &CqlType,
    ) -> Found<Vec<&'v [u8]>> {
        match self {
            Self::Of(parts) => parts.iter().map(|part| part.value(bound)).collect(),
            Self::List(index) => {
                let list = bound.marker(*index).ok_or(NoKeys::Refused)?;
                let elements = nullable_elements(list, KEYS_MAX).ok_or(NoKeys::Unknown)?;
                let value = |element: Option<&'v [u8]>| {
                    let element = element.ok_or(NoKeys::Refused)?;
                    // Cassandra decodes the elements and encodes them again, which may change their bytes.
                    let canonical = order::is_canonical(cql_type, element);
                    canonical.then_some(element).ok_or(NoKeys::Unknown)
                };
                elements.into_iter().map(value).collect()
            }
        }
    }
}
