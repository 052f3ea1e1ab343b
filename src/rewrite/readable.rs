//! A SELECT that can be answered from buckets, whatever its values are. Made once per text and schema.

use std::sync::Arc;

use super::queried::{Queried, queried};
use super::{Reason, selection};
use crate::schema::{ColumnKind, CqlType, TableSchema};
use crate::statement::select::{
    Columns, InValues, Operator, Relation, RelationKind, Select, parse_select,
};
use crate::statement::term::Term;

#[derive(Debug)]
pub struct Readable {
    pub text: Box<str>,
    pub select: Select,
    pub schema: Arc<TableSchema>,
    /// One for each column of the partition key, in its order.
    pub key: Vec<KeyPart>,
    /// Its restrictions on clustering columns, for choosing buckets.
    pub clustering: Vec<ClusteringRestriction>,
    pub order: Order,
    pub answer: Answer,
    /// Whether it filters rows; if so, buckets are read side by side.
    pub filters: bool,
    /// By what it finds rows, if it does not find all of them.
    pub queried: Option<Queried>,
    /// Whether it may return far less than it reads.
    pub condenses: bool,
}

/// The values that the statement gives to one column of the partition key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    One(Term),
    In(InValues),
}

/// A relation on clustering columns, which are given by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusteringRestriction {
    Compare(Vec<usize>, Operator, Term),
    In(Vec<usize>, InValues),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The table's own order.
    Clustering,
    Reversed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Rows,
    /// One row with these aggregates.
    Aggregates(Vec<Aggregate>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aggregate {
    Count,
    Min(CqlType),
    Max(CqlType),
}

impl Readable {
    pub fn parse(text: &str, schema: &Arc<TableSchema>) -> Result<Self, Reason> {
        let select = parse(text).ok_or(Reason::NotUnderstood)?;
        Self::new(text, select, schema)
    }

    pub fn new(text: &str, select: Select, schema: &Arc<TableSchema>) -> Result<Self, Reason> {
        if select.distinct {
            return Err(Reason::Distinct);
        }
        if select.group_by {
            return Err(Reason::GroupBy);
        }
        if !schema.statics.is_empty() {
            return Err(Reason::StaticColumns);
        }
        let mut sorted = Sorted::default();
        for relation in &select.relations {
            sorted.add(relation, schema)?;
        }
        let key = sorted.key(schema)?;
        if sorted.filters && !select.allow_filtering {
            return Err(Reason::Restriction);
        }
        let order = order(&select, schema)?;
        let answer = selection::answer(&select, schema)?;
        let several = key.iter().any(|part| matches!(part, KeyPart::In(_)));
        if several && !select.order_by.is_empty() {
            return Err(Reason::OrderBy);
        }
        if several && answer != Answer::Rows {
            return Err(Reason::Aggregate);
        }
        Ok(Self {
            queried: queried(&select, schema, (&answer, sorted.filters)),
            condenses: selection::condenses(&select),
            filters: sorted.filters || has_gap(&sorted.clustering),
            text: text.into(),
            select,
            schema: schema.clone(),
            key,
            clustering: sorted.clustering,
            order,
            answer,
        })
    }

    /// The last column of the partition key that has an `IN`. Neighbouring keys mostly differ only there.
    pub(super) fn in_column(&self) -> Option<usize> {
        let is_in = |part: &KeyPart| matches!(part, KeyPart::In(_));
        self.key.iter().rposition(is_in)
    }

    /// Whether a relation restricts a partition key column.
    pub(super) fn is_of_key(&self, relation: &Relation) -> bool {
        match &relation.kind {
            RelationKind::Compare { columns, .. } | RelationKind::In { columns, .. } => {
                matches!(columns, Columns::One(name) if self.schema.partition_index(name).is_some())
            }
            RelationKind::Other => false,
        }
    }
}

/// Texts that are longer, or have more markers, would take longer to parse than to answer.
const TEXT_BYTES_MAX: usize = 64 << 10;
const MARKERS_MAX: usize = 1_000;

pub(super) fn parse(text: &str) -> Option<Select> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    parse_select(text).filter(|select| select.markers.len() <= MARKERS_MAX)
}

/// The relations, sorted by what they restrict.
#[derive(Default)]
struct Sorted {
    key: Vec<(usize, KeyPart)>,
    clustering: Vec<ClusteringRestriction>,
    filters: bool,
}

