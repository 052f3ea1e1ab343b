//! What a scan costs and what it found, in words. Pure.

use super::{End, Seen, Shown};
use crate::cli::explain::lines::{counted, size};
use crate::cli::splits::add::hindrance;
use crate::cli::splits::key::KeyColumns;
use crate::watched::WatchedTable;

const HEAD: [&str; 4] = ["KEY", "ROWS", "SIZE", "STATE"];
/// Of those that could not be read, so many are named.
const UNREADABLE_MAX: usize = 10;

/// Said before anything is read.
pub(super) fn heading(table: &WatchedTable, largest: Option<u64>) -> String {
    let (name, wide) = (&table.name, size(table.wide_bytes));
    let mut text = format!(
        "reads every partition of {name} once, of those of {wide} or more the first {wide}; Ctrl-C ends it\n"
    );
    if let Some(largest) = largest {
        let largest = size(largest);
        text.push_str(&format!(
            "the largest partition in any one file of a node has about {largest}; in memory or in several files there may be more\n"
        ));
    }
    text
}

/// One line for each, below a line of names; nothing for none.
pub(super) fn table(shown: &[Shown], columns: &KeyColumns) -> String {
    if shown.is_empty() {
        return String::new();
    }
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(shown.iter().map(|one| {
        let least = if one.wide.is_whole { "" } else { "≥ " };
        [
            columns.show(&one.wide.key),
            format!("{least}{}", one.wide.rows),
            format!("{least}{}", size(one.wide.bytes)),
            one.state.clone(),
        ]
    }));
    let mut widths = [0; HEAD.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |[key, rows, size, state]: &[String; 4]| {
        let [key_width, rows_width, size_width, _] = widths;
        format!("{key:key_width$}  {rows:>rows_width$}  {size:>size_width$}  {state}\n")
    };
    lines.iter().map(line).collect()
}

/// What was looked at, what could not be, and what to do next.
pub(super) fn notes(
    table: &WatchedTable,
    nominate: bool,
    seen: &Seen,
    columns: &KeyColumns,
) -> String {
    let name = &table.name;
    let read = seen.counted;
    let (partitions, bytes) = (counted(read.partitions, "partition"), size(read.bytes));
    let wide = size(table.wide_bytes);
    let mut text = match seen.shown.len() {
        0 => {
            let largest = size(read.largest_bytes);
            format!(
                "no partition of {wide} or more among {partitions} of {name}; the largest has {largest}\n"
            )
        }
        found => format!("{found} of {partitions} are wide; {bytes} were read\n"),
    };
    match seen.end {
        End::Whole => {}
        End::Limit => {
            let found = seen.shown.len();
            text.push_str(&format!(
                "stopped after {found}: there may be more, --limit finds them\n"
            ));
        }
        End::Early(share) => {
            let percent = share * 100.0;
            text.push_str(&format!(
                "stopped at {percent:.1}% of the ring: there may be more\n"
            ));
        }
    }
    text.push_str(&unreadable(seen, columns));
    if !seen.shown.is_empty() {
        match nominate {
            true => {
                text.push_str(&hindrance(table).unwrap_or_default());
                text.push_str(&format!("to follow them: narrows splits watch {name}\n"));
            }
            false => text.push_str(&format!(
                "to nominate them: narrows splits scan {name} --nominate\n\
                 to see what would be done with one: narrows splits add {name} key… --dry-run\n"
            )),
        }
    }
    text
}

fn unreadable(seen: &Seen, columns: &KeyColumns) -> String {
    let all = &seen.unreadable;
    if all.is_empty() {
        return String::new();
    }
    let names = all.iter().take(UNREADABLE_MAX);
    let names = names.map(|(token, key)| match key {
        Some(key) => columns.show(key),
        None => format!("at token {token}"),
    });
    let names = names.collect::<Vec<_>>().join("; ");
    let more = match all.len().saturating_sub(UNREADABLE_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = counted(all.len(), "partition");
    format!(
        "{count} could not be read for tombstones: {names}{more}\n\
         they may be wide or not; Cassandra reads them again once their tombstones are compacted away\n"
    )
}
