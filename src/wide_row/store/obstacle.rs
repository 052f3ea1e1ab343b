//! Why a table's partitions cannot be copied exactly, in words for people.

use super::{Store, StoreError, not_understood};
use crate::schema::names::TableName;
use crate::schema::{CqlType, TableSchema};

const VIEW: &str =
    "SELECT view_name FROM system_schema.views WHERE keyspace_name = ? AND view_name = ?";
const VIEWS: &str = "SELECT base_table_name FROM system_schema.views WHERE keyspace_name = ?";
const TYPES: &str =
    "SELECT type FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";
/// The major version from which the write times of a collection's elements can be read.
const ELEMENTS_SINCE: u32 = 5;

impl Store {
    /// Why the table's partitions cannot be copied; `None` if they can. Reads the cluster's present schema.
    pub async fn obstacle(&self, table: &TableName) -> Result<Option<String>, StoreError> {
        let names = (table.keyspace.as_str(), table.table.as_str());
        let view: Vec<(String,)> = self.schema_rows(VIEW, names).await?;
        if !view.is_empty() {
            let text = "it is a materialized view, which changes without a write to it";
            return Ok(Some(text.to_owned()));
        }
        let described = self.describe(table).await?;
        if described.table_id.is_none() {
            return Ok(Some("it does not exist".to_owned()));
        }
        if !self.masked(names).await?.is_empty() {
            let text = "it has masked columns, which not every role sees alike";
            return Ok(Some(text.to_owned()));
        }
        let result = self.session.query_unpaged(VIEWS, (names.0,)).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let mut bases = rows.rows::<(String,)>().map_err(not_understood)?;
        if bases.any(|base| base.is_ok_and(|(base,)| base == table.table)) {
            return Ok(Some("it has materialized views".to_owned()));
        }
        match described.schema {
            Some(schema) => Ok(of_columns(&schema, self.release_major().await?)),
            // Counter tables have no schema here either, because of their flags.
            None => {
                let types: Vec<(String,)> = self.schema_rows(TYPES, names).await?;
                let counters = types.iter().any(|(cql_type,)| cql_type == "counter");
                let kind = if counters {
                    "counters"
                } else {
                    "COMPACT STORAGE"
                };
                Ok(Some(format!("it has {kind}")))
            }
        }
    }

    /// The lowest major version of all nodes; 0 if one is not known.
    async fn release_major(&self) -> Result<u32, StoreError> {
        let mut oldest = u32::MAX;
        for text in [
            "SELECT release_version FROM system.local",
            "SELECT release_version FROM system.peers_v2",
        ] {
            let result = self.session.query_unpaged(text, ()).await?;
            let rows = result.into_rows_result().map_err(not_understood)?;
            let rows = rows.rows::<(Option<String>,)>().map_err(not_understood)?;
            for (version,) in rows.flatten() {
                let major = version.as_deref().and_then(|text| text.split('.').next());
                oldest = oldest.min(major.and_then(|text| text.parse().ok()).unwrap_or(0));
            }
        }
        Ok(oldest)
    }
}

fn of_columns(schema: &TableSchema, major: u32) -> Option<String> {
    if schema.clustering.is_empty() {
        return Some("its partitions have one row each".to_owned());
    }
    if !schema.statics.is_empty() {
        return Some("it has static columns, which belong to no row".to_owned());
    }
    for column in &schema.clustering {
        let cql_type = &column.column.cql_type;
        if !has_order(cql_type) {
            let name = &column.column.name;
            return Some(format!(
                "the order of clustering column {name} is not known"
            ));
        }
    }
    schema.regulars.iter().find_map(|column| {
        let why = match &column.cql_type {
            CqlType::Counter => "is a counter, whose cells cannot be written with a given value",
            CqlType::List(_) => "is a list that is not frozen, whose cells have hidden ids",
            CqlType::User(_) => "is a user-defined type that is not frozen",
            CqlType::Other(_) => "has a type that this version does not know",
            CqlType::Set(_) | CqlType::Map(..) if major < ELEMENTS_SINCE => {
                "is a collection that is not frozen; its elements' write times can only be read from cassandra 5.0 on"
            }
            _ => return None,
        };
        Some(format!("column {} {why}", column.name))
    })
}

/// Whether the order of the type's values is known, and that of everything in them.
fn has_order(cql_type: &CqlType) -> bool {
    match cql_type.unfrozen() {
        CqlType::Counter | CqlType::Duration | CqlType::User(_) | CqlType::Other(_) => false,
        CqlType::List(inner) | CqlType::Set(inner) | CqlType::Vector(inner, _) => has_order(inner),
        CqlType::Map(key, value) => has_order(key) && has_order(value),
        CqlType::Tuple(parts) => parts.iter().all(has_order),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ColumnRow;

    fn schema(columns: &[(&str, &str, &str)]) -> TableSchema {
        let row = |(position, (name, kind, cql_type)): (usize, &(&str, &str, &str))| ColumnRow {
            name: (*name).into(),
            kind: (*kind).into(),
            position: match *kind {
                "partition_key" => 0,
                "clustering" => position as i32 - 1,
                _ => -1,
            },
            clustering_order: if *kind == "clustering" { "asc" } else { "none" }.into(),
            cql_type: (*cql_type).into(),
        };
        let rows = columns.iter().enumerate().map(row).collect();
        TableSchema::from_rows("ks", "t", rows, Vec::new(), Vec::new()).expect("a table")
    }

    #[test]
    fn each_obstacle_has_its_reason() {
        let key = ("k", "partition_key", "int");
        let row = ("c", "clustering", "timestamp");
        let cases = [
            (vec![key, row, ("v", "regular", "text")], 4, None),
            (
                vec![key, row, ("v", "regular", "frozen<list<int>>")],
                4,
                None,
            ),
            (vec![key, row, ("v", "regular", "map<int, int>")], 5, None),
            (
                vec![key, row, ("v", "regular", "map<int, int>")],
                4,
                Some("collection"),
            ),
            (
                vec![key, row, ("v", "regular", "list<int>")],
                5,
                Some("list"),
            ),
            (
                vec![key, row, ("v", "regular", "counter")],
                5,
                Some("counter"),
            ),
            (
                vec![key, row, ("v", "regular", "address")],
                5,
                Some("user-defined"),
            ),
            (vec![key, row, ("v", "static", "int")], 5, Some("static")),
            (vec![key, ("v", "regular", "int")], 5, Some("one row")),
            (
                vec![key, ("c", "clustering", "frozen<address>")],
                5,
                Some("order"),
            ),
            (
                vec![
                    key,
                    ("c", "clustering", "frozen<tuple<int, frozen<address>>>"),
                ],
                5,
                Some("order"),
            ),
            (vec![key, ("c", "clustering", "uuid")], 5, None),
        ];
        for (columns, major, expected) in cases {
            let found = of_columns(&schema(&columns), major);
            match expected {
                None => assert_eq!(found, None, "{columns:?}"),
                Some(word) => assert!(found.is_some_and(|text| text.contains(word)), "{columns:?}"),
            }
        }
    }
}
