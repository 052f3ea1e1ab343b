//! The split tables of an original as the cluster has them, and which of those that were recorded somebody dropped or
//! replaced. Narrows drops a split table only after it has given it up, and never truncates one: everything else
//! happened around it.

use std::collections::{BTreeMap, BTreeSet};

use scylla::value::CqlTimestamp;
use uuid::Uuid;

use super::{Entry, HIDDEN, Store, StoreError};
use crate::schema::names::TableName;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::split_name::is_name;
use crate::wide_row::store::cas::bind;

const KINDS: &str = "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";

/// The split tables of one original.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SplitTables {
    /// The names of all that exist.
    pub names: BTreeSet<String>,
    /// Those that may hold splits, with their ids.
    pub in_use: BTreeMap<String, Uuid>,
    /// Those that may have held splits and were dropped or replaced, with the ids that were recorded.
    pub lost: BTreeMap<String, Uuid>,
}

impl SplitTables {
    fn new(recorded: &BTreeMap<String, Entry>, existing: BTreeMap<String, Uuid>) -> Self {
        let is_given_up = |name: &String| {
            let entry = recorded.get(name);
            entry.is_some_and(|entry| entry.dropped_at.is_some())
        };
        let lost = recorded.iter().filter_map(|(name, entry)| {
            let id = entry.table_id.filter(|_| !is_given_up(name))?;
            (existing.get(name) != Some(&id)).then(|| (name.clone(), id))
        });
        Self {
            names: existing.keys().cloned().collect(),
            lost: lost.collect(),
            in_use: existing
                .into_iter()
                .filter(|(name, _)| !is_given_up(name))
                .collect(),
        }
    }
}

impl Store {
    /// Call this when the nodes agree on the schema.
    pub async fn read_split_tables(&self, original: &TableName) -> Result<SplitTables, StoreError> {
        let found = self.look_at_split_tables(original).await?;
        if found.lost.is_empty() {
            return Ok(found);
        }
        // The node that answered may not have heard of a table that was made a moment ago.
        self.agree().await?;
        self.look_at_split_tables(original).await
    }

    async fn look_at_split_tables(&self, original: &TableName) -> Result<SplitTables, StoreError> {
        // The record first: a table is recorded when all nodes have it, so it is found afterwards.
        let recorded = self.known_split_tables(original).await?;
        let existing = self.find_split_tables(original).await?;
        Ok(SplitTables::new(&recorded, existing))
    }

    /// The split tables that exist, as any node has them, with their ids. A user's own table may have such a name, but
    /// not the hidden columns in its key.
    pub async fn find_split_tables(
        &self,
        original: &TableName,
    ) -> Result<BTreeMap<String, Uuid>, StoreError> {
        let mut found = BTreeMap::new();
        let existing = self.existing_tables(original).await?.into_iter();
        for (name, table) in existing.filter(|(name, _)| is_name(&original.table, name)) {
            let names = (original.keyspace.as_str(), name.as_str());
            let columns: Vec<(String, String)> = self.schema_rows(KINDS, names).await?;
            let has = |hidden: &&str| {
                let is_hidden =
                    |(column, kind): &(String, String)| column == hidden && kind == "partition_key";
                columns.iter().any(is_hidden)
            };
            if HIDDEN.iter().all(has) {
                found.insert(name, table.id);
            }
        }
        Ok(found)
    }

    /// Gives up a split table that was dropped, replaced or truncated: no plan uses it or its name again, and clean-up
    /// drops it if Narrows made it.
    pub async fn give_up_lost(
        &self,
        original: &TableName,
        name: &str,
        table_id: Uuid,
    ) -> Result<(), StoreError> {
        let now = CqlTimestamp(unix_millis());
        let lost = &self.statements.set_lost;
        let values = || (bind![now], bind![table_id]);
        let answer = self.split_table_lwt(lost, original, name, &values).await?;
        if answer.applied || answer.is_set("table_id") || answer.is_set("dropped_at") {
            return Ok(());
        }
        // It is not recorded yet: no plan of this version has used it.
        let adopt = &self.statements.adopt;
        let adopted = || (bind![table_id], bind![]);
        self.split_table_lwt(adopt, original, name, &adopted)
            .await?;
        self.split_table_lwt(lost, original, name, &values).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_table_that_is_gone_or_replaced_is_lost_unless_it_was_given_up() {
        let entry = |id: Option<u128>, dropped_at| Entry {
            table_id: id.map(Uuid::from_u128),
            dropped_at,
            ..Entry::default()
        };
        let recorded = [
            ("1 stays", entry(Some(1), None)),
            ("2 gone", entry(Some(2), None)),
            ("3 replaced", entry(Some(3), None)),
            ("4 dropped by us", entry(Some(4), Some(5))),
            ("5 given up", entry(Some(5), Some(5))),
            ("6 being made", entry(None, None)),
        ];
        let recorded = recorded.map(|(name, entry)| (name.to_owned(), entry));
        let tables = |tables: &[(&str, u128)]| -> BTreeMap<String, Uuid> {
            let table = |(name, id): &(&str, u128)| ((*name).to_owned(), Uuid::from_u128(*id));
            tables.iter().map(table).collect()
        };
        let existing = tables(&[
            ("1 stays", 1),
            ("3 replaced", 33),
            ("5 given up", 5),
            ("7 made by a person", 7),
        ]);
        let found = SplitTables::new(&BTreeMap::from(recorded), existing.clone());
        assert_eq!(found.names, existing.into_keys().collect());
        assert_eq!(found.lost, tables(&[("2 gone", 2), ("3 replaced", 3)]));
        let in_use = [
            ("1 stays", 1),
            ("3 replaced", 33),
            ("7 made by a person", 7),
        ];
        assert_eq!(found.in_use, tables(&in_use));
    }
}
