//! Random valid responses: the bytes, and what they say.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use narrows::protocol::header::RESPONSE_BIT;
use narrows::protocol::response::event;
use narrows::protocol::types::Write;
use narrows::protocol::{Version, opcode};

use crate::generate::{Generated, finish, header_flag, put_payload, short_bytes, text};
use crate::random::Random;
use crate::reading::{Body, Event};

mod metadata_flag {
    pub(super) const GLOBAL_TABLE_SPEC: i32 = 0x01;
    pub(super) const HAS_MORE_PAGES: i32 = 0x02;
    pub(super) const NO_METADATA: i32 = 0x04;
    pub(super) const METADATA_CHANGED: i32 = 0x08;
}

pub(crate) fn response(random: &mut Random, version: Version) -> Generated {
    let (mut flags, mut bytes, mut warnings) = (0, Vec::new(), Vec::new());
    if random.one_in(4) {
        flags |= header_flag::TRACING;
        bytes.extend(random.bytes(16));
    }
    if version >= Version::V4 && random.one_in(4) {
        flags |= header_flag::WARNING;
        warnings = (0..random.below(4)).map(|_| text(random, 80)).collect();
        bytes.put_string_list(&warnings);
    }
    if version >= Version::V4 && random.one_in(5) {
        flags |= header_flag::CUSTOM_PAYLOAD;
        put_payload(random, &mut bytes);
    }
    let (opcode, body) = match random.below(16) {
        0 => (opcode::READY, Body::Ready),
        1 => named(random, &mut bytes, opcode::AUTHENTICATE, Body::Authenticate),
        2 => token(
            random,
            &mut bytes,
            opcode::AUTH_CHALLENGE,
            Body::AuthChallenge,
        ),
        3 => token(random, &mut bytes, opcode::AUTH_SUCCESS, Body::AuthSuccess),
        4 => supported(random, &mut bytes),
        5 | 6 => event(random, &mut bytes),
        7 | 8 => error(random, version, &mut bytes),
        _ => (opcode::RESULT, result(random, version, &mut bytes)),
    };
    let head = (version.byte() | RESPONSE_BIT, flags, opcode);
    let (envelope, mut message) = finish(random, head, bytes, body);
    message.warnings = warnings;
    (envelope, message)
}

fn named(
    random: &mut Random,
    out: &mut Vec<u8>,
    opcode: u8,
    body: fn(String) -> Body,
) -> (u8, Body) {
    let name = text(random, 60);
    out.put_string(&name);
    (opcode, body(name))
}

fn token(
    random: &mut Random,
    out: &mut Vec<u8>,
    opcode: u8,
    body: fn(Option<Vec<u8>>) -> Body,
) -> (u8, Body) {
    let token = (!random.one_in(4)).then(|| short_bytes(random, 40));
    out.put_bytes(token.as_deref());
    (opcode, body(token))
}

fn supported(random: &mut Random, out: &mut Vec<u8>) -> (u8, Body) {
    let mut options = BTreeMap::new();
    for _ in 0..random.below(5) {
        let values: Vec<_> = (0..random.below(4)).map(|_| text(random, 16)).collect();
        options.insert(text(random, 16), values);
    }
    out.put_short(options.len() as u16);
    for (key, values) in &options {
        out.put_string(key);
        out.put_string_list(values);
    }
    (opcode::SUPPORTED, Body::Supported(options))
}

fn event(random: &mut Random, out: &mut Vec<u8>) -> (u8, Body) {
    let body = match random.below(3) {
        0 => node(
            random,
            out,
            "TOPOLOGY_CHANGE",
            &["NEW_NODE", "REMOVED_NODE"],
        ),
        1 => node(random, out, "STATUS_CHANGE", &["UP", "DOWN"]),
        _ => {
            out.put_string("SCHEMA_CHANGE");
            schema_change(random, out)
        }
    };
    (opcode::EVENT, Body::Event(body))
}

fn node(random: &mut Random, out: &mut Vec<u8>, kind: &str, changes: &[&str]) -> Event {
    let change = *random.pick(changes);
    let ip = match random.one_in(2) {
        true => IpAddr::from((random.next() as u32).to_be_bytes()),
        false => IpAddr::from((u128::from(random.next()) << 64).to_be_bytes()),
    };
    let address = SocketAddr::new(ip, random.next() as u16);
    out.extend(event::encode_node(kind, change, address));
    Event::Node {
        kind: kind.to_owned(),
        change: change.to_owned(),
        address,
    }
}

