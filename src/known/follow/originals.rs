//! Notices when a watched table itself was dropped, recreated, altered or truncated. Its splits are then no longer
//! copies of it, and all go out of service. `split_tables` does the same for the tables that hold the copies.
//!
//! What was last seen is in the store, not here, so the next proxy notices a change made while none ran.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::split_tables;
use crate::known::{Known, Watched};
use crate::schema::names::TableName;
use crate::wide_row::store::{
    Described, NodeFacts, SeenTable, SplitTables, Store, StoreError, WatchedRow,
};

#[derive(Default)]
pub(super) struct Originals {
    /// Since when the nodes have disagreed on the schema.
    unclear_since: Option<Instant>,
    schema_versions: BTreeMap<Uuid, Uuid>,
    described: HashMap<TableName, Described>,
    /// As they were when the nodes last agreed on the schema.
    split_tables: HashMap<TableName, SplitTables>,
    /// Tables whose splits must go out of service once more: a split table was damaged, and giving it up failed, perhaps
    /// after the record says that it was given up.
    owed: HashSet<TableName>,
}

/// How a table differs from what was last seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Dropped,
    MadeAnew,
    Altered,
    Truncated,
}

/// How long the last schema of a table is still trusted while a change spreads; nodes that lack the change use it, too.
const UNCLEAR_MAX: Duration = Duration::from_secs(5);

impl Originals {
    fn is_unclear(&self) -> bool {
        self.unclear_since
            .is_some_and(|since| since.elapsed() > UNCLEAR_MAX)
    }

    /// Compares every watched table with what was last seen of it. What cannot be determined now is left to the next
    /// poll.
    pub(super) async fn check(&mut self, store: &Store, rows: &[WatchedRow], known: &Arc<Known>) {
        let (nodes, ()) = tokio::join!(store.read_nodes(), store.prove_paxos());
        if let Err(error) = self.describe(store, rows, &nodes).await {
            tracing::debug!(%error, "the watched tables could not be described, trying again");
        }
        for row in rows.iter().filter(|row| row.table.is_sound()) {
            // Truncations are compared even while the nodes disagree on the schema.
            let described = self.described.get(&row.table.name);
            let unchanged = Described {
                table_id: row.seen.table_id,
                columns: row.seen.columns,
                schema: None,
            };
            let now = seen_now(described.unwrap_or(&unchanged), &row.seen, &nodes);
            let is_seen = now == row.seen && !row.is_first_sight();
            let TableName { keyspace, table } = &row.table.name;
            if let Some(watched) = known.table(keyspace, table) {
                match described {
                    // Only once the store has recorded it: no table may be split that other processes know differently.
                    Some(described) if is_seen => watched.set_schema(described),
                    Some(_) => watched.forget_schema(),
                    // Most schema changes concern other tables, so the last schema is kept for a while.
                    None if !self.is_unclear() => {}
                    None => {
                        watched.forget_schema();
                        learn_key(store, &watched).await;
                    }
                }
                learn_split_tables(store, &watched).await;
            }
            if is_seen {
                continue;
            }
            if let Err(error) = take_over(store, row, &now, known).await {
                let table = &row.table.name;
                tracing::warn!(%table, %error, "a change of the table could not be written down, trying again");
            }
        }
        // Last, because it may read the control keyspace for each table, and wait for it. An error of one table may be
        // its own, so the others are checked all the same.
        for row in rows.iter().filter(|row| row.table.is_sound()) {
            if let Err(error) = self.check_split_tables(store, row, &nodes, known).await {
                let table = &row.table.name;
                tracing::debug!(%table, %error, "the split tables of a table could not be checked, trying again");
            }
        }
    }

