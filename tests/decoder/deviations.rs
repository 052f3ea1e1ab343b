//! Where `cassandra-protocol` 4.0.1 is wrong, and why Narrows is right.
//!
//! Each test asserts both readings. It fails when a newer version of the crate no longer deviates; then the test goes, with
//! the exception that [`crate::theirs`], [`crate::reading`] or a generator makes for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cassandra_protocol::compression::Compression as TheirCompression;
use cassandra_protocol::error::{Error, Result};
use cassandra_protocol::frame::message_request::RequestBody;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::{
    Envelope as TheirEnvelope, ParseEnvelopeError, Serialize, Version as TheirVersion,
};
use narrows::protocol::deframer::{Deframer, Verdict};
use narrows::protocol::request::{execute, startup};
use narrows::protocol::types::{Cursor, Write};
use narrows::protocol::{Compression, Envelope, Header, ProtocolError, opcode};

use crate::generate::header_flag;
use crate::ours;
use crate::reading::{Body, Event, Value};

/// The version bytes of responses.
const V4: u8 = 0x84;
const V5: u8 = 0x85;

fn our_body(envelope: &Envelope) -> Body {
    ours::read(envelope).expect("Narrows reads it").body
}

fn cut(envelope: &Envelope) -> TheirEnvelope {
    TheirEnvelope::from_buffer(&envelope.encode(), TheirCompression::None)
        .expect("cassandra-protocol can cut it")
        .envelope
}

fn their_request(envelope: &Envelope) -> Result<RequestBody> {
    cut(envelope).request_body()
}

fn their_response(envelope: &Envelope) -> Result<ResponseBody> {
    cut(envelope).response_body()
}

fn panics<T>(read: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(read)).is_err()
}

/// A QUERY of v4 with these flags and what belongs to them.
fn query(flags: u8, rest: &[u8]) -> Envelope {
    let mut body = Vec::new();
    body.put_long_string("SELECT 1");
    body.put_short(1);
    body.put_byte(flags);
    body.extend_from_slice(rest);
    Envelope::new(4, 0, opcode::QUERY, body)
}

/// An ERROR with what follows its text.
fn error(version: u8, code: i32, details: &[u8]) -> Envelope {
    let mut body = Vec::new();
    body.put_int(code);
    body.put_string("text");
    body.extend_from_slice(details);
    Envelope::new(version, 0, opcode::ERROR, body)
}

fn is_our_error(envelope: &Envelope, code: i32) -> bool {
    matches!(our_body(envelope), Body::Error { code: read, .. } if read == code)
}

/// A client that sets the flag expects rows without metadata, so the proxy must see it.
#[test]
fn skip_metadata_is_dropped() {
    let envelope = query(0x02, &[]);
    let theirs = their_request(&envelope).expect("read");
    let mut without = envelope.body.clone();
    *without.last_mut().expect("flags") = 0;
    assert_eq!(theirs.serialize_to_vec(TheirVersion::V4), without);
    assert!(
        matches!(our_body(&envelope), Body::Query { parameters, .. } if parameters.skip_metadata)
    );
}

/// A payload stands before the message (native_protocol_v4 §2.2). Drivers send one when an application asks for it.
#[test]
fn a_custom_payload_is_read_as_the_message() {
    let plain = query(0, &[]);
    let mut body = vec![0, 1];
    body.put_string("k");
    body.put_bytes(Some(b"v"));
    body.extend_from_slice(&plain.body);
    let envelope = Envelope::with_flags(4, header_flag::CUSTOM_PAYLOAD, 0, opcode::QUERY, body);
    assert_eq!(our_body(&envelope), our_body(&plain));
    assert!(panics(|| their_request(&envelope)));
}

/// Any client can send this. Narrows reads an error.
#[test]
fn a_string_that_is_cut_off_panics() {
    let mut body = Vec::new();
    body.put_int(100);
    body.extend_from_slice(b"SELECT");
    for opcode in [opcode::QUERY, opcode::PREPARE] {
        let envelope = Envelope::new(4, 0, opcode, body.clone());
        let ours = ours::read(&envelope);
        assert_eq!(ours, Err(ProtocolError::Truncated("long string")));
        assert!(panics(|| their_request(&envelope)));
    }
    let envelope = Envelope::new(4, 0, opcode::STARTUP, vec![0, 1, 0, 9, b'C']);
    assert_eq!(
        ours::read(&envelope),
        Err(ProtocolError::Truncated("string"))
    );
    assert!(panics(|| their_request(&envelope)));
}

