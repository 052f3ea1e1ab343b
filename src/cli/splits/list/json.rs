//! Splits as JSON, one object a line, for programs. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Found;
use crate::cli::splits::key::KeyColumns;
use crate::cli::splits::{constant, moment, stage};
use crate::schema::names::TableName;

pub(super) fn lines(found: &[Found], keys: &BTreeMap<TableName, KeyColumns>) -> String {
    found.iter().map(|one| line(one, keys) + "\n").collect()
}

fn line(one: &Found, keys: &BTreeMap<TableName, KeyColumns>) -> String {
    let Found { table, key, split } = one;
    let standing = split.standing;
    let constants = keys.get(table).map(|columns| columns.constants(key));
    let constants: Vec<String> = constants
        .iter()
        .flatten()
        .map(|text| string(text))
        .collect();
    let original = split.pre_split_data.as_ref();
    let progress = stage::progress(split);
    let percent = stage::percent(split);
    let time = |millis: Option<i64>| text(millis.and_then(moment::iso).as_deref());
    let number = |number: Option<i64>| number.map_or_else(null, |number| number.to_string());
    let worker = split.lease.as_deref().map(worker);
    let fields = [
        ("table", string(&table.to_string())),
        ("key", format!("[{}]", constants.join(","))),
        ("partition_key", string(&constant::hex(key.bytes()))),
        ("state", string(standing.state.as_str())),
        ("generation", standing.generation.to_string()),
        ("in_service", standing.is_in_service().to_string()),
        ("out_with_table", stage::is_past(split).to_string()),
        (
            "percent",
            number(percent.map(|percent| percent.value.into())),
        ),
        (
            "done_rows",
            number(progress.map(|progress| progress.row_count)),
        ),
        (
            "done_bytes",
            number(progress.map(|progress| progress.byte_count)),
        ),
        ("rows", number(original.map(|original| original.row_count))),
        (
            "bytes",
            number(original.map(|original| original.byte_count)),
        ),
        ("seen_bytes", number(split.seen_bytes)),
        ("worker", text(worker)),
        ("failures", split.failures.to_string()),
        ("reason", text(split.reason.as_deref())),
        ("not_before", time(split.not_before)),
        ("detected_at", time(split.detected_at)),
        ("changed_at", time(split.changed_at)),
    ];
    object(&fields)
}

/// Of names and values that are JSON already.
pub(in crate::cli::splits) fn object(fields: &[(&str, String)]) -> String {
    let fields = fields.iter();
    let fields = fields.map(|(name, value)| format!("{}:{value}", string(name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Who holds a lease, without what makes each holding of it unique.
pub(in crate::cli::splits) fn worker(lease: &str) -> &str {
    lease.rsplit_once('/').map_or(lease, |(worker, _)| worker)
}

pub(in crate::cli::splits) fn null() -> String {
    "null".to_owned()
}

pub(in crate::cli::splits) fn text(text: Option<&str>) -> String {
    text.map_or_else(null, string)
}

pub(in crate::cli::splits) fn string(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
