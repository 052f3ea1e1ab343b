//! What this process knows of the record of splits, and what it does with that knowledge.
//!
//! Sessions ask [`Known`], which never makes them wait for a lock. A table that is not in it is not watched, provided
//! that [`Known::catalog`] is fresh.
//! - `follow` keeps the knowledge fresh. `freshness` and `clock` measure how fresh it is, `view` has the rules for
//!   reading a shard, and `snapshot` keeps filters across restarts.
//! - `lookup` tells whether a partition is split: `validate` reads the shard's version, `cache` and `shared_cache`
//!   (behind a `breaker`) find the layout.
//! - `retire` takes a split out of service before a write to its partition is acknowledged; `taken_out` lets writes
//!   share it when it concerns a whole table.
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
pub mod taken_out;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod view;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use uuid::Uuid;

use self::clock::Moment;
use self::filter_metrics::FilterMetrics;
use self::follow::metrics::TableMetrics;
use self::freshness::Freshness;
use self::lookup::LookupMetrics;
use self::retire::LateWriteMetrics;
use self::slot::TableShards;
use self::taken_out::TakenOut;
use self::validate::Validations;
use crate::filter::{TableFilter, Target};
use crate::schema::TableSchema;
use crate::schema::names::{PartitionKey, TableName};
use crate::sighting::Answers;
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::split_name::{is_name, might_be_name};
use crate::wide_row::store::{Described, SplitId};

/// Less than twice a write timeout, which every guard waits for before its partition is copied.
const UNANNOUNCED_MAX: Duration = Duration::from_secs(1);

/// One watched table.
pub struct Watched {
    name: TableName,
    /// Number of shards that the filter and the validations were made for.
    shards: u32,
    settings: ArcSwap<WatchedTable>,
    /// A proxy has looked at the original since it became watched, so splits from before are out of service.
    seen: AtomicBool,
    /// Id of the table that was last seen under the name.
    table_id: ArcSwapOption<Uuid>,
    /// This proxy has read that table's description.
    described: AtomicBool,
    /// The original's schema; `None` while it is unknown or may be changing.
    schema: ArcSwapOption<TableSchema>,
    /// The last known schema. A partition key is never altered, so keys are computed with it through all changes, until
    /// another table has the name.
    key_schema: ArcSwapOption<TableSchema>,
    /// The names of its split tables; `None` until this proxy has looked.
    split_tables: ArcSwapOption<BTreeSet<String>>,
    pub filter: TableFilter,
    pub freshness: Freshness,
    pub validations: Validations<TableShards>,
    pub filter_metrics: FilterMetrics,
    pub following: TableMetrics,
    pub lookups: LookupMetrics,
    pub late_writes: LateWriteMetrics,
    taken_out: TakenOut,
    /// Counts reads that show that the table as a whole is healthy.
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
            split_tables: ArcSwapOption::empty(),
            filter,
            freshness,
            validations,
            filter_metrics: FilterMetrics::register(&table),
            following: TableMetrics::register(&table),
            lookups: LookupMetrics::register(&table),
            late_writes: LateWriteMetrics::register(&table),
            taken_out: TakenOut::default(),
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

    /// Adopts settings that leave the filter and the number of shards as they are.
    pub(super) fn set_settings(&self, settings: WatchedTable) {
        self.settings.store(Arc::new(settings));
    }