/// Any client can send this: nine bytes are enough.
#[test]
fn a_negative_length_of_an_envelope_panics() {
    let bytes = [4, 0, 0, 0, opcode::OPTIONS, 0xFF, 0xFF, 0xFF, 0xFF];
    assert_eq!(
        Header::peek(&bytes),
        Err(ProtocolError::NegativeLength(-1, "frame"))
    );
    assert!(panics(|| TheirEnvelope::from_buffer(
        &bytes,
        TheirCompression::None
    )
    .map(drop)));
}

/// Any client can send this. The count is a `[short]`, which is unsigned (native_protocol_v5 §3).
#[test]
fn a_list_that_is_cut_off_panics() {
    let envelope = Envelope::new(4, 0, opcode::REGISTER, vec![0xFF, 0xFF]);
    assert_eq!(
        ours::read(&envelope),
        Err(ProtocolError::Truncated("short"))
    );
    assert!(panics(|| their_request(&envelope)));
}

/// Only upstream sends trace ids, but its bytes must not end a proxy either.
#[test]
fn a_trace_id_that_is_cut_off_panics() {
    let envelope = Envelope::with_flags(V4, header_flag::TRACING, 0, opcode::RESULT, vec![0; 4]);
    assert_eq!(
        ours::read(&envelope),
        Err(ProtocolError::Truncated("trace id"))
    );
    let bytes = envelope.encode();
    assert!(panics(|| TheirEnvelope::from_buffer(
        &bytes,
        TheirCompression::None
    )
    .map(drop)));
}

/// Valid: the length of a `[string]` is unsigned, up to 65,535. Errors of Cassandra quote long statements.
#[test]
fn a_string_of_32768_bytes_panics() {
    let text = "x".repeat(32_768);
    let mut body = Vec::new();
    body.put_int(0x2000);
    body.put_string(&text);
    let envelope = Envelope::new(V4, 0, opcode::ERROR, body);
    assert_eq!(our_body(&envelope), Body::Error { code: 0x2000, text });
    assert!(panics(|| their_response(&envelope)));
}

/// Valid: Cassandra takes up to 65,535 markers and statements.
#[test]
fn more_than_32767_values_or_statements_panic() {
    let mut values = vec![0x80, 0x00];
    (0..32_768).for_each(|_| values.put_int(-1));
    let envelope = query(0x01, &values);
    assert!(
        matches!(our_body(&envelope), Body::Query { parameters, .. } if parameters.values.len() == 32_768)
    );
    assert!(panics(|| their_request(&envelope)));

    let mut body = vec![1, 0x80, 0x00];
    (0..32_768).for_each(|_| body.extend_from_slice(&[1, 0, 1, b'i', 0, 0]));
    body.put_short(1);
    body.put_byte(0);
    let envelope = Envelope::new(4, 0, opcode::BATCH, body);
    assert!(
        matches!(our_body(&envelope), Body::Batch { statements, .. } if statements.len() == 32_768)
    );
    assert!(panics(|| their_request(&envelope)));
}

/// The crate keeps them in a hash map, which loses their order, and one of two values with the same name. Narrows keeps
/// them in the order given.
#[test]
fn named_values_lose_their_order() {
    let mut values = vec![0, 2];
    for value in [b"1", b"2"] {
        values.put_string("twice");
        values.put_bytes(Some(value));
    }
    let envelope = query(0x01 | 0x40, &values);
    let value = |bytes: &[u8]| (Some("twice".to_owned()), Value::Bytes(bytes.to_vec()));
    let Body::Query { parameters, .. } = our_body(&envelope) else {
        panic!("another message");
    };
    assert_eq!(parameters.values, [value(b"1"), value(b"2")]);
    let theirs = their_request(&envelope).expect("read");
    assert!(matches!(theirs, RequestBody::Query(query)
        if query.query_params.values.as_ref().map(|values| values.len()) == Some(1)));
}

/// Cassandra replaces what is not UTF-8 and goes on, so the proxy must see the same text.
#[test]
fn a_text_that_is_not_utf8_is_refused() {
    let mut body = Vec::new();
    body.put_bytes(Some(b"SELECT \xFF"));
    let envelope = Envelope::new(4, 0, opcode::PREPARE, body);
    let text = "SELECT \u{FFFD}".to_owned();
    let keyspace = None;
    assert_eq!(our_body(&envelope), Body::Prepare { text, keyspace });
    assert!(matches!(their_request(&envelope), Err(Error::Utf8(_))));
}

