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
    /// Sorted by the bytes of their names.
    pub statics: Vec<Column>,
    /// Sorted by the bytes of their names.
    pub regulars: Vec<Column>,
    /// Columns with an index of any kind.
    pub indexed: Vec<String>,
    /// The keyspace's `replication`, which determines the replicas of a partition.
    pub replication: Vec<(String, String)>,
    /// Whether a read of several replicas brings them to the same state (`read_repair = 'BLOCKING'`).
    pub is_repaired_by_reads: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// As Cassandra spells it: without quotes, in its own upper and lower case.
    pub name: String,
    pub cql_type: CqlType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusteringColumn {
    pub column: Column,
    pub descending: bool,
}
