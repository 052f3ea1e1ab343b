//! The columns and options of a split table, and the statement that creates it. Pure.

use std::collections::BTreeMap;

use scylla::DeserializeRow;

use super::HIDDEN;
use crate::schema::{ClusteringColumn, CqlType, TableSchema};
use crate::statement::quoted;

/// Minimum lifetime of the tombstones that clean-up writes when it deletes the buckets of ended generations.
const GC_GRACE_SECONDS_MIN: i32 = 10 * 24 * 3600;

pub(super) const OPTIONS: &str = "SELECT additional_write_policy, bloom_filter_fp_chance, caching, compaction, compression, \
    crc_check_chance, default_time_to_live, gc_grace_seconds, max_index_interval, memtable_flush_period_in_ms, \
    min_index_interval, speculative_retry FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
pub(super) const TYPES: &str = "SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";

/// The comment of a split table. A table without it was created by a person, and is never dropped.
pub(super) fn mark(original: &str) -> String {
    format!("Narrows: buckets of {original}")
}

/// Whether a table has the original's columns, and the hidden ones at the end of its partition key.
pub(super) fn fits(original: &TableSchema, found: &TableSchema) -> bool {
    let key = found
        .partition_key
        .split_at_checked(original.partition_key.len());
    let Some((key, hidden)) = key else {
        return false;
    };
    let is_hidden = hidden.len() == HIDDEN.len()
        && hidden
            .iter()
            .zip(HIDDEN)
            .all(|(column, name)| column.name == name && column.cql_type == CqlType::Int);
    is_hidden
        && key == original.partition_key
        && found.clustering == original.clustering
        && found.regulars == original.regulars
        && found.statics.is_empty()
}

/// The storage options of the original.
#[derive(DeserializeRow)]
pub(super) struct Options {
    additional_write_policy: Option<String>,
    bloom_filter_fp_chance: Option<f64>,
    caching: Option<BTreeMap<String, String>>,
    compaction: Option<BTreeMap<String, String>>,
    compression: Option<BTreeMap<String, String>>,
    crc_check_chance: Option<f64>,
    default_time_to_live: Option<i32>,
    gc_grace_seconds: Option<i32>,
    max_index_interval: Option<i32>,
    memtable_flush_period_in_ms: Option<i32>,
    min_index_interval: Option<i32>,
    speculative_retry: Option<String>,
}

impl Options {
    /// The original's options, except that `gc_grace_seconds` has a minimum and `read_repair` is always BLOCKING.
    fn render(&self) -> Vec<String> {
        let gc_grace = self.gc_grace_seconds.unwrap_or(0).max(GC_GRACE_SECONDS_MIN);
        let mut options = vec![
            format!("gc_grace_seconds = {gc_grace}"),
            "read_repair = 'BLOCKING'".to_owned(),
        ];
        let maps = [
            ("caching", &self.caching),
            ("compaction", &self.compaction),
            ("compression", &self.compression),
        ];
        let maps = maps.map(|(name, map)| (name, map.as_ref().map(rendered)));
        let texts = [
            ("additional_write_policy", &self.additional_write_policy),
            ("speculative_retry", &self.speculative_retry),
        ];
        let texts = texts.map(|(name, text)| (name, text.as_deref().map(literal)));
        let numbers = [
            ("bloom_filter_fp_chance", self.bloom_filter_fp_chance),
            ("crc_check_chance", self.crc_check_chance),
        ];
        let numbers = numbers.map(|(name, number)| (name, number.map(|number| number.to_string())));
        let counts = [
            ("default_time_to_live", self.default_time_to_live),
            ("max_index_interval", self.max_index_interval),
            (
                "memtable_flush_period_in_ms",
                self.memtable_flush_period_in_ms,
            ),
            ("min_index_interval", self.min_index_interval),
        ];
        let counts = counts.map(|(name, count)| (name, count.map(|count| count.to_string())));
        let given = maps.into_iter().chain(texts).chain(numbers).chain(counts);
        options.extend(given.filter_map(|(name, value)| Some(format!("{name} = {}", value?))));
        options
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn rendered(map: &BTreeMap<String, String>) -> String {
    let entries = map
        .iter()
        .map(|(key, value)| format!("{}: {}", literal(key), literal(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

pub(super) fn create(
    original: &TableSchema,
    name: &str,
    types: &[(String, String)],
    options: &Options,
) -> String {
    let columns = types
        .iter()
        .map(|(name, cql_type)| format!("{} {cql_type}", quoted(name)));
    let hidden = HIDDEN.map(|name| format!("{name} int"));
    let columns: Vec<String> = columns.chain(hidden).collect();
    let key = original.partition_key.iter();
    let key = key.map(|column| quoted(&column.name));
    let key: Vec<String> = key.chain(HIDDEN.map(str::to_owned)).collect();
    let clustering = |render: &dyn Fn(&ClusteringColumn) -> String| {
        let columns = original.clustering.iter();
        columns.map(render).collect::<Vec<_>>().join(", ")
    };
    let names = clustering(&|column| quoted(&column.column.name));
    let order = clustering(&|column| {
        let direction = if column.descending { "DESC" } else { "ASC" };
        format!("{} {direction}", quoted(&column.column.name))
    });
    let comment = mark(&original.table);
    format!(
        "CREATE TABLE IF NOT EXISTS {}.{} ({}, PRIMARY KEY (({}), {names})) WITH CLUSTERING ORDER BY ({order}) \
         AND comment = {} AND {}",
        quoted(&original.keyspace),
        quoted(name),
        columns.join(", "),
        key.join(", "),
        literal(&comment),
        options.render().join(" AND ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_quoted() {
        let map = BTreeMap::from([("class".to_owned(), "it's".to_owned())]);
        assert_eq!(rendered(&map), "{'class': 'it''s'}");
    }
}
