//! Holds the store. It is empty until the control keyspace is reached for the first time; afterwards the driver
//! reconnects by itself.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::validate::ReadShard;
use crate::schema::names::TableName;
use crate::wide_row::store::{ShardReading, Store, StoreError};

#[derive(Default)]
pub struct StoreSlot(ArcSwapOption<Store>);

impl StoreSlot {
    pub fn get(&self) -> Result<Arc<Store>, StoreError> {
        let empty = || StoreError::Unreachable("not connected yet".into());
        self.0.load_full().ok_or_else(empty)
    }

    pub fn set(&self, store: Arc<Store>) {
        self.0.store(Some(store));
    }
}

/// The shards of one table.
pub struct TableShards {
    pub store: Arc<StoreSlot>,
    pub table: TableName,
}

impl ReadShard for TableShards {
    async fn read_shard(&self, shard: i32) -> Result<ShardReading, StoreError> {
        self.store.get()?.read_shard(&self.table, shard).await
    }
}
