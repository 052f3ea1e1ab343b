//! What is wrong in a body is Cassandra's to say: the same error, and the same connection left or closed.

use std::net::SocketAddr;

use crate::support::Proxy;
use crate::support::client::Received;
use crate::support::frame::{self, Compression, flag};
use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, RawClient, cluster, opcode};

/// Something wrong to say.
struct Wrong {
    label: String,
    flags: u8,
    opcode: u8,
    body: Vec<u8>,
    started: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    reply: Received,
    /// To OPTIONS, sent next.
    then: Received,
}

#[test]
fn malformed_bodies_get_the_reply_of_cassandra() {
    let cluster = cluster();
    // Cassandra goes over to segments after some STARTUPs of v5 that it has refused.
    let proxy = Proxy::builder(cluster.nodes())
        .expecting("protocol version 113 in the middle of a connection")
        .start();
    for codec in [
        Codec::V3,
        Codec::V4,
        Codec::V4_LZ4,
        Codec::V5,
        Codec::V5_LZ4,
    ] {
        for wrong in everything_wrong(codec) {
            let direct = outcome(cluster.node(), codec, &wrong);
            let through = outcome(proxy.address(), codec, &wrong);
            assert_eq!(direct, through, "{codec:?}: {}", wrong.label);
        }
    }
}

fn outcome(address: SocketAddr, codec: Codec, wrong: &Wrong) -> Outcome {
    let mut client = match wrong.started {
        true => RawClient::connect(address, codec),
        // Nothing is compressed before STARTUP has said how.
        false => RawClient::open(address, Codec::new(codec.version, Compression::None)),
    };
    client.asking = wrong.label.clone();
    client.send_flagged(wrong.flags, 77, wrong.opcode, &wrong.body);
    let reply = comparable(client.next());
    // Cassandra reads some bad frames again and again, so what follows may be the same reply once more.
    let options = client.framed(&frame::request(client.codec, 0, 78, opcode::OPTIONS, &[]));
    let then = match client.try_send_raw(&options) {
        Ok(()) => comparable(client.next()),
        Err(_) => Received::Closed,
    };
    Outcome { reply, then }
}

/// Without what may differ: how a body is packed, trace ids, how the connection ended, what SUPPORTED says.
fn comparable(received: Received) -> Received {
    let Received::Frame(mut frame) = received else {
        return Received::Closed;
    };
    frame.flags &= !flag::COMPRESSED;
    if frame.flags & flag::TRACING != 0 {
        frame.body[..16].fill(0);
    }
    if frame.opcode == opcode::SUPPORTED {
        frame.body.clear();
    }
    // A JVM that has met the same mistake often enough leaves out its details.
    if let Some((0, text)) = frame
        .error()
        .filter(|(_, text)| text.starts_with("java.lang."))
    {
        let (exception, _) = text.split_once(':').unwrap_or((&text, ""));
        frame.body = exception.as_bytes().to_vec();
    }
    Received::Frame(frame)
}

fn everything_wrong(codec: Codec) -> Vec<Wrong> {
    let wrong = |label: String, opcode, body| Wrong {
        label,
        flags: 0,
        opcode,
        body,
        started: true,
    };
    let mut all = Vec::new();
    for opcode in (0..0x12).chain([0x30, 0x7F, 0xFF]) {
        all.push(wrong(
            format!("opcode {opcode} with nothing"),
            opcode,
            Vec::new(),
        ));
        all.push(wrong(
            format!("opcode {opcode} with noise"),
            opcode,
            vec![0xA5; 40],
        ));
    }
    let query = request::query_with(
        codec,
        "SELECT * FROM system_schema.tables WHERE keyspace_name = ?",
        &Parameters::values(&[Value::text("system")]),
    );
    for cut in (0..query.len()).step_by(5) {
        all.push(wrong(
            format!("QUERY cut at {cut}"),
            opcode::QUERY,
            query[..cut].to_vec(),
        ));
    }
    all.push(wrong(
        "QUERY with more behind it".into(),
        opcode::QUERY,
        [&query[..], b"more"].concat(),
    ));
    all.extend(odd_values(codec));
    all.extend(odd_startups());
    all.extend(odd_flags(codec));
    all
}

