//! INSERT, UPDATE, DELETE and BATCH, understood as far as the keys they touch, or not at all.

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
    /// All of the text, in the order they stand there.
    pub markers: Vec<Marker>,
}

/// What a batch says before its statements.
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

/// One statement. The numbers of its markers are those of the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub kind: WriteKind,
    pub table: Name,
    pub keys: Keys,
    /// What stands behind JSON, a text or a marker. The keys are in there then.
    pub json: Option<Term>,
    /// Behind IF.
    pub conditional: bool,
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
    /// Columns that are set, each as often as it is: of an INSERT all it names, its keys too.
    pub assigned: Vec<String>,
    /// Columns that DELETE names. None: it deletes rows.
    pub deleted: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    Insert,
    Update,
    Delete,
}

/// Where the values of key columns are to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// Of an INSERT: columns with their values, those that are no keys too.
    Values(Vec<(String, Term)>),
    /// Of an UPDATE or a DELETE: what stands behind WHERE.
    Relations(Vec<Relation>),
}

/// `None`: none of these, or not understood in full.
pub fn parse_write(text: &str) -> Option<Writes> {
    Parser::new(text)?.writes()
}
