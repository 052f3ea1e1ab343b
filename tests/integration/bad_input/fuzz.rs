//! Valid streams with random damage. `SEED=…` replays a run, `SCALE=…` makes it longer.

use std::net::SocketAddr;

use super::beside_a_healthy_client;
use crate::support::random::{Random, seed};
use crate::support::request::{self, Item, Parameters, Value};
use crate::support::{Codec, Proxy, RawClient, frame, opcode, scale, segment, single_cluster};

const ROUNDS: usize = 300;

#[test]
fn damaged_streams_harm_nobody() {
    let cluster = single_cluster();
    // What Cassandra makes of damaged requests is not always CQL either.
    let proxy = Proxy::builder(cluster.nodes())
        .expecting("upstream broke the CQL protocol")
        .start();
    let seed = seed();
    beside_a_healthy_client(&proxy, || {
        for round in 0..ROUNDS * scale() {
            let mut random = Random::new(seed.wrapping_add(round as u64));
            let what = format!("SEED={} (round {round})", seed.wrapping_add(round as u64));
            play(proxy.address(), &mut random, &what);
        }
    });
    let panics = proxy.metric("narrows_proxy_closes_total{reason=\"panic\"}");
    assert_eq!(panics, 0, "SEED={seed}");
    // Whatever the damaged clients were told, none of them is still there.
    crate::support::eventually("all connections are gone", || {
        (proxy.metric("narrows_proxy_connections") == 0).then_some(())
    });
}

/// Says a damaged stream and reads until the connection ends; only that it ends matters.
fn play(address: SocketAddr, random: &mut Random, what: &str) {
    let codec = Codec::ALL[random.below(Codec::ALL.len())];
    let mut client = RawClient::open(address, codec);
    client.asking = what.to_owned();
    let startup = request::startup(codec.compression_name());
    let mut bytes = frame::raw(codec.version, 0, 0, opcode::STARTUP, &startup);
    // Mostly the handshake is right, since little happens without it.
    if random.below(5) == 0 {
        damage(&mut bytes, random);
        drop(client.try_send_raw(&bytes));
    } else {
        client.startup();
    }
    // Damage before framing gets past the checksums of v5, damage after it does not.
    let (mut envelopes, inside) = (requests(codec, random), random.below(3) > 0);
    if inside {
        damage(&mut envelopes, random);
    }
    let mut wire = match codec.version {
        5 => segments(&envelopes, codec, random),
        _ => envelopes,
    };
    if !inside {
        damage(&mut wire, random);
    }
    drop(client.try_send_raw(&wire));
    client.finish();
    assert!(client.ends(), "{what}: the connection was reset");
}

fn segments(envelopes: &[u8], codec: Codec, random: &mut Random) -> Vec<u8> {
    let lz4 = codec == Codec::V5_LZ4;
    if random.below(2) == 0 && envelopes.len() <= segment::PAYLOAD_MAX {
        return segment::encode(envelopes, true, lz4);
    }
    let size = 1 + random.below(2000);
    let part = |part: &[u8]| segment::encode(part, false, lz4);
    envelopes.chunks(size).flat_map(part).collect()
}

/// A few requests that read: no damage makes them write.
fn requests(codec: Codec, random: &mut Random) -> Vec<u8> {
    const TEXT: &str = "SELECT * FROM system_schema.types WHERE keyspace_name = ?";
    let parameters = Parameters {
        values: vec![Value::text("system"), Value::Null],
        page_size: Some(10),
        timestamp: Some(1),
        ..Parameters::default()
    };
    let id = (b"0123456789abcdef".to_vec(), b"fedcba9876543210".to_vec());
    let items = [
        Item::Text(TEXT, vec![Value::int(1)]),
        Item::Prepared(&id.0, vec![Value::Unset]),
    ];
    let all = [
        (opcode::OPTIONS, Vec::new()),
        (opcode::QUERY, request::query_with(codec, TEXT, &parameters)),
        (
            opcode::QUERY,
            request::query(
                codec,
                "SELECT JSON peer, rack AS r FROM system.peers LIMIT 1",
            ),
        ),
        (opcode::QUERY, request::query(codec, "USE system")),
        (opcode::PREPARE, request::prepare(codec, TEXT, None)),
        (opcode::EXECUTE, request::execute(codec, &id, &parameters)),
        (
            opcode::BATCH,
            request::batch(codec, request::LOGGED, &items),
        ),
        (
            opcode::REGISTER,
            request::register(&["STATUS_CHANGE", "SCHEMA_CHANGE"]),
        ),
    ];
    (0..1 + random.below(6))
        .flat_map(|stream| {
            let (opcode, body) = &all[random.below(all.len())];
            frame::request(codec, 0, stream as i16, *opcode, body)
        })
        .collect()
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 => drop(bytes.drain(at..)),
            3 => {
                let noise = random.bytes(8);
                bytes.splice(at..at, noise);
            }
            _ if bytes.is_empty() => {}
            4 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
}
