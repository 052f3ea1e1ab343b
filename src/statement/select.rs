//! SELECT, understood exactly or not at all.

use std::ops::Range;

use super::parser::Parser;
use super::term::{Marker, Term};
use super::touches::Name;

#[cfg(test)]
mod tests;

/// A SELECT. Spans are byte ranges of its text, so that a rewrite can splice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    pub json: bool,
    pub distinct: bool,
    pub selection: Selection,
    /// Span of the select list, without SELECT, DISTINCT and JSON.
    pub selection_span: Range<usize>,
    pub table: Name,
    /// Span of the table's name with its keyspace.
    pub table_span: Range<usize>,
    /// The relations of the WHERE clause, joined by AND.
    pub relations: Vec<Relation>,
    pub group_by: bool,
    pub order_by: Vec<OrderBy>,
    /// Span of the whole ORDER BY clause.
    pub order_by_span: Option<Range<usize>>,
    pub per_partition_limit: Option<Term>,
    pub limit: Option<Term>,
    pub allow_filtering: bool,
    /// All markers of the text, in order.
    pub markers: Vec<Marker>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// `*`
    All,
    Items(Vec<Item>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Includes the alias.
    pub span: Range<usize>,
    pub selector: Selector,
    pub alias: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    Column(String),
    /// `count(*)` and `count(1)`.
    CountRows,
    /// A function call, including writetime, maxwritetime and ttl.
    Call {
        keyspace: Option<String>,
        /// Folded as Cassandra folds it.
        name: String,
        arguments: Vec<Selector>,
    },
    /// `CAST(a AS type)`.
    Cast(Box<Selector>),
    /// A field, an element or a slice of something.
    Part(Box<Selector>),
    /// A literal or a marker.
    Term(Term),
    /// Arithmetic, a tuple, a collection or a type hint, with these parts.
    Composed(Vec<Selector>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Includes the brackets, if the whole relation is in brackets.
    pub span: Range<usize>,
    pub kind: RelationKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelationKind {
    /// `a = 1`, `(a, b) > (1, 2)`.
    Compare {
        columns: Columns,
        operator: Operator,
        term: Term,
    },
    /// `a IN (1, 2)`, `a IN ?`, `(a, b) IN ((1, 2), ?)`.
    In { columns: Columns, values: InValues },
    /// TOKEN, CONTAINS, LIKE, IS NOT NULL, `!=`, elements of maps, `expr()` and everything else.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    One(String),
    /// Columns in brackets, even if there is only one.
    Tuple(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InValues {
    /// One marker for the whole list, by its index among all markers of the text.
    Marker(usize),
    List(Vec<Term>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    pub column: String,
    pub descending: bool,
}

/// `None`: not a SELECT, or one that is not understood in full.
pub fn parse_select(text: &str) -> Option<Select> {
    Parser::new(text)?.select()
}
