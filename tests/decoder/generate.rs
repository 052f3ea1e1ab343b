//! Random valid requests: the bytes, and what they say.

use std::collections::BTreeMap;

use narrows::protocol::response::event;
use narrows::protocol::types::{self, Write};
use narrows::protocol::{Envelope, Version, opcode};

use crate::random::Random;
use crate::reading::{Body, Message, Parameters, Statement, Value};

/// A message as bytes, and what it says.
pub(crate) type Generated = (Envelope, Message);

pub(crate) mod header_flag {
    pub(crate) const TRACING: u8 = 0x02;
    pub(crate) const CUSTOM_PAYLOAD: u8 = 0x04;
    pub(crate) const WARNING: u8 = 0x08;
}

pub(crate) fn request(random: &mut Random, version: Version) -> Generated {
    let (mut flags, mut bytes) = (0, Vec::new());
    if random.one_in(4) {
        flags |= header_flag::TRACING;
    }
    if version >= Version::V4 && random.one_in(5) {
        flags |= header_flag::CUSTOM_PAYLOAD;
        put_payload(random, &mut bytes);
    }
    let (opcode, body) = match random.below(10) {
        0 => startup(random, &mut bytes),
        1 => (opcode::OPTIONS, Body::Options),
        2 => register(random, &mut bytes),
        3 => auth_response(random, &mut bytes),
        4 => prepare(random, version, &mut bytes),
        5 | 6 => query(random, version, &mut bytes),
        7 | 8 => execute(random, version, &mut bytes),
        _ => batch(random, version, &mut bytes),
    };
    finish(random, (version.byte(), flags, opcode), bytes, body)
}

/// Puts header and body together.
pub(crate) fn finish(
    random: &mut Random,
    (version, flags, opcode): (u8, u8, u8),
    bytes: Vec<u8>,
    body: Body,
) -> Generated {
    let stream = random.next() as i16;
    let message = Message {
        version,
        flags,
        stream,
        opcode,
        warnings: Vec::new(),
        body,
    };
    let envelope = Envelope::with_flags(version, flags, stream, opcode, bytes);
    (envelope, message)
}

fn startup(random: &mut Random, out: &mut Vec<u8>) -> (u8, Body) {
    let mut map = BTreeMap::from([("CQL_VERSION".to_owned(), "3.0.0".to_owned())]);
    if random.one_in(2) {
        let name = *random.pick(&["lz4", "snappy"]);
        map.insert("COMPRESSION".to_owned(), name.to_owned());
    }
    for _ in 0..random.below(4) {
        map.insert(text(random, 20), text(random, 60));
    }
    let pairs: Vec<_> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    out.put_string_map(&pairs);
    (opcode::STARTUP, Body::Startup(map))
}

fn register(random: &mut Random, out: &mut Vec<u8>) -> (u8, Body) {
    let events: Vec<_> = (0..random.below(4))
        .map(|_| (*random.pick(&event::TYPES)).to_owned())
        .collect();
    out.put_string_list(&events);
    (opcode::REGISTER, Body::Register(events))
}

fn auth_response(random: &mut Random, out: &mut Vec<u8>) -> (u8, Body) {
    let token = (!random.one_in(4)).then(|| short_bytes(random, 40));
    out.put_bytes(token.as_deref());
    (opcode::AUTH_RESPONSE, Body::AuthResponse(token))
}

fn prepare(random: &mut Random, version: Version, out: &mut Vec<u8>) -> (u8, Body) {
    let text = statement_text(random);
    out.put_long_string(&text);
    let mut keyspace = None;
    if version == Version::V5 {
        keyspace = random.one_in(2).then(|| self::text(random, 48));
        out.put_int(keyspace.is_some().into());
        if let Some(keyspace) = &keyspace {
            out.put_string(keyspace);
        }
    }
    (opcode::PREPARE, Body::Prepare { text, keyspace })
}

fn query(random: &mut Random, version: Version, out: &mut Vec<u8>) -> (u8, Body) {
    let text = statement_text(random);
    out.put_long_string(&text);
    let parameters = parameters(random, version);
    put_parameters(version, &parameters, out);
    (opcode::QUERY, Body::Query { text, parameters })
}

fn execute(random: &mut Random, version: Version, out: &mut Vec<u8>) -> (u8, Body) {
    let id = short_bytes(random, 32);
    out.put_short_bytes(&id);
    let result_metadata_id = (version == Version::V5).then(|| short_bytes(random, 32));
    if let Some(id) = &result_metadata_id {
        out.put_short_bytes(id);
    }
    let parameters = parameters(random, version);
    put_parameters(version, &parameters, out);
    let body = Body::Execute {
        id,
        result_metadata_id,
        parameters,
    };
    (opcode::EXECUTE, body)
}

fn batch(random: &mut Random, version: Version, out: &mut Vec<u8>) -> (u8, Body) {
    let kind = random.below(3) as u8;
    let statements: Vec<(Statement, Vec<Value>)> = (0..random.below(6))
        .map(|_| {
            let statement = match random.one_in(2) {
                true => Statement::Prepared(short_bytes(random, 32)),
                false => Statement::Text(statement_text(random)),
            };
            let count = random.below(5);
            (
                statement,
                (0..count).map(|_| value(random, version)).collect(),
            )
        })
        .collect();
    let parameters = Parameters {
        values: Vec::new(),
        skip_metadata: false,
        page_size: None,
        paging_state: None,
        ..parameters(random, version)
    };
    out.put_byte(kind);
    out.put_short(statements.len() as u16);
    for (statement, values) in &statements {
        put_statement(statement, values, out);
    }
    put_parameters(version, &parameters, out);
    let body = Body::Batch {
        kind,
        statements,
        parameters,
    };
    (opcode::BATCH, body)
}

