//! Reads the existing schema from `system_schema`, which every role that may log in can read.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::query_result::QueryRowsResult;

use super::SchemaError;
use super::compare::{Existing, ExistingTable, ExistingType};
use super::definition::Column;
use crate::schema::replication::Replication;

const KEYSPACE: &str = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
const TYPES: &str =
    "SELECT type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = ?";
const TABLES: &str =
    "SELECT table_name, read_repair FROM system_schema.tables WHERE keyspace_name = ?";
const COLUMNS: &str = "SELECT table_name, column_name, kind, position, type \
     FROM system_schema.columns WHERE keyspace_name = ?";

/// What the control keyspace holds now.
pub(super) async fn read(session: &Session, keyspace: &str) -> Result<Existing, SchemaError> {
    let replication = query(session, KEYSPACE, keyspace).await?;
    let types = query(session, TYPES, keyspace).await?;
    let tables = query(session, TABLES, keyspace).await?;
    let columns = query(session, COLUMNS, keyspace).await?;
    let columns: Vec<(String, String, String, i32, String)> = rows(&columns)?;
    let types = rows::<(String, Vec<String>, Vec<String>)>(&types)?.into_iter();
    let tables = rows::<(String, String)>(&tables)?.into_iter();
    Ok(Existing {
        keyspace: replication.rows_num() > 0,
        types: types
            .map(|(name, names, types)| ExistingType {
                name,
                fields: names.into_iter().zip(types).collect(),
            })
            .collect(),
        tables: tables
            .map(|(name, read_repair)| ExistingTable {
                columns: columns_of(&name, &columns),
                name,
                read_repair,
            })
            .collect(),
    })
}

/// The replication of a keyspace; `None` if there is no such keyspace, or no replication that can be copied.
pub(super) async fn replication(
    session: &Session,
    keyspace: &str,
) -> Result<Option<Replication>, SchemaError> {
    let found = query(session, KEYSPACE, keyspace).await?;
    let mut maps: Vec<(BTreeMap<String, String>,)> = rows(&found)?;
    Ok(maps.pop().and_then(|(map,)| Replication::copied(map)))
}

fn columns_of(table: &str, all: &[(String, String, String, i32, String)]) -> Vec<Column> {
    all.iter()
        .filter(|(of, ..)| of == table)
        .map(|(_, name, kind, position, data_type)| Column {
            name: name.clone(),
            kind: kind.clone(),
            position: *position,
            data_type: data_type.clone(),
        })
        .collect()
}

async fn query(
    session: &Session,
    text: &str,
    keyspace: &str,
) -> Result<QueryRowsResult, SchemaError> {
    let result = session.query_unpaged(text, (keyspace,)).await;
    let result = result.map_err(|error| SchemaError::Read(error.into()))?;
    result
        .into_rows_result()
        .map_err(|error| SchemaError::Read(error.into()))
}

fn rows<'frame, R>(result: &'frame QueryRowsResult) -> Result<Vec<R>, SchemaError>
where
    R: DeserializeRow<'frame, 'frame>,
{
    let rows = result
        .rows()
        .map_err(|error| SchemaError::Read(error.into()))?;
    rows.collect::<Result<_, _>>()
        .map_err(|error| SchemaError::Read(error.into()))
}
