//! Which partitions of a table a text writes, whatever kind of write it is. Made once for a text and a schema.
//!
//! It must never leave out a key that could be written; one too many does no harm. A statement that Cassandra refuses before
//! it writes anything has no keys; that it does refuse is proven in `tests/integration/written.rs`. Whatever is not proven is
//! unknown, and the whole answer with it.

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

/// More partitions than this in one request are not listed.
pub const KEYS_MAX: usize = 10_000;
/// All keys of one `IN` together; beyond, they are built for nobody.
const KEYS_BYTES_MAX: usize = 4 << 20;
/// What Cassandra takes in one frame, if nobody told it otherwise.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// What a text writes to one table, for the schema that the table has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    markers: Vec<Marker>,
    /// Of the statements for this table.
    targets: Vec<Target>,
    schema: Arc<TableSchema>,
    conditional: bool,
    single: bool,
}

/// The partitions that one statement writes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// None: Cassandra refuses it.
    Nothing,
    /// One, with a value for each column of its key.
    One(Vec<Part>),
    /// Those of all combinations.
    Several(Vec<Choice>),
    /// The one in the document that is bound to this marker.
    Json(usize),
}

/// Why a statement has no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoKeys {
    /// Cassandra refuses it before it writes anything.
    Refused,
    /// Only Cassandra can tell them.
    Unknown,
}

type Found<T> = Result<T, NoKeys>;

impl Written {
    /// `keyspace`: where unqualified names are. `None`: not understood in full, so whatever it writes is unknown. What the
    /// text writes to other tables is left out.
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

    /// Whether any statement of it is for the table. None is a doubt to whoever has found the table's name in the text.
    pub fn names_table(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The partitions that a request with these values writes, each once; `None`: they cannot be told.
    pub fn keys(&self, values: &[(Option<&str>, Value<'_>)]) -> Option<Vec<PartitionKey>> {
        if !are_named(values) && values.len() != self.markers.len() {
            // Cassandra refuses that.
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

    /// Some statement has IF: it goes through Paxos.
    pub fn is_conditional(&self) -> bool {
        self.conditional
    }

    /// It is one statement, not a batch.
    pub fn is_single(&self) -> bool {
        self.single
    }
}

/// Whether a name is that of the table, as far as is known where unqualified names are.
fn might_name(name: &Name, keyspace: Option<&str>, schema: &TableSchema) -> bool {
    let keyspace = name.keyspace.as_deref().or(keyspace);
    name.table == schema.table && keyspace.is_none_or(|keyspace| keyspace == schema.keyspace)
}

/// Whether Cassandra stores the bytes that are bound to a single marker as they are. It sorts what is in collections, for one.
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

/// What gives a column its value. Cassandra refuses more than one, and none, too, unless what is named is not known: then
/// one of the names may be the column's new one.
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
        // Nothing among these gives a key its value.
        RelationKind::Other => &[],
    }
}

/// Adds the key of these values. Cassandra refuses one that is too long to be a key.
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
            // There are values in every column, or there is no combination.
            components.push(values[rest % values.len()]);
            rest /= values.len();
        }
        add(&components, keys);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
