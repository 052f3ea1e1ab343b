//! The table that holds the buckets of an original: one for each schema that the original has had, made when it is needed.

use std::collections::BTreeMap;
use std::time::Duration;

use scylla::DeserializeRow;

use super::{Store, StoreError, not_understood};
use crate::rewrite::render::{BUCKET, GENERATION};
use crate::schema::{ClusteringColumn, CqlType, TableSchema};
use crate::statement::quoted;
use crate::wide_row::names::TableName;

/// The hidden end of a split table's partition key.
pub const HIDDEN: [&str; 2] = [GENERATION, BUCKET];
/// Longer names are refused by servers that put them into file names.
const NAME_BYTES_MAX: usize = 48;
/// Buckets of dead generations are deleted, so their tombstones live at least that long.
const GC_GRACE_SECONDS_MIN: i32 = 10 * 24 * 3600;
const NUMBERS_MAX: u32 = 10_000;
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

const TABLES: &str = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
const OPTIONS: &str = "SELECT additional_write_policy, bloom_filter_fp_chance, caching, compaction, compression, \
    crc_check_chance, default_time_to_live, gc_grace_seconds, max_index_interval, memtable_flush_period_in_ms, \
    min_index_interval, speculative_retry FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
const TYPES: &str = "SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";

impl Store {
    /// The split table for this schema of the original, made if there is none.
    pub async fn split_table(&self, original: &TableSchema) -> Result<String, StoreError> {
        let keyspace = original.keyspace.as_str();
        let result = self.session.query_unpaged(TABLES, (keyspace,)).await?;
        let rows = result.into_rows_result().map_err(not_understood)?;
        let rows = rows.rows::<(String,)>().map_err(not_understood)?;
        let existing: Result<Vec<String>, _> = rows.map(|row| row.map(|(name,)| name)).collect();
        let existing = existing.map_err(not_understood)?;
        for number in 1..NUMBERS_MAX {
            let name = name(&original.table, number);
            if !existing.contains(&name) {
                return self.make_split_table(original, &name).await.map(|()| name);
            }
            if self.is_split_table(original, &name).await? {
                return Ok(name);
            }
        }
        let text = format!("{keyspace} has no free name for a split table");
        Err(StoreError::Refused(text))
    }

    async fn is_split_table(&self, original: &TableSchema, name: &str) -> Result<bool, StoreError> {
        let table = TableName::new(&original.keyspace, name);
        let found = self.describe(&table).await?.schema;
        Ok(found.is_some_and(|found| fits(original, &found)))
    }

    async fn make_split_table(&self, original: &TableSchema, name: &str) -> Result<(), StoreError> {
        let names = (original.keyspace.as_str(), original.table.as_str());
        let types: Vec<(String, String)> = self.schema_rows(TYPES, names).await?;
        let options: Vec<Options> = self.schema_rows(OPTIONS, names).await?;
        let options = options.into_iter().next();
        let missing = || StoreError::Refused(format!("{}.{} is no more", names.0, names.1));
        let create = create(original, name, &types, &options.ok_or_else(missing)?);
        let mut statement = scylla::statement::Statement::new(create);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        self.session.query_unpaged(statement, ()).await?;
        let agreed = self.session.await_schema_agreement().await;
        agreed.map_err(|error| StoreError::Unreachable(error.to_string()))?;
        Ok(())
    }
}

/// Shortened with a hash where it would be too long.
fn name(original: &str, number: u32) -> String {
    let whole = format!("wide_{original}_{number}");
    if whole.len() <= NAME_BYTES_MAX {
        return whole;
    }
    let hash = crate::filter::hash(original.as_bytes());
    let kept = NAME_BYTES_MAX - format!("wide__{:08x}_{number}", hash as u32).len();
    let kept = original.floor_char_boundary(kept);
    format!("wide_{}_{:08x}_{number}", &original[..kept], hash as u32)
}

/// Whether a table has the original's columns, and the hidden ones at the end of its key.
fn fits(original: &TableSchema, found: &TableSchema) -> bool {
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

/// What the original says of its storage.
#[derive(DeserializeRow)]
struct Options {
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
    /// Numbers and maps as they are; garbage is kept for longer, and reads repair what they find.
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

fn create(
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
    let comment = format!("Narrows: buckets of {}", original.table);
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
    fn long_names_are_shortened_and_stay_different() {
        assert_eq!(name("reading", 3), "wide_reading_3");
        let (one, other) = ("x".repeat(48), format!("{}y", "x".repeat(47)));
        let names = [name(&one, 1), name(&other, 1), name(&one, 2)];
        assert!(names.iter().all(|name| name.len() <= NAME_BYTES_MAX));
        assert!(names[0] != names[1] && names[0] != names[2]);
    }

    #[test]
    fn literals_are_quoted() {
        let map = BTreeMap::from([("class".to_owned(), "it's".to_owned())]);
        assert_eq!(rendered(&map), "{'class': 'it''s'}");
    }
}
