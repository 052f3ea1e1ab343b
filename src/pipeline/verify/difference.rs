//! How a copy differs from its original. Pure.
//!
//! It shows names and numbers only: no message and no `Debug` contains a value or a key of a client. Only
//! [`Difference::first_row`] names the row. It is for `narrows verify` and for the control keyspace, which holds keys
//! anyway.

use std::fmt;

use crate::schema::{ClusteringColumn, CqlType};

/// Number of bytes of a value that are shown; longer ones are cut.
const SHOWN_BYTES_MAX: usize = 64;

/// The first difference that persisted when both sides were read again.
#[derive(Clone, PartialEq, Eq)]
pub struct Difference {
    pub bucket: usize,
    pub kind: DifferenceKind,
    /// The column, if the difference is in one.
    pub column: Option<String>,
    /// The serialized clustering values of the row.
    pub key: Vec<Box<[u8]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DifferenceKind {
    MissingRow,
    ExtraRow,
    /// The keys are equal to Cassandra, but have different bytes.
    Key,
    MissingCell,
    ExtraCell,
    Value,
    WriteTime,
    Expiry,
    /// The row lives for a different time after its cells are gone.
    Marker,
    /// Rows are not in the clustering order of the original.
    Order,
    /// A row lies in a bucket whose range does not include it.
    Boundary,
}

impl DifferenceKind {
    fn text(self) -> &'static str {
        match self {
            Self::MissingRow => "a row is missing",
            Self::ExtraRow => "there is a row that the original does not have",
            Self::Key => "a row's key has different bytes",
            Self::MissingCell => "a cell is missing",
            Self::ExtraCell => "there is a cell that the original does not have",
            Self::Value => "a value differs",
            Self::WriteTime => "a write time differs",
            Self::Expiry => "an expiry differs",
            Self::Marker => "a row outlives its cells for a different time",
            Self::Order => "rows are in a different order",
            Self::Boundary => "a row lies outside its bucket's range",
        }
    }
}

impl Difference {
    /// The clustering key as text, such as `ts = 17`. Only `int`, `bigint` and `timestamp` are shown as numbers, all
    /// others as hex. Not for logs.
    pub fn first_row(&self, clustering: &[ClusteringColumn]) -> String {
        let each = clustering.iter().zip(&self.key);
        let each = each.map(|(clustering, value)| {
            let column = &clustering.column;
            format!("{} = {}", column.name, shown(value, &column.cql_type))
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

fn shown(value: &[u8], cql_type: &CqlType) -> String {
    let number = match cql_type {
        CqlType::Int => value.try_into().map(i32::from_be_bytes).map(i64::from),
        CqlType::BigInt | CqlType::Timestamp => value.try_into().map(i64::from_be_bytes),
        _ => return hex(value),
    };
    number.map_or_else(|_| hex(value), |number| number.to_string())
}

fn hex(value: &[u8]) -> String {
    let bytes = value.iter().take(SHOWN_BYTES_MAX);
    let shown = bytes.fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    match value.len() > SHOWN_BYTES_MAX {
        true => shown + "…",
        false => shown,
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

/// A key is a client's data, so only the number of its values is shown.
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

    #[test]
    fn names_the_first_row_where_keys_are_kept() {
        let column = |name: &str, cql_type| ClusteringColumn {
            column: crate::schema::Column {
                name: name.to_owned(),
                cql_type: CqlType::parse(cql_type),
            },
            descending: false,
        };
        let clustering = [
            column("ts", "timestamp"),
            column("part", "int"),
            column("item", "text"),
        ];
        let difference = Difference {
            bucket: 0,
            kind: DifferenceKind::MissingRow,
            column: None,
            key: vec![
                Box::from(17_i64.to_be_bytes()),
                Box::from((-2_i32).to_be_bytes()),
                Box::from(&b"ab"[..]),
            ],
        };
        assert_eq!(
            difference.first_row(&clustering),
            "ts = 17, part = -2, item = 0x6162"
        );
        let long = Difference {
            key: vec![vec![7; 100].into()],
            ..difference
        };
        let shown = long.first_row(&clustering);
        assert!(shown.starts_with("ts = 0x0707") && shown.ends_with('…') && shown.len() < 150);
    }
}
