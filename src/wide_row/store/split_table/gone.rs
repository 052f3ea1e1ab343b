//! Rows of `split_table` whose original no longer exists and whose split table is gone, too. Nothing here drops a
//! table: `unused` does.

use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::{Entry, Store, StoreError};
use crate::schema::names::TableName;
use crate::wide_row::split_name::is_name;
use crate::wide_row::store::cas::bind;

/// A row that has no split table of ours any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftRow {
    pub name: String,
    table_id: Option<Uuid>,
    /// Milliseconds since 1970, like `dropped_at`.
    unused_since: Option<i64>,
    dropped_at: Option<i64>,
}

impl LeftRow {
    /// Since when the row is not needed, if that was recorded.
    pub fn since(&self) -> Option<i64> {
        self.dropped_at.or(self.unused_since)
    }
}

impl Store {
    /// Whether the table does not exist, asked once all nodes agree on the schema.
    pub async fn is_gone(&self, table: &TableName) -> Result<bool, StoreError> {
        self.agree().await?;
        Ok(self.describe(table).await?.table_id.is_none())
    }

    /// Rows whose table does not exist, or was replaced by one that is not ours to drop.
    pub async fn left_rows(&self, original: &TableName) -> Result<Vec<LeftRow>, StoreError> {
        let known = self.known_split_tables(original).await?;
        let existing = self.existing_tables(original).await?;
        let is_left = |name: &str, entry: &Entry| {
            let found = existing.get(name);
            let is_ours = found.is_some_and(|found| {
                found.is_marked
                    && Some(found.id) == entry.table_id
                    && is_name(&original.table, name)
            });
            // A worker that is creating the table would write the row again.
            !is_ours && entry.lease.is_none()
        };
        let left = known
            .into_iter()
            .filter(|(name, entry)| is_left(name, entry));
        Ok(left
            .map(|(name, entry)| LeftRow {
                name,
                table_id: entry.table_id,
                unused_since: entry.unused_since,
                dropped_at: entry.dropped_at,
            })
            .collect())
    }

    /// Records since when the row is not needed, unless it has changed since it was read.
    pub async fn note_left(
        &self,
        original: &TableName,
        left: &LeftRow,
        since: i64,
    ) -> Result<bool, StoreError> {
        let seen = left.unused_since.map(CqlTimestamp);
        let values = || (bind![CqlTimestamp(since)], bind![left.table_id, seen]);
        let statement = &self.statements.set_unused;
        let answer = self.split_table_lwt(statement, original, &left.name, &values);
        Ok(answer.await?.applied)
    }

    /// Removes the row, unless it has changed since it was read. From then on its name is free: any worker that could
    /// still drop a table of that name ended long ago.
    pub async fn forget_left(
        &self,
        original: &TableName,
        left: &LeftRow,
    ) -> Result<bool, StoreError> {
        let (unused, dropped) = (
            left.unused_since.map(CqlTimestamp),
            left.dropped_at.map(CqlTimestamp),
        );
        let values = || (bind![], bind![left.table_id, unused, dropped]);
        let statement = &self.statements.forget_made;
        let answer = self.split_table_lwt(statement, original, &left.name, &values);
        Ok(answer.await?.applied)
    }
}
