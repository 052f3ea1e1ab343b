//! Takes a served table back to `detect`, and removes splits whose table is gone. Nothing here puts anything into
//! service.

use super::cas::{answered, bind, send};
use super::{ChangedRow, SplitId, Store, StoreError};
use crate::schema::names::TableName;
use crate::watched::Mode;
use crate::wide_row::names::Version;

impl Store {
    /// Sets a table in mode `serve` to `detect`; one that is `off` stays so. Returns the mode that it is in afterwards.
    /// `None`: it is not watched.
    pub async fn demote_table(&self, table: &TableName) -> Result<Option<Mode>, StoreError> {
        let (to, from) = (Mode::Detect, Mode::Serve);
        let values = || {
            let (keyspace, name) = (table.keyspace.clone(), table.table.clone());
            bind![to.as_str(), keyspace, name, from.as_str()]
        };
        let statement = &self.statements.change_mode;
        let answer = answered(|| send(&self.session, statement, values())).await?;
        match answer.text("mode") {
            _ if answer.applied => Ok(Some(to)),
            Some(mode) => Ok(Some(Mode::parse(mode).unwrap_or(Mode::Off))),
            // The row was written by hand without a mode, which then has its default; or there is no row.
            None => Ok(self.set_mode(table, to).await?.then_some(to)),
        }
    }

    /// Removes the row of a split whose table is gone, unless the row has changed since it was read. Followers need not
    /// learn of it: without its table the split had no effect.
    pub async fn forget_split(
        &self,
        table: &TableName,
        shard: i32,
        row: &ChangedRow,
    ) -> Result<bool, StoreError> {
        let id = SplitId {
            table: table.clone(),
            shard,
            key: row.key.clone(),
        };
        let version = match row.version {
            Version(0) => None,
            Version(version) => Some(version),
        };
        let values = || bind![; place id; version];
        let statement = &self.statements.forget_split;
        let answer = answered(|| send(&self.session, statement, values())).await?;
        Ok(answer.applied)
    }
}
