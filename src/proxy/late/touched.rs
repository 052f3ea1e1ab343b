//! The partitions of watched tables that a request touches, or why they are not known.

use std::sync::Arc;

use uuid::Uuid;

use crate::filter::Target;
use crate::known::freshness::{Age, Parts};
use crate::known::{Known, Watched};
use crate::proxy::concern::Stale;
use crate::schema::names::{PartitionKey, TableName};
use crate::statement::touches::Change;
use crate::wide_row::clock::unix_millis;

/// Maximum number of keys of a batch. The keys of a larger batch count as unknown.
const KEYS_MAX: usize = 100_000;
/// The same in bytes: a short `IN` list can expand to many keys.
const KEYS_BYTES_MAX: usize = 4 << 20;
/// The memory that a key takes in addition to its bytes.
const KEY_OVERHEAD: usize = 32;

/// Everything that a request touches. Each table occurs once.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) tables: Vec<TouchedTable>,
}

pub(super) struct TouchedTable {
    pub(super) watched: Arc<Watched>,
    /// The table that the keys belong to: another table of the same name may have another partition key.
    table_id: Option<Uuid>,
    pub(super) keys: Keys,
    /// The memory that the keys take.
    bytes: usize,
}

/// The touched partitions of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Keys {
    Known(Vec<PartitionKey>),
    /// They cannot be computed from the statement and its values.
    Unknown,
    /// The table's schema is not known, so they cannot be computed.
    NoSchema,
    /// All of them.
    Whole(Change),
}

impl Keys {
    /// Adds the keys of another statement of the same batch.
    fn join(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Known(keys), Self::Known(more)) => {
                // Most batches stay in one partition.
                let is_news = |key: &PartitionKey| keys.last() != Some(key);
                let news: Vec<_> = more.into_iter().filter(is_news).collect();
                keys.extend(news);
                if keys.len() > KEYS_MAX {
                    *self = Self::Unknown;
                }
            }
            (Self::Known(_), other) => *self = other,
            (_, _) => {}
        }
    }

    /// The memory that the keys from this one on take.
    fn bytes_from(&self, first: usize) -> usize {
        let size = |key: &PartitionKey| key.bytes().len() + KEY_OVERHEAD;
        match self {
            Self::Known(keys) => keys.iter().skip(first).map(size).sum(),
            Self::Unknown | Self::NoSchema | Self::Whole(_) => 0,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Known(keys) => keys.len(),
            Self::Unknown | Self::NoSchema | Self::Whole(_) => 0,
        }
    }

    fn are_clear(&self, watched: &Watched) -> bool {
        match self {
            Self::Known(keys) => !watched.might_any_be_split(keys.iter().map(PartitionKey::bytes)),
            Self::Unknown | Self::NoSchema => watched.has_no_splits(),
            Self::Whole(_) => false,
        }
    }
}

fn might_be_guarded(watched: &Watched, key: &PartitionKey) -> bool {
    watched.might_be_split(&Target::key(key.bytes()))
}

impl Touched {
    /// `table_id`: read before the keys were computed.
    pub(super) fn add(&mut self, watched: &Arc<Watched>, table_id: Option<Uuid>, keys: Keys) {
        let same = |table: &&mut TouchedTable| Arc::ptr_eq(&table.watched, watched);
        match self.tables.iter_mut().find(same) {
            Some(table) if table.table_id == table_id => table.join(keys),
            Some(table) => table.join(Keys::Unknown),
            None => self.tables.push(TouchedTable {
                watched: watched.clone(),
                table_id,
                bytes: keys.bytes_from(0),
                keys,
            }),
        }
    }

    /// The memory that all keys take.
    pub(super) fn key_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub(super) fn has(&self, name: &TableName) -> bool {
        self.tables.iter().any(|table| table.watched.name() == name)
    }

    /// The shards that are too stale to say whether a touched partition is guarded. `None`: none is.
    pub(super) fn stale(&self) -> Option<Stale> {
        let is_stale = |table: &&TouchedTable| table.age() != Age::Fresh;
        let stale = |table: &TouchedTable| (table.watched.clone(), table.parts(&table.watched));
        let stale: Vec<_> = self.tables.iter().filter(is_stale).map(stale).collect();
        (!stale.is_empty()).then_some(Stale::Tables(stale))
    }

    /// Whether no touched partition is guarded or split, as far as the proxy knows. Freshness is checked separately.
    pub(super) fn is_clear(&self) -> bool {
        let clear = |table: &TouchedTable| table.keys.are_clear(&table.watched);
        self.tables.iter().all(clear)
    }

    pub(super) fn is_past_accept_limit(&self) -> bool {
        self.tables.iter().any(TouchedTable::is_past_accept_limit)
    }

    /// Like `is_clear`, but with current knowledge, and only if it is fresh: a table may have been replaced in the list
    /// since.
    pub(super) fn is_surely_clear(&self, known: &Known) -> bool {
        let clear = |table: &TouchedTable| {
            let name = table.watched.name();
            known
                .table(&name.keyspace, &name.table)
                .is_none_or(|watched| {
                    let is_fresh = watched.freshness.age_of(&table.parts(&watched)) == Age::Fresh;
                    is_fresh && table.is_of(&watched) && table.keys.are_clear(&watched)
                })
        };
        self.tables.iter().all(clear)
    }

