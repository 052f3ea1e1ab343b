//! Marks split tables that nothing refers to any more, and later drops them. Only those that Narrows created: the row
//! in `split_table` has the table's id, and the table itself carries the mark and a name of ours.

use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::{SCHEMA_TIMEOUT, Store, StoreError};
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::statement::quoted;
use crate::wide_row::split_name::is_name;
use crate::wide_row::store::cas::bind;

/// A split table that Narrows created and that still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeTable {
    pub name: String,
    table_id: Uuid,
    /// It fits the original's present schema, so new plans use it.
    pub is_current: bool,
    /// When it was first found unused, in milliseconds since 1970.
    pub unused_since: Option<i64>,
    /// No plan uses it any more: it only has to be dropped.
    pub is_given_up: bool,
}

impl Store {
    /// The split tables of an original that may be dropped one day. `schema` is the original's present schema, which
    /// decides `is_current`.
    pub async fn made_tables(
        &self,
        original: &TableName,
        schema: Option<&TableSchema>,
    ) -> Result<Vec<MadeTable>, StoreError> {
        let known = self.known_split_tables(original).await?;
        let existing = self.existing_tables(original).await?;
        let mut made = Vec::new();
        for (name, entry) in known {
            let Some((found, table_id)) = existing.get(&name).zip(entry.table_id) else {
                continue;
            };
            let is_ours = found.id == table_id && found.is_marked;
            if is_ours && is_name(&original.table, &name) {
                let is_current = match schema {
                    Some(schema) => self.is_split_table(schema, &name).await?,
                    None => false,
                };
                made.push(MadeTable {
                    is_current,
                    name,
                    table_id,
                    unused_since: entry.unused_since,
                    is_given_up: entry.dropped_at.is_some(),
                });
            }
        }
        Ok(made)
    }

    /// Records since when it is unused, or that it is in use, unless its row has changed since it was read.
    pub async fn set_unused(
        &self,
        original: &TableName,
        made: &MadeTable,
        since: Option<i64>,
    ) -> Result<bool, StoreError> {
        let seen = made.unused_since.map(CqlTimestamp);
        let values = || {
            let since = since.map(CqlTimestamp);
            (bind![since], bind![made.table_id, seen])
        };
        let statement = &self.statements.set_unused;
        let answer = self.split_table_lwt(statement, original, &made.name, &values);
        Ok(answer.await?.applied)
    }

    /// Marks it as dropped, so that no plan uses it any more. `false`: a plan has used it since it was read.
    pub async fn give_up(
        &self,
        original: &TableName,
        made: &MadeTable,
        now: i64,
    ) -> Result<bool, StoreError> {
        let seen = made.unused_since.map(CqlTimestamp);
        let values = || (bind![CqlTimestamp(now)], bind![made.table_id, seen]);
        let statement = &self.statements.set_dropped;
        let answer = self.split_table_lwt(statement, original, &made.name, &values);
        let answer = answer.await?;
        // Already given up, by an attempt of ours whose reply was lost or by another worker.
        Ok(answer.applied || answer.is_set("dropped_at"))
    }

    /// Drops a table that was given up. `false`: it is already gone, or another table has its name.
    pub async fn drop_split_table(
        &self,
        original: &TableName,
        made: &MadeTable,
    ) -> Result<bool, StoreError> {
        let still = self.made_tables(original, None).await?;
        let is_it = |one: &MadeTable| one.name == made.name && one.table_id == made.table_id;
        if !still.iter().any(|one| is_it(one) && one.is_given_up) {
            return Ok(false);
        }
        let text = format!(
            "DROP TABLE IF EXISTS {}.{}",
            quoted(&original.keyspace),
            quoted(&made.name)
        );
        let mut statement = scylla::statement::Statement::new(text);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        self.session.query_unpaged(statement, ()).await?;
        self.agree().await?;
        Ok(true)
    }
}
