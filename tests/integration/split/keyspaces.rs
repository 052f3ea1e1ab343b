//! Reads without a keyspace in their text, with a USE right behind them: Cassandra itself may run the USE first, but the
//! proxy must not make that likelier.

use super::world::{FALLBACKS, World};
use crate::support::request::{self, Parameters};
use crate::support::{Codec, Keyspace, RawClient, frame, opcode};

const ROUNDS: usize = 60;
/// Of the rounds. Cassandra's own share varies; a proxy that sends the USE first reaches nearly all of them.
const TOLERATED: usize = ROUNDS / 3;
const OTHER: &str =
    "CREATE TABLE events (k int, a int, b int, v int, w text, x int, PRIMARY KEY (k, a, b))";

/// How often a read, sent before the USE, met the other keyspace, whose table has no rows.
fn met_the_other(client: &mut RawClient, text: &str, [own, other]: [&str; 2]) -> usize {
    let codec = client.codec;
    let parameters = Parameters {
        page_size: Some(5),
        ..Parameters::default()
    };
    let read = request::query_with(codec, text, &parameters);
    let leave = request::query(codec, &format!("USE {other}"));
    let round = |_: &usize| {
        client.query(&format!("USE {own}"));
        let both = [
            frame::request(codec, 0, 1, opcode::QUERY, &read),
            frame::request(codec, 0, 2, opcode::QUERY, &leave),
        ];
        client.send_envelopes(&both.concat());
        let replies = [client.receive(), client.receive()];
        let read = replies.iter().find(|reply| reply.stream == 1);
        let read = read.expect("each has a reply");
        assert!(read.error().is_none(), "{text}: {:?}", read.error());
        read.rows().rows.is_empty()
    };
    (0..ROUNDS).filter(round).count()
}

#[test]
fn a_use_does_not_overtake_the_reads_before_it() {
    let mut world = World::start(&[(1, 30), (4, 10)]);
    world.split(1);
    let other = Keyspace::create(&world.cluster, &[OTHER]);
    let names = [world.keyspace.name.as_str(), other.name.as_str()];
    let used = format!("{FALLBACKS}{{reason=\"use\"}}");
    for (codec, text) in [
        // The proxy leaves several keys to the original in v3, without waiting for anything.
        (Codec::V3, "SELECT * FROM events WHERE k IN (1, 4)"),
        (Codec::V4, "SELECT * FROM events WHERE k = 1"),
        (Codec::V5, "SELECT * FROM events WHERE k = 1 AND a >= 0"),
    ] {
        let mut direct = RawClient::connect(world.cluster.node(), codec);
        let mut through = RawClient::connect(world.proxy.address(), codec);
        let direct = met_the_other(&mut direct, text, names);
        let through = met_the_other(&mut through, text, names);
        assert!(
            through <= direct + TOLERATED,
            "{codec:?}: {through} of {ROUNDS}, direct {direct}"
        );
    }
    assert!(world.proxy.metric(&used) > 0);
}

#[test]
fn a_read_that_names_its_keyspace_outlives_a_use() {
    let mut world = World::start(&[(1, 30), (4, 10)]);
    world.split(1);
    let other = Keyspace::create(&world.cluster, &[OTHER]);
    let names = [world.keyspace.name.as_str(), other.name.as_str()];
    for codec in super::CODECS {
        let text = world.text("SELECT * FROM {} WHERE k IN (1, 4)");
        let mut through = RawClient::connect(world.proxy.address(), codec);
        assert_eq!(met_the_other(&mut through, &text, names), 0, "{codec:?}");
    }
}
