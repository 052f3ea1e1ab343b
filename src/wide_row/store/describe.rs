//! What `system_schema` says about a watched table.

use std::collections::HashMap;
use std::sync::Arc;

use scylla::deserialize::row::DeserializeRow;
use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::{Store, StoreError, not_understood};
use crate::filter;
use crate::schema::names::TableName;
use crate::schema::{ColumnRow, TableSchema};

const TABLE: &str = "SELECT id, flags, read_repair FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
/// Cassandra returns them in the order of their names.
const COLUMNS: &str = "SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns \
    WHERE keyspace_name = ? AND table_name = ?";
const INDEXES: &str =
    "SELECT options FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = ?";
/// A column that was dropped and added again looks unchanged, but has lost its values.
const DROPPED: &str = "SELECT column_name, dropped_time FROM system_schema.dropped_columns \
    WHERE keyspace_name = ? AND table_name = ?";
/// Exists since 5.0. A split table has no masks, so a table with masks is never read from one.
const MASKS_TABLE: (&str, &str) = ("system_schema", "column_masks");
const TABLE_ID: &str =
    "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
const MASKS: &str =
    "SELECT column_name FROM system_schema.column_masks WHERE keyspace_name = ? AND table_name = ?";
const KEYSPACE: &str = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";

/// What the schema says about a table; all `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Described {
    pub table_id: Option<Uuid>,
    /// A fingerprint of its columns, dropped columns and masks.
    pub columns: Option<i64>,
    /// `None` also for a table with counters, compact storage or masks, and for one that this version cannot interpret.
    pub schema: Option<Arc<TableSchema>>,
}

impl Store {
    pub async fn describe(&self, table: &TableName) -> Result<Described, StoreError> {
        let names = (table.keyspace.as_str(), table.table.as_str());
        let result = self.session.query_unpaged(TABLE, names).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        type Table = (Uuid, Option<Vec<String>>, Option<String>);
        let found = rows.maybe_first_row::<Table>().map_err(not_understood)?;
        let Some((table_id, flags, read_repair)) = found else {
            return Ok(Described::default());
        };
        // Tables with other flags, as for compact storage or counters, are not what their columns say.
        let is_plain = flags.is_some_and(|flags| flags == ["compound"]);
        let columns: Vec<Column> = self.schema_rows(COLUMNS, names).await?;
        let dropped: Vec<(String, CqlTimestamp)> = self.schema_rows(DROPPED, names).await?;
        let masked = self.masked(names).await?;
        let mut text = String::new();
        for column in &columns {
            text.push_str(&format!("{column:?}"));
        }
        for (name, time) in &dropped {
            text.push_str(&format!("{name:?}{}", time.0));
        }
        for name in &masked {
            text.push_str(&format!("{name:?}"));
        }
        let indexed = self.indexed(names, &columns).await?;
        let replication = self.replication(&table.keyspace).await?;
        let columns = columns.into_iter().map(column_row).collect();
        let schema =
            TableSchema::from_rows(&table.keyspace, &table.table, columns, indexed, replication);
        let is_repaired_by_reads = read_repair.as_deref() != Some("NONE");
        let schema = schema.map(|schema| TableSchema {
            is_repaired_by_reads,
            ..schema
        });
        Ok(Described {
            table_id: Some(table_id),
            columns: Some(filter::hash(text.as_bytes()) as i64),
            schema: schema
                .filter(|_| is_plain && masked.is_empty())
                .map(Arc::new),
        })
    }

    /// The columns with an index; all columns if an index does not say which one it is for.
    async fn indexed(
        &self,
        names: (&str, &str),
        columns: &[Column],
    ) -> Result<Vec<String>, StoreError> {
        type Row = (Option<HashMap<String, String>>,);
        let mut indexed = Vec::new();
        for (options,) in self.schema_rows::<Row>(INDEXES, names).await? {
            let options = options.unwrap_or_default();
            match options
                .get("target")
                .and_then(|target| target_column(target))
            {
                Some(column) => indexed.push(column),
                None => return Ok(columns.iter().map(|column| column.0.clone()).collect()),
            }
        }
        Ok(indexed)
    }

    /// The masked columns, whose values not every role sees.
    pub(super) async fn masked(&self, names: (&str, &str)) -> Result<Vec<(String,)>, StoreError> {
        // Before 5.0 there are no masks, and no such table.
        let table: Vec<(Uuid,)> = self.schema_rows(TABLE_ID, MASKS_TABLE).await?;
        match table.is_empty() {
            true => Ok(Vec::new()),
            false => self.schema_rows(MASKS, names).await,
        }
    }

    pub(super) async fn schema_rows<Row>(
        &self,
        text: &str,
        names: (&str, &str),
    ) -> Result<Vec<Row>, StoreError>
    where
        Row: for<'frame> DeserializeRow<'frame, 'frame>,
    {
        let result = self.session.query_unpaged(text, names).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let rows = rows.rows::<Row>().map_err(not_understood)?;
        rows.map(|row| row.map_err(not_understood)).collect()
    }

    async fn replication(&self, keyspace: &str) -> Result<Vec<(String, String)>, StoreError> {
        let result = self.session.query_unpaged(KEYSPACE, (keyspace,)).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        type Row = (HashMap<String, String>,);
        let row = rows.maybe_first_row::<Row>().map_err(not_understood)?;
        let mut replication: Vec<_> = row.unwrap_or_default().0.into_iter().collect();
        replication.sort();
        Ok(replication)
    }
}

type Column = (String, String, i32, String, String);

fn column_row((name, kind, position, cql_type, clustering_order): Column) -> ColumnRow {
    ColumnRow {
        name,
        kind,
        position,
        clustering_order,
        cql_type,
    }
}

/// An index is on `column`, on `"Column"`, or on a part of it such as `values(column)`.
fn target_column(target: &str) -> Option<String> {
    let inner = match target.split_once('(') {
        Some((_, rest)) => rest.strip_suffix(')')?,
        None => target,
    };
    let name = match inner.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?.replace("\"\"", "\""),
        None => inner.to_owned(),
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_column_of_an_index() {
        for (target, column) in [
            ("v", Some("v")),
            ("\"My \"\"V\"", Some("My \"V")),
            ("values(tags)", Some("tags")),
            ("keys(\"Tags\")", Some("Tags")),
            ("full(l", None),
            ("", None),
        ] {
            assert_eq!(target_column(target).as_deref(), column, "{target}");
        }
    }
}
