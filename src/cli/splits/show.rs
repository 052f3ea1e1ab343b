//! `narrows splits show`: everything known about one split, what it means, and what to do next.

use clap::Args;

use super::stage::{self, ShownState};
use crate::cli::constant;
use crate::cli::control::{Control, Partition};
use crate::cli::format::{INDENT, Lines, counted, size};
use crate::cli::key::KeyForm;
use crate::cli::moment;
use crate::schema::bucket::Bucket;
use crate::watched::{Mode, WatchedTable};
use crate::wide_row::clock::unix_millis;
use crate::wide_row::found_by::FoundBy;
use crate::wide_row::layout::{Layout, LayoutId};
use crate::wide_row::state::{PostSplitData, PreSplitData, State};
use crate::wide_row::store::{Split, StoreError};

/// Show everything known about one split, what it means and what to do next
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  narrows splits show plant.reading \"'s1'\" 7
  narrows splits show plant.reading --keys hex 0x000273310000040000000700

Write the key as CQL literals, one per column of the partition key. A text needs its own quotes
inside those of the shell; 0x… gives the bytes of a value. `narrows splits list` prints the keys.

Changes: nothing.")]
pub struct Show {
    /// keyspace.table, spelled as in Cassandra
    pub table: String,
    /// The partition key: one CQL literal per column
    #[arg(required = true, allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// How the key is written: CQL literals, or the whole serialized key as 0x…
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
}

/// Maximum number of buckets to list, the default of `max_buckets`; of more, the middle ones are left out.
const BUCKETS_MAX: usize = 128;
const BAR: usize = 24;

/// The layout of a generation in the control keyspace.
enum Found {
    None,
    Whole(Layout),
    /// It was not written by Narrows, or by an unknown version.
    Damaged(String),
}

pub(super) async fn show(control: &Control<'_>, command: &Show) -> anyhow::Result<String> {
    let partition = control.partition(&command.table, &command.key, command.keys);
    let partition = partition.await?;
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
        Err(StoreError::NotUnderstood(cause)) => Found::Damaged(cause.to_string()),
        Err(error) => return Err(error.into()),
    };
    Ok(compose(&partition, &split, &layout, unix_millis()))
}

fn unknown(partition: &Partition) -> String {
    let mut lines = Lines::default();
    let wide = size(partition.row.table.wide_bytes);
    lines.add("partition", partition.full_name());
    lines.add(
        "state",
        "none: it was not found wide, and the original answers",
    );
    let next = format!(
        "a read of {wide} or more through a proxy finds it, and so do reads that are slow or fail; to split it whatever \
         its size:"
    );
    lines.add("next", next);
    let arguments = partition.arguments();
    lines.into_text() + &format!("{:INDENT$}narrows splits add {arguments}\n", "")
}

fn compose(partition: &Partition, split: &Split, layout: &Found, now: i64) -> String {
    let mut lines = Lines::default();
    let standing = split.standing;
    lines.add("partition", partition.full_name());
    let (state, generation) = (ShownState::of(split, now).as_str(), standing.generation);
    lines.add("state", format!("{state} at generation {generation}"));
    lines.add("meaning", meaning(split, &partition.row.table, now));
    if let Some(reason) = &split.reason {
        lines.add("reason", reason);
    }
    if split.failures > 0 {
        let failures = counted(split.failures, "attempt");
        lines.add("failures", format!("{failures} in a row"));
    }
    add_times(&mut lines, split, now);
    add_progress(&mut lines, split);
    let lease = match &split.lease {
        Some(lease) => format!("{} works on it", stage::worker(lease)),
        None => "nobody works on it".to_owned(),
    };
    lines.add("worker", lease);
    if let Some(original) = &split.pre_split_data {
        lines.add("original", original_text(original, now));
    }
    if let Some(copy) = &split.post_split_data {
        let keyspace = &partition.row.table.name.keyspace;
        lines.add(
            "copy",
            copy_text(copy, split.pre_split_data.as_ref(), keyspace),
        );
    }
    let oldest = split.oldest_generation;
    if let Some(oldest) = oldest.filter(|oldest| *oldest < generation) {
        lines.add(
            "left over",
            format!("buckets of generations {oldest} and later may still exist; each is removed a day after its end"),
        );
    }
    let mut listed = String::new();
    match layout {
        Found::None => lines.add("buckets", "not chosen yet"),
        Found::Damaged(error) => lines.add("buckets", format!("unreadable: {error}")),
        Found::Whole(layout) => {
            let table = format!("{}.{}", layout.table.keyspace, layout.split_table);
            let count = counted(layout.buckets.len(), "bucket");
            let strategy = &layout.strategy;
            lines.add("buckets", format!("{count} in {table}, by {strategy}"));
            listed = list_buckets(&layout.buckets);
        }
    }
    lines.into_text() + &listed + &what_next(partition, split, now)
}

