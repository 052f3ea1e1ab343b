//! A SELECT whose pages may be cut short, because each row of its result is independent of the others.

use super::bind::{Bound, read_limit};
use super::{readable, selection};
use crate::protocol::types::Value;
use crate::statement::select::{RelationKind, Selection};
use crate::statement::term::{Marker, Term};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pageable {
    markers: Vec<Marker>,
    limit: Option<Term>,
}

impl Pageable {
    /// `None`: not understood, or Cassandra's internal pages differ from the client's, as with aggregates.
    pub fn parse(text: &str) -> Option<Self> {
        let select = readable::parse(text)?;
        // Cassandra does not page these, but returns all rows at once.
        let sorts = !select.order_by.is_empty()
            && select
                .relations
                .iter()
                .any(|relation| matches!(relation.kind, RelationKind::In { .. }));
        let per_row = match &select.selection {
            Selection::All => true,
            Selection::Items(items) => items
                .iter()
                .all(|item| selection::is_per_row(&item.selector, &|_| true)),
        };
        if !per_row || select.group_by || sorts {
            return None;
        }
        Some(Self {
            markers: select.markers,
            limit: select.limit,
        })
    }

    /// The limit of a request with these values, if it has one. `Err`: the limit cannot be determined.
    pub fn limit(
        &self,
        values: &[(Option<&str>, Value<'_>)],
    ) -> Result<Option<u32>, super::Reason> {
        let Some(limit) = &self.limit else {
            return Ok(None);
        };
        let bound = Bound::new(&self.markers, values)?;
        read_limit(limit, &bound).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_single_rows_may_be_cut() {
        for (text, pageable) in [
            ("SELECT * FROM t", true),
            ("SELECT a, writetime(b) FROM t WHERE k = ? AND c > 1", true),
            ("SELECT DISTINCT k FROM t", true),
            ("SELECT * FROM t WHERE k IN (1, 2)", true),
            ("SELECT * FROM t WHERE k IN (1, 2) ORDER BY c", false),
            ("SELECT count(*) FROM t", false),
            ("SELECT mine(a) FROM t", false),
            ("SELECT a FROM t GROUP BY a", false),
            ("INSERT INTO t (a) VALUES (1)", false),
        ] {
            assert_eq!(Pageable::parse(text).is_some(), pageable, "{text}");
        }
    }

    #[test]
    fn limits_come_from_literals_and_values() {
        let seven = 7_i32.to_be_bytes();
        let limit = |text: &str, values: &[Value<'_>]| {
            let values: Vec<_> = values.iter().map(|value| (None, *value)).collect();
            Pageable::parse(text).expect("pageable").limit(&values).ok()
        };
        assert_eq!(limit("SELECT * FROM t", &[]), Some(None));
        assert_eq!(limit("SELECT * FROM t LIMIT 5", &[]), Some(Some(5)));
        let bound = "SELECT * FROM t WHERE a = ? LIMIT ?";
        let values = [Value::Null, Value::Bytes(&seven)];
        assert_eq!(limit(bound, &values), Some(Some(7)));
        assert_eq!(limit(bound, &[Value::Null, Value::Unset]), None);
    }
}
