//! The data read by the benchmark, and the two statements that read it.

use std::fmt::Write;

use anyhow::Result;

use crate::cql::Connection;

const POINT_KEYS: u32 = 1000;
const PAGE_KEYS: u32 = 16;
const PAGE_ROWS: u32 = 100;
const VALUE_BYTES: usize = 1000;

/// One statement with one `int` key in `0..keys`.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) select: &'static str,
    pub(crate) keys: u32,
}

pub(crate) const POINT: Workload = Workload {
    name: "point",
    select: "SELECT k, v FROM narrows_bench.point WHERE k = ?",
    keys: POINT_KEYS,
};

pub(crate) const PAGE: Workload = Workload {
    name: "page",
    select: "SELECT c, v FROM narrows_bench.page WHERE k = ?",
    keys: PAGE_KEYS,
};

/// Creates and fills both tables; cheap enough to repeat on every run. Meant for a cluster
/// of one node: with more, the first writes would have to wait for schema agreement.
pub(crate) fn load(connection: &mut Connection) -> Result<()> {
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS narrows_bench WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS narrows_bench.point (k int PRIMARY KEY, v blob)",
        "CREATE TABLE IF NOT EXISTS narrows_bench.page (k int, c int, v blob, PRIMARY KEY (k, c))",
    ] {
        connection.query(statement)?;
    }
    for key in 0..POINT_KEYS {
        let value = hex_value(key);
        connection.query(&format!(
            "INSERT INTO narrows_bench.point (k, v) VALUES ({key}, {value})"
        ))?;
    }
    for key in 0..PAGE_KEYS {
        for row in 0..PAGE_ROWS {
            let value = hex_value(key * PAGE_ROWS + row);
            connection.query(&format!(
                "INSERT INTO narrows_bench.page (k, c, v) VALUES ({key}, {row}, {value})"
            ))?;
        }
    }
    Ok(())
}

/// A blob literal that differs from row to row and does not compress to nothing.
fn hex_value(seed: u32) -> String {
    let mut literal = String::from("0x");
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    for _ in 0..VALUE_BYTES {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        write!(literal, "{:02x}", state >> 24).expect("writing to a String cannot fail");
    }
    literal
}
