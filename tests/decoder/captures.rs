//! What drivers and Cassandra really said: both decoders read every recorded byte alike.
//!
//! `make captures` records anew; README.md describes the format.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use narrows::protocol::deframer::Framing;
use narrows::protocol::header::{HEADER_BYTES, flag};
use narrows::protocol::request::{self, startup};
use narrows::protocol::response::supported;
use narrows::protocol::segment::Format;
use narrows::protocol::types::Cursor;
use narrows::protocol::{Compression, Envelope, Header, ProtocolError, Version, opcode};

use crate::framing::{compare, compare_heads, cut_ours, cut_theirs, pieces};
use crate::generate::header_flag;
use crate::random::Random;
use crate::reading::{Body, Message};

const MAGIC: &[u8] = b"narrows capture 1\n";
const DRIVERS: [&str; 7] = ["cqlsh", "go", "go-v1", "java", "node", "python", "rust"];

/// An envelope, a segment, or all segments of one envelope.
struct Record {
    is_client: bool,
    connection: u16,
    bytes: Vec<u8>,
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decoder/captures");
    let entries = fs::read_dir(folder).expect("the folder of captures");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn records(path: &Path) -> Vec<Record> {
    let bytes = fs::read(path).expect("a capture");
    let bytes = bytes.strip_prefix(MAGIC).expect("it begins as one");
    let mut rest = Cursor::new(bytes);
    let mut records = Vec::new();
    while !rest.rest().is_empty() {
        let is_client = rest.byte().expect("a direction") == b'>';
        let connection = rest.short().expect("a connection");
        let length = rest.count("record").expect("a length");
        let bytes = rest.take(length, "record").expect("whole").to_vec();
        records.push(Record {
            is_client,
            connection,
            bytes,
        });
    }
    records
}

/// How the two directions of a connection are framed at the moment.
#[derive(Default)]
struct Connection {
    compression: Option<Compression>,
    client_segments: bool,
    upstream_segments: bool,
}

impl Connection {
    fn framing(&self, is_client: bool) -> Framing {
        let segments = if is_client {
            self.client_segments
        } else {
            self.upstream_segments
        };
        match (segments, self.compression) {
            (false, compression) => Framing::Bare(compression),
            (true, Some(Compression::Lz4)) => Framing::Segments(Format::Lz4),
            (true, _) => Framing::Segments(Format::Plain),
        }
    }

