//! What this process knows of the record of splits, and what it does with that knowledge.
//!
//! [`Known`] is the one thing that sessions ask, and asking never waits for a lock. A table that is not in it is not
//! watched, as far as [`Known::catalog`] is fresh.
//! - `follow` keeps the knowledge fresh; `freshness` and `clock` say how fresh, `view` what follows from a reading of a shard;
//!   `snapshot` keeps filters over a restart.
//! - `lookup` answers whether a partition is split: `validate` asks for the shard's version, `cache` and `shared_cache`
//!   (behind a `breaker`) for the layout.
//! - `retire` takes a split out of service before a write to its partition is made.
//! - `service` runs all of it on a thread of its own; `slot` holds the store once it is open.

pub mod breaker;
pub mod cache;
pub mod clock;
mod filter_metrics;
pub mod follow;
pub mod freshness;
pub mod lookup;
pub mod retire;
pub mod service;
pub mod shared_cache;
pub mod slot;
pub mod snapshot;
#[cfg(test)]
pub(crate) mod testing;
pub mod validate;
pub mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use uuid::Uuid;

use self::filter_metrics::FilterMetrics;
use self::follow::metrics::TableMetrics;
use self::freshness::Freshness;
use self::lookup::LookupMetrics;
use self::retire::LateWriteMetrics;
use self::slot::TableShards;
use self::validate::Validations;
use crate::filter::{TableFilter, Target};
use crate::schema::TableSchema;
use crate::schema::names::{PartitionKey, TableName};
use crate::sighting::Answers;
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::split_name::is_name;
use crate::wide_row::store::{Described, SplitId};

/// One watched table.
pub struct Watched {
    name: TableName,
    /// What the filter and the validations were made for.
    shards: u32,
    settings: ArcSwap<WatchedTable>,
    /// Somebody has looked at the original since it is watched: earlier splits of it are out of service.
    seen: AtomicBool,
    /// The table that has the name, as far as anybody saw.
    table_id: ArcSwapOption<Uuid>,
    /// This proxy has looked at that one.
    described: AtomicBool,
    /// What the original looks like, while all nodes agree on it.
    schema: ArcSwapOption<TableSchema>,
    /// The last one that was known: a table's partition key is never altered, so keys are computed with it whatever changes,
    /// until another table has the name.
    key_schema: ArcSwapOption<TableSchema>,
    pub filter: TableFilter,
    pub freshness: Freshness,
    pub validations: Validations<TableShards>,
    pub filter_metrics: FilterMetrics,
    pub following: TableMetrics,
    pub lookups: LookupMetrics,
    pub late_writes: LateWriteMetrics,
    /// Reads that show that the table as a whole is well.
    pub answers: Answers,
}

impl Watched {
    pub fn new(
        settings: WatchedTable,
        filter: TableFilter,
        freshness: Freshness,
        validations: Validations<TableShards>,
    ) -> Self {
        let table = settings.name.to_string();
        Self {
            name: settings.name.clone(),
            shards: settings.shards,
            settings: ArcSwap::from_pointee(settings),
            seen: AtomicBool::new(false),
            table_id: ArcSwapOption::empty(),
            described: AtomicBool::new(false),
            schema: ArcSwapOption::empty(),
            key_schema: ArcSwapOption::empty(),
            filter,
            freshness,
            validations,
            filter_metrics: FilterMetrics::register(&table),
            following: TableMetrics::register(&table),
            lookups: LookupMetrics::register(&table),
            late_writes: LateWriteMetrics::register(&table),
            answers: Answers::default(),
        }
    }

    pub fn name(&self) -> &TableName {
        &self.name
    }

    pub fn shards(&self) -> u32 {
        self.shards
    }

    pub fn mode(&self) -> Mode {
        self.settings.load().mode
    }

    pub fn settings(&self) -> Arc<WatchedTable> {
        self.settings.load_full()
    }

    /// Takes over settings that need no other filter and no other shards.
    pub(super) fn set_settings(&self, settings: WatchedTable) {
        self.settings.store(Arc::new(settings));
    }

