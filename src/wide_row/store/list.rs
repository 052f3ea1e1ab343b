//! All splits of a table, for people: passed on one by one, so that memory does not grow with their number.

use super::cas::bind;
use super::read::{EarlierSplitRow, SplitRow};
use super::{Split, Store, StoreError};
use crate::schema::names::{PartitionKey, TableName};

/// One row of `wide_row`.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub key: PartitionKey,
    /// `None` for a state that this version does not know, which a later one may have written.
    pub split: Option<Split>,
}

impl Store {
    /// Passes every split of a table to `each`, shard by shard, in no meaningful order.
    pub async fn list_splits(
        &self,
        table: &TableName,
        shards: u32,
        mut each: impl FnMut(Listed),
    ) -> Result<(), StoreError> {
        for reading in self.read_shards(table, shards).await? {
            self.list_shard(table, reading.shard, &mut each).await?;
        }
        Ok(())
    }

    /// Passes every split of one shard to `each`.
    pub async fn list_shard(
        &self,
        table: &TableName,
        shard: i32,
        mut each: impl FnMut(Listed),
    ) -> Result<(), StoreError> {
        let values = bind![table.keyspace.clone(), table.table.clone(), shard];
        let mut list = |row: SplitRow| {
            if let Some(key) = row.key() {
                let split = Split::try_from(row).ok();
                each(Listed { key, split });
            }
        };
        let statement = &self.statements.splits;
        if self.statements.later.is_some() {
            return self.each_row(statement, &values, list).await;
        }
        let list = |row: EarlierSplitRow| list(row.into());
        self.each_row(statement, &values, list).await
    }
}
