//! What the cluster's schema says about the `[[table]]` blocks: whether each table exists, and whether its settings have
//! an effect on it.

use crate::cli::exit;
use crate::protocol::response::result::{Row, Rows, value};
use crate::schema::{ColumnRow, TableSchema};
use crate::upstream::connection::Connection;
use crate::watched::WatchedTable;

/// Warns of tables that do not exist. `Err` lists every setting without effect, one per line.
pub(super) async fn look(
    connection: &mut Connection,
    tables: &[WatchedTable],
) -> anyhow::Result<String> {
    let (mut warnings, mut mistakes) = (String::new(), Vec::new());
    for (number, table) in (1..).zip(tables) {
        let name = &table.name;
        // The names have only letters, digits and underscores.
        let text = format!(
            "SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns \
             WHERE keyspace_name = '{}' AND table_name = '{}'",
            name.keyspace, name.table
        );
        match schema(table, &connection.query(&text).await?) {
            None => warnings.push_str(&format!(
                "warning: {name} does not exist in this cluster; nothing is found or split until it does\n"
            )),
            Some(schema) => mistakes.extend(
                table
                    .inert_limit(&schema)
                    .map(|why| format!("table[{number}].accept_limit has no effect on {name}: {why}")),
            ),
        }
    }
    match mistakes.is_empty() {
        true => Ok(warnings),
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
