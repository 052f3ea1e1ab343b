//! `narrows splits show`: all that is known of one split, what it means, and what somebody can do next.

mod next;

use super::arguments::Show;
use super::list::worker;
use super::{Control, Partition, SplitsError, buckets, moment, stage};
use crate::cli::explain::lines::{Lines, counted, size};
use crate::schema::bucket::Bucket;
use crate::wide_row::clock::unix_millis;
use crate::wide_row::layout::{Layout, LayoutId};
use crate::wide_row::state::{PostSplitData, PreSplitData, State};
use crate::wide_row::store::{Split, StoreError};
use next::{meaning, what_next};

/// Strategies make no more by default; of more, the first and the last are shown.
const BUCKETS_MAX: usize = 128;
const BAR: usize = 24;

/// What the control keyspace holds of a generation's layout.
enum Found {
    None,
    Whole(Layout),
    /// Something else wrote there.
    Damaged(String),
}

pub(super) async fn show(control: &Control, command: &Show) -> Result<String, SplitsError> {
    let partition = control
        .partition(&command.table, &command.key, command.keys)
        .await?;
    let id = partition.id();
    let Some(split) = control.store.read_split(&id).await? else {
        return Ok(unknown(&partition));
    };
    let id = LayoutId {
        table: id.table,
        key: id.key,
        generation: split.standing.generation,
    };
    let layout = match control.store.read_layout(&id).await {
        Ok(Some(layout)) => Found::Whole(layout),
        Ok(None) => Found::None,
        Err(StoreError::NotUnderstood(text)) => Found::Damaged(text),
        Err(error) => return Err(error.into()),
    };
    Ok(compose(&partition, &split, &layout, unix_millis()))
}

fn unknown(partition: &Partition) -> String {
    let mut lines = Lines::default();
    let table = &partition.row.table;
    let wide = size(table.wide_bytes);
    lines.add("partition", &named(partition));
    lines.add(
        "state",
        "none: it was not found wide, and the original answers",
    );
    lines.add(
        "next",
        &format!("a read of {wide} or more through a proxy finds it; by hand:"),
    );
    let arguments = partition.arguments();
    lines.into_text() + &format!("             narrows splits add {arguments}\n")
}

fn named(partition: &Partition) -> String {
    let key = partition.columns.show_with_names(&partition.key);
    format!("{}: {key}", partition.row.table.name)
}

fn compose(partition: &Partition, split: &Split, layout: &Found, now: i64) -> String {
    let mut lines = Lines::default();
    let standing = split.standing;
    lines.add("partition", &named(partition));
    let (state, generation) = (standing.state.as_str(), standing.generation);
    lines.add("state", &format!("{state} at generation {generation}"));
    lines.add("meaning", &meaning(split, &partition.row.table));
    if let Some(reason) = &split.reason {
        lines.add("reason", reason);
    }
    if split.failures > 0 {
        let failures = counted(split.failures.unsigned_abs(), "attempt");
        lines.add("failures", &format!("{failures} in a row"));
    }
    add_times(&mut lines, split, now);
    add_progress(&mut lines, split);
    let lease = match &split.lease {
        Some(lease) => format!("{} works on it", worker(lease)),
        None => "nobody works on it".to_owned(),
    };
    lines.add("worker", &lease);
    if let Some(original) = &split.pre_split_data {
        lines.add("original", &original_text(original, now));
    }
    if let Some(copy) = &split.post_split_data {
        lines.add("copy", &copy_text(copy, &partition.row.table.name.keyspace));
    }
    let oldest = split.oldest_generation;
    if let Some(oldest) = oldest.filter(|oldest| *oldest < generation) {
        lines.add(
            "left over",
            &format!("buckets of generations {oldest} and later may still be there; they are removed a day after their end"),
        );
    }
    let mut text = String::new();
    match layout {
        Found::None => lines.add("buckets", "not chosen yet"),
        Found::Damaged(error) => lines.add("buckets", &format!("unreadable: {error}")),
        Found::Whole(layout) => {
            let table = format!("{}.{}", layout.table.keyspace, layout.split_table);
            let count = counted(layout.buckets.len(), "bucket");
            let strategy = &layout.strategy;
            lines.add("buckets", &format!("{count} in {table}, by {strategy}"));
            text = list_buckets(&layout.buckets);
        }
    }
    let mut text = lines.into_text() + &text;
    text.push_str(&what_next(partition, split));
    text
}

