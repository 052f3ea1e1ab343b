//! A SELECT by one full partition key, whatever else it asks: enough to tell which partition its reply is from.

use std::sync::Arc;

use super::bind::Bound;
use super::{readable, selection};
use crate::protocol::types::Value;
use crate::schema::TableSchema;
use crate::schema::names::PartitionKey;
use crate::statement::select::{Columns, InValues, Operator, RelationKind, Select};
use crate::statement::term::{Marker, Term};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    markers: Vec<Marker>,
    /// One for each column of the partition key, in its order.
    key: Vec<Term>,
    schema: Arc<TableSchema>,
    /// Whether it may return far less than it reads.
    pub condenses: bool,
}

impl Keyed {
    pub fn parse(text: &str, schema: &Arc<TableSchema>) -> Option<Self> {
        Self::new(&readable::parse(text)?, schema)
    }

    /// `None`: it does not restrict every partition key column to one value.
    pub fn new(select: &Select, schema: &Arc<TableSchema>) -> Option<Self> {
        let given = |column: &str| {
            let mut terms = select.relations.iter().filter_map(|relation| {
                let (name, term) = only_value(&relation.kind)?;
                (name == column).then_some(term)
            });
            // Cassandra refuses a column that is restricted twice.
            match (terms.next(), terms.next()) {
                (Some(term), None) => Some(term.clone()),
                _ => None,
            }
        };
        let columns = schema.partition_key.iter();
        let key: Option<Vec<Term>> = columns.map(|column| given(&column.name)).collect();
        Some(Self {
            markers: select.markers.clone(),
            key: key?,
            schema: schema.clone(),
            condenses: selection::condenses(select),
        })
    }

    /// The partition of a request with these values, if it can be determined.
    pub fn key(&self, values: &[(Option<&str>, Value<'_>)]) -> Option<PartitionKey> {
        let bound = Bound::new(&self.markers, values).ok()?;
        let columns = self.key.iter().zip(&self.schema.partition_key);
        let values: Option<Vec<_>> = columns
            .map(|(term, column)| bound.term(term, &column.cql_type))
            .collect();
        let values = values?;
        let values: Vec<&[u8]> = values.iter().map(|value| &**value).collect();
        // Cassandra accepts some empty values and refuses others.
        if values.iter().any(|value| value.is_empty()) {
            return None;
        }
        PartitionKey::from_components(&values)
    }
}

/// Column and term of a relation that restricts one column to one value.
fn only_value(relation: &RelationKind) -> Option<(&String, &Term)> {
    match relation {
        RelationKind::Compare {
            columns: Columns::One(name),
            operator: Operator::Equal,
            term,
        } => Some((name, term)),
        RelationKind::In {
            columns: Columns::One(name),
            values: InValues::List(terms),
        } => match terms.as_slice() {
            [term] => Some((name, term)),
            _ => None,
        },
        RelationKind::Compare { .. } | RelationKind::In { .. } | RelationKind::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, CqlType};

    /// `((sensor text, day int))`, and nothing else that matters here.
    fn schema() -> Arc<TableSchema> {
        let column = |name: &str, cql_type| Column {
            name: name.to_owned(),
            cql_type,
        };
        Arc::new(TableSchema {
            keyspace: "plant".into(),
            table: "reading".into(),
            partition_key: vec![column("sensor", CqlType::Text), column("day", CqlType::Int)],
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: Vec::new(),
            indexed: Vec::new(),
            replication: Vec::new(),
            is_repaired_by_reads: true,
        })
    }

    fn key(text: &str, values: &[(Option<&str>, Value<'_>)]) -> Option<PartitionKey> {
        Keyed::parse(text, &schema())?.key(values)
    }

    #[test]
    fn one_whole_key_is_found_whatever_is_selected() {
        let seven = 7_i32.to_be_bytes();
        let expected = PartitionKey::from_components(&[b"s", &seven]);
        assert!(expected.is_some());
        let (s, day) = (Value::Bytes(b"s"), Value::Bytes(&seven));
        for clauses in [
            "* FROM t WHERE sensor = ? AND day = ?",
            "sum(v) FROM t WHERE sensor = ? AND day = ? GROUP BY c",
            "DISTINCT sensor FROM t WHERE sensor = ? AND day = ?",
            "m['a'] FROM t WHERE sensor = ? AND day = ? ORDER BY c DESC",
            "* FROM t WHERE sensor IN (?) AND day IN (?)",
        ] {
            let text = format!("SELECT {clauses}");
            let found = key(&text, &[(None, s), (None, day)]);
            assert_eq!(found, expected, "{text}");
        }
        let text = "SELECT * FROM t WHERE day = :d AND c > 1 AND sensor = 's'";
        assert_eq!(key(text, &[(Some("d"), day)]), expected);
    }

    #[test]
    fn what_filters_or_aggregates_may_return_less_than_it_reads() {
        for (clauses, condenses) in [
            ("* FROM t WHERE {} AND c > 1 LIMIT 1", false),
            ("c, ttl(v), m['a'], CAST(v AS text) FROM t WHERE {}", false),
            ("count(*) FROM t WHERE {}", true),
            ("c, CAST(max(v) AS text) FROM t WHERE {}", true),
            ("mine(v) FROM t WHERE {}", true),
            ("c FROM t WHERE {} GROUP BY c", true),
            ("* FROM t WHERE {} AND v = 1 ALLOW FILTERING", true),
        ] {
            let text = format!("SELECT {clauses}").replace("{}", "sensor = 's' AND day = 7");
            let keyed = Keyed::parse(&text, &schema()).expect("one key");
            assert_eq!(keyed.condenses, condenses, "{text}");
        }
    }

    #[test]
    fn anything_less_or_more_than_one_key_is_none() {
        for clauses in [
            "WHERE sensor = 's'",
            "WHERE sensor = 's' AND day > 7",
            "WHERE sensor = 's' AND day IN (7, 8)",
            "WHERE sensor = 's' AND day IN ()",
            "WHERE sensor = 's' AND day IN ?",
            "WHERE sensor = 's' AND day = 7 AND day = 7",
            "WHERE sensor = 's' AND day = now()",
            "WHERE sensor = '' AND day = 7",
            "WHERE sensor = 's' AND day = null",
            "WHERE token(sensor, day) = 7",
            "",
        ] {
            let text = format!("SELECT * FROM t {clauses}");
            assert_eq!(key(&text, &[]), None, "{text}");
        }
        let bound = "SELECT * FROM t WHERE sensor = ? AND day = 7";
        for value in [Value::Null, Value::Unset, Value::Bytes(b"")] {
            assert_eq!(key(bound, &[(None, value)]), None);
        }
        assert_eq!(key(bound, &[]), None);
    }
}
