//! Writes that a copy could not take in by itself: replays, deletions of columns, rows that expire.

use super::{Pair, ROWS, recently};
use crate::pipeline::world::{PLAIN, days_ago};
use crate::support::single_cluster;

const EXPIRING: &str =
    "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c)) WITH default_time_to_live = 8640000";
const NOTHING: &str = "nothing is expected";

#[test]
fn a_replay_with_an_old_timestamp_after_a_delete_changes_nothing() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, NOTHING);
    pair.world.fill(1, ROWS);
    let first = pair.split();
    pair.write(
        0,
        &format!(
            "DELETE FROM {{}} USING TIMESTAMP {} WHERE k = 1 AND c = 7",
            recently()
        ),
    );
    pair.assert_ended(first);
    pair.assert_same("a row deleted", ROWS as usize - 1);
    // Now the copy knows nothing of a deletion.
    let second = pair.split();
    let replayed = days_ago(2) + 1_000_000;
    pair.write(
        1,
        &format!("INSERT INTO {{}} (k, c, v) VALUES (1, 7, 'again') USING TIMESTAMP {replayed}"),
    );
    pair.assert_ended(second);
    pair.assert_same("the row replayed", ROWS as usize - 1);
    let third = pair.split();
    // Older than the cell that is there, and newer than nothing.
    let old = days_ago(3);
    pair.write(
        0,
        &format!("UPDATE {{}} USING TIMESTAMP {old} SET v = 'old' WHERE k = 1 AND c = 8"),
    );
    pair.assert_ended(third);
    pair.assert_same("an old cell", ROWS as usize - 1);
    pair.split();
    pair.assert_same("all of it, split again", ROWS as usize - 1);
}

#[test]
fn a_column_deleted_leaves_the_rows_that_were_inserted_and_no_others() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, NOTHING);
    pair.world.fill(1, ROWS);
    let updated = recently();
    let update = |row: i32| {
        let table = pair.world.name("t");
        format!(
            "UPDATE {table} USING TIMESTAMP {updated} SET v = 'updated' WHERE k = 1 AND c = {row}"
        )
    };
    let updates: Vec<String> = (ROWS..ROWS + 4).map(update).collect();
    pair.world.direct.write(&updates);
    let first = pair.split();
    pair.assert_same("inserted and updated rows", ROWS as usize + 4);
    let delete = |row: i32, later: i64| {
        format!(
            "DELETE v FROM {{}} USING TIMESTAMP {} WHERE k = 1 AND c = {row}",
            updated + later
        )
    };
    pair.write(0, &delete(ROWS, 1));
    pair.assert_ended(first);
    pair.assert_same("an updated row without its cell", ROWS as usize + 3);
    let second = pair.split();
    pair.write(1, &delete(5, 2));
    pair.assert_ended(second);
    pair.assert_same("an inserted row without its cell", ROWS as usize + 3);
    pair.split();
    pair.assert_same("both, split again", ROWS as usize + 3);
}

#[test]
fn late_rows_of_a_table_with_a_default_ttl_expire_as_they_do_without_us() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, EXPIRING, NOTHING);
    pair.world.fill(1, ROWS);
    let first = pair.split();
    pair.assert_same("rows that expire", ROWS as usize);
    let late = recently();
    pair.write(
        0,
        &format!("INSERT INTO {{}} (k, c, v) VALUES (1, 5000, 'late') USING TIMESTAMP {late}"),
    );
    pair.write(1, &format!("UPDATE {{}} USING TIMESTAMP {late} AND TTL 500000 SET v = 'late' WHERE k = 1 AND c = 5001"));
    pair.write(
        1,
        &format!(
            "UPDATE {{}} USING TIMESTAMP {late} AND TTL 0 SET v = 'stays' WHERE k = 1 AND c = 5002"
        ),
    );
    pair.assert_ended(first);
    pair.assert_same("late rows", ROWS as usize + 3);
    pair.split();
    pair.assert_same("late rows, split again", ROWS as usize + 3);
}
