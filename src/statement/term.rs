//! CQL terms, which occur on the right of a relation, in a limit, and among selectors.

use std::ops::Range;

/// A term and its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub span: Range<usize>,
    pub kind: TermKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermKind {
    /// Index of the marker among all markers of the text, from 0.
    Marker(usize),
    Literal(Literal),
    /// `(a, b)`.
    Tuple(Vec<Term>),
    /// A collection, function call, type hint or arithmetic: recognised as a term, but only Cassandra can compute it.
    Other,
}

/// A constant as written. The bytes that it means depend on the type that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    Null,
    Boolean(bool),
    /// Digits, perhaps with a sign.
    Integer(String),
    /// A number with a fraction or an exponent, `NaN` or `Infinity`, perhaps with a sign.
    Float(String),
    /// Without its quotes; doubled quotes inside are replaced by single ones.
    Text(String),
    Uuid([u8; 16]),
    Blob(Vec<u8>),
    /// As written.
    Duration(String),
}

/// `?` or `:name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub span: Range<usize>,
    /// Folded as Cassandra folds it.
    pub name: Option<String>,
}

/// Decodes pairs of hexadecimal digits, ignoring dashes.
pub(crate) fn hex(source: &str) -> Option<Vec<u8>> {
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = source.chars().filter(|c| *c != '-').map(digit).collect();
    let digits = digits?;
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    });
    pairs.collect()
}
