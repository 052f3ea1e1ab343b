//! What a table is: its name and columns, their types, the keys of its partitions, and the order of values. Pure.

pub mod bucket;
mod composite;
pub mod key_text;
pub mod literal;
mod moment;
pub mod names;
pub mod order;
pub mod replication;
pub mod table;
pub mod types;
mod varint;

pub use table::{ColumnKind, ColumnRow};
pub use types::CqlType;

/// A table as `system_schema` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    pub keyspace: String,
    pub table: String,
    pub partition_key: Vec<Column>,
    pub clustering: Vec<ClusteringColumn>,
    /// In the order of their names, as bytes.
    pub statics: Vec<Column>,
    /// In the order of their names, as bytes.
    pub regulars: Vec<Column>,
    /// Columns with an index of any kind.
    pub indexed: Vec<String>,
    /// What a partition's replicas follow from: the keyspace's `replication`.
    pub replication: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// As Cassandra spells it: without quotes, with its capitals.
    pub name: String,
    pub cql_type: CqlType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusteringColumn {
    pub column: Column,
    pub descending: bool,
}
