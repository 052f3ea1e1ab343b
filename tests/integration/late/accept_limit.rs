//! Tables whose time buckets are closed some time after their end, split or not.

use super::quick;
use crate::pipeline::world::World;
use crate::support::{Codec, RawClient, opcode, request, single_cluster};

const TABLE: &str =
    "CREATE TABLE t (sensor int, day timestamp, c int, v text, PRIMARY KEY ((sensor, day), c))";
const SETTINGS: &str =
    "time_bucket_column = 'day'\ntime_bucket_width = '1d'\naccept_limit = '2d'\n";
const REFUSED: i32 = 0x2200;
const CLOSED: &str = "'2020-01-01T00:00:00.000Z'";
/// With a zone, without which a constant means what the node's zone makes of it. Its bucket ends when the test is long over.
const OPEN: &str = "'2200-01-01T00:00:00.000Z'";
/// `{}` is the table, `[]` the key.
const WRITES: [&str; 6] = [
    "INSERT INTO {} (sensor, day, c, v) VALUES (1, [], 1, 'a')",
    "INSERT INTO {} JSON '{\"sensor\": 1, \"day\": \"<>\", \"c\": 1, \"v\": \"a\"}'",
    "UPDATE {} SET v = 'b' WHERE sensor IN (1, 2) AND day = [] AND c = 1",
    "INSERT INTO {} (sensor, day, c) VALUES (1, [], 2) IF NOT EXISTS",
    "DELETE FROM {} WHERE sensor = 1 AND day = [] AND c > 5",
    "BEGIN BATCH INSERT INTO {} (sensor, day, c) VALUES (3, '2200-01-01T00:00:00.000Z', 1); DELETE FROM {} WHERE sensor = 1 AND day = []; \
     APPLY BATCH",
];

fn statement(write: &str, table: &str, day: &str) -> String {
    let bare = day.trim_matches('\'');
    write
        .replace("{}", table)
        .replace("[]", day)
        .replace("<>", bare)
}

#[test]
fn what_is_closed_is_refused_where_late_writes_are_rejected_and_nowhere_else() {
    let cluster = single_cluster();
    for policy in ["reject", "invalidate"] {
        let settings = format!("late_writes = '{policy}'\n{SETTINGS}");
        let world = World::create(&cluster, Codec::V4, 1, &[TABLE]).with_settings(&settings);
        let proxy = quick(world.proxy()).start();
        let _seen = world.control();
        let table = world.name("t");
        let count = |direct: &mut RawClient, day: &str| {
            let text =
                format!("SELECT * FROM {table} WHERE sensor IN (1, 2, 3) AND day IN ({day})");
            direct.query(&text).rows().rows.len()
        };
        for codec in [Codec::V3, Codec::V5] {
            let mut client = RawClient::connect(proxy.address(), codec);
            let mut direct = RawClient::connect(cluster.node(), Codec::V4);
            for write in WRITES {
                client.query(&statement(write, &table, OPEN));
                let closed = statement(write, &table, CLOSED);
                let reply =
                    client.ask_until_forwarded(opcode::QUERY, &request::query(codec, &closed));
                match (policy, reply.error()) {
                    ("invalidate", None) => {}
                    ("reject", Some((REFUSED, text))) => {
                        let words = ["accept_limit", "late_writes = reject", table.as_str()];
                        let tells = words.iter().all(|word| text.contains(word));
                        assert!(tells, "{write}: {text}");
                    }
                    (_, other) => panic!("{policy}, {write}: {other:?}"),
                }
            }
            let closed = count(&mut direct, CLOSED);
            let expected = if policy == "reject" { 0 } else { 1 };
            assert_eq!(closed, expected, "{policy}, {codec:?}");
            // The two partitions that the last statements leave, one of them in the same batch.
            assert_eq!(count(&mut direct, OPEN), 2, "{policy}, {codec:?}");
        }
    }
}
