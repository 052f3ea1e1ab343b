//! Split tables that nothing refers to any more: noted, and after a while dropped. Only those that Narrows made: the row in
//! `split_table` names the table's id, and the table itself carries the mark and a name of ours.

use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::{SCHEMA_TIMEOUT, Store, StoreError};
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::statement::quoted;
use crate::wide_row::split_name::is_name;
use crate::wide_row::store::cas::bind;

/// A split table that Narrows made and that still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeTable {
    pub name: String,
    table_id: Uuid,
    /// It is made for the schema that the original has now, so whatever is planned goes there.
    pub is_current: bool,
    /// When it was first seen without a use, in milliseconds since 1970.
    pub unused_since: Option<i64>,
    /// Nothing is planned into it any more: it only has to be dropped.
    pub is_given_up: bool,
}

impl Store {
    /// The split tables of an original that may be dropped one day. `schema`: what it looks like now, if it exists.
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

    /// Writes down since when it is unused, or that it is not, unless somebody uses it or changes it at the same time.
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

    /// From now on nobody plans into it. `false`: somebody has used it since it was looked at.
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
        // Given up already, by an attempt of ours whose answer was lost or by another worker.
        Ok(answer.applied || answer.is_set("dropped_at"))
    }

    /// Drops one that was given up. `false`: it is gone already, or is another table now.
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
