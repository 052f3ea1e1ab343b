//! `[[table]]`: the tables to watch, each with its defaults and the rules between its settings.

use std::time::Duration;

use super::reader::{Reader, Section};
use super::{show_bytes, values};
use crate::schema::names::TableName;
use crate::watched::WatchedTable;

/// Limit for spans of data, which may be longer than waiting times: some tables have one partition per year.
const SPAN_MAX: Duration = Duration::from_secs(3660 * 24 * 3600);

/// Spans are stored in seconds.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// One table for each entry with a valid name; mistakes stay in the reader.
pub(super) fn read(
    reader: &mut Reader,
    entries: Vec<String>,
    control_keyspace: &str,
) -> Vec<WatchedTable> {
    let mut tables: Vec<WatchedTable> = Vec::new();
    for entry in entries {
        let mut section = reader.section(entry);
        let name = name(&mut section, control_keyspace);
        // Read even without a valid name, so that all mistakes in an entry are reported.
        let placeholder = || TableName::new("", "");
        let table = settings(&mut section, name.clone().unwrap_or_else(placeholder));
        let Some(name) = name else { continue };
        if tables.iter().any(|other| other.name == name) {
            section.mistake("name", "is in an earlier entry, too; keep one of them");
        } else {
            tables.push(table);
        }
    }
    tables
}

fn name(section: &mut Section<'_>, control_keyspace: &str) -> Option<TableName> {
    let name = section.optional("name", values::table_name);
    if !section.has("name") {
        let problem = "is missing; name the table, such as name = \"plant.reading\"";
        section.mistake("name", problem);
    }
    if name.as_ref()?.keyspace == control_keyspace {
        section.mistake("name", "is in control.keyspace, which cannot be watched");
    }
    name
}

fn settings(section: &mut Section<'_>, name: TableName) -> WatchedTable {
    let mut table = WatchedTable::new(name);
    section.set("mode", &mut table.mode, values::table_mode);
    section.set("late_writes", &mut table.late_writes, values::late_writes);
    section.set(
        "wide_bytes",
        &mut table.wide_bytes,
        values::bytes(1 << 10..=1 << 40),
    );
    section.set(
        "target_bytes",
        &mut table.target_bytes,
        values::bytes(1 << 10..=1 << 40),
    );
    section.set(
        "max_buckets",
        &mut table.max_buckets,
        values::count(1..=4096),
    );
    section.set("shards", &mut table.shards, values::shards);
    section.set("filter", &mut table.filter, values::filter);
    times(section, &mut table);
    if table.target_bytes > table.wide_bytes {
        let problem = format!(
            "must not be more than wide_bytes, which is {}",
            show_bytes(table.wide_bytes)
        );
        section.mistake("target_bytes", problem);
    }
    table
}

fn times(section: &mut Section<'_>, table: &mut WatchedTable) {
    table.time_bucket_column = section.optional("time_bucket_column", values::text);
    table.time_bucket_unit = section.optional("time_bucket_unit", values::bucket_unit);
    let span = || values::whole_seconds(SPAN_MIN..=SPAN_MAX);
    table.time_bucket_width = section.optional("time_bucket_width", span());
    table.accept_limit = section.optional(
        "accept_limit",
        values::whole_seconds(Duration::ZERO..=SPAN_MAX),
    );
    section.set("quiet_for", &mut table.quiet_for, span());
    let needed = |name: &str| match name {
        "time_bucket_column" => "the partition key column that is a time",
        "time_bucket_width" => "how much time one partition covers",
        _ => "how long after its end a time bucket is still written",
    };
    let together = ["time_bucket_column", "time_bucket_width", "accept_limit"];
    for name in together.into_iter().chain(["time_bucket_unit"]) {
        let missing = together.into_iter().find(|other| !section.has(other));
        if let Some(missing) = missing.filter(|_| section.has(name)) {
            let problem = format!(
                "has no effect without {missing}, which says {}",
                needed(missing)
            );
            section.mistake(name, problem);
        }
    }
}