/// What changed, the kind of thing it is, and its names.
fn schema_change(random: &mut Random, out: &mut Vec<u8>) -> Event {
    let target = *random.pick(&["KEYSPACE", "TABLE", "TYPE", "FUNCTION", "AGGREGATE"]);
    let change = *random.pick(&["CREATED", "UPDATED", "DROPPED"]);
    out.put_string(change);
    out.put_string(target);
    let (keyspace, name) = (text(random, 48), text(random, 48));
    out.put_string(&keyspace);
    if target != "KEYSPACE" {
        out.put_string(&name);
    }
    if matches!(target, "FUNCTION" | "AGGREGATE") {
        let types: Vec<_> = (0..random.below(4)).map(|_| text(random, 12)).collect();
        out.put_string_list(&types);
    }
    match target {
        "TABLE" => Event::Table {
            keyspace,
            table: name,
        },
        _ => Event::Schema,
    }
}

fn error(random: &mut Random, version: Version, out: &mut Vec<u8>) -> (u8, Body) {
    const PLAIN: [i32; 10] = [
        0x0000, 0x000A, 0x0100, 0x1001, 0x1002, 0x1003, 0x2000, 0x2100, 0x2200, 0x2300,
    ];
    let code = match random.below(10) {
        0 => 0x1000,
        1 => 0x1100,
        2 => 0x1200,
        // In v5 these have a map of reasons, which cassandra-protocol misreads; v3 has none of the three.
        3 if version == Version::V4 => 0x1300,
        4 if version == Version::V4 => 0x1500,
        5 if version >= Version::V4 => 0x1400,
        6 => 0x2400,
        7 => 0x2500,
        _ => *random.pick(&PLAIN),
    };
    let text = text(random, 200);
    out.put_int(code);
    out.put_string(&text);
    put_error_details(random, code, out);
    (opcode::ERROR, Body::Error { code, text })
}

fn put_error_details(random: &mut Random, code: i32, out: &mut Vec<u8>) {
    // A CAS write has one field more in v5, which cassandra-protocol asks for in every version.
    const WRITES: [&str; 4] = ["SIMPLE", "BATCH", "UNLOGGED_BATCH", "COUNTER"];
    if matches!(code, 0x1000 | 0x1100 | 0x1200 | 0x1300 | 0x1500) {
        out.put_short(random.below(11) as u16);
        out.put_int(random.below(5) as i32);
        out.put_int(random.below(5) as i32);
    }
    if matches!(code, 0x1300 | 0x1500) {
        out.put_int(random.below(5) as i32);
    }
    match code {
        0x1100 | 0x1500 => out.put_string(WRITES[random.below(WRITES.len())]),
        0x1200 | 0x1300 => out.put_byte(random.below(2) as u8),
        0x1400 => {
            out.put_string(&text(random, 48));
            out.put_string(&text(random, 48));
            out.put_string_list(&[text(random, 12), text(random, 12)]);
        }
        0x2400 => {
            out.put_string(&text(random, 48));
            out.put_string(&text(random, 48));
        }
        0x2500 => out.put_short_bytes(&short_bytes(random, 32)),
        _ => {}
    }
}

fn result(random: &mut Random, version: Version, out: &mut Vec<u8>) -> Body {
    let kind = 1 + random.below(5);
    out.put_int(kind as i32);
    match kind {
        1 => Body::Void,
        2 => rows(random, version, out),
        3 => {
            let keyspace = text(random, 48);
            out.put_string(&keyspace);
            Body::SetKeyspace(keyspace)
        }
        4 => prepared(random, version, out),
        _ => {
            schema_change(random, out);
            Body::SchemaChange
        }
    }
}

fn rows(random: &mut Random, version: Version, out: &mut Vec<u8>) -> Body {
    let (flags, column_count, names) = result_metadata(random, version, out);
    let count = random.below(8);
    out.put_int(count as i32);
    let mut rows = Vec::new();
    for _ in 0..count {
        let value = |_| (!random.one_in(5)).then(|| short_bytes(random, 40));
        let row: Vec<_> = (0..column_count).map(value).collect();
        row.iter().for_each(|value| out.put_bytes(value.as_deref()));
        rows.push(row);
    }
    Body::Rows {
        metadata_changed: flags & metadata_flag::METADATA_CHANGED != 0,
        column_count,
        names,
        rows,
    }
}

