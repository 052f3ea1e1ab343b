//! The settings of a watched table, from a configuration file or from the control keyspace. Pure.

use std::time::Duration;

use crate::schema::names::{PartitionKey, TableName};
use crate::schema::{CqlType, TableSchema};

/// Maximum number of `wide_row` partitions per table: all of them are polled.
pub const SHARDS_MAX: u32 = 4096;

/// One `[[table]]` entry, or one row of `watched_table`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedTable {
    pub name: TableName,
    pub mode: Mode,
    /// No split begins its next stage; splits still answer reads, and writes are still checked. Set at run time, never
    /// by a configuration file.
    pub paused: bool,
    pub late_writes: LateWrites,
    /// A partition of this size is wide.
    pub wide_bytes: u64,
    /// The size that one bucket should have; at most `wide_bytes`.
    pub target_bytes: u64,
    /// A partition that would need more buckets gets larger ones instead.
    pub max_buckets: u32,
    /// Number of `wide_row` partitions for this table; a power of two.
    pub shards: u32,
    /// The partition key column that is a time, if there is one.
    pub time_bucket_column: Option<String>,
    /// How much time one partition covers; needs `time_bucket_column`.
    pub time_bucket_width: Option<Duration>,
    /// How long after its end a time bucket may still be written.
    pub accept_limit: Option<Duration>,
    /// A partition without writes for this long counts as closed.
    pub quiet_for: Duration,
    /// The filter policies, as text; at least one.
    pub filter: Vec<String>,
}

impl WatchedTable {
    /// The table with every setting at its default.
    pub fn new(name: TableName) -> Self {
        Self {
            name,
            mode: Mode::Serve,
            paused: false,
            late_writes: LateWrites::Invalidate,
            wide_bytes: 64 << 20,
            target_bytes: 8 << 20,
            max_buckets: 128,
            shards: 2,
            time_bucket_column: None,
            time_bucket_width: None,
            accept_limit: None,
            quiet_for: Duration::from_secs(6 * 3600),
            filter: vec!["fuse16".to_owned()],
        }
    }
}

impl WatchedTable {
    /// Whether this version can follow the table.
    pub fn is_sound(&self) -> bool {
        self.shards <= SHARDS_MAX && self.shards.is_power_of_two()
    }

    /// Whether `other` has the same filter and the same shards, so that a follower can go on with it.
    pub fn is_followed_like(&self, other: &Self) -> bool {
        self.shards == other.shards && self.filter == other.filter
    }

    /// Whether partitions of the table close for writes at their `accept_limit`, split or not.
    pub fn closes(&self) -> bool {
        self.late_writes == LateWrites::Reject && self.accept_limit.is_some()
    }

    /// Until when a partition accepts writes: the end of its time bucket plus `accept_limit`, in milliseconds since
    /// 1970. `None`: the table has no such limit, or the key has no time that can be read.
    pub fn accepted_until(&self, schema: &TableSchema, key: &PartitionKey) -> Option<i64> {
        let column = self.time_bucket_column.as_ref()?;
        let (width, limit) = (self.time_bucket_width?, self.accept_limit?);
        let place = schema.partition_index(column)?;
        let components = key.components(schema.partition_key.len())?;
        let bytes = *components.get(place)?;
        let start = match schema.partition_key.get(place)?.cql_type {
            CqlType::Timestamp => i64::from_be_bytes(bytes.try_into().ok()?),
            CqlType::Date => {
                let days = i64::from(u32::from_be_bytes(bytes.try_into().ok()?)) - (1 << 31);
                days.checked_mul(86_400_000)?
            }
            _ => return None,
        };
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).ok();
        start
            .checked_add(millis(width)?)?
            .checked_add(millis(limit)?)
    }

    /// The names of the settings that differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let differ = [
            ("mode", self.mode != other.mode),
            ("late_writes", self.late_writes != other.late_writes),
            ("wide_bytes", self.wide_bytes != other.wide_bytes),
            ("target_bytes", self.target_bytes != other.target_bytes),
            ("max_buckets", self.max_buckets != other.max_buckets),
            ("shards", self.shards != other.shards),
            (
                "time_bucket_column",
                self.time_bucket_column != other.time_bucket_column,
            ),
            (
                "time_bucket_width",
                self.time_bucket_width != other.time_bucket_width,
            ),
            ("accept_limit", self.accept_limit != other.accept_limit),
            ("quiet_for", self.quiet_for != other.quiet_for),
            ("filter", self.filter != other.filter),
        ];
        let differ = differ.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(name, _)| name).collect()
    }
}

/// How far Narrows goes with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing new is found or split. Writes are still checked against existing splits.
    Off,
    /// Wide partitions are only reported.
    Detect,
    /// Wide partitions are split, and reads are answered from the splits.
    Serve,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Off, Self::Detect, Self::Serve];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Detect => "detect",
            Self::Serve => "serve",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// What happens to a write to a partition that is split, or is being split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateWrites {
    /// The split is retired, then the write is made.
    Invalidate,
    /// The write is refused.
    Reject,
}

impl LateWrites {
    pub const ALL: [Self; 2] = [Self::Invalidate, Self::Reject];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalidate => "invalidate",
            Self::Reject => "reject",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|late_writes| late_writes.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(mode.as_str()), Some(mode));
        }
        for late_writes in LateWrites::ALL {
            assert_eq!(LateWrites::parse(late_writes.as_str()), Some(late_writes));
        }
        for wrong in ["", "Serve", "on", "shadow"] {
            assert_eq!(Mode::parse(wrong), None, "{wrong}");
            assert_eq!(LateWrites::parse(wrong), None, "{wrong}");
        }
    }
}
