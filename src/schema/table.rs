//! Makes a table's schema from the rows that describe it, and finds columns in it.

use super::{ClusteringColumn, Column, CqlType, TableSchema};

/// A row of `system_schema.columns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRow {
    pub name: String,
    /// `partition_key`, `clustering`, `static` or `regular`.
    pub kind: String,
    /// Position in its part of the key, from 0; -1 outside the key.
    pub position: i32,
    /// `asc`, `desc` or `none`.
    pub clustering_order: String,
    pub cql_type: String,
}

/// The role of a column in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

impl ColumnKind {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "partition_key" => Self::PartitionKey,
            "clustering" => Self::Clustering,
            "static" => Self::Static,
            "regular" => Self::Regular,
            _ => return None,
        })
    }
}

impl TableSchema {
    /// The table that these rows describe, in any order. `None` if they do not describe a table.
    pub fn from_rows(
        keyspace: &str,
        table: &str,
        columns: Vec<ColumnRow>,
        indexed: Vec<String>,
        replication: Vec<(String, String)>,
    ) -> Option<Self> {
        let mut schema = Self {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            partition_key: Vec::new(),
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: Vec::new(),
            indexed,
            replication,
            // Cassandra's default.
            is_repaired_by_reads: true,
        };
        let mut columns = columns;
        columns.sort_by(|a, b| (a.position, &a.name).cmp(&(b.position, &b.name)));
        for row in columns {
            schema.add(row)?;
        }
        (!schema.partition_key.is_empty()).then_some(schema)
    }

    fn add(&mut self, row: ColumnRow) -> Option<()> {
        let kind = ColumnKind::parse(&row.kind)?;
        let expected = match kind {
            ColumnKind::PartitionKey => self.partition_key.len(),
            ColumnKind::Clustering => self.clustering.len(),
            ColumnKind::Static | ColumnKind::Regular => usize::MAX,
        };
        // -1 becomes a position that no key column has.
        let position = usize::try_from(row.position).unwrap_or(usize::MAX);
        if position != expected || self.column(&row.name).is_some() {
            return None;
        }
        let column = Column {
            name: row.name,
            cql_type: CqlType::parse(&row.cql_type),
        };
        match kind {
            ColumnKind::PartitionKey => self.partition_key.push(column),
            ColumnKind::Clustering => self.clustering.push(ClusteringColumn {
                column,
                descending: is_descending(&row.clustering_order)?,
            }),
            ColumnKind::Static => self.statics.push(column),
            ColumnKind::Regular => self.regulars.push(column),
        }
        Some(())
    }

    /// Whether `SELECT *` returns its columns in the order of [`Self::all_columns`]. Cassandra sorts non-ASCII names by
    /// rules of its own, which differ between columns with one cell and with many.
    pub fn is_star_ordered(&self) -> bool {
        let mut names = self.statics.iter().chain(&self.regulars);
        names.all(|column| column.name.is_ascii())
    }

    /// All columns in the order in which `SELECT *` returns them; see [`Self::is_star_ordered`].
    pub fn all_columns(&self) -> impl Iterator<Item = (&Column, ColumnKind)> {
        let key = self.partition_key.iter();
        let clustering = self.clustering.iter().map(|column| &column.column);
        key.map(|column| (column, ColumnKind::PartitionKey))
            .chain(clustering.map(|column| (column, ColumnKind::Clustering)))
            .chain(
                self.statics
                    .iter()
                    .map(|column| (column, ColumnKind::Static)),
            )
            .chain(
                self.regulars
                    .iter()
                    .map(|column| (column, ColumnKind::Regular)),
            )
    }

    pub fn column(&self, name: &str) -> Option<(&Column, ColumnKind)> {
        self.all_columns().find(|(column, _)| column.name == name)
    }

    /// The index of a clustering column.
    pub fn clustering_index(&self, name: &str) -> Option<usize> {
        self.clustering
            .iter()
            .position(|clustering| clustering.column.name == name)
    }

    /// The index of a partition key column.
    pub fn partition_index(&self, name: &str) -> Option<usize> {
        self.partition_key
            .iter()
            .position(|column| column.name == name)
    }
}

fn is_descending(order: &str) -> Option<bool> {
    match order {
        "asc" => Some(false),
        "desc" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, kind: &str, position: i32, order: &str) -> ColumnRow {
        ColumnRow {
            name: name.into(),
            kind: kind.into(),
            position,
            clustering_order: order.into(),
            cql_type: "int".into(),
        }
    }

    fn whole() -> Vec<ColumnRow> {
        vec![
            row("b", "clustering", 1, "desc"),
            row("z", "regular", -1, "none"),
            row("Z", "regular", -1, "none"),
            row("k2", "partition_key", 0, "none"),
            row("k1", "partition_key", 1, "none"),
            row("s", "static", -1, "none"),
            row("c", "clustering", 0, "asc"),
            row("a", "regular", -1, "none"),
        ]
    }

    fn schema(rows: Vec<ColumnRow>) -> Option<TableSchema> {
        TableSchema::from_rows("ks", "t", rows, Vec::new(), Vec::new())
    }

    #[test]
    fn columns_are_found_and_in_the_order_of_a_star() {
        let schema = schema(whole()).expect("a table");
        let names: Vec<&str> = schema
            .all_columns()
            .map(|(column, _)| column.name.as_str())
            .collect();
        assert_eq!(names, ["k2", "k1", "c", "b", "s", "Z", "a", "z"]);
        assert!(schema.is_star_ordered());
        assert_eq!(schema.partition_index("k1"), Some(1));
        assert_eq!(schema.partition_index("c"), None);
        assert_eq!(schema.clustering_index("b"), Some(1));
        assert_eq!(schema.clustering_index("k1"), None);
        assert!(schema.clustering[1].descending && !schema.clustering[0].descending);
        let kind = |name| schema.column(name).map(|(_, kind)| kind);
        assert_eq!(kind("s"), Some(ColumnKind::Static));
        assert_eq!(kind("Z"), Some(ColumnKind::Regular));
        assert_eq!(kind("K1"), None);
    }

    #[test]
    fn names_outside_of_ascii_have_no_known_order() {
        let mut rows = whole();
        rows.push(row("é", "regular", -1, "none"));
        assert!(!schema(rows).expect("a table").is_star_ordered());
    }

    #[test]
    fn rows_that_make_no_table_are_refused() {
        type Break = fn(&mut Vec<ColumnRow>);
        let broken: [(&str, Break); 8] = [
            ("no rows", Vec::clear),
            ("no key", |rows| {
                rows.retain(|row| row.kind != "partition_key")
            }),
            ("a gap in the key", |rows| {
                rows.retain(|row| row.name != "k2")
            }),
            ("a gap in the clustering", |rows| {
                rows.retain(|row| row.name != "c")
            }),
            ("a name twice", |rows| {
                rows.push(row("k1", "regular", -1, "none"))
            }),
            ("a place twice", |rows| {
                rows.push(row("x", "clustering", 1, "asc"))
            }),
            ("a kind unknown", |rows| {
                rows.push(row("x", "magic", -1, "none"))
            }),
            ("no direction", |rows| {
                rows.push(row("x", "clustering", 2, "none"))
            }),
        ];
        for (what, change) in broken {
            let mut rows = whole();
            change(&mut rows);
            assert_eq!(schema(rows), None, "{what}");
        }
    }
}
