//! Drops split tables a day after they were first seen to be unused, and at once those that were given up because
//! somebody damaged them. Only tables that Narrows made: a table of such a name that a person made stays.
//!
//! A split refers to the table that holds its buckets, even while it is out of service and waits for its clean-up. A
//! split that is yet to be planned refers to the table made for the original's present schema.

use std::collections::BTreeSet;

use super::GRACE;
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::wide_row::layout::LayoutId;
use crate::wide_row::names::Generation;
use crate::wide_row::state::State;
use crate::wide_row::store::{Listed, MadeTable, Split, Store, StoreError};

/// Maximum number of layouts to read for one shard in one pass. If there are more, all tables count as used until the
/// next pass.
const LAYOUTS_MAX: usize = 10_000;

/// Finds the unused split tables of an original, and drops those that have been unused for a day. Returns how many it
/// dropped.
pub async fn drop_unused(
    store: &Store,
    original: &TableSchema,
    shards: u32,
    now: i64,
) -> Result<usize, StoreError> {
    let table = TableName::new(&original.keyspace, &original.table);
    let made = store.made_tables(&table, Some(original)).await?;
    let living: Vec<&MadeTable> = made.iter().filter(|made| !made.is_given_up).collect();
    let unused = unused(store, &table, shards, &living).await?;
    retire(store, &table, made, |name| unused.contains(name), now).await
}

/// Records which of the tables that Narrows made are unused, and drops those that have been unused for a day.
pub(super) async fn retire(
    store: &Store,
    original: &TableName,
    made: Vec<MadeTable>,
    is_unused: impl Fn(&str) -> bool,
    now: i64,
) -> Result<usize, StoreError> {
    // Includes tables of a worker that died before it could drop them.
    let (mut given_up, living): (Vec<_>, Vec<_>) =
        made.into_iter().partition(|table| table.is_given_up);
    for table in living {
        match fate(table.unused_since, is_unused(&table.name), now) {
            Fate::Stays => {}
            Fate::Noted(since) => {
                store.set_unused(original, &table, since).await?;
            }
            Fate::Goes => {
                if store.give_up(original, &table, now).await? {
                    given_up.push(table);
                }
            }
        }
    }
    let mut dropped = 0;
    for table in given_up {
        if store.drop_split_table(original, &table).await? {
            let (keyspace, name) = (&original.keyspace, &table.name);
            tracing::info!(%keyspace, table = %name, "dropped a split table that was unused for a day, or given up");
            dropped += 1;
        }
    }
    Ok(dropped)
}

/// What to do with a split table, or with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// Record since when it is unused; `None` if it is used again.
    Noted(Option<i64>),
    Goes,
}

pub(super) fn fate(since: Option<i64>, is_unused: bool, now: i64) -> Fate {
    let grace = i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX);
    match (is_unused, since) {
        (true, None) => Fate::Noted(Some(now)),
        (true, Some(since)) if since.saturating_add(grace) <= now => Fate::Goes,
        (false, Some(_)) => Fate::Noted(None),
        (true, Some(_)) | (false, None) => Fate::Stays,
    }
}

/// The names of the tables that no split refers to.
async fn unused(
    store: &Store,
    table: &TableName,
    shards: u32,
    made: &[&MadeTable],
) -> Result<BTreeSet<String>, StoreError> {
    let mut unused: BTreeSet<String> = made.iter().map(|table| table.name.clone()).collect();
    let current = made.iter().filter(|table| table.is_current);
    let current: Vec<&str> = current.map(|table| table.name.as_str()).collect();
    if unused.is_empty() {
        return Ok(unused);
    }
    let readings = store.read_shards(table, shards).await?;
    for reading in readings {
        let mut found = References::default();
        store
            .list_shard(table, reading.shard, |listed| found.add(table, listed))
            .await?;
        if found.is_unsure || found.layouts.len() > LAYOUTS_MAX {
            return Ok(BTreeSet::new());
        }
        unused.retain(|name| !found.tables.contains(name));
        if found.is_planning {
            unused.retain(|name| !current.contains(&name.as_str()));
        }
        for id in &found.layouts {
            if unused.is_empty() {
                return Ok(unused);
            }
            if let Some(layout) = store.read_layout(id).await? {
                unused.remove(&layout.split_table);
            }
        }
    }
    Ok(unused)
}

