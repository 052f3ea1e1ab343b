//! Decides whether a partition is closed. Only then is it split, since every later write would end its generation.

use std::time::Duration;

use crate::pipeline::original::partition::Partition;
use crate::schema::TableSchema;
use crate::watched::WatchedTable;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::state::PreSplitData;

/// A partition that may still be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub reason: String,
    /// When it will be closed if nothing more is written, in milliseconds since 1970.
    pub closed_at: i64,
}

/// `None` if the partition is closed. A partition without cells has no write time: it counts as written when it was
/// detected.
pub(in crate::pipeline) fn still_open(
    detected_millis: i64,
    settings: &WatchedTable,
    schema: &TableSchema,
    partition: &Partition,
    data: &PreSplitData,
    hint_window: Duration,
) -> Option<Open> {
    let now = unix_millis();
    let written = data.newest_write_micros.map(|micros| micros / 1000);
    let newest = written.unwrap_or(detected_millis);
    if newest > now.saturating_add(CLOCK_SKEW_MILLIS) {
        return Some(Open {
            reason: "a cell has a write time in the future: a writer's clock is ahead".to_owned(),
            closed_at: newest,
        });
    }
    let end = settings.accepted_until(schema, &partition.key);
    if end.is_some_and(|end| end <= now) {
        return None;
    }
    let quiet = millis(settings.quiet_for.max(hint_window));
    let closed_at = newest.saturating_add(quiet);
    (closed_at > now).then(|| Open {
        reason: format!(
            "it was written to {} ago, and counts as closed after {} without writes",
            spoken(now - newest),
            spoken(quiet)
        ),
        closed_at: end.map_or(closed_at, |end| end.min(closed_at)),
    })
}

/// The newest write time, in microseconds, that a partition guarded at `guarded_millis` may have and still be closed.
pub(in crate::pipeline) fn newest_allowed(
    settings: &WatchedTable,
    schema: &TableSchema,
    partition: &Partition,
    guarded_millis: i64,
    hint_window: Duration,
) -> i64 {
    let end = settings.accepted_until(schema, &partition.key);
    let newest = match end.is_some_and(|end| end <= guarded_millis) {
        true => guarded_millis,
        false => guarded_millis.saturating_sub(millis(settings.quiet_for.max(hint_window))),
    };
    newest.saturating_mul(1000)
}

/// The clocks of one cluster differ by less than this.
const CLOCK_SKEW_MILLIS: i64 = CLOCK_SKEW_SECONDS as i64 * 1000;
pub(in crate::pipeline) const CLOCK_SKEW_SECONDS: i32 = 60;

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn spoken(millis: i64) -> String {
    let minutes = millis / 60_000;
    match minutes {
        0 => format!("{} seconds", millis / 1000),
        1..=119 => format!("{minutes} minutes"),
        _ => format!("{} hours", minutes / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ColumnRow;
    use crate::schema::names::{PartitionKey, TableName};

    fn schema(cql_type: &str) -> TableSchema {
        let row = ColumnRow {
            name: "day".into(),
            kind: "partition_key".into(),
            position: 0,
            clustering_order: "none".into(),
            cql_type: cql_type.into(),
        };
        TableSchema::from_rows("ks", "t", vec![row], Vec::new(), Vec::new()).expect("a table")
    }

    fn open(
        written_ago: Duration,
        settings: &WatchedTable,
        schema: &TableSchema,
        key: &[u8],
    ) -> bool {
        let key = PartitionKey::new(key);
        let partition = Partition::new(schema, &key).expect("a key");
        let data = PreSplitData {
            newest_write_micros: Some((unix_millis() - millis(written_ago)) * 1000),
            ..PreSplitData::default()
        };
        still_open(
            0,
            settings,
            schema,
            &partition,
            &data,
            Duration::from_secs(3 * 3600),
        )
        .is_some()
    }

    #[test]
    fn quiet_partitions_are_closed_and_never_within_the_hint_window() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let mut settings = WatchedTable::new(TableName::new("ks", "t"));
        let schema = schema("int");
        assert!(open(hours(5), &settings, &schema, &[0; 4]));
        assert!(!open(hours(7), &settings, &schema, &[0; 4]));
        settings.quiet_for = Duration::ZERO;
        assert!(open(hours(2), &settings, &schema, &[0; 4]));
        assert!(!open(hours(4), &settings, &schema, &[0; 4]));
    }

    #[test]
    fn a_time_bucket_is_closed_when_nothing_is_accepted_for_it() {
        let mut settings = WatchedTable::new(TableName::new("ks", "t"));
        settings.time_bucket_column = Some("day".to_owned());
        settings.time_bucket_width = Some(Duration::from_secs(86_400));
        settings.accept_limit = Some(Duration::from_secs(3600));
        let schema = schema("timestamp");
        let now = unix_millis();
        let just = Duration::from_secs(1);
        assert!(open(just, &settings, &schema, &now.to_be_bytes()));
        let before = now - 2 * 86_400_000;
        assert!(!open(just, &settings, &schema, &before.to_be_bytes()));
    }
}
