//! Terms of CQL: what stands on the right of a relation, in a limit, or among selectors.

use std::ops::Range;

/// A term and where it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub span: Range<usize>,
    pub kind: TermKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermKind {
    /// The number of the marker among all of the text, from 0, in the order they stand there.
    Marker(usize),
    Literal(Literal),
    /// `(a, b)`.
    Tuple(Vec<Term>),
    /// Collections, function calls, type hints, arithmetic: understood as a term, and its value is Cassandra's to compute.
    Other,
}

/// A constant, as it is written; which bytes it means depends on the type that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    Null,
    Boolean(bool),
    /// Digits, perhaps behind a sign.
    Integer(String),
    /// With a fraction or an exponent; `NaN` and `Infinity` too, perhaps behind a sign.
    Float(String),
    /// Without its quotes, doubled quotes undone.
    Text(String),
    Uuid([u8; 16]),
    Blob(Vec<u8>),
    /// As it is written.
    Duration(String),
}

/// `?` or `:name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub span: Range<usize>,
    /// Folded as Cassandra does.
    pub name: Option<String>,
}

/// The bytes of pairs of hexadecimal digits, whatever dashes are between them.
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