fn add_times(lines: &mut Lines, split: &Split, now: i64) {
    let time = |millis: i64| moment::stamp_and_distance(millis, now);
    if let Some(at) = split.detected_at {
        let seen = split.seen_bytes;
        let seen = seen.map(|bytes| format!(", by a scan of {}", size(bytes)));
        let by = split.found_by.map(|by| format!(", {}", by.words()));
        lines.add("found", time(at) + &seen.or(by).unwrap_or_default());
    }
    if let Some(at) = split.changed_at {
        lines.add("changed", time(at));
    }
    if let Some(at) = split.not_before {
        let what = match split.standing.state {
            State::Completed => "compared with the original again",
            State::Detected => "not looked at before then",
            _ => "no attempt before then",
        };
        lines.add("not before", format!("{}: {what}", time(at)));
    }
}

fn add_progress(lines: &mut Lines, split: &Split) {
    let Some(progress) = stage::progress(split) else {
        return;
    };
    let rows = counted(progress.row_count, "row");
    let mut text = format!("{rows} ({})", size(progress.byte_count));
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
    lines.add("progress", text);
}

fn original_text(original: &PreSplitData, now: i64) -> String {
    let (rows, bytes) = (
        counted(original.row_count, "row"),
        size(original.byte_count),
    );
    let newest = newest_write(original.newest_write_micros, now);
    format!("{rows}, {bytes}{newest}")
}

/// `, newest write …`, if that is known.
pub(super) fn newest_write(micros: Option<i64>, now: i64) -> String {
    let time = micros.map(|micros| moment::stamp_and_distance(micros.div_euclid(1000), now));
    time.map_or_else(String::new, |time| format!(", newest write {time}"))
}

/// Shows one checksum, because both sides have the same one. Where an earlier version has left another kind of checksum
/// for the original, only the copy's is known.
fn copy_text(copy: &PostSplitData, original: Option<&PreSplitData>, keyspace: &str) -> String {
    let is_of_both = original.is_some_and(|original| original.checksum == copy.checksum);
    let (rows, bytes) = (counted(copy.row_count, "row"), size(copy.byte_count));
    let checksum = match copy.checksum.as_slice() {
        [] => String::new(),
        bytes if is_of_both => format!(", checksum {} on both sides", constant::hex(bytes)),
        bytes => format!(", checksum {}", constant::hex(bytes)),
    };
    let table = &copy.split_table;
    format!("{rows} equal to the original, {bytes} of values, in {keyspace}.{table}{checksum}")
}

/// One line per bucket, with a bar of its size relative to the largest.
fn list_buckets(all: &[Bucket]) -> String {
    let largest = all.iter().map(|bucket| bucket.byte_count).max();
    let largest = largest.unwrap_or(0).max(1) as f64;
    buckets(all, BUCKETS_MAX, |bucket| {
        let share = bucket.byte_count as f64 / largest;
        "█".repeat((share * BAR as f64).round() as usize)
    })
}

/// One line per bucket: its number, rows, size, and a detail. Of more than `max`, the middle ones are only counted.
pub(super) fn buckets(all: &[Bucket], max: usize, detail: impl Fn(&Bucket) -> String) -> String {
    let count = |bucket: &Bucket| counted(bucket.row_count, "row");
    let width = all.iter().map(|bucket| count(bucket).len()).max();
    let width = width.unwrap_or(0);
    let digits = all.len().saturating_sub(1).to_string().len();
    let hidden = match all.len() > max {
        true => max / 2..all.len() - max / 2,
        false => 0..0,
    };
    let mut text = String::new();
    for (number, bucket) in all.iter().enumerate() {
        if number == hidden.start && !hidden.is_empty() {
            text.push_str(&format!("{:INDENT$}… {} more\n", "", hidden.len()));
        }
        if !hidden.contains(&number) {
            let (rows, bytes, detail) = (count(bucket), size(bucket.byte_count), detail(bucket));
            let line = format!("{number:>digits$}  {rows:>width$}  {bytes:>10}  {detail}");
            text.push_str(&format!("{:INDENT$}{}\n", "", line.trim_end()));
        }
    }
    text
}

