//! Notices when somebody dropped, replaced or truncated a split table around the proxies. Its splits would answer with
//! rows missing, so all splits of its original go out of service. The table is then given up, for ever. The record
//! of split tables, not this process, knows which ones were; `originals` remembers only what a failed attempt owes.

use uuid::Uuid;

use crate::known::Known;
use crate::wide_row::store::{NodeFacts, SplitTables, Store, StoreError, WatchedRow};

/// What was done to a split table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// Dropped, or dropped and made anew.
    Dropped,
    Truncated,
}

/// The split tables that no longer hold what was copied into them. Nobody but us has a reason to truncate one, and we
/// never do: any truncation counts.
fn damaged<'a>(
    tables: &'a SplitTables,
    nodes: &'a [NodeFacts],
) -> impl Iterator<Item = (&'a str, Uuid, Damage)> {
    let lost = tables.lost.iter();
    let lost = lost.map(|(name, id)| (name.as_str(), *id, Damage::Dropped));
    let is_truncated = move |id: &Uuid| nodes.iter().any(|node| node.truncated_at.contains_key(id));
    let truncated = tables
        .in_use
        .iter()
        .filter(move |(_, id)| is_truncated(id))
        .map(|(name, id)| (name.as_str(), *id, Damage::Truncated));
    lost.chain(truncated)
}

/// Takes all splits of the original out of service if one of its split tables is damaged. Returns the tables as they are
/// then; `None`: none is damaged. After an error the caller owes one more taking out of service: the record may say
/// already that the table was given up, so no later check finds the damage.
pub(super) async fn check(
    store: &Store,
    row: &WatchedRow,
    (tables, nodes): (&SplitTables, &[NodeFacts]),
    known: &Known,
) -> Result<Option<SplitTables>, StoreError> {
    if damaged(tables, nodes).next().is_none() {
        return Ok(None);
    }
    // Another process may have given it up, which it does only when all splits are out of service.
    let table = &row.table.name;
    let tables = store.read_split_tables(table).await?;
    let damaged: Vec<_> = damaged(&tables, nodes).collect();
    if damaged.is_empty() {
        return Ok(Some(tables));
    }
    for (split_table, _, damage) in &damaged {
        tracing::warn!(
            %table, split_table, ?damage,
            "a split table was changed around the proxies; all splits of its original go out of service"
        );
    }
    if let Err(error) = give_up(store, row, &damaged).await {
        tracing::warn!(%table, %error, "the splits of the table are not out of service yet, trying again");
        return Err(error);
    }
    if let Some(watched) = known.table(&table.keyspace, &table.table) {
        watched.following.out_of_service.increment(1);
    }
    store.read_split_tables(table).await.map(Some)
}

async fn give_up(
    store: &Store,
    row: &WatchedRow,
    damaged: &[(&str, Uuid, Damage)],
) -> Result<(), StoreError> {
    let (table, shards) = (&row.table.name, row.table.shards);
    store.take_out_of_service(table, shards).await?;
    for (split_table, id, _) in damaged {
        store.give_up_lost(table, split_table, *id).await?;
    }
    // Plans that began in between may use a table that was just given up.
    store.take_out_of_service(table, shards).await
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn what_was_dropped_or_truncated_on_any_node_is_damaged() {
        let ids = |ids: &[(&str, u128)]| -> BTreeMap<String, Uuid> {
            let id = |(name, id): &(&str, u128)| ((*name).to_owned(), Uuid::from_u128(*id));
            ids.iter().map(id).collect()
        };
        let tables = SplitTables {
            in_use: ids(&[("wide_t_1", 1), ("wide_t_2", 2)]),
            lost: ids(&[("wide_t_3", 3)]),
            ..SplitTables::default()
        };
        let node = |truncated: &[u128]| NodeFacts {
            host_id: Uuid::from_u128(9),
            schema_version: None,
            truncated_at: truncated
                .iter()
                .map(|id| (Uuid::from_u128(*id), 7))
                .collect::<HashMap<_, _>>(),
        };
        let nodes = [node(&[]), node(&[2, 8])];
        let found: Vec<_> = damaged(&tables, &nodes).collect();
        let (second, third) = (Uuid::from_u128(2), Uuid::from_u128(3));
        let expected = [
            ("wide_t_3", third, Damage::Dropped),
            ("wide_t_2", second, Damage::Truncated),
        ];
        assert_eq!(found, expected);
        assert_eq!(damaged(&SplitTables::default(), &nodes).count(), 0);
    }
}
