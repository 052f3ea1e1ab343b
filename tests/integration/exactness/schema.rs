//! Random tables: keys of several styles, every type, both orders, names that need quotes or look like keywords.

use super::types::{Datum, Type};
use crate::support::random::Random;

#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// As Cassandra spells it, without quotes.
    pub(crate) name: String,
    pub(crate) of: Type,
    /// Values that rows have, so that questions can hit them; for keys only.
    pub(crate) pool: Vec<Datum>,
}

#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) partition: Vec<Column>,
    pub(crate) clustering: Vec<Column>,
    /// Of each clustering column.
    pub(crate) descending: Vec<bool>,
    pub(crate) regular: Vec<Column>,
    pub(crate) since_5: bool,
}

/// Names that may stand without quotes although they mean something elsewhere, and some that may not.
const NAMES: [&str; 26] = [
    "key",
    "type",
    "ttl",
    "writetime",
    "count",
    "timestamp",
    "date",
    "text",
    "filtering",
    "list",
    "json",
    "values",
    "static",
    "clustering",
    "Mixed",
    "with space",
    "UPPER",
    "from",
    "a\"b",
    "narrows",
    "v1",
    "v2",
    "v3",
    "payload",
    "per",
    "group",
];

impl Column {
    pub(crate) fn new(name: &str, of: Type) -> Self {
        Self {
            name: name.to_owned(),
            of,
            pool: Vec::new(),
        }
    }

    pub(crate) fn quoted(&self) -> String {
        quoted(&self.name)
    }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Schema {
    pub(crate) fn random(random: &mut Random, keyspace: &str, since_5: bool) -> Self {
        let mut names = Names::new(random);
        let (partition, mut clustering) = keys(random, &mut names);
        while clustering.len() < 3 && (clustering.is_empty() || random.one_in(2)) {
            clustering.push(Column::new(&names.next(), Type::of_clustering(random)));
        }
        let descending = clustering.iter().map(|_| random.one_in(2)).collect();
        let count = random.below(8);
        let mut regular: Vec<Column> = (0..count)
            .map(|_| Column::new(&names.next(), Type::of_regular(random, since_5)))
            .collect();
        if random.below(10) > 0 {
            regular.push(Column::new("plain", Type::Native("int")));
        }
        let mut schema = Self {
            keyspace: keyspace.to_owned(),
            table: (*random.pick(&["events", "reading", "Events", "t"])).to_owned(),
            partition,
            clustering,
            descending,
            regular,
            since_5,
        };
        schema.fill_pools(random);
        schema
    }

    /// Few values in front, so that prefixes repeat; many at the end.
    fn fill_pools(&mut self, random: &mut Random) {
        for column in &mut self.partition {
            column.pool = pool(&column.of, 3, random);
        }
        let last = self.clustering.len() - 1;
        for (index, column) in self.clustering.iter_mut().enumerate() {
            let size = if index == last {
                40 + random.below(80)
            } else {
                2 + random.below(5)
            };
            column.pool = pool(&column.of, size, random);
            // Too few for a partition that is worth cutting.
            if index == last && column.pool.len() < 20 {
                column.of = Type::Native("bigint");
                column.pool = pool(&column.of, size, random);
            }
            if random.one_in(5) {
                column.pool.extend(column.of.empty());
            }
        }
    }

    pub(crate) fn key(&self) -> impl Iterator<Item = &Column> {
        self.partition.iter().chain(&self.clustering)
    }

    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.keyspace, quoted(&self.table))
    }

    pub(crate) fn create(&self) -> String {
        self.create_as(&self.table, &[])
    }

    /// The table under this name, with more columns at the end of its partition key.
    pub(crate) fn create_as(&self, table: &str, hidden: &[&str]) -> String {
        let declare = |column: &Column| format!("{} {}", column.quoted(), column.of.cql());
        let mut columns: Vec<String> = self.key().chain(&self.regular).map(declare).collect();
        columns.extend(hidden.iter().map(|name| format!("{name} int")));
        let mut partition: Vec<String> = self.partition.iter().map(Column::quoted).collect();
        partition.extend(hidden.iter().map(|name| (*name).to_owned()));
        let clustering: Vec<String> = self.clustering.iter().map(Column::quoted).collect();
        let order: Vec<String> = clustering
            .iter()
            .zip(&self.descending)
            .map(|(name, descending)| {
                format!("{name} {}", if *descending { "DESC" } else { "ASC" })
            })
            .collect();
        format!(
            "CREATE TABLE {}.{} ({}, PRIMARY KEY (({}), {})) WITH CLUSTERING ORDER BY ({})",
            self.keyspace,
            quoted(table),
            columns.join(", "),
            partition.join(", "),
            clustering.join(", "),
            order.join(", ")
        )
    }
}

/// The style of the key: Netflix's, a legacy one, or anything.
fn keys(random: &mut Random, names: &mut Names) -> (Vec<Column>, Vec<Column>) {
    let native = |name: &str, of| Column::new(name, Type::Native(of));
    match random.below(4) {
        0 => {
            let partition = vec![
                native("time_series_id", "text"),
                native("time_bucket", "int"),
                native("event_bucket", "int"),
            ];
            let time = *random.pick(&["timestamp", "timeuuid"]);
            (partition, vec![native("event_time", time)])
        }
        1 => {
            let partition = vec![native("sensor", "text"), native("day", "int")];
            (partition, vec![native("ts", "timestamp")])
        }
        _ => {
            let partition = (0..1 + random.below(3))
                .map(|_| {
                    let of = Type::of_clustering(random);
                    Column::new(&names.next(), of)
                })
                .collect();
            (partition, Vec::new())
        }
    }
}

fn pool(of: &Type, size: usize, random: &mut Random) -> Vec<Datum> {
    let mut pool: Vec<Datum> = Vec::new();
    for _ in 0..size * 4 {
        let value = of.random(random);
        // A key without bytes is refused where it is the whole partition key.
        let known = pool.iter().any(|other| other.bytes == value.bytes);
        if !known && !value.bytes.is_empty() && pool.len() < size {
            pool.push(value);
        }
    }
    pool
}

/// Hands out each name once.
struct Names(Vec<&'static str>, usize);

impl Names {
    fn new(random: &mut Random) -> Self {
        let mut names = NAMES.to_vec();
        for at in (1..names.len()).rev() {
            names.swap(at, random.below(at + 1));
        }
        Self(names, 0)
    }

    fn next(&mut self) -> String {
        self.1 += 1;
        self.0[self.1 - 1].to_owned()
    }
}