    /// What is split of it may be believed.
    pub fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }

    /// `table_id`: of the table that somebody saw under the name. Keys of another one mean nothing any more.
    pub fn set_seen(&self, seen: bool, table_id: Option<Uuid>) {
        self.seen.store(seen, Ordering::Release);
        if self.table_id() != table_id {
            self.described.store(false, Ordering::Release);
            self.schema.store(None);
            self.key_schema.store(None);
            // Last, since whoever computes keys reads it first: the old schema must not be met with the new id.
            self.table_id.store(table_id.map(Arc::new));
        }
    }

    /// Read before a schema: then that is of this table, or of a later one, which somebody who compares will see.
    pub fn table_id(&self) -> Option<Uuid> {
        self.table_id.load().as_deref().copied()
    }

    /// `None`: not known, or just being changed.
    pub fn schema(&self) -> Option<Arc<TableSchema>> {
        self.schema.load_full()
    }

    /// The table is as described, if it is still the one that was seen.
    pub fn set_schema(&self, described: &Described) {
        let Described {
            table_id, schema, ..
        } = described;
        if self.table_id() != *table_id {
            return;
        }
        // The same one stays, so that what was made for it does.
        if self.schema.load().as_deref() != schema.as_deref() {
            if schema.is_some() {
                self.key_schema.store(schema.clone());
            }
            self.schema.store(schema.clone());
        }
        self.described.store(true, Ordering::Release);
    }

    /// Its partition key, as far as that is not known: it is the same however else the table is being changed.
    pub(super) fn set_key_schema(&self, described: &Described) {
        let is_news = !self.is_described() && described.schema.is_some();
        if is_news && self.table_id() == described.table_id {
            self.key_schema.store(described.schema.clone());
            self.described.store(true, Ordering::Release);
        }
    }

    /// It is being changed, perhaps; who reads it asks the original.
    pub(super) fn forget_schema(&self) {
        self.schema.store(None);
    }

    /// What the keys of writes are computed with. `None`: the table was never described since this proxy runs, or is of a kind
    /// that cannot be split.
    pub fn key_schema(&self) -> Option<Arc<TableSchema>> {
        self.key_schema.load_full()
    }

    /// Its partition key is known, as far as it ever will be.
    pub fn is_described(&self) -> bool {
        self.described.load(Ordering::Acquire)
    }

    /// As far as is known, no partition of it is split or guarded.
    pub fn has_no_splits(&self) -> bool {
        let stats = self.filter.stats();
        stats.keys == 0 && stats.shards_unknown == 0
    }

    pub fn split_id(&self, key: PartitionKey) -> SplitId {
        SplitId::new(self.name.clone(), key, self.shards)
    }

    /// `false` is a guarantee, as far as the knowledge goes: the partition is neither split nor guarded.
    pub fn might_be_split(&self, target: &Target<'_>) -> bool {
        let answer = self.filter.might_match(target);
        self.filter_metrics.count_check(target, answer);
        answer
    }
}

type Tables = HashMap<String, HashMap<String, Arc<Watched>>>;

/// Counts how often the list of watched tables was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListVersion(u64);

/// All watched tables.
pub struct Known {
    tables: ArcSwap<Tables>,
    list: AtomicU64,
    /// How well the list itself is known.
    pub catalog: Freshness,
}

impl Known {
    pub fn new(catalog: Freshness) -> Self {
        Self {
            tables: ArcSwap::default(),
            list: AtomicU64::new(0),
            catalog,
        }
    }

    /// Read before the list: then what is looked up there is of this version or a later one.
    pub fn list(&self) -> ListVersion {
        ListVersion(self.list.load(Ordering::Acquire))
    }

    pub fn table(&self, keyspace: &str, table: &str) -> Option<Arc<Watched>> {
        self.tables.load().get(keyspace)?.get(table).cloned()
    }

    pub fn tables(&self) -> Vec<Arc<Watched>> {
        let tables = self.tables.load();
        tables.values().flat_map(HashMap::values).cloned().collect()
    }

    /// Whether a table has the name of one that holds buckets of a watched table. One that is watched itself is not meant.
    pub fn is_split_table(&self, keyspace: &str, table: &str) -> bool {
        let tables = self.tables.load();
        let Some(watched) = tables.get(keyspace) else {
            return false;
        };
        !watched.contains_key(table) && watched.keys().any(|original| is_name(original, table))
    }

    /// The list of tables and everything on it was loaded once.
    pub fn is_loaded(&self) -> bool {
        let tables = self.tables.load();
        // One that cannot be followed was reported, and must not keep the others waiting.
        let followed = |watched: &&Arc<Watched>| watched.settings().is_sound();
        let mut watched = tables.values().flat_map(HashMap::values).filter(followed);
        self.catalog.is_loaded() && watched.all(|watched| watched.freshness.is_loaded())
    }

    /// Replaces the list.
    pub fn set(&self, watched: impl IntoIterator<Item = Arc<Watched>>) {
        let mut tables = Tables::new();
        for watched in watched {
            let TableName { keyspace, table } = watched.name().clone();
            tables.entry(keyspace).or_default().insert(table, watched);
        }
        self.tables.store(Arc::new(tables));
        self.list.fetch_add(1, Ordering::Release);
    }
}
