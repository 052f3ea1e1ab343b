//! Messages of our own: `cassandra-protocol` reads what Narrows wrote.

use narrows::protocol::deframer::Framing;
use narrows::protocol::header::{HEADER_BYTES, Version};
use narrows::protocol::request::batch::OwnBatch;
use narrows::protocol::request::execute::SubRead;
use narrows::protocol::request::{query, startup};
use narrows::protocol::response::error::{self, ErrorCode};
use narrows::protocol::{Envelope, opcode};

use crate::framing::compare;
use crate::generate::{borrowed, parameters, short_bytes, text};
use crate::random::{Random, seed};
use crate::random_messages::scale;
use crate::reading::{Body, Parameters, Statement, Value};

const VERSIONS: [Version; 3] = [Version::V3, Version::V4, Version::V5];
const MESSAGES: usize = 300;

/// What both read of one message.
fn read(version: u8, opcode: u8, body: Vec<u8>, context: &str) -> Body {
    let envelope = Envelope::new(version, 7, opcode, body);
    assert_eq!(envelope.encode().len(), HEADER_BYTES + envelope.body.len());
    let mut messages = compare(Framing::Bare(None), &[&envelope.encode()], context);
    assert_eq!(messages.len(), 1, "{context}");
    messages.remove(0).body
}

/// What a sub-read says: positional values, always without metadata in the reply.
fn sub_read_parameters(random: &mut Random, version: Version) -> Parameters {
    let mut parameters = parameters(random, version);
    parameters
        .values
        .iter_mut()
        .for_each(|value| value.0 = None);
    parameters.skip_metadata = true;
    // Nothing and less mean that there is no paging.
    parameters.page_size = parameters.page_size.filter(|size| *size > 0);
    parameters
}

fn sub_read(parameters: &Parameters) -> SubRead<'_> {
    SubRead {
        values: parameters
            .values
            .iter()
            .map(|(_, value)| borrowed(value))
            .collect(),
        consistency: parameters.consistency,
        serial_consistency: parameters.serial_consistency,
        page_size: parameters.page_size.unwrap_or_default(),
        paging_state: parameters.paging_state.as_deref(),
        timestamp: parameters.timestamp,
        keyspace: parameters.keyspace.as_deref(),
        now_in_seconds: parameters.now_in_seconds,
        custom_payload: None,
    }
}

#[test]
fn sub_reads_say_what_they_should() {
    let seed = seed();
    let mut random = Random::new(seed);
    for _ in 0..MESSAGES * scale() {
        let context = format!("SEED={seed}");
        let parameters = sub_read_parameters(&mut random, Version::V5);
        let (id, metadata_id) = (short_bytes(&mut random, 20), short_bytes(&mut random, 20));
        let body = sub_read(&parameters)
            .encode(&id, &metadata_id)
            .expect("fits");
        let expected = Body::Execute {
            id,
            result_metadata_id: Some(metadata_id),
            parameters,
        };
        assert_eq!(
            read(5, opcode::EXECUTE, body, &context),
            expected,
            "{context}"
        );
        let version = *random.pick(&VERSIONS);
        let (parameters, text) = (
            sub_read_parameters(&mut random, version),
            text(&mut random, 60),
        );
        let body = sub_read(&parameters)
            .encode_query(version, &text)
            .expect("fits");
        let expected = Body::Query { text, parameters };
        let body = read(version.byte(), opcode::QUERY, body, &context);
        assert_eq!(body, expected, "{context}");
    }
}

#[test]
fn other_requests_say_what_they_should() {
    for version in VERSIONS {
        let byte = version.byte();
        let body = query::encode(version, "SELECT 1");
        let expected = Body::Query {
            text: "SELECT 1".to_owned(),
            parameters: Parameters {
                consistency: 1,
                ..Parameters::default()
            },
        };
        assert_eq!(read(byte, opcode::QUERY, body, "query"), expected);
        for keyspace in [None, Some("shop")] {
            let body = query::encode_prepare(version, "SELECT 1", keyspace);
            let expected = Body::Prepare {
                text: "SELECT 1".to_owned(),
                keyspace: keyspace
                    .filter(|_| version == Version::V5)
                    .map(str::to_owned),
            };
            assert_eq!(read(byte, opcode::PREPARE, body, "prepare"), expected);
        }
        let Body::Startup(options) =
            read(byte, opcode::STARTUP, startup::encode("n", "1"), "startup")
        else {
            panic!("another message");
        };
        assert_eq!(options["DRIVER_NAME"], "n");
    }
    let mut batch = OwnBatch::default();
    assert!(batch.push(b"id", &[borrowed(&Value::Null)]));
    let expected = Body::Batch {
        kind: 1,
        statements: vec![(Statement::Prepared(b"id".to_vec()), vec![Value::Null])],
        parameters: Parameters {
            consistency: 6,
            now_in_seconds: Some(1234),
            ..Parameters::default()
        },
    };
    assert_eq!(
        read(5, opcode::BATCH, batch.encode(6, 1234), "batch"),
        expected
    );
}

#[test]
fn errors_say_what_they_should() {
    for version in [0x83, 0x84, 0x85] {
        for (code, body) in [
            (0x1001, error::encode(ErrorCode::Overloaded, "too much")),
            (0x1100, error::write_timeout(6, "nobody knows")),
            (0x2500, error::unprepared(b"0123456789abcdef")),
            (0x000A, error::unsupported_version(66)),
        ] {
            let read = read(version, opcode::ERROR, body, "error");
            assert!(matches!(read, Body::Error { code: read, .. } if read == code));
        }
    }
}
