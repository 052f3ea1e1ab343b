//! Random valid messages, in random pieces, in every framing: what was written is what both decoders read.

use cassandra_protocol::frame::frame_encoder::{
    FrameEncoder, Lz4FrameEncoder, UncompressedFrameEncoder,
};
use narrows::protocol::deframer::Framing;
use narrows::protocol::header::{HEADER_BYTES, flag};
use narrows::protocol::segment::Format;
use narrows::protocol::{Compression, Envelope, Version};

use crate::framing::{compare, compare_heads, pieces, their_compression};
use crate::generate::{self, Generated};
use crate::generate_response;
use crate::random::{Random, seed};
use crate::reading::Message;

const STREAMS: usize = 150;
const MESSAGES_MAX: usize = 20;

pub(crate) fn scale() -> usize {
    let scale = std::env::var("SCALE");
    scale.map_or(1, |scale| scale.parse().expect("SCALE is a number"))
}

#[test]
fn requests_are_read_alike() {
    compare_streams(generate::request);
}

#[test]
fn responses_are_read_alike() {
    compare_streams(generate_response::response);
}

fn compare_streams(message: fn(&mut Random, Version) -> Generated) {
    let seed = seed();
    let mut random = Random::new(seed);
    for stream in 0..STREAMS * scale() {
        for (version, framing) in framings() {
            let context = format!("SEED={seed}, stream {stream}, {framing:?} of {version:?}");
            let count = 1 + random.below(MESSAGES_MAX);
            let generated: Vec<_> = (0..count).map(|_| message(&mut random, version)).collect();
            let (envelopes, expected): (Vec<Envelope>, Vec<Message>) =
                generated.into_iter().unzip();
            let wire = frame(&mut random, framing, &envelopes, &context);
            let read = compare(framing, &pieces(&mut random, &wire), &context);
            assert_eq!(read.len(), expected.len(), "{context}");
            for (read, expected) in read.iter().zip(&expected) {
                assert_eq!(read, expected, "{context}");
            }
        }
    }
}

fn framings() -> [(Version, Framing); 8] {
    let bare = |compression| Framing::Bare(Some(compression));
    [
        (Version::V3, Framing::Bare(None)),
        (Version::V3, bare(Compression::Lz4)),
        (Version::V3, bare(Compression::Snappy)),
        (Version::V4, Framing::Bare(None)),
        (Version::V4, bare(Compression::Lz4)),
        (Version::V4, bare(Compression::Snappy)),
        (Version::V5, Framing::Segments(Format::Plain)),
        (Version::V5, Framing::Segments(Format::Lz4)),
    ]
}

fn frame(random: &mut Random, framing: Framing, envelopes: &[Envelope], context: &str) -> Vec<u8> {
    match framing {
        Framing::Bare(compression) => {
            let mut wire = Vec::new();
            for envelope in envelopes {
                wire.extend(bare(random, compression, envelope, context));
            }
            wire
        }
        Framing::Segments(format) => segments(random, format, envelopes),
    }
}

/// One envelope, compressed or not: both may stand on one connection.
fn bare(
    random: &mut Random,
    compression: Option<Compression>,
    envelope: &Envelope,
    context: &str,
) -> Vec<u8> {
    let Some(compression) = compression.filter(|_| !random.one_in(4)) else {
        return envelope.encode();
    };
    let body = their_compression(Some(compression))
        .encode(&envelope.body)
        .expect("compresses");
    compare_heads(random, compression, &body, context);
    let mut wire = Envelope {
        body,
        ..envelope.clone()
    };
    wire.header.flags |= flag::COMPRESSED;
    wire.header.length = wire.body.len() as u32;
    wire.encode()
}

/// Segments with one envelope or several, ours and theirs. Only theirs are compressed.
fn segments(random: &mut Random, format: Format, envelopes: &[Envelope]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut envelopes = envelopes;
    while let Some((first, rest)) = envelopes.split_first() {
        if random.one_in(3) {
            wire.extend(Framing::Segments(format).frame(first));
            envelopes = rest;
            continue;
        }
        let mut encoder: Box<dyn FrameEncoder> = match format {
            Format::Plain => Box::new(UncompressedFrameEncoder::default()),
            Format::Lz4 => Box::new(Lz4FrameEncoder::default()),
        };
        let wanted = 1 + random.below(envelopes.len());
        let mut added = 0;
        while added < wanted && encoder.can_fit(HEADER_BYTES + envelopes[added].body.len()) {
            encoder.add_envelope(envelopes[added].encode());
            added += 1;
        }
        if added > 0 {
            wire.extend_from_slice(encoder.finalize_self_contained());
            envelopes = &envelopes[added..];
            continue;
        }
        let message = first.encode();
        let mut at = 0;
        while at < message.len() {
            encoder.reset();
            let (length, segment) = encoder.finalize_non_self_contained(&message[at..]);
            wire.extend_from_slice(segment);
            at += length;
        }
        envelopes = rest;
    }
    wire
}
