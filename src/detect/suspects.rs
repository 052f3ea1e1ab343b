//! Partitions with signs that say something only if they recur. Those that may have other causes than the partition
//! must recur while reads of the rest of the table go well.

use std::time::{Duration, Instant};

use super::fingerprint::{PartitionFingerprint, table_fingerprint};
use super::recent::Recent;
use crate::schema::names::TableName;

/// Number of signs that make a partition a suspect.
const SIGNS: u32 = 3;
/// Signs that are closer together count as one: a node that is down causes many in a short time.
pub(super) const APART: Duration = Duration::from_secs(10);
/// A partition's signs are forgotten this long after the first.
const MEMORY: Duration = Duration::from_secs(600);
/// At least this many reads of the table must have gone well, plus this many for each sign of another partition.
const WELL_PER_SIGN: u64 = 10;
const SUSPECTS_MAX: usize = 10_000;
const TABLES_MAX: usize = 4_096;
/// A table has a turn this often.
pub(super) const TURN_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Suspects {
    partitions: Recent<PartitionFingerprint, Suspect>,
    /// The number of signs of each table, whatever the partition.
    tables: Recent<u64, u64>,
}

struct Suspect {
    signs: u32,
    last: Instant,
    /// All signs of the partition, including those that are close together.
    own_signs: u64,
    /// The table's counts before the first sign.
    well_before: u64,
    signs_before: u64,
}

impl Suspects {
    pub(super) fn new() -> Self {
        Self {
            partitions: Recent::new(SUSPECTS_MAX),
            tables: Recent::new(TABLES_MAX),
        }
    }

    /// Whether this sign makes the partition one to report. `well`: how many reads of the table have gone well so far;
    /// `None` if the sign has no other cause.
    pub(super) fn add(
        &mut self,
        table: &TableName,
        partition: PartitionFingerprint,
        well: Option<u64>,
        now: Instant,
    ) -> bool {
        self.partitions.expire(MEMORY, now);
        let signs_before = self.count(table, now);
        let Some(suspect) = self.partitions.get_mut(&partition) else {
            let suspect = Suspect {
                signs: 1,
                last: now,
                own_signs: 1,
                well_before: well.unwrap_or(0),
                signs_before,
            };
            self.partitions.put(partition, suspect, now);
            return false;
        };
        suspect.own_signs += 1;
        if now.saturating_duration_since(suspect.last) < APART {
            return false;
        }
        suspect.signs += 1;
        suspect.last = now;
        if suspect.signs < SIGNS {
            return false;
        }
        let signs = (signs_before + 1).saturating_sub(suspect.signs_before);
        let others = signs.saturating_sub(suspect.own_signs);
        let well_before = suspect.well_before;
        self.partitions.remove(&partition);
        let wanted = WELL_PER_SIGN.saturating_mul(others.saturating_add(1));
        well.is_none_or(|well| well.saturating_sub(well_before) >= wanted)
    }

    /// How many signs the table had before this one.
    fn count(&mut self, table: &TableName, now: Instant) -> u64 {
        let table = table_fingerprint(table);
        let before = self.tables.get(&table).copied().unwrap_or(0);
        self.tables.put(table, before + 1, now);
        before
    }
}

/// Lets each table do something once in a while.
pub(super) struct Turns(Recent<u64, ()>);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Recent::new(TABLES_MAX))
    }

    /// Whether it is the table's turn.
    pub(super) fn take(&mut self, table: &TableName, now: Instant) -> bool {
        self.0.expire(TURN_EVERY, now);
        let table = table_fingerprint(table);
        let is_free = self.0.get(&table).is_none();
        if is_free {
            self.0.put(table, (), now);
        }
        is_free
    }
}