fn add_times(lines: &mut Lines, split: &Split, now: i64) {
    let time = |millis: i64| moment::stamp_and_distance(millis, now);
    if let Some(at) = split.detected_at {
        let seen = split.seen_bytes.map(|bytes| {
            let bytes = u64::try_from(bytes).unwrap_or(0);
            format!(", by a scan of {}", size(bytes))
        });
        lines.add("found", &(time(at) + &seen.unwrap_or_default()));
    }
    if let Some(at) = split.changed_at {
        lines.add("changed", &time(at));
    }
    if let Some(at) = split.not_before {
        let what = match split.standing.state {
            State::Completed => "compared with the original again",
            _ => "nothing is tried before",
        };
        lines.add("not before", &format!("{}: {what}", time(at)));
    }
}

fn add_progress(lines: &mut Lines, split: &Split) {
    let Some(progress) = stage::progress(split) else {
        return;
    };
    let rows = counted(u64::try_from(progress.row_count).unwrap_or(0), "row");
    let bytes = size(u64::try_from(progress.byte_count).unwrap_or(0));
    let mut text = format!("{rows} ({bytes})");
    if let Some(percent) = stage::percent(split) {
        let bar = stage::bar(f64::from(percent.value) / 100.0, BAR);
        text = format!("{bar} {percent}, {text}");
    }
    if let Some(pace) = stage::pace(split, stage::Seen::beginning(progress)) {
        let rate = size(pace.bytes_per_second as u64);
        text.push_str(&format!(", {rate}/s"));
        if let Some(left) = pace.left {
            text.push_str(&format!(", about {} left", moment::span(left)));
        }
    }
    lines.add("progress", &text);
}

fn original_text(original: &PreSplitData, now: i64) -> String {
    let rows = counted(u64::try_from(original.row_count).unwrap_or(0), "row");
    let bytes = size(u64::try_from(original.byte_count).unwrap_or(0));
    let newest = original.newest_write_micros.map(|micros| {
        let millis = micros.div_euclid(1000);
        let time = moment::stamp_and_distance(millis, now);
        format!(", newest write {time}")
    });
    format!("{rows}, {bytes}{}", newest.unwrap_or_default())
}

/// Its checksum is that of both sides: planning and comparing count and sum up in ways of their own, so what was planned is
/// shown without.
fn copy_text(copy: &PostSplitData, keyspace: &str) -> String {
    let rows = counted(u64::try_from(copy.row_count).unwrap_or(0), "row");
    let bytes = size(u64::try_from(copy.byte_count).unwrap_or(0));
    let checksum = match copy.checksum.as_slice() {
        [] => String::new(),
        bytes => format!(", checksum {}", super::constant::hex(bytes)),
    };
    format!(
        "{rows} equal to the original, {bytes} of values, in {keyspace}.{}{checksum}",
        copy.split_table
    )
}

/// One line for each bucket, with a bar of its size beside the largest.
fn list_buckets(all: &[Bucket]) -> String {
    let largest = all.iter().map(|bucket| bucket.byte_count).max();
    let largest = largest.unwrap_or(0).max(1) as f64;
    let bar = |bucket: &Bucket| {
        let share = bucket.byte_count as f64 / largest;
        "█".repeat((share * BAR as f64).round() as usize)
    };
    buckets::list(all, BUCKETS_MAX, bar)
}

#[cfg(test)]
mod tests;
