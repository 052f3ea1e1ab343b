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
    /// The partition key column that is a time, if there is one. This and the next four have an effect only together;
    /// only integers have a unit.
    pub time_bucket_column: Option<String>,
    /// What an integer in that column counts, from 1970 on.
    pub time_bucket_unit: Option<BucketUnit>,
    /// How much time one partition covers.
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
            time_bucket_unit: None,
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
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).ok();
        let width = millis(width)?;
        let counted = |count: i64| {
            let unit = self.time_bucket_unit?;
            count.checked_mul(unit.millis().unwrap_or(width))
        };
        let start = match schema.partition_key.get(place)?.cql_type {
            CqlType::Timestamp => i64::from_be_bytes(bytes.try_into().ok()?),
            CqlType::Date => {
                let days = i64::from(u32::from_be_bytes(bytes.try_into().ok()?)) - (1 << 31);
                days.checked_mul(86_400_000)?
            }
            CqlType::SmallInt => counted(i16::from_be_bytes(bytes.try_into().ok()?).into())?,
            CqlType::Int => counted(i32::from_be_bytes(bytes.try_into().ok()?).into())?,
            CqlType::BigInt => counted(i64::from_be_bytes(bytes.try_into().ok()?))?,
            _ => return None,
        };
        start.checked_add(width)?.checked_add(millis(limit)?)
    }

    /// Why `accept_limit` has no effect on this table, if it is set and has none.
    pub fn inert_limit(&self, schema: &TableSchema) -> Option<String> {
        let (column, _) = (self.time_bucket_column.as_ref()?, self.accept_limit?);
        let Some(place) = schema.partition_index(column) else {
            return Some(format!(
                "time_bucket_column is no column of the table's partition key: {column}"
            ));
        };
        let cql_type = &schema.partition_key.get(place)?.cql_type;
        match (cql_type, self.time_bucket_unit) {
            (CqlType::SmallInt | CqlType::Int | CqlType::BigInt, Some(_)) => None,
            (CqlType::SmallInt | CqlType::Int | CqlType::BigInt, None) => Some(format!(
                "time_bucket_column {column} is an integer, so time_bucket_unit must say what it counts"
            )),
            (CqlType::Timestamp | CqlType::Date, None) => None,
            (CqlType::Timestamp | CqlType::Date, Some(_)) => Some(format!(
                "time_bucket_unit is for integers, and time_bucket_column {column} is a time"
            )),
            _ => Some(format!(
                "time_bucket_column {column} is neither a timestamp, a date, a smallint, an int nor a bigint"
            )),
        }
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
                "time_bucket_unit",
                self.time_bucket_unit != other.time_bucket_unit,
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

/// What an integer that is a time counts, from 1970 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketUnit {
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Days,
    /// Buckets of `time_bucket_width`.
    Buckets,
}

impl BucketUnit {
    pub const ALL: [Self; 6] = [
        Self::Milliseconds,
        Self::Seconds,
        Self::Minutes,
        Self::Hours,
        Self::Days,
        Self::Buckets,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::Days => "days",
            Self::Buckets => "buckets",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_str() == text)
    }

    /// `None`: that is for the bucket's width to say.
    fn millis(self) -> Option<i64> {
        match self {
            Self::Milliseconds => Some(1),
            Self::Seconds => Some(1000),
            Self::Minutes => Some(60_000),
            Self::Hours => Some(3_600_000),
            Self::Days => Some(86_400_000),
            Self::Buckets => None,
        }
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
    use crate::schema::ColumnRow;

    #[test]
    fn words_are_read_as_they_are_written() {
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(mode.as_str()), Some(mode));
        }
        for late_writes in LateWrites::ALL {
            assert_eq!(LateWrites::parse(late_writes.as_str()), Some(late_writes));
        }
        for unit in BucketUnit::ALL {
            assert_eq!(BucketUnit::parse(unit.as_str()), Some(unit));
        }
        for wrong in ["", "Serve", "on", "shadow"] {
            assert_eq!(Mode::parse(wrong), None, "{wrong}");
            assert_eq!(LateWrites::parse(wrong), None, "{wrong}");
            assert_eq!(BucketUnit::parse(wrong), None, "{wrong}");
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const HOUR_MILLIS: i64 = 3_600_000;

    fn schema(cql_type: &str) -> TableSchema {
        let row = |name: &str, position: i32, cql_type: &str| ColumnRow {
            name: name.into(),
            kind: "partition_key".into(),
            position,
            clustering_order: "none".into(),
            cql_type: cql_type.into(),
        };
        let rows = vec![row("series", 0, "text"), row("bucket", 1, cql_type)];
        TableSchema::from_rows("ks", "t", rows, Vec::new(), Vec::new()).expect("a table")
    }

    fn hourly(unit: Option<BucketUnit>) -> WatchedTable {
        let mut table = WatchedTable::new(TableName::new("ks", "t"));
        table.time_bucket_column = Some("bucket".to_owned());
        table.time_bucket_unit = unit;
        table.time_bucket_width = Some(HOUR);
        table.accept_limit = Some(HOUR);
        table
    }

    #[test]
    fn integers_are_times_by_their_unit() {
        // 2023-11-14 22:00 in each unit.
        let start = 472_222 * HOUR_MILLIS;
        let (millis, seconds, hours) = (start, (start / 1000) as i32, 472_222_i32);
        let days = (start / 86_400_000) as i16;
        let midnight = i64::from(days) * 86_400_000;
        for (cql_type, unit, bytes, start) in [
            (
                "bigint",
                "milliseconds",
                millis.to_be_bytes().to_vec(),
                start,
            ),
            ("int", "seconds", seconds.to_be_bytes().to_vec(), start),
            ("int", "minutes", (hours * 60).to_be_bytes().to_vec(), start),
            ("int", "hours", hours.to_be_bytes().to_vec(), start),
            ("int", "buckets", hours.to_be_bytes().to_vec(), start),
            ("smallint", "days", days.to_be_bytes().to_vec(), midnight),
        ] {
            let (table, schema) = (hourly(BucketUnit::parse(unit)), schema(cql_type));
            let key = PartitionKey::from_components(&[b"s1", &bytes]).expect("a key");
            let until = table.accepted_until(&schema, &key);
            assert_eq!(until, Some(start + 2 * HOUR_MILLIS), "{cql_type} {unit}");
            assert_eq!(table.inert_limit(&schema), None, "{cql_type} {unit}");
        }
        let key = PartitionKey::from_components(&[b"s1", &i64::MAX.to_be_bytes()]);
        let (key, seconds) = (key.expect("a key"), hourly(Some(BucketUnit::Seconds)));
        assert_eq!(seconds.accepted_until(&schema("bigint"), &key), None);
    }

    #[test]
    fn a_limit_without_effect_is_told_with_the_reason() {
        for (cql_type, unit, says) in [
            ("int", None, "time_bucket_unit must say"),
            ("timestamp", Some(BucketUnit::Days), "is for integers"),
            ("text", None, "is neither a timestamp"),
        ] {
            let why = hourly(unit).inert_limit(&schema(cql_type));
            assert!(why.is_some_and(|why| why.contains(says)), "{cql_type}");
        }
        assert_eq!(hourly(None).inert_limit(&schema("date")), None);
        let mut other = hourly(None);
        other.time_bucket_column = Some("day".to_owned());
        let why = other.inert_limit(&schema("date")).expect("no such column");
        assert!(why.contains("partition key: day"), "{why}");
        other.accept_limit = None;
        assert_eq!(
            other.inert_limit(&schema("date")),
            None,
            "nothing is asked for"
        );
    }
}
