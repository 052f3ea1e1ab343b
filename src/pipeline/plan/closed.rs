//! Decides whether a partition is closed. Only then is it split, since every later write would end its generation.

use std::time::Duration;

use crate::schema::TableSchema;
use crate::schema::names::PartitionKey;
use crate::watched::WatchedTable;
use crate::wide_row::found_by::FoundBy;

/// However long a partition has been open, it is looked at again after this time.
const PAUSE_MAX_MILLIS: i64 = 7 * 24 * 3600 * 1000;

/// When one partition counts as closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// So long after its last write, in milliseconds.
    quiet: i64,
    /// From then on in any case, in milliseconds since 1970.
    end: Option<i64>,
    /// A person decided: only hints are waited for.
    by_hand: bool,
}

/// A partition that may still be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub reason: String,
    /// When it will be closed if nothing more is written, in milliseconds since 1970.
    pub closed_at: i64,
    /// A cell has a write time in the future.
    pub is_ahead: bool,
    end: Option<i64>,
}

impl Closing {
    pub fn new(
        settings: &WatchedTable,
        (schema, key): (&TableSchema, &PartitionKey),
        found_by: Option<FoundBy>,
        hint_window: Duration,
    ) -> Self {
        let by_hand = found_by == Some(FoundBy::Hand);
        let quiet = match by_hand {
            true => hint_window,
            false => settings.quiet_for.max(hint_window),
        };
        Self {
            quiet: millis(quiet),
            end: settings.accepted_until(schema, key),
            by_hand,
        }
    }

    /// `None` if a partition with this newest write is closed. Times are in milliseconds since 1970.
    pub fn still_open(&self, newest: i64, now: i64) -> Option<Open> {
        if newest > now.saturating_add(CLOCK_SKEW_MILLIS) {
            return Some(Open {
                reason: "a cell has a write time in the future: a writer's clock is ahead"
                    .to_owned(),
                closed_at: newest,
                is_ahead: true,
                end: None,
            });
        }
        if self.end.is_some_and(|end| end <= now) {
            return None;
        }
        let closed_at = newest.saturating_add(self.quiet);
        (closed_at > now).then(|| Open {
            reason: self.reason(now.saturating_sub(newest)),
            closed_at: self.end.map_or(closed_at, |end| end.min(closed_at)),
            is_ahead: false,
            end: self.end,
        })
    }

    fn reason(&self, written_ago: i64) -> String {
        let (ago, quiet) = (spoken(written_ago.max(0)), spoken(self.quiet));
        match self.by_hand {
            true => format!(
                "it was written to {ago} ago, and a hint may bring a write up to {quiet} after it was made"
            ),
            false => {
                format!(
                    "it was written to {ago} ago, and counts as closed after {quiet} without writes"
                )
            }
        }
    }

    /// The newest write time, in microseconds, that a partition guarded at `guarded_millis` may have and still be
    /// closed.
    pub fn newest_allowed(&self, guarded_millis: i64) -> i64 {
        let newest = match self.end.is_some_and(|end| end <= guarded_millis) {
            true => guarded_millis,
            false => guarded_millis.saturating_sub(self.quiet),
        };
        newest.saturating_mul(1000)
    }
}

impl Open {
    /// When to look at the partition again. A partition that stays open is looked at ever more rarely: each pause is at
    /// least as long as all before it. Times are in milliseconds since 1970.
    pub fn next_look(&self, detected: i64, now: i64) -> i64 {
        let waited = now.saturating_sub(detected).clamp(0, PAUSE_MAX_MILLIS);
        let next = self.closed_at.max(now.saturating_add(waited));
        self.end.map_or(next, |end| end.min(next))
    }
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
    use crate::schema::names::TableName;

    const NOW: i64 = 1_700_000_000_000;
    const HOUR: i64 = 3_600_000;
    const HINT_WINDOW: Duration = Duration::from_secs(3 * 3600);

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

    fn settings() -> WatchedTable {
        WatchedTable::new(TableName::new("ks", "t"))
    }

    fn closing(settings: &WatchedTable, found_by: FoundBy) -> Closing {
        let key = PartitionKey::new([0; 4]);
        Closing::new(
            settings,
            (&schema("int"), &key),
            Some(found_by),
            HINT_WINDOW,
        )
    }

    #[test]
    fn quiet_partitions_are_closed_and_never_within_the_hint_window() {
        let mut settings = settings();
        let open = |settings: &WatchedTable, found_by, hours: i64| {
            let closing = closing(settings, found_by);
            let written = NOW - hours * HOUR;
            let open = closing.still_open(written, NOW);
            // Copy draws the same line.
            assert_eq!(closing.newest_allowed(NOW) < written * 1000, open.is_some());
            open.is_some()
        };
        assert!(open(&settings, FoundBy::Size, 5));
        assert!(!open(&settings, FoundBy::Size, 7));
        // A person need not wait for more than hints.
        assert!(open(&settings, FoundBy::Hand, 2));
        assert!(!open(&settings, FoundBy::Hand, 4));
        settings.quiet_for = Duration::ZERO;
        assert!(open(&settings, FoundBy::Tombstones, 2));
        assert!(!open(&settings, FoundBy::Tombstones, 4));
    }

    #[test]
    fn a_time_bucket_is_closed_when_nothing_is_accepted_for_it() {
        let mut settings = settings();
        settings.time_bucket_column = Some("day".to_owned());
        settings.time_bucket_width = Some(Duration::from_secs(86_400));
        settings.accept_limit = Some(Duration::from_secs(3600));
        let open = |start: i64| {
            let (schema, key) = (schema("timestamp"), PartitionKey::new(start.to_be_bytes()));
            let closing = Closing::new(&settings, (&schema, &key), None, HINT_WINDOW);
            closing.still_open(NOW - 1000, NOW)
        };
        let end = NOW + 25 * HOUR;
        let today = open(NOW).expect("it is today's");
        assert_eq!(today.closed_at, NOW - 1000 + 6 * HOUR);
        assert_eq!(today.next_look(NOW - 100 * HOUR, NOW), end);
        assert_eq!(open(NOW - 48 * HOUR), None);
    }

    #[test]
    fn the_pauses_of_a_partition_that_stays_open_double_up_to_a_week() {
        let closing = closing(&settings(), FoundBy::Size);
        let (mut now, mut pauses) = (NOW, Vec::new());
        for _ in 0..8 {
            let open = closing.still_open(now, now).expect("written");
            let next = open.next_look(NOW, now);
            pauses.push((next - now) / HOUR);
            now = next;
        }
        assert_eq!(pauses, [6, 6, 12, 24, 48, 96, 168, 168]);
    }

    #[test]
    fn what_was_written_in_the_future_is_not_merely_open() {
        let closing = closing(&settings(), FoundBy::Size);
        let ahead = closing.still_open(NOW + HOUR, NOW).expect("not closed");
        assert!(ahead.is_ahead && ahead.closed_at == NOW + HOUR);
        let skewed = closing.still_open(NOW + 1000, NOW).expect("not closed");
        assert!(!skewed.is_ahead);
    }
}