/// Only v5 says how often a lightweight transaction met another one (native_protocol_v5 §9, WRITE_TIMEOUT).
#[test]
fn a_cas_write_timeout_before_v5_is_refused() {
    let mut details = Vec::new();
    details.put_short(8);
    details.put_int(0);
    details.put_int(1);
    details.put_string("CAS");
    let envelope = error(V4, 0x1100, &details);
    assert!(is_our_error(&envelope, 0x1100));
    assert!(their_response(&envelope).is_err());
    details.put_short(3);
    assert!(their_response(&error(V5, 0x1100, &details)).is_ok());
}

/// In the map of reasons a node is an `[inetaddr]`, which has no port (native_protocol_v5 §9, READ_FAILURE).
#[test]
fn reasons_of_failures_are_misread() {
    let mut details = Vec::new();
    details.put_short(1);
    details.put_int(0);
    details.put_int(1);
    details.put_int(1);
    details.extend_from_slice(&[4, 127, 0, 0, 1]);
    details.put_short(1);
    details.put_byte(0);
    let envelope = error(V5, 0x1300, &details);
    assert!(is_our_error(&envelope, 0x1300));
    assert!(their_response(&envelope).is_err());
}

/// CDC_WRITE_FAILURE and CAS_WRITE_UNKNOWN of v5 (native_protocol_v5 §9). Narrows reads code and text of every error.
#[test]
fn newer_errors_are_refused() {
    let mut details = Vec::new();
    details.put_short(8);
    details.put_int(0);
    details.put_int(1);
    for (code, details) in [(0x1600, &[][..]), (0x1700, &details)] {
        let envelope = error(V5, code, details);
        assert!(is_our_error(&envelope, code));
        let theirs = their_response(&envelope);
        assert!(matches!(theirs, Err(Error::UnexpectedErrorCode(theirs)) if theirs == code));
    }
}

/// `nodetool move` makes Cassandra send it. Narrows passes on every change of a node.
#[test]
fn a_moved_node_is_refused() {
    let mut body = Vec::new();
    body.put_string("TOPOLOGY_CHANGE");
    body.put_string("MOVED_NODE");
    body.extend_from_slice(&[4, 127, 0, 0, 1, 0, 0, 0x23, 0x52]);
    let envelope = Envelope::new(V4, -1, opcode::EVENT, body);
    assert!(
        matches!(our_body(&envelope), Body::Event(Event::Node { change, .. }) if change == "MOVED_NODE")
    );
    assert!(matches!(
        their_response(&envelope),
        Err(Error::UnexpectedTopologyChangeType(_))
    ));
}

/// Cassandra knows NODE_LOCAL (11). Narrows keeps a consistency level as the number that it is.
#[test]
fn a_newer_consistency_level_is_refused() {
    let mut body = Vec::new();
    body.put_long_string("SELECT 1");
    body.put_short(11);
    body.put_byte(0);
    let envelope = Envelope::new(4, 0, opcode::QUERY, body);
    assert!(
        matches!(our_body(&envelope), Body::Query { parameters, .. } if parameters.consistency == 11)
    );
    assert!(matches!(
        their_request(&envelope),
        Err(Error::UnknownConsistency(11))
    ));
}

/// Cassandra turns the name into lower case before it compares it.
#[test]
fn compression_has_a_name_in_lower_case_only() {
    let mut body = Vec::new();
    body.put_string_map(&[("COMPRESSION", "LZ4")]);
    let ours = startup::compression(Cursor::new(&body));
    assert_eq!(ours, Ok(Some(Compression::Lz4)));
    assert_eq!(TheirCompression::from("LZ4"), TheirCompression::None);
}

/// The crate says nothing about a message before all of it is there. Narrows finds the statement in the first bytes, and
/// relays the rest as it arrives.
#[test]
fn an_envelope_is_decoded_whole_or_not_at_all() {
    let mut body = Vec::new();
    body.put_short_bytes(b"the id");
    body.put_short(1);
    body.put_byte(0x01);
    body.put_short(1);
    body.put_bytes(Some(&vec![7; 1 << 20]));
    let wire = Envelope::new(4, 0, opcode::EXECUTE, body).encode();
    let arrived = &wire[..40];
    let mut id = None;
    let step = Deframer::new(1 << 10).step(arrived, &mut |view| {
        id = execute::id(&mut Cursor::new(view.body))
            .ok()
            .map(<[u8]>::to_vec);
        Verdict::<()>::Forward
    });
    assert_eq!(id.as_deref(), Some(&b"the id"[..]));
    assert_eq!(step.map(|step| step.relay), Ok(arrived.len()));
    for arrived in [arrived, &wire[..wire.len() - 1]] {
        assert!(matches!(
            TheirEnvelope::from_buffer(arrived, TheirCompression::None),
            Err(ParseEnvelopeError::NotEnoughBytes)
        ));
    }
}