impl Sorted {
    fn add(&mut self, relation: &Relation, schema: &TableSchema) -> Result<(), Reason> {
        let columns = match &relation.kind {
            RelationKind::Compare { columns, .. } | RelationKind::In { columns, .. } => columns,
            RelationKind::Other => return Err(Reason::Restriction),
        };
        let names = match columns {
            Columns::One(name) => std::slice::from_ref(name),
            Columns::Tuple(names) => names.as_slice(),
        };
        let mut kinds = Vec::new();
        for name in names {
            let (_, kind) = schema.column(name).ok_or(Reason::UnknownColumn)?;
            if kind != ColumnKind::PartitionKey && schema.indexed.contains(name) {
                return Err(Reason::Indexed);
            }
            kinds.push(kind);
        }
        let places: Option<Vec<usize>> = names
            .iter()
            .map(|name| schema.clustering_index(name))
            .collect();
        match (columns, kinds.as_slice(), places) {
            (Columns::One(name), [ColumnKind::PartitionKey], _) => {
                let place = schema.partition_index(name).ok_or(Reason::UnknownColumn)?;
                self.key.push((place, key_part(relation)?));
            }
            // It is hard to tell whether a marker there is a value or a tuple of one.
            (Columns::Tuple(names), ..) if names.len() < 2 => return Err(Reason::Restriction),
            (_, _, Some(places)) => self.clustering.push(restriction(relation, places)?),
            (Columns::One(_), [ColumnKind::Regular], _) => self.filters = true,
            _ => return Err(Reason::Restriction),
        }
        Ok(())
    }

    /// The parts of the key in order. Every column must be restricted exactly once.
    fn key(&mut self, schema: &TableSchema) -> Result<Vec<KeyPart>, Reason> {
        let mut key = std::mem::take(&mut self.key);
        key.sort_by_key(|(place, _)| *place);
        let places = key.iter().map(|(place, _)| *place);
        if !places.eq(0..schema.partition_key.len()) {
            return Err(Reason::PartitionKey);
        }
        Ok(key.into_iter().map(|(_, part)| part).collect())
    }
}

fn key_part(relation: &Relation) -> Result<KeyPart, Reason> {
    match &relation.kind {
        RelationKind::Compare {
            operator: Operator::Equal,
            term,
            ..
        } => Ok(KeyPart::One(term.clone())),
        RelationKind::In { values, .. } => Ok(KeyPart::In(values.clone())),
        _ => Err(Reason::PartitionKey),
    }
}

fn restriction(relation: &Relation, places: Vec<usize>) -> Result<ClusteringRestriction, Reason> {
    match &relation.kind {
        RelationKind::Compare { operator, term, .. } => Ok(ClusteringRestriction::Compare(
            places,
            *operator,
            term.clone(),
        )),
        RelationKind::In { values, .. } => Ok(ClusteringRestriction::In(places, values.clone())),
        RelationKind::Other => Err(Reason::Restriction),
    }
}

/// Whether a clustering column is restricted although one before it is not, or not to single values.
fn has_gap(clustering: &[ClusteringRestriction]) -> bool {
    let single = |place: usize| {
        clustering.iter().any(|restriction| match restriction {
            ClusteringRestriction::Compare(places, Operator::Equal, _)
            | ClusteringRestriction::In(places, _) => places.contains(&place),
            ClusteringRestriction::Compare(..) => false,
        })
    };
    clustering.iter().any(|restriction| {
        let (ClusteringRestriction::Compare(places, ..) | ClusteringRestriction::In(places, _)) =
            restriction;
        let first = places.first().copied().unwrap_or(0);
        (0..first).any(|place| !single(place))
    })
}

/// ORDER BY must name clustering columns, all in the table's order or all in reverse. Cassandra decides whether it may
/// leave some out: the split table has the same clustering columns, and refuses what the original would.
fn order(select: &Select, schema: &TableSchema) -> Result<Order, Reason> {
    let mut found = None;
    for by in &select.order_by {
        let place = schema.clustering_index(&by.column).ok_or(Reason::OrderBy)?;
        let order = if by.descending == schema.clustering[place].descending {
            Order::Clustering
        } else {
            Order::Reversed
        };
        if found.is_some_and(|found| found != order) {
            return Err(Reason::OrderBy);
        }
        found = Some(order);
    }
    Ok(found.unwrap_or(Order::Clustering))
}
