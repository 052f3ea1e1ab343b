//! Finds the partitions of a table that a text writes, whatever kind of write it is. Made once per text and schema.
//!
//! It must never leave out a key that could be written; an extra key does no harm. A statement that Cassandra refuses
//! before it writes anything has no keys; `tests/integration/written.rs` proves that Cassandra refuses it. Anything
//! that is not proven is unknown, and makes the whole answer unknown.

mod json;
mod part;

use std::sync::Arc;

use super::bind::{Bound, are_named};
use crate::protocol::types::Value;
use crate::schema::names::PartitionKey;
use crate::schema::{Column, CqlType, TableSchema};
use crate::statement::select::{Columns, Relation, RelationKind};
use crate::statement::term::{Literal, Marker, Term, TermKind};
use crate::statement::touches::Name;
use crate::statement::write::{Keys, Write, parse_write};
use part::{Choice, Part};

/// Maximum number of partitions of one request; if it writes more, they are unknown.
pub const KEYS_MAX: usize = 10_000;
/// Maximum size of all keys of one `IN` together; larger ones are not built, and are unknown.
const KEYS_BYTES_MAX: usize = 4 << 20;
/// Cassandra's default maximum size of a frame.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// What a text writes to one table, given the table's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    markers: Vec<Marker>,
    /// One for each statement that writes this table.
    targets: Vec<Target>,
    schema: Arc<TableSchema>,
    conditional: bool,
    single: bool,
}

/// The partitions that one statement writes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// No partition: Cassandra refuses the statement.
    Nothing,
    /// One partition, with a value for each column of its key.
    One(Vec<Part>),
    /// The partitions of all combinations of these values.
    Several(Vec<Choice>),
    /// The partition in the JSON document that is bound to this marker.
    Json(usize),
}

/// Why a statement has no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoKeys {
    /// Cassandra refuses it before it writes anything.
    Refused,
    /// Only Cassandra can determine the keys.
    Unknown,
}

type Found<T> = Result<T, NoKeys>;

impl Written {
    /// Unqualified names are in `keyspace`. `None`: the text is not understood in full, so what it writes is unknown.
    /// Writes to other tables are left out.
    pub fn parse(text: &str, keyspace: Option<&str>, schema: &Arc<TableSchema>) -> Option<Self> {
        let mut columns = schema.partition_key.iter();
        if text.len() > TEXT_BYTES_MAX || !columns.all(|column| is_verbatim(&column.cql_type)) {
            return None;
        }
        let parsed = parse_write(text)?;
        let ours = |write: &&Write| might_name(&write.table, keyspace, schema);
        let targets =
            parsed
                .writes
                .iter()
                .filter(ours)
                .map(|write| match Target::find(write, schema) {
                    Ok(target) => Some(target),
                    Err(NoKeys::Refused) => Some(Target::Nothing),
                    Err(NoKeys::Unknown) => None,
                });
        let targets: Vec<Target> = targets.collect::<Option<_>>()?;
        Some(Self {
            targets,
            conditional: parsed.writes.iter().any(|write| write.conditional),
            single: parsed.batch.is_none(),
            markers: parsed.markers,
            schema: schema.clone(),
        })
    }

