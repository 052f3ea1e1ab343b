//! Writes whose text does not say which table they are to: the connection's keyspace does, or nothing.

use super::{Pair, ROWS, TOO_LATE};
use crate::pipeline::world::{PLAIN, replication, until_answered};
use crate::support::frame::request as envelope;
use crate::support::{Codec, Keyspace, RawClient, opcode, request, single_cluster};

#[test]
fn a_write_with_a_use_behind_it_is_missing_nowhere() {
    let cluster = single_cluster();
    let elsewhere = Keyspace::replicated(&cluster, &replication(1), &[PLAIN]);
    let mut pair = Pair::start(&cluster, PLAIN, TOO_LATE);
    pair.world.fill(1, ROWS);
    pair.split();
    let mut client = RawClient::connect(pair.proxies[0].address(), Codec::V5);
    client.query(&format!("USE {}", elsewhere.name));
    let texts = [
        "INSERT INTO t (k, c, v) VALUES (1, 5000, 'late')".to_owned(),
        format!("USE {}", pair.world.keyspace.name),
    ];
    let both = texts.iter().zip(1..).flat_map(|(text, stream)| {
        let body = request::query(Codec::V5, text);
        envelope(Codec::V5, 0, stream, opcode::QUERY, &body)
    });
    let both: Vec<u8> = both.collect();
    client.send_envelopes(&both);
    for _ in texts {
        let reply = client.receive();
        assert_eq!(reply.opcode, opcode::RESULT, "{:?}", reply.error());
    }
    // Which of them Cassandra has run first nobody knows.
    let standing = pair.control.standing(&pair.id()).expect("was split");
    assert!(standing.row_epoch < standing.epoch, "{standing:?}");
    let text = pair.world.select(1);
    let expected = pair.world.direct.scan(&text);
    for through in &mut pair.through {
        assert!(through.scan(&text) == expected);
    }
}

#[test]
fn a_batch_of_nothing_ends_nothing() {
    let cluster = single_cluster();
    let mut pair = Pair::start(&cluster, PLAIN, TOO_LATE);
    pair.world.fill(1, ROWS);
    pair.split();
    let before = pair.control.standing(&pair.id());
    for client in &mut pair.writing {
        client.query("BEGIN BATCH APPLY BATCH");
    }
    assert_eq!(pair.control.standing(&pair.id()), before);
    let text = pair.world.select(1);
    let expected = pair.world.direct.scan(&text);
    for (proxy, through) in pair.proxies.iter().zip(&mut pair.through) {
        until_answered(proxy, through, &text, &expected);
    }
}