/// `<metadata>` of a result: flags, how many columns there are, and their names.
fn result_metadata(
    random: &mut Random,
    version: Version,
    out: &mut Vec<u8>,
) -> (i32, usize, Vec<String>) {
    let mut flags = 0;
    if random.one_in(3) {
        flags |= metadata_flag::HAS_MORE_PAGES;
    }
    if random.one_in(3) {
        flags |= metadata_flag::NO_METADATA;
    } else if version == Version::V5 && random.one_in(3) {
        flags |= metadata_flag::METADATA_CHANGED;
    }
    if flags & metadata_flag::NO_METADATA == 0 && random.one_in(2) {
        flags |= metadata_flag::GLOBAL_TABLE_SPEC;
    }
    let count = 1 + random.below(6);
    out.put_int(flags);
    out.put_int(count as i32);
    if flags & metadata_flag::HAS_MORE_PAGES != 0 {
        out.put_bytes(Some(&short_bytes(random, 60)));
    }
    if flags & metadata_flag::METADATA_CHANGED != 0 {
        out.put_short_bytes(&short_bytes(random, 32));
    }
    let mut names = Vec::new();
    if flags & metadata_flag::NO_METADATA == 0 {
        names = columns(random, flags, count, out);
    }
    (flags, count, names)
}

fn columns(random: &mut Random, flags: i32, count: usize, out: &mut Vec<u8>) -> Vec<String> {
    let is_global = flags & metadata_flag::GLOBAL_TABLE_SPEC != 0;
    let put_table = |random: &mut Random, out: &mut Vec<u8>| {
        out.put_string(&text(random, 48));
        out.put_string(&text(random, 48));
    };
    if is_global {
        put_table(random, out);
    }
    let mut names = Vec::new();
    for _ in 0..count {
        if !is_global {
            put_table(random, out);
        }
        let name = text(random, 48);
        out.put_string(&name);
        put_type(random, 3, out);
        names.push(name);
    }
    names
}

fn put_type(random: &mut Random, depth: usize, out: &mut Vec<u8>) {
    // 0x000A was a second name of text until v2.
    const SCALARS: [u16; 5] = [0x0001, 0x0009, 0x000B, 0x0011, 0x0015];
    let Some(depth) = depth.checked_sub(1) else {
        return out.put_short(*random.pick(&SCALARS));
    };
    match random.below(12) {
        0 => {
            out.put_short(0x0000);
            out.put_string("org.apache.cassandra.db.marshal.VectorType(FloatType , 3)");
        }
        1 => {
            out.put_short(*random.pick(&[0x0020, 0x0022]));
            put_type(random, depth, out);
        }
        2 => {
            out.put_short(0x0021);
            put_type(random, depth, out);
            put_type(random, depth, out);
        }
        3 => {
            out.put_short(0x0030);
            out.put_string(&text(random, 20));
            out.put_string(&text(random, 20));
            let fields = random.below(4);
            out.put_short(fields as u16);
            for _ in 0..fields {
                out.put_string(&text(random, 20));
                put_type(random, depth, out);
            }
        }
        4 => {
            out.put_short(0x0031);
            let parts = random.below(4);
            out.put_short(parts as u16);
            (0..parts).for_each(|_| put_type(random, depth, out));
        }
        _ => out.put_short(*random.pick(&SCALARS)),
    }
}

fn prepared(random: &mut Random, version: Version, out: &mut Vec<u8>) -> Body {
    let id = short_bytes(random, 32);
    out.put_short_bytes(&id);
    let result_metadata_id = short_bytes(random, 32);
    if version == Version::V5 {
        out.put_short_bytes(&result_metadata_id);
    }
    let count = random.below(5);
    let is_global = count > 0 && random.one_in(2);
    let flags = i32::from(is_global);
    out.put_int(flags);
    out.put_int(count as i32);
    if version >= Version::V4 {
        let keys = random.below(count + 1);
        out.put_int(keys as i32);
        (0..keys).for_each(|index| out.put_short(index as u16));
    }
    columns(random, flags, count, out);
    let (_, _, names) = result_metadata(random, version, out);
    let result = (version == Version::V5).then_some((result_metadata_id, names));
    Body::Prepared { id, result }
}
