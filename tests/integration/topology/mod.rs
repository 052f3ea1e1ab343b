//! The tables that drivers learn the cluster from: no reply may show where a node really is.

mod hiding;
mod mirror;
mod single;

use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, Frame, RawClient, opcode};

/// Forms that are answered, as drivers and people write them.
const ANSWERED: &[&str] = &[
    "SELECT * FROM system.local",
    "SELECT * FROM system.local WHERE key='local'",
    "SELECT key, rpc_address, listen_address, broadcast_address, host_id, tokens FROM system.local",
    "select RPC_ADDRESS as a, \"host_id\" as \"The Id\", rpc_port from \"system\".\"local\" where key = 'local' limit 1;",
    "SELECT cluster_name, schema_version, release_version FROM system.local",
    "SELECT count(*) FROM system.local",
    "SELECT count(*) AS n, count(rpc_address) FROM system.local",
    "SELECT JSON * FROM system.local",
    "SELECT JSON rpc_address AS a, host_id FROM system.local",
    "SELECT toJson(rpc_address), CAST(rpc_port AS text), toJson(tokens) AS t FROM system.local",
    "SELECT CAST(rpc_address AS text) AS shown, rack FROM system.local",
    "SELECT key, now() FROM system.local",
    "SELECT writetime(rack), ttl(rack), token(key) FROM system.local",
    "SELECT DISTINCT key FROM system.local",
    "/* a */ SELECT /* b */ listen_address -- c\n FROM system . local",
    "SELECT * FROM system.peers",
    "SELECT peer, rpc_address, preferred_ip, host_id, tokens FROM system.peers",
    "SELECT JSON * FROM system.peers",
    "SELECT toJson(peer), CAST(rpc_address AS text) FROM system.peers",
    "SELECT count(*) FROM system.peers",
    "SELECT peer FROM system.peers WHERE peer = '127.0.1.2'",
    "SELECT * FROM system.peers_v2",
    "SELECT peer, peer_port, native_address, native_port, host_id FROM system.peers_v2 LIMIT 2",
    "SELECT JSON peer, native_address AS n FROM system.peers_v2",
    "SELECT count(*) FROM system.peers_v2",
    "SELECT * FROM system.peers_v2 WHERE peer = '127.0.1.3' AND peer_port = 7000",
];

/// Forms that may be refused.
const ODD: &[&str] = &[
    "SELECT rpc_address, count(*) FROM system.local",
    "SELECT * FROM system.peers WHERE peer IN ('127.0.1.1', '127.0.1.2', '127.0.1.3')",
    "SELECT * FROM system.peers WHERE token(peer) > -9223372036854775808",
    "SELECT peer, count(*) FROM system.peers GROUP BY peer",
    "SELECT max(rpc_address) FROM system.local",
    "SELECT * FROM system.peers PER PARTITION LIMIT 1",
    "SELECT * FROM system.peers WHERE data_center = 'dc1' ALLOW FILTERING",
    "SELECT * FROM system.peers WHERE peer > '127.0.0.0' ALLOW FILTERING",
    "SELECT (rpc_address, listen_address) FROM system.local",
    "SELECT [rpc_address] FROM system.local",
    "SELECT {'a': rpc_address} FROM system.local",
    "SELECT rpc_address AS from_here, listen_address FROM system.local",
    "SELECT * FROM system.local; ",
    "SELECT * FROM system.local LIMIT 2147483647",
    "SELECT blob_as_text(inet_as_blob(rpc_address)), inetAsBlob(listen_address) FROM system.local",
    "SELECT (text)CAST(listen_address AS text) FROM system.local",
];

fn execute(client: &mut RawClient, text: &str) -> Frame {
    let reply = client.ask(opcode::PREPARE, &request::prepare(client.codec, text, None));
    if reply.error().is_some() {
        return reply;
    }
    let id = reply.prepared(client.codec);
    let body = request::execute(client.codec, &id, &Parameters::default());
    client.ask(opcode::EXECUTE, &body)
}

/// By QUERY, by EXECUTE.
fn both_ways(client: &mut RawClient, text: &str) -> [Frame; 2] {
    let query = client.ask(opcode::QUERY, &request::query(client.codec, text));
    [query, execute(client, text)]
}

/// No address of the cluster `main` is in there, as bytes or as text; the addresses of its nodes are 127.0.1.1 to 3.
fn assert_no_real_address(frame: &Frame, what: &str) {
    let as_bytes = frame
        .body
        .windows(4)
        .any(|window| matches!(window, [127, 0, 1, 1..=3]));
    let as_text = frame.body.windows(8).any(|window| window == b"127.0.1.");
    assert!(
        !as_bytes && !as_text,
        "{what}: {:?}",
        frame.body.escape_ascii().to_string()
    );
}

fn shown(value: Option<&[u8]>) -> std::net::IpAddr {
    let bytes: [u8; 4] = value.expect("not null").try_into().expect("IPv4");
    bytes.into()
}

const CODECS: [Codec; 4] = [Codec::V3, Codec::V4_LZ4, Codec::V5, Codec::V5_LZ4];

fn bound(text: &str) -> Parameters {
    Parameters::values(&[Value::text(text)])
}
