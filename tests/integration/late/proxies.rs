//! Several proxies, and writers around them.

use super::{CHANGED, POLL_INTERVAL, Pair, ROWS, TOO_LATE, recently};
use crate::pipeline::world::{ANSWERED, Client, PLAIN, SPLIT_PATIENCE, until_answered};
use crate::support::{Codec, Proxy, RawClient, cluster, eventually, eventually_within};
use narrows::wide_row::state::State;

const DIFFERS: &str = "differs from watched_table, which wins";

#[test]
fn what_the_store_says_counts_for_a_proxy_with_another_file() {
    let cluster = cluster();
    let mut pair = Pair::start(&cluster, PLAIN, DIFFERS);
    pair.world.fill(1, ROWS);
    let generation = pair.split();
    let table = pair.world.name("t");
    let other = Proxy::builder(cluster.nodes())
        .set("control.keyspace", &pair.world.control_keyspace.name)
        .set("control.poll_interval", POLL_INTERVAL)
        .toml(&format!(
            "[[table]]\nname = '{table}'\nshards = 8\nmode = 'off'\nlate_writes = 'reject'\nquiet_for = '9h'\n"
        ))
        .expecting(DIFFERS)
        .expecting(TOO_LATE)
        .start();
    let mut through = Client::connect(other.address(), Codec::V4);
    let text = pair.world.select(1);
    let expected = pair.world.direct.scan(&text);
    until_answered(&other, &mut through, &text, &expected);
    // By its own file it would reject this, and know nothing of the split.
    let mut writing = RawClient::connect(other.address(), Codec::V4);
    let late = recently();
    writing.query(&format!(
        "INSERT INTO {table} (k, c, v) VALUES (1, 5000, 'late') USING TIMESTAMP {late}"
    ));
    pair.assert_ended(generation);
    pair.assert_same("a write through another", ROWS as usize + 1);
    assert!(through.scan(&text) == pair.world.direct.scan(&text));
}

#[test]
fn a_table_truncated_around_the_proxies_is_empty_for_all() {
    let cluster = cluster();
    let mut pair = Pair::start(&cluster, PLAIN, CHANGED);
    pair.world.fill(1, ROWS);
    pair.split();
    let table = pair.world.name("t");
    pair.world.keyspace.run(&[&format!("TRUNCATE {table}")]);
    let text = pair.world.select(1);
    for (at, through) in pair.through.iter_mut().enumerate() {
        eventually("the rows are gone", || {
            through.scan(&text).is_empty().then_some(())
        });
        let answered = pair.proxies[at].metric(ANSWERED);
        assert!(through.scan(&text).is_empty());
        assert_eq!(
            pair.proxies[at].metric(ANSWERED),
            answered,
            "from the original"
        );
    }
    eventually("it is out of service", || {
        let standing = pair.control.standing(&pair.id()).expect("there is one");
        (!standing.is_in_service()).then_some(())
    });
    let late = recently();
    pair.write(
        1,
        &format!("INSERT INTO {{}} (k, c, v) VALUES (1, 1, 'new') USING TIMESTAMP {late}"),
    );
    pair.assert_same("a row of the new table", 1);
}

#[test]
fn a_split_rolled_back_and_made_again_has_what_was_written_in_between() {
    let cluster = cluster();
    let mut pair = Pair::start(&cluster, PLAIN, "nothing is expected");
    pair.world.fill(1, ROWS);
    let first = pair.split();
    let id = pair.id();
    assert!(pair.control.invalidate(&id, first), "was in service");
    let late = recently();
    pair.write(
        0,
        &format!("INSERT INTO {{}} (k, c, v) VALUES (1, 5000, 'between') USING TIMESTAMP {late}"),
    );
    let again = pair.control.nominate(&id);
    assert_eq!(again.0, first.0 + 1);
    // While it is planned and copied, too; whatever becomes of this generation, the write is there.
    pair.write(
        1,
        &format!("INSERT INTO {{}} (k, c, v) VALUES (1, 5001, 'meanwhile') USING TIMESTAMP {late}"),
    );
    pair.assert_same("rows of in between", ROWS as usize + 2);
    let state = eventually_within(SPLIT_PATIENCE, "it has come to its end", || {
        let state = pair.control.standing(&id)?.state;
        (state == State::Completed || state.is_end()).then_some(state)
    });
    pair.assert_same("rows of in between, at its end", ROWS as usize + 2);
    if state != State::Completed {
        pair.split();
    }
    pair.assert_same("rows of in between, split again", ROWS as usize + 2);
}
