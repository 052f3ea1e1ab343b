//! Tables and queries of every kind that a scan of one partition, or of a few, can have.

use std::net::SocketAddr;

use crate::support::{Codec, RawClient};

pub(crate) const TABLES: &[&str] = &[
    "CREATE TABLE ints (k int, c int, v int, PRIMARY KEY (k, c))",
    "CREATE TABLE texts (k int, c text, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
    "CREATE TABLE mixed (k int, c text, d int, v int, m map<int, text>, s int static, PRIMARY KEY (k, c, d)) \
     WITH CLUSTERING ORDER BY (c DESC, d ASC)",
    "CREATE TABLE deep (a int, b text, c timeuuid, d text, e int, l list<int>, v int, PRIMARY KEY ((a, b), c, d, e)) \
     WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)",
];

pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) key: &'static [&'static str],
    pub(crate) clustering: &'static [&'static str],
    /// Ways to ask for rows, without limits.
    pub(crate) queries: &'static [&'static str],
}

pub(crate) const ALL: [Table; 4] = [
    Table {
        name: "ints",
        key: &["k"],
        clustering: &["c"],
        queries: &[
            "k = 1",
            "k = 1 ORDER BY c DESC",
            "k = 1 AND c > 3 AND c <= 12",
            "k = 1 AND c > 3 AND c <= 12 ORDER BY c DESC",
            "k = 1 AND c IN (12, 3, 5, 1, 99, 7, 9)",
            "k = 1 AND c IN (12, 3, 5, 1, 99, 7, 9) ORDER BY c DESC",
            "k = 1 AND v = 1 ALLOW FILTERING",
            "k IN (2, 1, -3)",
            "k IN (2, 77, -3) AND c > 2",
            "k IN (2, 1, -3) AND c IN (1, 5, 9)",
        ],
    },
    Table {
        name: "texts",
        key: &["k"],
        clustering: &["c"],
        queries: &[
            "k = 1",
            "k = 1 ORDER BY c ASC",
            "k = 1 AND c < 'c3'",
            "k = 1 AND c IN ('', 'c1', 'c2', 'c7')",
            "k IN (1, 2)",
        ],
    },
    Table {
        name: "mixed",
        key: &["k"],
        clustering: &["c", "d"],
        queries: &[
            "k = 1",
            "k = 1 ORDER BY c ASC, d DESC",
            "k = 1 AND c = 'a'",
            "k = 1 AND c = '' ORDER BY c ASC",
            "k = 1 AND c IN ('', 'a') AND d >= 0",
            "k = 1 AND (c, d) > ('', 0)",
            "k = 1 AND (c, d) IN (('', 0), ('a', 1000), ('a', -5), ('bb', 3))",
            "k = 1 AND v > 0 ALLOW FILTERING",
            "k IN (-3, 1, 2)",
        ],
    },
    Table {
        name: "deep",
        key: &["a", "b"],
        clustering: &["c", "d", "e"],
        queries: &[
            "a = 1 AND b = 'x'",
            "a = 1 AND b = 'x' ORDER BY c DESC, d ASC, e DESC",
            "a = 1 AND b = 'x' AND c > 50554d6e-29bb-11e5-b345-feff819cdc01",
            "a = 1 AND b = 'x' AND v = 2 ALLOW FILTERING",
            "a = 1 AND b IN ('x', '', 'y')",
            "a IN (1, 2) AND b IN ('y', 'x')",
        ],
    },
];

pub(crate) fn fill(address: SocketAddr, keyspace: &str) {
    let mut client = RawClient::connect(address, Codec::V4);
    client.query(&format!("USE {keyspace}"));
    let mut client = Filler { client, count: 0 };
    for k in [1, 2, -3] {
        for c in 0..17 {
            client.row("ints", &format!("k = {k} AND c = {c}"), None);
            let text = if c == 4 {
                String::new()
            } else {
                format!("c{c}")
            };
            client.row("texts", &format!("k = {k} AND c = '{text}'"), None);
        }
        for c in ["", "a", "bb", &"z".repeat(300)] {
            for d in [-5, 0, 3, 1000] {
                let key = format!("k = {k} AND c = '{c}' AND d = {d}");
                client.row("mixed", &key, Some("m = {1: 'x', 2: 'y'}"));
            }
        }
        client
            .client
            .query(&format!("UPDATE mixed SET s = 5 WHERE k = {k}"));
    }
    for key in [
        "a = 1 AND b = 'x'",
        "a = 1 AND b = ''",
        "a = 1 AND b = 'y'",
        "a = 2 AND b = 'x'",
    ] {
        for c in 0..3 {
            for (d, e) in [("", 1), ("", 2), ("ä", 1), ("b", 0)] {
                let row = format!(
                    "{key} AND c = 50554d6e-29bb-11e5-b345-feff819cdc0{c} AND d = '{d}' AND e = {e}"
                );
                client.row("deep", &row, Some("l = [1, 2]"));
            }
        }
    }
}

/// Writes one row after the other, each of another kind.
struct Filler {
    client: RawClient,
    count: usize,
}

impl Filler {
    fn row(&mut self, table: &str, key: &str, collection: Option<&str>) {
        self.count += 1;
        let set = match self.count % 4 {
            0 => return self.insert(table, key),
            1 => {
                self.insert(table, key);
                "v = 1"
            }
            // Without a marker the row lives by this cell alone.
            2 => "v = 2",
            _ => collection.unwrap_or("v = 1"),
        };
        let update = format!("UPDATE {table} SET {set} WHERE {key}");
        self.client.query(&update);
    }

    /// A row of nothing but its key.
    fn insert(&mut self, table: &str, key: &str) {
        let (names, values): (Vec<&str>, Vec<&str>) = key
            .split(" AND ")
            .map(|part| part.split_once(" = ").expect("an equation"))
            .unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        self.client
            .query(&format!("INSERT INTO {table} ({names}) VALUES ({values})"));
    }
}
