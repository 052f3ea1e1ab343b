//! A worker that is killed at any line leaves nothing that the next one cannot go on from, and nothing unverified in service.

use std::time::Duration;

use narrows::wide_row::names::TableName;
use narrows::wide_row::state::State;

use crate::exactness::control::{Control, SHARDS};
use crate::exactness::wire::ALL;
use crate::support::proxy::Builder;
use crate::support::request::{Parameters, query_with};
use crate::support::{
    Cluster, Codec, Keyspace, Proxy, RawClient, cluster, eventually, eventually_within, opcode,
};

const PLACES: [&str; 10] = [
    "plan.page",
    "plan.layout",
    "plan.split_table",
    "guard.before",
    "guard.published",
    "copy.before",
    "copy.page:2",
    "copy.after",
    "verify.before",
    "verify.after",
];
const ANSWERED: &str = "narrows_proxy_split_reads_total{outcome=\"answered\"}";
const ROWS: i32 = 600;
/// A split is a few seconds of work; on a busy machine it may take more than a minute.
const SPLIT_PATIENCE: Duration = Duration::from_secs(240);
const DAY_MICROS: i64 = 86_400_000_000;

fn builder(cluster: &Cluster, keyspace: &Keyspace, control: &Keyspace) -> Builder {
    let table = format!(
        "[[table]]\nname = '{}.t'\nshards = {SHARDS}\nwide_bytes = '64KiB'\ntarget_bytes = '64KiB'\n",
        keyspace.name
    );
    Proxy::builder(cluster.nodes())
        .set("control.keyspace", &control.name)
        .set("pipeline.enabled", "true")
        .set("pipeline.settle", "0s")
        .set("pipeline.throttle", "false")
        .set("pipeline.lease", "3s")
        .toml(&table)
}

/// One partition for each place, of rows two days old.
fn fill(client: &mut RawClient, keyspace: &Keyspace) {
    let written = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_micros() as i64;
    let written = written - 2 * DAY_MICROS;
    let text = "x".repeat(900);
    let table = format!("{}.t", keyspace.name);
    for key in 0..PLACES.len() {
        for rows in (0..ROWS).collect::<Vec<_>>().chunks(50) {
            let insert = |row: &i32| {
                format!(
                    "INSERT INTO {table} (k, c, v) VALUES ({key}, {row}, '{row} {text}') USING TIMESTAMP {}",
                    written + i64::from(*row)
                )
            };
            let inserts: Vec<String> = rows.iter().map(insert).collect();
            let text = format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.join("; "));
            // On all replicas: a read of one of them must find it.
            let parameters = Parameters {
                consistency: Some(ALL),
                ..Parameters::default()
            };
            let reply = client.ask(opcode::QUERY, &query_with(Codec::V4, &text, &parameters));
            assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
        }
    }
}

fn read(client: &mut RawClient, keyspace: &Keyspace, key: usize) -> Vec<Vec<Option<Vec<u8>>>> {
    let text = format!(
        "SELECT c, v, WRITETIME(v) FROM {}.t WHERE k = {key}",
        keyspace.name
    );
    let body = query_with(Codec::V4, &text, &Parameters::default());
    let reply = client.ask(opcode::QUERY, &body);
    assert_eq!(reply.error(), None, "{text}");
    reply.rows().rows
}

#[test]
fn a_worker_killed_anywhere_is_gone_on_from() {
    let cluster = cluster();
    let create = "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))";
    let keyspace = Keyspace::create(&cluster, &[create]);
    let control_keyspace = Keyspace::create(&cluster, &[]);
    let mut direct = RawClient::connect(cluster.node(), Codec::V4);
    fill(&mut direct, &keyspace);
    let start = || builder(&cluster, &keyspace, &control_keyspace);
    let table = TableName::new(&keyspace.name, "t");
    let mut control = None;
    for (key, place) in PLACES.iter().enumerate() {
        let mut failing = start().failing_at(place).start();
        let control =
            control.get_or_insert_with(|| Control::open(cluster.nodes(), &control_keyspace.name));
        let id = Control::id(table.clone(), &[&(key as i32).to_be_bytes()]);
        eventually("the table is seen", || {
            control.is_seen(&table).then_some(())
        });
        control.nominate(&id);
        let status = failing.wait_for_exit();
        assert!(!status.success(), "{place}: {status}");
        drop(failing);
        let standing = control.standing(&id).expect("was nominated");
        assert_ne!(standing.state, State::Completed, "{place}");
        let next = start().start();
        let mut through = RawClient::connect(next.address(), Codec::V4);
        let expected = read(&mut direct, &keyspace, key);
        assert_eq!(expected.len(), ROWS as usize);
        eventually_within(SPLIT_PATIENCE, place, || {
            // Whatever the state, the answer is right.
            let before = next.metric(ANSWERED);
            assert!(read(&mut through, &keyspace, key) == expected, "{place}");
            (next.metric(ANSWERED) > before).then_some(())
        });
    }
}