fn odd_values(codec: Codec) -> Vec<Wrong> {
    let wrong = |label: &str, opcode, body| Wrong {
        label: label.to_owned(),
        flags: 0,
        opcode,
        body,
        started: true,
    };
    let mut length = Vec::new();
    request::long_string(
        &mut length,
        b"SELECT * FROM system_schema.tables WHERE keyspace_name = ?",
    );
    request::short(&mut length, 1);
    match codec.version {
        5 => request::int(&mut length, 1),
        _ => length.push(1),
    }
    request::short(&mut length, 1);
    request::int(&mut length, -3);
    let consistency = Parameters {
        consistency: Some(0x00FF),
        ..Parameters::default()
    };
    let text = "SELECT * FROM system_schema.keyspaces";
    let none = Parameters::default();
    vec![
        wrong("a value of length -3", opcode::QUERY, length),
        wrong(
            "a consistency that is none",
            opcode::QUERY,
            request::query_with(codec, text, &consistency),
        ),
        wrong(
            "a text that is not UTF-8",
            opcode::QUERY,
            request::query_bytes(codec, b"SELECT \xFF\xFE", &none),
        ),
        wrong(
            "NUL bytes",
            opcode::QUERY,
            request::query_bytes(codec, b"\0\0\0", &none),
        ),
        wrong(
            "REGISTER for nothing known",
            opcode::REGISTER,
            request::register(&["NONSENSE"]),
        ),
        wrong(
            "AUTH_RESPONSE that nobody asked for",
            opcode::AUTH_RESPONSE,
            vec![0, 0, 0, 1, 9],
        ),
    ]
}

fn odd_startups() -> Vec<Wrong> {
    let startup = |options: &[(&str, &str)]| {
        let mut body = Vec::new();
        request::short(&mut body, options.len());
        for (key, value) in options {
            request::string(&mut body, key);
            request::string(&mut body, value);
        }
        body
    };
    let wrong = |label: &str, opcode, body| Wrong {
        label: label.to_owned(),
        flags: 0,
        opcode,
        body,
        started: false,
    };
    let query = request::query(Codec::V4, "SELECT * FROM system_schema.keyspaces");
    vec![
        wrong("STARTUP without a version", opcode::STARTUP, startup(&[])),
        wrong(
            "STARTUP with CQL 9",
            opcode::STARTUP,
            startup(&[("CQL_VERSION", "9.0.0")]),
        ),
        wrong(
            "STARTUP with zstd",
            opcode::STARTUP,
            startup(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "zstd")]),
        ),
        wrong("QUERY before STARTUP", opcode::QUERY, query),
        wrong(
            "REGISTER before STARTUP",
            opcode::REGISTER,
            request::register(&["STATUS_CHANGE"]),
        ),
    ]
}

fn odd_flags(codec: Codec) -> Vec<Wrong> {
    let query = request::query(
        codec,
        "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'system'",
    );
    [
        (
            "CUSTOM_PAYLOAD without one",
            flag::CUSTOM_PAYLOAD,
            opcode::QUERY,
            &query[..],
        ),
        ("WARNING", flag::WARNING, opcode::QUERY, &query),
        ("BETA", flag::BETA, opcode::QUERY, &query),
        ("flags without a meaning", 0xE0, opcode::QUERY, &query),
        ("TRACING on OPTIONS", flag::TRACING, opcode::OPTIONS, &[]),
    ]
    .map(|(label, flags, opcode, body)| Wrong {
        label: label.to_owned(),
        flags,
        opcode,
        body: body.to_vec(),
        started: true,
    })
    .into()
}