/// What the state means for reads, and what comes next.
fn meaning(split: &Split, table: &WatchedTable, now: i64) -> String {
    if stage::is_past(split) {
        return "all splits of the table were taken out of service after it was made; the original answers, and it is \
                split again when it is found wide again"
            .to_owned();
    }
    let state = split.standing.state;
    let (words, mode) = (words(ShownState::of(split, now)), table.mode.as_str());
    let is_held = stage::is_under_way(state);
    match (table.mode, table.paused) {
        (Mode::Serve, true) if is_held => format!("{words}; the table is paused, so it waits"),
        (Mode::Serve, _) => words.to_owned(),
        (_, _) if state == State::Completed => format!(
            "the copy was found equal to the original, but the table is in mode {mode}: the original answers"
        ),
        (_, _) if is_held => format!("{words}; the table is in mode {mode}, so it waits"),
        _ => words.to_owned(),
    }
}

fn words(shown: ShownState) -> &'static str {
    let state = match shown {
        ShownState::Waiting => {
            return "it may still be written to, so it is left alone for now; the original answers";
        }
        ShownState::At(state) => state,
    };
    match state {
        State::Detected => "it was found and will be measured; the original answers",
        State::Planned => {
            "it was measured and divided into buckets; copying begins once it is quiet. The original answers"
        }
        State::NotWide => {
            "it was measured, and is too small for the reason for which it was found, or has no rows; the original answers"
        }
        State::Refused => "it cannot be copied exactly, so nothing was done; the original answers",
        State::Guarded => {
            "proxies check writes to it; copying begins once every proxy knows of it. The original answers"
        }
        State::Copying => "its rows are being copied into buckets; the original answers",
        State::Verifying => {
            "the copy is being compared with the original, cell by cell; the original answers"
        }
        State::Completed => {
            "in service: the copy was found equal to the original, and reads are answered from its buckets"
        }
        State::Invalidated => {
            "it was taken out of service; the original answers, and it is split again when it is found wide again"
        }
        State::Failed => {
            "this attempt was given up; the original answers, and another attempt follows"
        }
    }
}

/// Useful commands, one per line.
fn what_next(partition: &Partition, split: &Split, now: i64) -> String {
    let table = &partition.row.table;
    let (name, arguments) = (&table.name, partition.arguments());
    let state = split.standing.state;
    let mut commands = Vec::new();
    let is_by_hand = split.found_by == Some(FoundBy::Hand);
    if stage::is_past(split) {
        commands.push((format!("add {arguments}"), "split it again"));
    } else if state.is_end() {
        commands.push(match state {
            // The same would happen again, unless something has changed.
            State::Refused => dry_run(&arguments),
            State::NotWide if is_by_hand => dry_run(&arguments),
            State::NotWide => (format!("add {arguments}"), "split it whatever its size"),
            _ => (format!("add {arguments}"), "try it again at once"),
        });
    } else if stage::waits_until(split, now).is_some() && !is_by_hand {
        let why = "split it as soon as no hint can change it, without waiting for quiet_for";
        commands.push((format!("add {arguments}"), why));
    } else if state == State::Completed {
        commands.push((format!("rollback {arguments}"), "take it out of service"));
    } else {
        commands.push((format!("watch {name}"), "follow it"));
        if state.is_guarded() {
            commands.push((format!("rollback {arguments}"), "give it up"));
        }
        if table.paused {
            commands.push((format!("resume {name}"), "let it continue"));
        }
    }
    let mut lines: Vec<(String, &str)> = commands
        .into_iter()
        .map(|(command, why)| (format!("narrows splits {command}"), why))
        .collect();
    if table.mode != Mode::Serve {
        lines.push((
            format!("narrows mode {name} serve"),
            "split, and read from splits",
        ));
    }
    let labels = ["next"].into_iter().chain(std::iter::repeat(""));
    let lines = labels.zip(lines);
    lines
        .map(|(label, (command, why))| format!("{label:INDENT$}{command}    # {why}\n"))
        .collect()
}

fn dry_run(arguments: &str) -> (String, &'static str) {
    (
        format!("add {arguments} --dry-run"),
        "see whether it could be split now",
    )
}

#[cfg(test)]
mod tests;
