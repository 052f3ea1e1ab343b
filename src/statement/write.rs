//! INSERT, UPDATE, DELETE and BATCH, understood well enough to find the keys they touch, or not at all.

use super::parser::Parser;
use super::select::Relation;
use super::term::{Marker, Term};
use super::touches::Name;

#[cfg(test)]
mod tests;

/// A text that writes: one statement, or a batch of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writes {
    pub batch: Option<Batch>,
    pub writes: Vec<Write>,
    /// All markers of the text, in order.
    pub markers: Vec<Marker>,
}

/// The part of a batch before its statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub kind: BatchKind,
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// One statement. Its markers are numbered across the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub kind: WriteKind,
    pub table: Name,
    pub keys: Keys,
    /// The document of an INSERT JSON, which then contains the keys: a text or a marker.
    pub json: Option<Term>,
    /// Whether it has an IF clause.
    pub conditional: bool,
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
    /// Columns that are set, each as often as it is set. For an INSERT, all columns that it names, including keys.
    pub assigned: Vec<String>,
    /// Columns that a DELETE names. If there are none, it deletes rows.
    pub deleted: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    Insert,
    Update,
    Delete,
}

/// Where to find the values of the key columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// INSERT: all columns with their values, including those that are not keys.
    Values(Vec<(String, Term)>),
    /// UPDATE or DELETE: the relations of the WHERE clause.
    Relations(Vec<Relation>),
}

/// `None`: not one of these statements, or not understood in full.
pub fn parse_write(text: &str) -> Option<Writes> {
    Parser::new(text)?.writes()
}