    /// native_protocol_v5 §2.3.1: segments begin behind STARTUP, and behind READY or AUTHENTICATE.
    fn follow(&mut self, message: &Message) {
        let is_v5 = Version::from_byte(message.version) == Some(Version::V5);
        match message.opcode {
            opcode::STARTUP => self.client_segments = is_v5,
            opcode::READY | opcode::AUTHENTICATE => self.upstream_segments = is_v5,
            _ => {}
        }
    }
}

#[test]
fn drivers_and_cassandra_are_read_alike() {
    let mut random = Random::new(1);
    let (mut drivers, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for path in captures() {
        let name = path.file_stem().expect("a name").to_string_lossy();
        let parts: Vec<_> = name.rsplitn(3, '-').collect();
        drivers.insert(parts[2].to_owned());
        let mut connections: HashMap<u16, Connection> = HashMap::new();
        for (index, record) in records(&path).iter().enumerate() {
            let context = format!("{name}, record {index}");
            let connection = connections.entry(record.connection).or_default();
            seen.extend(compare_record(&mut random, connection, record, &context));
        }
    }
    assert_eq!(drivers, DRIVERS.map(str::to_owned).into());
    let missing: Vec<_> = expected().difference(&seen).cloned().collect();
    assert!(missing.is_empty(), "no capture has {missing:?}");
}

/// Compares one record; returns what was in it.
fn compare_record(
    random: &mut Random,
    connection: &mut Connection,
    record: &Record,
    context: &str,
) -> Vec<String> {
    let framing = connection.framing(record.is_client);
    let bytes = &record.bytes[..];
    let mut seen = match framing {
        Framing::Bare(_) if Version::from_byte(bytes[0]).is_none() => {
            return vec![refused(bytes, context)];
        }
        Framing::Bare(compression) => compare_bare(random, compression, bytes, context),
        Framing::Segments(format) => {
            let segment = format.peek(bytes).expect(context).expect(context);
            let parts = if segment.self_contained {
                ""
            } else {
                ", several"
            };
            vec![format!("{format:?} segments{parts}")]
        }
    };
    if matches!(framing, Framing::Bare(_)) && bytes[4] == opcode::STARTUP {
        connection.compression = asked_compression(bytes, context);
    }
    for message in compare(framing, &pieces(random, bytes), context) {
        connection.follow(&message);
        seen.extend(facts(&message));
    }
    seen
}

/// What is special about an envelope without a segment.
fn compare_bare(
    random: &mut Random,
    compression: Option<Compression>,
    bytes: &[u8],
    context: &str,
) -> Vec<String> {
    let header = Header::peek(bytes).expect(context).expect(context);
    let body = &bytes[HEADER_BYTES..];
    match compression.filter(|_| header.has(flag::COMPRESSED)) {
        Some(compression) => {
            compare_heads(random, compression, body, context);
            vec![format!("{compression:?} bodies")]
        }
        None if header.opcode == opcode::SUPPORTED => {
            compare_restricted(header, body, context);
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// SUPPORTED as Narrows passes it on: upstream's, cut to what both know.
fn compare_restricted(header: Header, body: &[u8], context: &str) {
    let body = supported::restrict(Cursor::new(body)).expect(context);
    let wire = Envelope::new(header.version, header.stream, header.opcode, body).encode();
    let messages = compare(Framing::Bare(None), &[&wire], context);
    let Body::Supported(options) = &messages[0].body else {
        panic!("{context}: another message");
    };
    assert_eq!(options["PROTOCOL_VERSIONS"], ["3/v3", "4/v4", "5/v5"]);
    let mut compressions = options["COMPRESSION"].iter();
    assert!(compressions.all(|name| Compression::from_name(name).is_some()));
}

/// Some drivers first try a version that neither decoder speaks. The proxy refuses it as Cassandra does.
fn refused(bytes: &[u8], context: &str) -> String {
    let ours = cut_ours(Framing::Bare(None), &[bytes]).expect_err(context);
    assert_eq!(ours, ProtocolError::Version(bytes[0]), "{context}");
    assert!(
        cut_theirs(Framing::Bare(None), &[bytes]).is_err(),
        "{context}"
    );
    "version that nobody speaks".to_owned()
}

/// The compression of a STARTUP, which is never compressed itself: the proxy's own reading of it.
fn asked_compression(bytes: &[u8], context: &str) -> Option<Compression> {
    let header = Header::peek(bytes).expect(context).expect(context);
    let message = request::message(header, &bytes[HEADER_BYTES..]).expect(context);
    startup::compression(message).expect(context)
}

/// What of a message must be in some capture.
fn facts(message: &Message) -> Vec<String> {
    let debug = format!("{:?}", message.body);
    let kind = debug.split(|c: char| !c.is_alphanumeric()).next();
    let version = message.version & 0x7F;
    let mut facts = vec![format!("v{version} {}", kind.unwrap_or_default())];
    for (flag, name) in [
        (header_flag::TRACING, "tracing"),
        (header_flag::CUSTOM_PAYLOAD, "payload"),
        (header_flag::WARNING, "warnings"),
    ] {
        if message.flags & flag != 0 {
            facts.push(format!("v{version} {name}"));
        }
    }
    if let Body::Query { parameters, .. } | Body::Execute { parameters, .. } = &message.body {
        let is_named = parameters.values.iter().any(|(name, _)| name.is_some());
        for (is_there, name) in [
            (!parameters.values.is_empty(), "values"),
            (is_named, "names"),
            (parameters.skip_metadata, "skip metadata"),
            (parameters.page_size.is_some(), "page size"),
            (parameters.paging_state.is_some(), "paging state"),
            (parameters.serial_consistency.is_some(), "serial"),
            (parameters.timestamp.is_some(), "timestamp"),
        ] {
            if is_there {
                facts.push(format!("v{version} {name}"));
            }
        }
    }
    facts
}

fn expected() -> BTreeSet<String> {
    let each = [
        "Startup",
        "Options",
        "Query",
        "Prepare",
        "Execute",
        "Batch",
        "Register",
        "Error",
        "Ready",
        "Supported",
        "Event",
        "Void",
        "Rows",
        "SetKeyspace",
        "Prepared",
        "SchemaChange",
        "tracing",
        "values",
        "skip metadata",
        "page size",
        "paging state",
        "timestamp",
    ];
    let versions = [3, 4, 5].map(|version| each.map(|name| format!("v{version} {name}")));
    let once = [
        "v4 serial",
        "v5 serial",
        "v4 payload",
        "v5 payload",
        "v4 warnings",
        "v5 warnings",
        "Lz4 bodies",
        "Snappy bodies",
        "Plain segments",
        "Lz4 segments",
        "version that nobody speaks",
    ];
    let once = once.map(str::to_owned);
    versions.into_iter().flatten().chain(once).collect()
}