    /// Whether any statement writes the table. A caller that found the table's name in the text must doubt a `false`.
    pub fn names_table(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The partitions that a request with these values writes, each once; `None`: they are unknown.
    pub fn keys(&self, values: &[(Option<&str>, Value<'_>)]) -> Option<Vec<PartitionKey>> {
        if !are_named(values) && values.len() != self.markers.len() {
            // Cassandra refuses a wrong number of values.
            return Some(Vec::new());
        }
        let bound = Bound::new(&self.markers, values).ok()?;
        let mut keys = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            if target.add_keys(&bound, &self.schema, &mut keys) == Err(NoKeys::Unknown)
                || keys.len() > KEYS_MAX
            {
                return None;
            }
        }
        if keys.len() > 1 {
            keys.sort_unstable();
            keys.dedup();
        }
        Some(keys)
    }

    /// Whether any statement has IF, and so goes through Paxos.
    pub fn is_conditional(&self) -> bool {
        self.conditional
    }

    /// Whether it is one statement, not a batch.
    pub fn is_single(&self) -> bool {
        self.single
    }
}

/// Whether a name may be that of the table. An unqualified one may be in any keyspace if `keyspace` is not known.
fn might_name(name: &Name, keyspace: Option<&str>, schema: &TableSchema) -> bool {
    let keyspace = name.keyspace.as_deref().or(keyspace);
    name.table == schema.table && keyspace.is_none_or(|keyspace| keyspace == schema.keyspace)
}

/// Whether Cassandra stores the bytes that are bound to a single marker as they are. It sorts the elements of sets, for
/// example.
fn is_verbatim(cql_type: &CqlType) -> bool {
    use CqlType::*;
    match cql_type {
        Ascii | BigInt | Blob | Boolean | Date | Decimal | Double | Float | Inet | Int
        | SmallInt | Text | Time | Timestamp | TimeUuid | TinyInt | Uuid | VarInt => true,
        Counter | Duration | List(_) | Set(_) | Map(..) | Tuple(_) | Vector(..) | User(_)
        | Frozen(_) | Other(_) => false,
    }
}

impl Target {
    fn find(write: &Write, schema: &TableSchema) -> Found<Self> {
        match (&write.json, &write.keys) {
            (Some(term), _) => Self::of_json(term, schema),
            (None, Keys::Values(values)) => Self::of_values(values, schema),
            (None, Keys::Relations(relations)) => Self::of_relations(relations, schema),
        }
    }

    fn of_json(term: &Term, schema: &TableSchema) -> Found<Self> {
        match &term.kind {
            TermKind::Marker(index) => Ok(Self::Json(*index)),
            TermKind::Literal(Literal::Text(text)) if !part::is_ambiguous(text) => {
                let values = json::key(text, schema)?;
                Ok(Self::One(values.into_iter().map(Part::Constant).collect()))
            }
            _ => Err(NoKeys::Unknown),
        }
    }

    fn of_values(values: &[(String, Term)], schema: &TableSchema) -> Found<Self> {
        let all_known = values.iter().all(|(name, _)| schema.column(name).is_some());
        let part = |column: &Column| {
            let mut given = values.iter().filter(|(name, _)| *name == column.name);
            let (_, term) = only(given.next(), given.next(), all_known)?;
            Part::find(term, &column.cql_type)
        };
        let parts: Found<_> = schema.partition_key.iter().map(part).collect();
        parts.map(Self::One)
    }

    fn of_relations(relations: &[Relation], schema: &TableSchema) -> Found<Self> {
        let is_known = |name: &String| schema.column(name).is_some();
        let all_known = relations.iter().flat_map(names).all(is_known);
        let choice = |column: &Column| {
            let mut given = relations
                .iter()
                .filter(|relation| names(relation).contains(&column.name));
            let relation = only(given.next(), given.next(), all_known)?;
            Choice::find(relation, &column.cql_type)
        };
        let choices: Found<Vec<Choice>> = schema.partition_key.iter().map(choice).collect();
        let choices = choices?;
        let one = |choice: &Choice| match choice {
            Choice::Of(parts) => <[Part; 1]>::try_from(parts.clone()).ok(),
            Choice::List(_) => None,
        };
        let parts: Option<Vec<[Part; 1]>> = choices.iter().map(one).collect();
        Ok(match parts {
            Some(parts) => Self::One(parts.into_iter().flatten().collect()),
            None => Self::Several(choices),
        })
    }

    fn add_keys<'v>(
        &'v self,
        bound: &Bound<'v>,
        schema: &TableSchema,
        keys: &mut Vec<PartitionKey>,
    ) -> Found<()> {
        match self {
            Self::Nothing => {}
            Self::One(parts) => {
                let components: Found<Vec<&[u8]>> =
                    parts.iter().map(|part| part.value(bound)).collect();
                add(&components?, keys);
            }
            Self::Several(choices) => {
                let columns = choices.iter().zip(&schema.partition_key);
                let columns: Found<Vec<Vec<&[u8]>>> = columns
                    .map(|(choice, column)| choice.values(bound, &column.cql_type))
                    .collect();
                add_combinations(&columns?, keys)?;
            }
            Self::Json(index) => {
                let document = bound.marker(*index).ok_or(NoKeys::Refused)?;
                let document = std::str::from_utf8(document).map_err(|_| NoKeys::Unknown)?;
                let values = json::key(document, schema)?;
                let components: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                add(&components, keys);
            }
        }
        Ok(())
    }
}

/// The one item that gives a column its value. Cassandra refuses a statement with none or more than one. But if there
/// is none and the statement names an unknown column, that may be the new name of this one.
fn only<T>(first: Option<T>, second: Option<T>, all_known: bool) -> Found<T> {
    match (first, second) {
        (Some(only), None) => Ok(only),
        (None, _) if !all_known => Err(NoKeys::Unknown),
        _ => Err(NoKeys::Refused),
    }
}

/// The columns that a relation compares.
fn names(relation: &Relation) -> &[String] {
    match &relation.kind {
        RelationKind::Compare { columns, .. } | RelationKind::In { columns, .. } => match columns {
            Columns::One(name) => std::slice::from_ref(name),
            Columns::Tuple(names) => names,
        },
        // None of these gives a key column its value.
        RelationKind::Other => &[],
    }
}

/// Adds the key with these values. Cassandra refuses a key that is too long.
fn add(components: &[&[u8]], keys: &mut Vec<PartitionKey>) {
    keys.extend(PartitionKey::from_components(components));
}

fn add_combinations(columns: &[Vec<&[u8]>], keys: &mut Vec<PartitionKey>) -> Found<()> {
    let sizes = columns.iter().map(Vec::len);
    let count = sizes.into_iter().try_fold(1, usize::checked_mul);
    let longest = |values: &Vec<&[u8]>| values.iter().map(|value| value.len()).max();
    let longest: usize = columns.iter().filter_map(longest).sum();
    let fits = |count: &usize| *count <= KEYS_MAX && count * longest <= KEYS_BYTES_MAX;
    let count = count.filter(fits).ok_or(NoKeys::Unknown)?;
    let mut components: Vec<&[u8]> = Vec::with_capacity(columns.len());
    for number in 0..count {
        let mut rest = number;
        components.clear();
        for values in columns {
            // Every column has values here; otherwise there would be no combination.
            components.push(values[rest % values.len()]);
            rest /= values.len();
        }
        add(&components, keys);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
