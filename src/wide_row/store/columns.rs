//! The user-defined types of `wide_row`, as the driver reads and writes them.

use scylla::value::CqlTimestamp;
use scylla::{DeserializeValue, SerializeValue};

use crate::wide_row::state::{PostSplitData, PreSplitData, Progress, State};

/// A row with columns that the tables of an earlier version lack, and the row without them.
macro_rules! row_with_later_columns {
    (
        $(#[$comment:meta])*
        $visible:vis struct $name:ident, $earlier:ident {
            $($(#[$of:meta])* $column:ident: $type:ty,)*
        }
        later { $($later:ident: $later_type:ty,)* }
    ) => {
        $(#[$comment])*
        #[derive(scylla::DeserializeRow)]
        $visible struct $name {
            $($(#[$of])* $column: $type,)*
            $($later: $later_type,)*
        }

        #[derive(scylla::DeserializeRow)]
        $visible struct $earlier {
            $($column: $type,)*
        }

        impl From<$earlier> for $name {
            fn from(row: $earlier) -> Self {
                Self {
                    $($column: row.$column,)*
                    $($later: None,)*
                }
            }
        }
    };
}
pub(super) use row_with_later_columns;

/// The type `pre_split_data`.
#[derive(Clone, SerializeValue, DeserializeValue)]
pub(super) struct PreSplitColumn {
    row_count: Option<i64>,
    byte_count: Option<i64>,
    checksum: Option<Vec<u8>>,
    newest_write_micros: Option<i64>,
}

impl From<&PreSplitData> for PreSplitColumn {
    fn from(data: &PreSplitData) -> Self {
        Self {
            row_count: Some(data.row_count),
            byte_count: Some(data.byte_count),
            checksum: Some(data.checksum.clone()).filter(|checksum| !checksum.is_empty()),
            newest_write_micros: data.newest_write_micros,
        }
    }
}

impl From<PreSplitColumn> for PreSplitData {
    fn from(column: PreSplitColumn) -> Self {
        Self {
            row_count: column.row_count.unwrap_or_default(),
            byte_count: column.byte_count.unwrap_or_default(),
            checksum: column.checksum.unwrap_or_default(),
            newest_write_micros: column.newest_write_micros,
        }
    }
}

/// The type `post_split_data`.
#[derive(Clone, SerializeValue, DeserializeValue)]
pub(super) struct PostSplitColumn {
    split_table: Option<String>,
    strategy: Option<String>,
    start_event_bucket: Option<i32>,
    target_event_buckets: Option<i32>,
    row_count: Option<i64>,
    byte_count: Option<i64>,
    checksum: Option<Vec<u8>>,
}

impl From<&PostSplitData> for PostSplitColumn {
    fn from(data: &PostSplitData) -> Self {
        Self {
            split_table: Some(data.split_table.clone()),
            strategy: Some(data.strategy.clone()),
            start_event_bucket: Some(data.start_event_bucket),
            target_event_buckets: Some(data.target_event_buckets),
            row_count: Some(data.row_count),
            byte_count: Some(data.byte_count),
            checksum: Some(data.checksum.clone()),
        }
    }
}

impl From<PostSplitColumn> for PostSplitData {
    fn from(column: PostSplitColumn) -> Self {
        Self {
            split_table: column.split_table.unwrap_or_default(),
            strategy: column.strategy.unwrap_or_default(),
            start_event_bucket: column.start_event_bucket.unwrap_or_default(),
            target_event_buckets: column.target_event_buckets.unwrap_or_default(),
            row_count: column.row_count.unwrap_or_default(),
            byte_count: column.byte_count.unwrap_or_default(),
            checksum: column.checksum.unwrap_or_default(),
        }
    }
}

/// The type `progress`.
#[derive(Clone, SerializeValue, DeserializeValue)]
pub(super) struct ProgressColumn {
    state: Option<String>,
    row_count: Option<i64>,
    byte_count: Option<i64>,
    checkpoint: Option<Vec<u8>>,
    began_at: Option<CqlTimestamp>,
    changed_at: Option<CqlTimestamp>,
}

impl From<&Progress> for ProgressColumn {
    fn from(progress: &Progress) -> Self {
        Self {
            state: Some(progress.state.as_str().to_owned()),
            row_count: Some(progress.row_count),
            byte_count: Some(progress.byte_count),
            checkpoint: progress.checkpoint.clone(),
            began_at: Some(CqlTimestamp(progress.began_at)),
            changed_at: Some(CqlTimestamp(progress.changed_at)),
        }
    }
}

impl ProgressColumn {
    /// `None` for a stage that this version does not know.
    pub(super) fn read(self) -> Option<Progress> {
        Some(Progress {
            state: State::parse(self.state.as_deref()?)?,
            row_count: self.row_count.unwrap_or_default(),
            byte_count: self.byte_count.unwrap_or_default(),
            checkpoint: self.checkpoint,
            began_at: self.began_at.map_or(0, |time| time.0),
            changed_at: self.changed_at.map_or(0, |time| time.0),
        })
    }
}
