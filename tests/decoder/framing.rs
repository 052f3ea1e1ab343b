//! Bytes of one direction of a connection, cut into messages and read, by both decoders.

use cassandra_protocol::compression::Compression as TheirCompression;
use cassandra_protocol::error::Error;
use cassandra_protocol::frame::Envelope as TheirEnvelope;
use cassandra_protocol::frame::frame_decoder::{
    FrameDecoder, LegacyFrameDecoder, Lz4FrameDecoder, UncompressedFrameDecoder,
};
use narrows::protocol::deframer::{Deframer, Framing, Part, Verdict};
use narrows::protocol::header::BODY_BYTES_MAX;
use narrows::protocol::segment::Format;
use narrows::protocol::{Compression, Envelope, ProtocolError};

use crate::random::Random;
use crate::reading::Message;
use crate::{ours, theirs};

/// What both read; panics where they differ. `context` says where the bytes are from.
pub(crate) fn compare(framing: Framing, pieces: &[&[u8]], context: &str) -> Vec<Message> {
    let our_envelopes = cut_ours(framing, pieces)
        .unwrap_or_else(|error| panic!("{context}: Narrows cannot cut it: {error}"));
    let their_envelopes = cut_theirs(framing, pieces)
        .unwrap_or_else(|error| panic!("{context}: cassandra-protocol cannot cut it: {error}"));
    assert_eq!(our_envelopes.len(), their_envelopes.len(), "{context}");
    let mut messages = Vec::new();
    for (ours, theirs) in our_envelopes.iter().zip(&their_envelopes) {
        // Their cutter has already taken off the trace id and the warnings.
        assert!(ours.body.ends_with(&theirs.body), "{context}: {theirs:?}");
        let our_reading = ours::read(ours)
            .unwrap_or_else(|error| panic!("{context}: Narrows cannot read {ours:?}: {error}"));
        let their_reading = theirs::read(theirs).unwrap_or_else(|error| {
            panic!("{context}: cassandra-protocol cannot read {theirs:?}: {error}")
        });
        assert_eq!(
            our_reading.clone().less_what_theirs_drops(),
            their_reading,
            "{context}"
        );
        messages.push(our_reading);
    }
    messages
}

pub(crate) fn cut_ours(framing: Framing, pieces: &[&[u8]]) -> Result<Vec<Envelope>, ProtocolError> {
    let mut deframer = Deframer::new(BODY_BYTES_MAX);
    deframer.set_framing(framing);
    let (mut input, mut taken) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let step = deframer.step(&input, &mut |_| Verdict::Take(()))?;
            assert_eq!(step.relay, 0, "everything is taken out");
            taken.extend(step.then.into_iter().map(|part| match part {
                Part::Taken(envelope, ()) => envelope,
                Part::Raw(_) => panic!("everything is taken out"),
            }));
            if step.consumed == 0 {
                break;
            }
            input.drain(..step.consumed);
        }
    }
    assert!(input.is_empty(), "{} bytes are left over", input.len());
    Ok(taken)
}

pub(crate) fn cut_theirs(framing: Framing, pieces: &[&[u8]]) -> Result<Vec<TheirEnvelope>, Error> {
    let (mut decoder, compression): (Box<dyn FrameDecoder>, _) = match framing {
        Framing::Bare(compression) => (
            Box::new(LegacyFrameDecoder::default()),
            their_compression(compression),
        ),
        Framing::Segments(Format::Plain) => (
            Box::new(UncompressedFrameDecoder::default()),
            TheirCompression::None,
        ),
        Framing::Segments(Format::Lz4) => {
            (Box::new(Lz4FrameDecoder::default()), TheirCompression::Lz4)
        }
    };
    let mut envelopes = Vec::new();
    for piece in pieces {
        envelopes.extend(decoder.consume(&mut piece.to_vec(), compression)?);
    }
    Ok(envelopes)
}

pub(crate) fn their_compression(ours: Option<Compression>) -> TheirCompression {
    match ours {
        None => TheirCompression::None,
        Some(Compression::Lz4) => TheirCompression::Lz4,
        Some(Compression::Snappy) => TheirCompression::Snappy,
    }
}

/// The same bytes in a few pieces, as a network may deliver them.
pub(crate) fn pieces<'a>(random: &mut Random, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for _ in 0..random.below(4) {
        let (piece, rest) = bytes.split_at(random.below(bytes.len() + 1));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// That the head of a compressed body, from as much of it as has arrived, is the beginning of what they decompress.
pub(crate) fn compare_heads(
    random: &mut Random,
    compression: Compression,
    body: &[u8],
    context: &str,
) {
    let whole = their_compression(Some(compression))
        .decode(body.to_vec())
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let limit = random.below(whole.len() + 2);
    let arrived = &body[..random.below(body.len() + 1)];
    if let Some((length, head)) = compression.head(arrived, limit) {
        assert_eq!(length as usize, whole.len(), "{context}");
        assert!(head.len() <= limit && whole.starts_with(&head), "{context}");
    }
    let (_, head) = compression.head(body, limit).expect("all of it is there");
    assert_eq!(head, whole[..limit.min(whole.len())], "{context}");
}