fn put_statement(statement: &Statement, values: &[Value], out: &mut Vec<u8>) {
    match statement {
        Statement::Prepared(id) => {
            out.put_byte(1);
            out.put_short_bytes(id);
        }
        Statement::Text(text) => {
            out.put_byte(0);
            out.put_long_string(text);
        }
    }
    out.put_short(values.len() as u16);
    values.iter().for_each(|value| put_value(value, out));
}

/// Every parameter is there in about a third of the requests.
pub(crate) fn parameters(random: &mut Random, version: Version) -> Parameters {
    let is_named = random.one_in(3);
    let count = if random.one_in(3) { 0 } else { random.below(6) };
    let mut values = Vec::new();
    for index in 0..count {
        let name = is_named.then(|| format!("{index}{}", text(random, 20)));
        values.push((name, value(random, version)));
    }
    // Names need not come in order.
    values.reverse();
    let is_v5 = version == Version::V5;
    Parameters {
        consistency: random.below(11) as u16,
        values,
        skip_metadata: random.one_in(2),
        page_size: random.one_in(3).then(|| random.next() as i32),
        paging_state: random.one_in(3).then(|| short_bytes(random, 60)),
        serial_consistency: random.one_in(3).then(|| 8 + random.below(2) as u16),
        timestamp: random.one_in(3).then(|| random.next().cast_signed()),
        // Only v5 specifies it, but Cassandra reads it in every version.
        keyspace: random.one_in(3).then(|| text(random, 48)),
        now_in_seconds: (is_v5 && random.one_in(3)).then(|| random.next() as i32),
    }
}

fn put_parameters(version: Version, parameters: &Parameters, out: &mut Vec<u8>) {
    let is_named = parameters.values.iter().any(|(name, _)| name.is_some());
    let parts = [
        (!parameters.values.is_empty(), 0x001),
        (parameters.skip_metadata, 0x002),
        (parameters.page_size.is_some(), 0x004),
        (parameters.paging_state.is_some(), 0x008),
        (parameters.serial_consistency.is_some(), 0x010),
        (parameters.timestamp.is_some(), 0x020),
        (is_named, 0x040),
        (parameters.keyspace.is_some(), 0x080),
        (parameters.now_in_seconds.is_some(), 0x100),
    ];
    let flags: i32 = parts.iter().filter(|part| part.0).map(|part| part.1).sum();
    out.put_short(parameters.consistency);
    match version {
        Version::V3 | Version::V4 => out.put_byte(flags as u8),
        Version::V5 => out.put_int(flags),
    }
    if !parameters.values.is_empty() {
        out.put_short(parameters.values.len() as u16);
    }
    for (name, value) in &parameters.values {
        if let Some(name) = name {
            out.put_string(name);
        }
        put_value(value, out);
    }
    if let Some(size) = parameters.page_size {
        out.put_int(size);
    }
    if let Some(state) = &parameters.paging_state {
        out.put_bytes(Some(state));
    }
    if let Some(consistency) = parameters.serial_consistency {
        out.put_short(consistency);
    }
    if let Some(timestamp) = parameters.timestamp {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
    if let Some(keyspace) = &parameters.keyspace {
        out.put_string(keyspace);
    }
    if let Some(seconds) = parameters.now_in_seconds {
        out.put_int(seconds);
    }
}

fn put_value(value: &Value, out: &mut Vec<u8>) {
    out.put_value(borrowed(value));
}

pub(crate) fn borrowed(value: &Value) -> types::Value<'_> {
    match value {
        Value::Bytes(bytes) => types::Value::Bytes(bytes),
        Value::Null => types::Value::Null,
        Value::Unset => types::Value::Unset,
    }
}

/// Rarely one that needs more than one segment. Only v4 knows values that are not set.
fn value(random: &mut Random, version: Version) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 if version >= Version::V4 => Value::Unset,
        2 if random.one_in(100) => {
            let length = 100_000 + random.below(100_000);
            Value::Bytes(random.bytes(length))
        }
        _ => Value::Bytes(short_bytes(random, 40)),
    }
}

fn statement_text(random: &mut Random) -> String {
    let words = random.below(12);
    let mut statement = String::from("SELECT");
    for _ in 0..words {
        statement.push(' ');
        statement.push_str(&text(random, 16));
    }
    if random.one_in(200) {
        statement.push_str(&" and more".repeat(30_000));
    }
    statement
}

/// Up to `length_max` characters, some of them of several bytes.
pub(crate) fn text(random: &mut Random, length_max: usize) -> String {
    const CHARACTERS: [char; 12] = ['a', 'b', 'k', 'T', '_', '0', ' ', '"', '\0', 'é', '✓', '𝄞'];
    let length = random.below(length_max + 1);
    (0..length).map(|_| *random.pick(&CHARACTERS)).collect()
}

pub(crate) fn short_bytes(random: &mut Random, length_max: usize) -> Vec<u8> {
    let length = random.below(length_max + 1);
    random.bytes(length)
}

pub(crate) fn put_payload(random: &mut Random, out: &mut Vec<u8>) {
    let count = random.below(3);
    out.put_short(count as u16);
    for _ in 0..count {
        out.put_string(&text(random, 12));
        let value = (!random.one_in(4)).then(|| short_bytes(random, 30));
        out.put_bytes(value.as_deref());
    }
}