    async fn check_split_tables(
        &mut self,
        store: &Store,
        row: &WatchedRow,
        nodes: &[NodeFacts],
        known: &Known,
    ) -> Result<(), StoreError> {
        let table = &row.table.name;
        let Some(watched) = known.table(&table.keyspace, &table.table) else {
            return Ok(());
        };
        if self.owed.contains(table) {
            store.take_out_of_service(table, row.table.shards).await?;
            self.owed.remove(table);
        }
        if self.unclear_since.is_none() && !self.split_tables.contains_key(table) {
            let found = store.read_split_tables(table).await?;
            watched.set_split_tables(found.names.clone());
            self.split_tables.insert(table.clone(), found);
        }
        let Some(tables) = self.split_tables.get_mut(table) else {
            return Ok(());
        };
        match split_tables::check(store, row, (tables, nodes), known).await {
            Ok(Some(now)) => *tables = now,
            Ok(None) => {}
            Err(error) => {
                self.owed.insert(table.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads the tables' descriptions again when a node's schema version has changed and all nodes agree on one.
    async fn describe(
        &mut self,
        store: &Store,
        rows: &[WatchedRow],
        nodes: &[NodeFacts],
    ) -> Result<(), StoreError> {
        let versions: BTreeMap<Uuid, Uuid> = nodes
            .iter()
            .filter_map(|node| Some((node.host_id, node.schema_version?)))
            .collect();
        let agreed = versions
            .values()
            .all(|version| versions.values().next() == Some(version));
        let missing = |row: &&WatchedRow| !self.described.contains_key(&row.table.name);
        if agreed && !versions.is_empty() {
            self.unclear_since = None;
        } else {
            self.unclear_since.get_or_insert_with(Instant::now);
            // Some nodes describe the old schema, others the new one: compare nothing.
            self.described.clear();
            return Ok(());
        }
        if versions != self.schema_versions || rows.iter().any(|row| missing(&row)) {
            self.described.clear();
            self.split_tables.clear();
            for row in rows {
                let described = store.describe(&row.table.name).await?;
                self.described.insert(row.table.name.clone(), described);
            }
            self.schema_versions = versions;
        }
        Ok(())
    }
}

/// While nodes of two Cassandra versions run side by side they never agree, but writes need the partition key all the
/// same.
async fn learn_key(store: &Store, watched: &Watched) {
    if !watched.is_described() {
        match store.describe(watched.name()).await {
            Ok(described) => watched.set_key_schema(&described),
            Err(error) => tracing::debug!(%error, "a watched table could not be described"),
        }
    }
}

/// Their names, from any node, are enough to keep clients from changing them.
async fn learn_split_tables(store: &Store, watched: &Watched) {
    if !watched.knows_split_tables() {
        match store.find_split_tables(watched.name()).await {
            Ok(found) => watched.set_split_tables(found.into_keys().collect()),
            Err(error) => tracing::debug!(%error, "split tables could not be looked for"),
        }
    }
}

/// What the nodes say of a table now. Truncations of nodes that do not answer stay as they were.
fn seen_now(described: &Described, before: &SeenTable, nodes: &[NodeFacts]) -> SeenTable {
    let mut truncations = before.truncations.clone();
    for node in nodes {
        let time = described.table_id.and_then(|id| node.truncated_at.get(&id));
        if let Some(time) = time {
            let newest = truncations.entry(node.host_id).or_insert(*time);
            *newest = (*newest).max(*time);
        }
    }
    SeenTable {
        table_id: described.table_id,
        columns: described.columns,
        truncations,
    }
}

/// `None` if nothing changed, or if the table is seen for the first time.
fn change(before: &SeenTable, now: &SeenTable) -> Option<Change> {
    match (before.table_id, now.table_id) {
        (None, _) => None,
        (Some(_), None) => Some(Change::Dropped),
        (Some(before), Some(now)) if before != now => Some(Change::MadeAnew),
        _ if before.columns != now.columns => Some(Change::Altered),
        _ if before.truncations != now.truncations => Some(Change::Truncated),
        _ => None,
    }
}

/// Takes the splits out of service first: only then may the change be recorded as seen.
async fn take_over(
    store: &Store,
    row: &WatchedRow,
    now: &SeenTable,
    known: &Known,
) -> Result<(), StoreError> {
    let table = &row.table.name;
    if row.is_first_sight() {
        // Existing splits were made when the table was watched before. Writes since then may have gone unnoticed.
        if store.open_shards(&row.table).await? {
            tracing::warn!(%table, "the table is watched again; its earlier splits are out of service");
        }
    } else if let Some(change) = change(&row.seen, now) {
        store.take_out_of_service(table, row.table.shards).await?;
        tracing::warn!(%table, ?change, "the table was changed; all its splits are out of service");
        if let Some(watched) = known.table(&table.keyspace, &table.table) {
            watched.following.out_of_service.increment(1);
        }
    }
    store.set_seen(row, now).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: u128, truncated: &[(u128, i64)]) -> NodeFacts {
        let by_table = truncated
            .iter()
            .map(|(table, time)| (Uuid::from_u128(*table), *time));
        NodeFacts {
            host_id: Uuid::from_u128(host),
            schema_version: None,
            truncated_at: by_table.collect(),
        }
    }

    fn described(table: Option<u128>, columns: i64) -> Described {
        Described {
            table_id: table.map(Uuid::from_u128),
            columns: table.map(|_| columns),
            schema: None,
        }
    }

    #[test]
    fn every_change_is_told_from_the_first_sight_and_from_none() {
        let nodes = [node(1, &[(7, 100), (8, 500)]), node(2, &[(7, 101)])];
        let first = seen_now(&described(Some(7), 3), &SeenTable::default(), &nodes);
        assert_eq!(change(&SeenTable::default(), &first), None);
        let after = |table, nodes: &[NodeFacts]| {
            let now = seen_now(&table, &first, nodes);
            change(&first, &now)
        };
        assert_eq!(after(described(Some(7), 3), &nodes), None);
        assert_eq!(after(described(None, 0), &nodes), Some(Change::Dropped));
        assert_eq!(after(described(Some(8), 3), &nodes), Some(Change::MadeAnew));
        assert_eq!(after(described(Some(7), 4), &nodes), Some(Change::Altered));
        let truncated = [node(1, &[(7, 100)]), node(2, &[(7, 102)])];
        assert_eq!(
            after(described(Some(7), 3), &truncated),
            Some(Change::Truncated)
        );
    }

    #[test]
    fn a_node_that_does_not_answer_changes_nothing() {
        let nodes = [node(1, &[(7, 100)]), node(2, &[(7, 101)])];
        let first = seen_now(&described(Some(7), 3), &SeenTable::default(), &nodes);
        let now = seen_now(&described(Some(7), 3), &first, &nodes[..1]);
        assert_eq!(now, first);
        // Nor does one that lost its memory.
        let now = seen_now(&described(Some(7), 3), &first, &[node(1, &[])]);
        assert_eq!(now, first);
    }
}
