//! What this proxy knows of the watched tables: the one thing that sessions ask. Asking never waits for a lock.
//!
//! Filled by `follow`. A table that is not here is not watched, as far as [`Known::catalog`] is fresh.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::freshness::Freshness;
use super::metrics::TableMetrics;
use super::names::{PartitionKey, TableName};
use super::sighting::Answers;
use super::slot::TableShards;
use super::store::SplitId;
use super::validate::Validations;
use super::watched::{Mode, WatchedTable};
use crate::filter::{TableFilter, Target};
use crate::schema::TableSchema;

/// One watched table.
pub struct Watched {
    name: TableName,
    /// What the filter and the validations were made for.
    shards: u32,
    settings: ArcSwap<WatchedTable>,
    /// Somebody has looked at the original since it is watched: earlier splits of it are out of service.
    seen: AtomicBool,
    /// What the original looks like, while all nodes agree on it.
    schema: ArcSwapOption<TableSchema>,
    pub filter: TableFilter,
    pub freshness: Freshness,
    pub validations: Validations<TableShards>,
    pub metrics: TableMetrics,
    /// Reads that show that the table as a whole is well.
    pub answers: Answers,
}

impl Watched {
    pub fn new(
        settings: WatchedTable,
        filter: TableFilter,
        freshness: Freshness,
        validations: Validations<TableShards>,
        metrics: TableMetrics,
    ) -> Self {
        Self {
            name: settings.name.clone(),
            shards: settings.shards,
            settings: ArcSwap::from_pointee(settings),
            seen: AtomicBool::new(false),
            schema: ArcSwapOption::empty(),
            filter,
            freshness,
            validations,
            metrics,
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

    pub(super) fn set_seen(&self, seen: bool) {
        self.seen.store(seen, Ordering::Release);
    }

    /// `None`: not known, or just being changed.
    pub fn schema(&self) -> Option<Arc<TableSchema>> {
        self.schema.load_full()
    }

    pub fn set_schema(&self, schema: Option<Arc<TableSchema>>) {
        let before = self.schema.load();
        // The same one stays, so that what was made for it does.
        if before.as_deref() != schema.as_deref() {
            self.schema.store(schema);
        }
    }

    pub fn split(&self, key: PartitionKey) -> SplitId {
        SplitId::new(self.name.clone(), key, self.shards)
    }

    /// `false` is a guarantee, as far as the knowledge goes: the partition is neither split nor guarded.
    pub fn might_be_split(&self, target: &Target<'_>) -> bool {
        let answer = self.filter.might_match(target);
        self.metrics.count_check(target, answer);
        answer
    }
}

type Tables = HashMap<String, HashMap<String, Arc<Watched>>>;

/// All watched tables.
pub struct Known {
    tables: ArcSwap<Tables>,
    /// How well the list itself is known.
    pub catalog: Freshness,
}

impl Known {
    pub fn new(catalog: Freshness) -> Self {
        Self {
            tables: ArcSwap::default(),
            catalog,
        }
    }

    pub fn table(&self, keyspace: &str, table: &str) -> Option<Arc<Watched>> {
        self.tables.load().get(keyspace)?.get(table).cloned()
    }

    pub fn tables(&self) -> Vec<Arc<Watched>> {
        let tables = self.tables.load();
        tables.values().flat_map(HashMap::values).cloned().collect()
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
    }
}