    /// Whether the record of its splits may be trusted.
    pub fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Acquire)
    }

    /// `table_id` is the id of the table that was last seen under the name. If it changed, the old table's schemas are
    /// dropped.
    pub fn set_seen(&self, seen: bool, table_id: Option<Uuid>) {
        self.seen.store(seen, Ordering::Release);
        if self.table_id() != table_id {
            self.described.store(false, Ordering::Release);
            self.schema.store(None);
            self.key_schema.store(None);
            // Stored last: computing keys loads the id first, so it never pairs the new id with the old schema.
            self.table_id.store(table_id.map(Arc::new));
        }
    }

    /// Load this before a schema. The schema then belongs to this table or to a later one, and comparing the ids
    /// afterwards reveals a later one.
    pub fn table_id(&self) -> Option<Uuid> {
        self.table_id.load().as_deref().copied()
    }

    /// `None` if it is unknown, or may be changing.
    pub fn schema(&self) -> Option<Arc<TableSchema>> {
        self.schema.load_full()
    }

    /// Adopts a description, if it is of the table that was last seen under the name.
    pub fn set_schema(&self, described: &Described) {
        let Described {
            table_id, schema, ..
        } = described;
        if self.table_id() != *table_id {
            return;
        }
        // An equal schema keeps its `Arc`, so that what was derived from it stays valid.
        if self.schema.load().as_deref() != schema.as_deref() {
            if let Some(schema) = schema {
                self.key_schema.store(Some(schema.clone()));
                if let Some(why) = self.settings().inert_limit(schema) {
                    tracing::warn!(table = %self.name(), %why, "accept_limit has no effect");
                }
            }
            self.schema.store(schema.clone());
        }
        self.described.store(true, Ordering::Release);
    }

    /// Adopts the partition key, if it is not known yet. It stays the same whatever else is being changed.
    pub(super) fn set_key_schema(&self, described: &Described) {
        let is_news = !self.is_described() && described.schema.is_some();
        if is_news && self.table_id() == described.table_id {
            self.key_schema.store(described.schema.clone());
            self.described.store(true, Ordering::Release);
        }
    }

    /// The table may be changing. Until its schema is known again, the original answers reads.
    pub(super) fn forget_schema(&self) {
        self.schema.store(None);
    }

    /// The schema with which the keys of writes are computed. `None` if this proxy has not read the table's description
    /// yet, or if the table is of a kind that cannot be split.
    pub fn key_schema(&self) -> Option<Arc<TableSchema>> {
        self.key_schema.load_full()
    }

    /// Whether the table's description was read: waiting brings no better [`Self::key_schema`].
    pub fn is_described(&self) -> bool {
        self.described.load(Ordering::Acquire)
    }

    /// Whether the table's split tables were looked for.
    pub(super) fn knows_split_tables(&self) -> bool {
        self.split_tables.load().is_some()
    }

    pub fn set_split_tables(&self, names: BTreeSet<String>) {
        if self.split_tables.load().as_deref() != Some(&names) {
            self.split_tables.store(Some(Arc::new(names)));
        }
    }

    /// Whether a table with a name that Narrows gives is a split table of this one. `None`: not known yet.
    fn has_split_table(&self, name: &str) -> Option<bool> {
        let names = self.split_tables.load();
        names.as_deref().map(|names| names.contains(name))
    }

    /// Whether no partition is split or guarded, as far as this process knows.
    pub fn has_no_splits(&self) -> bool {
        let stats = self.filter.stats();
        stats.keys == 0 && stats.shards_unknown == 0
    }

    /// The part of the freshness that concerns a key: its shard.
    pub fn part_of(&self, key: &PartitionKey) -> usize {
        self.filter.shard_of(key.bytes())
    }

    pub fn split_id(&self, key: PartitionKey) -> SplitId {
        SplitId::new(self.name.clone(), key, self.shards)
    }

    /// `false` guarantees that none of these partitions is split or guarded, as far as the knowledge is fresh. If their
    /// keys begin alike and a policy knows such prefixes, one look-up may settle the whole list.
    pub fn might_any_be_split<'a, K>(&self, keys: K) -> bool
    where
        K: ExactSizeIterator<Item = &'a [u8]> + Clone,
    {
        // Most requests have one key.
        if keys.len() > 1 {
            let prefix = self.filter.snapshot().shared_prefix(keys.clone());
            if prefix.is_some_and(|prefix| !self.might_be_split(&Target::prefix(prefix))) {
                return false;
            }
        }
        let mut keys = keys;
        keys.any(|key| self.might_be_split(&Target::key(key)))
    }

    /// `false` guarantees that the partition is neither split nor guarded, as far as the knowledge is fresh.
    pub fn might_be_split(&self, target: &Target<'_>) -> bool {
        let answer = self.filter.might_match(target);
        self.filter_metrics.count_check(target, answer);
        answer
    }
}

type Tables = HashMap<String, HashMap<String, Arc<Watched>>>;

/// Whom a table belongs to that has a name of a split table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// It is a split table of this original.
    Original(TableName),
    /// The proxy does not know yet what it is.
    Unknown,
}

/// Counts how often the list of watched tables was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListVersion(u64);

/// All watched tables.
pub struct Known {
    tables: ArcSwap<Tables>,
    list: AtomicU64,
    /// Freshness of the list itself.
    pub catalog: Freshness,
    /// Workers know how long this proxy may act on what it knows.
    announced: AtomicBool,
}

impl Known {
    pub fn new(catalog: Freshness) -> Self {
        Self {
            tables: ArcSwap::default(),
            list: AtomicU64::new(0),
            catalog,
            announced: AtomicBool::new(false),
        }
    }

    pub fn set_announced(&self) {
        self.announced.store(true, Ordering::Release);
    }

    /// Whether a moment at which a table had no split table is recent enough to let a write pass. Until workers know
    /// this proxy's `max_staleness`, they may wait only as long as any of them always does.
    pub fn allows(&self, moment: Moment) -> bool {
        let is_announced = self.announced.load(Ordering::Acquire);
        is_announced && self.catalog.allows(moment)
            || self.catalog.now().since(moment) <= UNANNOUNCED_MAX
    }

    /// Load this before looking up a table: what is found then belongs to this version or a later one.
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

    /// Whose split table this is. `None`: it is none, whatever its name. Without a keyspace, a table of this name in
    /// any keyspace counts.
    pub fn owner(&self, keyspace: Option<&str>, table: &str) -> Option<Owner> {
        if !might_be_name(table) {
            return None;
        }
        let tables = self.tables.load();
        let of_keyspace = |(name, watched): (&String, &HashMap<String, Arc<Watched>>)| {
            let is_meant = keyspace.is_none_or(|keyspace| keyspace == name);
            if !is_meant || watched.contains_key(table) {
                return None;
            }
            let named = |watched: &&Arc<Watched>| {
                watched.settings().is_sound() && is_name(&watched.name.table, table)
            };
            watched.values().filter(named).find_map(|watched| {
                match watched.has_split_table(table) {
                    Some(true) => Some(Owner::Original(watched.name.clone())),
                    Some(false) => None,
                    None => Some(Owner::Unknown),
                }
            })
        };
        tables.iter().find_map(of_keyspace)
    }

    /// Whether the name is one of a split table of a watched table. `false` for a table that is watched itself. For
    /// events, which come before the proxy can know the table.
    pub fn is_split_name(&self, keyspace: &str, table: &str) -> bool {
        let tables = self.tables.load();
        let Some(watched) = tables.get(keyspace) else {
            return false;
        };
        !watched.contains_key(table) && watched.keys().any(|original| is_name(original, table))
    }

    /// Whether the list of tables, and every table on it, was loaded at least once.
    pub fn is_loaded(&self) -> bool {
        let tables = self.tables.load();
        // A table that cannot be followed was reported, and must not keep the others waiting.
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