    /// The same tables with current knowledge. Tables that are no longer watched are left out.
    pub(super) fn refreshed(mut self, known: &Known) -> Self {
        self.tables.retain_mut(|table| {
            let name = table.watched.name();
            let watched = known.table(&name.keyspace, &name.table);
            watched.map(|watched| table.follow(watched)).is_some()
        });
        self
    }

    /// Whether the knowledge about these tables is fresh enough to say that a partition is not guarded.
    pub(super) fn is_fresh(&self, known: &Known) -> bool {
        let fresh = |table: &TouchedTable| table.age() == Age::Fresh && table.is_of(&table.watched);
        known.catalog.age() == Age::Fresh && self.tables.iter().all(fresh)
    }
}

impl TouchedTable {
    fn join(&mut self, keys: Keys) {
        let before = self.keys.len();
        self.keys.join(keys);
        self.bytes += self.keys.bytes_from(before);
        if self.bytes > KEYS_BYTES_MAX {
            self.keys = Keys::Unknown;
        }
        if self.keys.len() == 0 {
            self.bytes = 0;
        }
    }

    /// The shards that the keys are in.
    pub(super) fn parts(&self, watched: &Watched) -> Parts {
        match &self.keys {
            Keys::Known(keys) => {
                let mut parts: Vec<usize> = keys.iter().map(|key| watched.part_of(key)).collect();
                parts.sort_unstable();
                parts.dedup();
                Parts::Some(parts)
            }
            Keys::Unknown | Keys::NoSchema | Keys::Whole(_) => Parts::All,
        }
    }

    /// The age of the knowledge about the keys.
    pub(super) fn age(&self) -> Age {
        self.watched.freshness.age_of(&self.parts(&self.watched))
    }

    fn is_of(&self, watched: &Watched) -> bool {
        self.table_id == watched.table_id()
    }

    /// Switches to the table that has the name now. Keys of the old table say nothing about it.
    fn follow(&mut self, watched: Arc<Watched>) {
        if !self.is_of(&watched) && matches!(self.keys, Keys::Known(_)) {
            self.keys = Keys::Unknown;
        }
        self.table_id = watched.table_id();
        self.watched = watched;
    }

    /// Whether the request cannot succeed without writing this table.
    pub(super) fn is_surely_written(&self) -> bool {
        match &self.keys {
            Keys::Known(keys) => !keys.is_empty(),
            Keys::Whole(_) => true,
            Keys::Unknown | Keys::NoSchema => false,
        }
    }

    /// The known keys that might be guarded or split.
    pub(super) fn suspects(&self) -> Vec<PartitionKey> {
        match &self.keys {
            Keys::Known(keys) => {
                let suspect = |key: &&PartitionKey| might_be_guarded(&self.watched, key);
                let mut suspects: Vec<_> = keys.iter().filter(suspect).cloned().collect();
                suspects.sort();
                suspects.dedup();
                suspects
            }
            Keys::Unknown | Keys::NoSchema | Keys::Whole(_) => Vec::new(),
        }
    }

    /// Whether the table rejects late writes and one of the partitions is past its `accept_limit`, split or not.
    pub(super) fn is_past_accept_limit(&self) -> bool {
        let settings = self.watched.settings();
        if !settings.closes() {
            return false;
        }
        let (Keys::Known(keys), Some(schema)) = (&self.keys, self.watched.key_schema()) else {
            return false;
        };
        let now = unix_millis();
        let is_past = |key: &PartitionKey| {
            let end = settings.accepted_until(&schema, key);
            end.is_some_and(|end| end <= now)
        };
        keys.iter().any(is_past)
    }
}

impl std::fmt::Debug for TouchedTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {:?}", self.watched.name(), self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::testing;
    use crate::watched::WatchedTable;

    fn known(keys: &[u8]) -> Keys {
        Keys::Known(keys.iter().map(|key| PartitionKey::new([*key])).collect())
    }

    #[test]
    fn a_batch_touches_what_its_statements_do_and_what_is_unknown_stays_so() {
        let mut keys = known(&[1, 2]);
        keys.join(known(&[2]));
        keys.join(known(&[3]));
        assert_eq!(keys, known(&[1, 2, 3]));
        keys.join(Keys::Unknown);
        assert_eq!(keys, Keys::Unknown);
        keys.join(known(&[4]));
        assert_eq!(keys, Keys::Unknown);
    }

    #[tokio::test]
    async fn keys_that_take_too_much_are_unknown() {
        let name = TableName::new("plant", "reading");
        let watched = testing::watched(WatchedTable::new(name));
        let long = |number: u8| Keys::Known(vec![PartitionKey::new(vec![number; 60_000])]);
        let mut touched = Touched::default();
        for number in 0..60 {
            touched.add(&watched, None, long(number));
        }
        assert_eq!(touched.key_bytes(), 60 * (60_000 + KEY_OVERHEAD));
        touched.add(&watched, None, long(59));
        assert_eq!(touched.key_bytes(), 60 * (60_000 + KEY_OVERHEAD));
        for number in 60..80 {
            touched.add(&watched, None, long(number));
        }
        assert_eq!(touched.tables[0].keys, Keys::Unknown);
        assert_eq!(touched.key_bytes(), 0);
    }
}
