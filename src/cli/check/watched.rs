//! Whether the settings of the `[[table]]` blocks have an effect on their tables, by the cluster's schema.

use crate::cli::exit;
use crate::protocol::response::result::{Row, Rows, value};
use crate::schema::{ColumnRow, TableSchema};
use crate::upstream::connection::Connection;
use crate::watched::WatchedTable;

/// `Err` lists every setting without effect, one per line.
pub(super) async fn look(
    connection: &mut Connection,
    tables: &[WatchedTable],
) -> anyhow::Result<()> {
    let mut mistakes = Vec::new();
    for (number, table) in (1..).zip(tables) {
        let name = &table.name;
        // The names have only letters, digits and underscores.
        let text = format!(
            "SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns \
             WHERE keyspace_name = '{}' AND table_name = '{}'",
            name.keyspace, name.table
        );
        let schema = schema(table, &connection.query(&text).await?);
        if let Some(why) = schema.and_then(|schema| table.inert_limit(&schema)) {
            mistakes.push(format!(
                "table[{number}].accept_limit has no effect on {name}: {why}"
            ));
        }
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(exit::error(exit::CONFIGURATION, mistakes.join("\n"))),
    }
}

fn schema(table: &WatchedTable, columns: &Rows) -> Option<TableSchema> {
    let column = |row: &Row| {
        let bytes = |name: &str| value(&columns.names, row, name);
        let text = |name: &str| Some(std::str::from_utf8(bytes(name)?).ok()?.to_owned());
        Some(ColumnRow {
            name: text("column_name")?,
            kind: text("kind")?,
            position: i32::from_be_bytes(bytes("position")?.try_into().ok()?),
            clustering_order: text("clustering_order")?,
            cql_type: text("type")?,
        })
    };
    let rows: Option<Vec<ColumnRow>> = columns.rows.iter().map(column).collect();
    let name = &table.name;
    TableSchema::from_rows(&name.keyspace, &name.table, rows?, Vec::new(), Vec::new())
}
