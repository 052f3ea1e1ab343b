//! What a copy has otherwise than its original. Pure.
//!
//! Names and numbers only: no message and no `Debug` shows a value or a key of the client's.

use std::fmt;

/// The first difference that stayed when both sides were read again.
#[derive(Clone, PartialEq, Eq)]
pub struct Difference {
    pub bucket: usize,
    pub kind: DifferenceKind,
    /// Where it is a matter of one column.
    pub column: Option<String>,
    /// The serialized clustering values of the row.
    pub key: Vec<Box<[u8]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DifferenceKind {
    MissingRow,
    ExtraRow,
    /// The same row to Cassandra, in other bytes.
    Key,
    MissingCell,
    ExtraCell,
    Value,
    WriteTime,
    Expiry,
    /// The row does not live as long when its cells are gone.
    Marker,
    /// Rows come in another order than the original's.
    Order,
    /// A row lies in a bucket whose range it is not in.
    Boundary,
}

impl DifferenceKind {
    fn text(self) -> &'static str {
        match self {
            Self::MissingRow => "a row is missing",
            Self::ExtraRow => "there is a row that the original has not got",
            Self::Key => "a row's key is written in other bytes",
            Self::MissingCell => "a cell is missing",
            Self::ExtraCell => "there is a cell that the original has not got",
            Self::Value => "a value differs",
            Self::WriteTime => "a write time differs",
            Self::Expiry => "an expiry differs",
            Self::Marker => "a row outlives its cells for another time",
            Self::Order => "rows are in another order",
            Self::Boundary => "a row lies outside of its bucket's range",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "bucket {}: {}", self.bucket, self.kind.text())?;
        match &self.column {
            Some(column) => write!(out, " in column {column:?}"),
            None => Ok(()),
        }
    }
}

/// A key is a client's data: only how many values it has is shown.
impl fmt::Debug for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Difference")
            .field("bucket", &self.bucket)
            .field("kind", &self.kind)
            .field("column", &self.column)
            .field("key", &format_args!("{} values", self.key.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_where_and_what_without_the_key() {
        let difference = Difference {
            bucket: 3,
            kind: DifferenceKind::WriteTime,
            column: Some("payload".to_owned()),
            key: vec![Box::from(&b"secret"[..])],
        };
        assert_eq!(
            difference.to_string(),
            "bucket 3: a write time differs in column \"payload\""
        );
        let debug = format!("{difference:?}");
        assert!(debug.contains("1 values") && !debug.contains("secret") && !debug.contains("115"));
    }
}