/// What the splits of a shard refer to.
#[derive(Debug, Default)]
struct References {
    tables: BTreeSet<String>,
    /// Layouts of generations that may have buckets; each names its split table.
    layouts: Vec<LayoutId>,
    /// A split is yet to be planned, or is being planned.
    is_planning: bool,
    /// There is a split that this version does not understand.
    is_unsure: bool,
}

impl References {
    fn add(&mut self, table: &TableName, listed: Listed) {
        let Some(split) = listed.split else {
            self.is_unsure = true;
            return;
        };
        self.is_planning |= is_to_be_planned(&split);
        let current = split.standing.generation;
        let oldest = split.oldest_generation.unwrap_or(current);
        for generation in (oldest.0..=current.0).map(Generation) {
            match &split.post_split_data {
                Some(copy) if generation == current => {
                    self.tables.insert(copy.split_table.clone());
                }
                _ if self.layouts.len() <= LAYOUTS_MAX => self.layouts.push(LayoutId {
                    table: table.clone(),
                    key: listed.key.clone(),
                    generation,
                }),
                _ => return,
            }
        }
    }
}

fn is_to_be_planned(split: &Split) -> bool {
    let standing = split.standing;
    standing.row_epoch == standing.epoch && standing.state == State::Detected
}

#[cfg(test)]
mod tests {
    use super::super::tests::split;
    use super::*;
    use crate::schema::names::PartitionKey;
    use crate::wide_row::state::PostSplitData;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_table_goes_a_day_after_it_was_first_seen_unused() {
        let now = 100 * HOUR;
        for (since, is_unused, expected) in [
            (None, false, Fate::Stays),
            (None, true, Fate::Noted(Some(now))),
            (Some(now - 23 * HOUR), true, Fate::Stays),
            (Some(now - 24 * HOUR), true, Fate::Goes),
            (Some(now - 25 * HOUR), false, Fate::Noted(None)),
            // A clock that was ahead.
            (Some(now + 25 * HOUR), true, Fate::Stays),
        ] {
            assert_eq!(fate(since, is_unused, now), expected, "{since:?}");
        }
    }

    fn references(split: Option<Split>) -> References {
        let mut found = References::default();
        let key = PartitionKey::new(*b"k");
        found.add(&TableName::new("ks", "t"), Listed { key, split });
        found
    }

    fn generations(found: &References) -> Vec<i32> {
        found.layouts.iter().map(|id| id.generation.0).collect()
    }

    #[test]
    fn every_generation_that_may_have_buckets_is_a_reference() {
        // Of the generations 10 to 12.
        let copying = references(Some(split(State::Copying, (1, 1), 0, 0)));
        assert_eq!(generations(&copying), [10, 11, 12]);
        assert!(!copying.is_planning && !copying.is_unsure);
        let mut completed = split(State::Completed, (1, 1), 0, 0);
        completed.post_split_data = Some(PostSplitData {
            split_table: "wide_t_1".to_owned(),
            ..PostSplitData::default()
        });
        let found = references(Some(completed.clone()));
        assert_eq!(generations(&found), [10, 11]);
        assert!(found.tables.contains("wide_t_1"));
        // Cleaned up: nothing is left of any of them.
        completed.oldest_generation = Some(Generation(13));
        let found = references(Some(completed));
        assert!(found.tables.is_empty() && found.layouts.is_empty());
    }

    #[test]
    fn what_is_to_be_planned_needs_the_present_table_and_what_is_not_understood_all() {
        assert!(references(Some(split(State::Detected, (1, 1), 0, 0))).is_planning);
        assert!(!references(Some(split(State::Detected, (1, 2), 0, 0))).is_planning);
        assert!(!references(Some(split(State::Refused, (1, 1), 0, 0))).is_planning);
        assert!(references(None).is_unsure);
    }
}
