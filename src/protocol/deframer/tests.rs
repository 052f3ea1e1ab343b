//! Whatever pieces the network delivers, the deframer's output is the same.

use super::*;
use crate::protocol::opcode;
use crate::protocol::segment::PAYLOAD_MAX;

/// Takes every PREPARE, waits for all of a QUERY before forwarding it, forwards the rest at once.
fn inspector(seen: &mut Vec<i16>) -> impl FnMut(View<'_>) -> Verdict<()> + '_ {
    |view| match view.header.opcode {
        opcode::PREPARE if view.complete => {
            seen.push(view.header.stream);
            Verdict::Take(())
        }
        opcode::PREPARE => Verdict::Take(()),
        opcode::QUERY if !view.complete => Verdict::More,
        _ => {
            seen.push(view.header.stream);
            Verdict::Forward
        }
    }
}

/// Feeds `wire` in chunks and returns (forwarded bytes, taken messages, streams in the order of decision).
fn run(framing: Framing, wire: &[u8], chunk: usize) -> Result<(Vec<u8>, Vec<Envelope>, Vec<i16>)> {
    let (mut out, mut taken, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    let mut deframer = Deframer::new(1 << 20);
    deframer.set_framing(framing);
    let mut buffer = Vec::new();
    for piece in wire.chunks(chunk) {
        buffer.extend_from_slice(piece);
        loop {
            let step = deframer.step(&buffer, &mut inspector(&mut seen))?;
            out.extend_from_slice(&buffer[..step.relay]);
            for part in step.then {
                match part {
                    Part::Raw(bytes) => out.extend(bytes),
                    Part::Taken(envelope, ()) => taken.push(envelope),
                }
            }
            buffer.drain(..step.consumed);
            if step.consumed == 0 {
                break;
            }
        }
    }
    assert!(deframer.at_boundary() && buffer.is_empty());
    Ok((out, taken, seen))
}

fn message(stream: i16, opcode: u8, length: usize) -> Envelope {
    Envelope::new(5, stream, opcode, (0..length).map(|i| i as u8).collect())
}

fn mixed() -> Vec<Envelope> {
    vec![
        message(1, opcode::OPTIONS, 0),
        message(2, opcode::QUERY, 300),
        message(3, opcode::PREPARE, 50),
        message(4, opcode::EXECUTE, 70_000),
        message(5, opcode::QUERY, 300_000),
        message(6, opcode::PREPARE, 2 * PAYLOAD_MAX),
        message(7, opcode::EXECUTE, 5),
    ]
}

fn messages(bytes: &[u8], framing: Framing) -> Vec<Envelope> {
    let mut content = Vec::new();
    match framing {
        Framing::Bare(_) => content.extend_from_slice(bytes),
        Framing::Segments(format) => {
            let mut at = 0;
            while at < bytes.len() {
                let segment = format.peek(&bytes[at..]).expect("valid").expect("whole");
                content.extend_from_slice(&segment.content().expect("intact"));
                at += segment.wire_length;
            }
        }
    }
    let (mut rest, mut all) = (&content[..], Vec::new());
    while let Some(header) = Header::peek(rest).expect("valid") {
        let (body, after) = rest[HEADER_BYTES..].split_at(header.length as usize);
        all.push(Envelope {
            header,
            body: body.to_vec(),
        });
        rest = after;
    }
    all
}

#[test]
fn chunking_changes_nothing() {
    for framing in [
        Framing::Bare(None),
        Framing::Segments(Format::Plain),
        Framing::Segments(Format::Lz4),
    ] {
        let wire: Vec<u8> = mixed()
            .iter()
            .flat_map(|envelope| framing.frame(envelope))
            .collect();
        for chunk in [1, 2, 7, 1000, 65_536, wire.len()] {
            if chunk == 1 && matches!(framing, Framing::Bare(_)) && wire.len() > 1 << 20 {
                continue;
            }
            let (out, taken, mut seen) = run(framing, &wire, chunk).expect("valid");
            seen.sort_unstable();
            assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7], "{framing:?} {chunk}");
            assert_eq!(taken, [mixed()[2].clone(), mixed()[5].clone()]);
            let expected: Vec<_> = mixed()
                .into_iter()
                .filter(|e| e.header.opcode != opcode::PREPARE)
                .collect();
            assert_eq!(messages(&out, framing), expected);
        }
    }
}

#[test]
fn forwarded_bytes_are_untouched() {
    for framing in [Framing::Bare(None), Framing::Segments(Format::Plain)] {
        let kept: Vec<_> = mixed()
            .into_iter()
            .filter(|e| e.header.opcode != opcode::PREPARE)
            .collect();
        let wire: Vec<u8> = kept
            .iter()
            .flat_map(|envelope| framing.frame(envelope))
            .collect();
        let (out, _, _) = run(framing, &wire, 1013).expect("valid");
        assert!(out == wire, "{framing:?}");
    }
}

#[test]
fn many_envelopes_in_one_segment_are_told_apart() {
    let inside = [
        message(1, opcode::EXECUTE, 9),
        message(2, opcode::PREPARE, 9),
        message(3, opcode::QUERY, 9),
    ];
    let content: Vec<u8> = inside.iter().flat_map(Envelope::encode).collect();
    // A segment is framed from an envelope; strip the outer header by building it from the content itself.
    let outer = Envelope {
        header: Header::peek(&content).expect("valid").expect("whole"),
        body: content[HEADER_BYTES..].to_vec(),
    };
    let framing = Framing::Segments(Format::Plain);
    let wire = framing.frame(&outer);
    let (out, taken, _) = run(framing, &wire, wire.len()).expect("valid");
    assert_eq!(taken, [inside[1].clone()]);
    assert_eq!(
        messages(&out, framing),
        [inside[0].clone(), inside[2].clone()]
    );
}

/// Where another message may go in, whatever pieces the network delivers.
#[test]
fn a_run_tells_where_its_last_message_ends() {
    for framing in [
        Framing::Bare(None),
        Framing::Segments(Format::Plain),
        Framing::Segments(Format::Lz4),
    ] {
        let sizes = [9, 2 * PAYLOAD_MAX, 70_000, 0, 3 * PAYLOAD_MAX, 300];
        let wires = sizes.map(|size| framing.frame(&message(1, opcode::EXECUTE, size)));
        let ends = wires.iter().scan(0, |end, wire| {
            *end += wire.len();
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        let wire = wires.concat();
        for chunk in [1000, 65_536, 262_144, wire.len()] {
            let mut deframer = Deframer::new(1000);
            deframer.set_framing(framing);
            let mut forward = |_: View<'_>| Verdict::<()>::Forward;
            let (mut buffer, mut relayed) = (Vec::new(), 0);
            for piece in wire.chunks(chunk) {
                buffer.extend_from_slice(piece);
                let step = deframer.step(&buffer, &mut forward).expect("valid");
                let within = |end: &&usize| (relayed + 1..=relayed + step.relay).contains(*end);
                let last = ends.iter().rev().find(within);
                let expected = last.map_or(0, |end| end - relayed);
                assert_eq!(step.boundary, expected, "{framing:?} {chunk} {relayed}");
                relayed += step.relay;
                buffer.drain(..step.consumed);
            }
            assert_eq!(relayed, wire.len(), "{framing:?} {chunk}");
        }
    }
}

#[test]
fn compressed_frames_are_inspected_uncompressed_and_relayed_as_they_came() {
    let body = b"SELECT something SELECT something SELECT something".repeat(9);
    let mut packed = (body.len() as u32).to_be_bytes().to_vec();
    packed.extend(lz4_flex::block::compress(&body));
    let header = Header {
        version: 4,
        flags: flag::COMPRESSED,
        stream: 9,
        opcode: opcode::QUERY,
        length: packed.len() as u32,
    };
    let wire = [&header.encode()[..], &packed].concat();
    let mut deframer = Deframer::new(1 << 20);
    deframer.set_framing(Framing::Bare(Some(Compression::Lz4)));
    let mut bodies = Vec::new();
    let step = deframer.step(&wire, &mut |view| {
        if !view.complete {
            return Verdict::<()>::More;
        }
        bodies.push(view.body.to_vec());
        Verdict::Forward
    });
    assert_eq!(step.map(|s| s.relay), Ok(wire.len()));
    assert_eq!(bodies, [body]);
}

#[test]
fn what_is_held_is_bounded_and_what_is_relayed_is_not() {
    let mut deframer = Deframer::new(1000);
    let big = message(1, opcode::QUERY, 2000).encode();
    let mut more = |_: View<'_>| Verdict::<()>::More;
    assert!(matches!(
        deframer.step(&big[..500], &mut more),
        Err(ProtocolError::TooLarge { .. })
    ));
    let big = message(1, opcode::EXECUTE, 2000).encode();
    let mut forward = |_: View<'_>| Verdict::<()>::Forward;
    assert_eq!(
        Deframer::new(1000)
            .step(&big, &mut forward)
            .map(|s| s.relay),
        Ok(big.len())
    );
}

/// A deframer that is fed with what arrives, and what becomes of it.
struct Fed {
    deframer: Deframer,
    buffer: Vec<u8>,
    out: Vec<u8>,
    taken: Vec<Part<()>>,
}

impl Fed {
    fn new(framing: Framing, held_max: usize) -> Self {
        let mut deframer = Deframer::new(held_max);
        deframer.set_framing(framing);
        Self {
            deframer,
            buffer: Vec::new(),
            out: Vec::new(),
            taken: Vec::new(),
        }
    }

    fn feed(&mut self, piece: &[u8], mut judge: impl FnMut(View<'_>) -> Verdict<()>) {
        self.buffer.extend_from_slice(piece);
        loop {
            let step = self.deframer.step(&self.buffer, &mut judge);
            let step = step.expect("valid");
            self.out.extend_from_slice(&self.buffer[..step.relay]);
            self.taken.extend(step.then);
            self.buffer.drain(..step.consumed);
            if step.consumed == 0 {
                break;
            }
        }
    }
}

#[test]
fn what_is_discarded_leaves_its_header_and_what_follows() {
    for framing in [
        Framing::Bare(None),
        Framing::Segments(Format::Plain),
        Framing::Segments(Format::Lz4),
    ] {
        let big = message(1, opcode::QUERY, 500_000);
        let next = message(2, opcode::EXECUTE, 9);
        let wire = [framing.frame(&big), framing.frame(&next)].concat();
        for chunk in [1000, 65_536, wire.len()] {
            let mut fed = Fed::new(framing, 1000);
            for piece in wire.chunks(chunk) {
                fed.feed(piece, |view| match view.header.stream {
                    1 => Verdict::Discard(()),
                    _ => Verdict::Forward,
                });
                // Segments are looked at whole; nothing beyond one is kept.
                assert!(fed.buffer.len() <= PAYLOAD_MAX + 16);
            }
            assert_eq!(
                messages(&fed.out, framing),
                std::slice::from_ref(&next),
                "{framing:?} {chunk}"
            );
            assert!(
                matches!(&fed.taken[..], [Part::Taken(taken, ())] if taken.header.stream == 1 && taken.body.is_empty())
            );
        }
    }
}

/// What is going to be taken is kept once, in no more memory than it needs, and leaves the read buffer as it arrives.
#[test]
fn what_is_collected_is_kept_once() {
    let body: Vec<u8> = (0..900_000_u32).map(|i| (i ^ i >> 7) as u8).collect();
    for framing in [
        Framing::Bare(None),
        Framing::Bare(Some(Compression::Lz4)),
        Framing::Segments(Format::Plain),
        Framing::Segments(Format::Lz4),
    ] {
        let mut large = Envelope::new(5, 1, opcode::RESULT, body.clone());
        if framing == Framing::Bare(Some(Compression::Lz4)) {
            large = compressed(Compression::Lz4, &body);
        }
        let next = message(2, opcode::EXECUTE, 9);
        let wire = [framing.frame(&large), framing.frame(&next)].concat();
        for chunk in [1000, 65_536, 262_144] {
            let mut fed = Fed::new(framing, 1 << 20);
            for piece in wire.chunks(chunk) {
                fed.feed(piece, |view| match view.header.stream {
                    1 if view.complete => Verdict::Take(()),
                    1 => Verdict::Collect,
                    _ => Verdict::Forward,
                });
                if let Carry::Collecting(collected) = &fed.deframer.carry {
                    let length = large.header.length as usize;
                    assert!(collected.body.capacity() <= length, "{framing:?} {chunk}");
                }
                assert!(
                    fed.buffer.len() < chunk + PAYLOAD_MAX + 16,
                    "{framing:?} {chunk}"
                );
            }
            let is_whole =
                |part: &Part<()>| matches!(part, Part::Taken(taken, ()) if taken.body == body);
            assert!(
                fed.taken.len() == 1 && is_whole(&fed.taken[0]),
                "{framing:?} {chunk}"
            );
            assert_eq!(
                messages(&fed.out, framing),
                std::slice::from_ref(&next),
                "{framing:?}"
            );
        }
    }
}

/// Nobody may want a message any more when half of it has arrived.
#[test]
fn what_is_collected_can_be_discarded() {
    for framing in [Framing::Bare(None), Framing::Segments(Format::Plain)] {
        let large = message(1, opcode::EXECUTE, 900_000);
        let next = message(2, opcode::EXECUTE, 9);
        let wire = [framing.frame(&large), framing.frame(&next)].concat();
        let mut fed = Fed::new(framing, 1 << 20);
        for piece in wire.chunks(100_000) {
            fed.feed(piece, |view| match view.header.stream {
                1 if view.body.len() > 500_000 => Verdict::Discard(()),
                1 => Verdict::Collect,
                _ => Verdict::Forward,
            });
        }
        assert!(matches!(&fed.taken[..], [Part::Taken(taken, ())] if taken.body.is_empty()));
        assert_eq!(messages(&fed.out, framing), [next], "{framing:?}");
    }
}

#[test]
fn framing_switches_right_after_ready() {
    let ready = Envelope::new(0x85, 0, opcode::READY, Vec::new());
    let event = Envelope::new(0x85, -1, opcode::EVENT, vec![1, 2, 3]);
    let segments = Framing::Segments(Format::Plain);
    let wire = [ready.encode(), segments.frame(&event)].concat();
    let mut opcodes = Vec::new();
    let step = Deframer::new(1000).step(&wire, &mut |view| {
        opcodes.push(view.header.opcode);
        match view.header.opcode {
            opcode::READY => Verdict::<()>::ForwardThen(segments),
            _ => Verdict::Forward,
        }
    });
    assert_eq!(step.map(|s| s.relay), Ok(wire.len()));
    assert_eq!(opcodes, [opcode::READY, opcode::EVENT]);
}

#[test]
fn noise_is_an_error_and_never_a_panic() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..20_000 {
        let mut noise: Vec<u8> = (0..next() % 64).map(|_| next() as u8).collect();
        if round % 2 == 0 && !noise.is_empty() {
            noise[0] = 3 + (next() % 3) as u8;
        }
        let framing = [
            Framing::Bare(None),
            Framing::Bare(Some(Compression::Lz4)),
            Framing::Bare(Some(Compression::Snappy)),
            Framing::Segments(Format::Plain),
            Framing::Segments(Format::Lz4),
        ][round % 5];
        let mut deframer = Deframer::new(1000);
        deframer.set_framing(framing);
        let mut forward = |_: View<'_>| Verdict::<()>::Forward;
        let mut at = 0;
        while let Ok(step) = deframer.step(&noise[at..], &mut forward) {
            if step.consumed == 0 {
                break;
            }
            at += step.consumed;
        }
    }
}

/// Wants the first bytes of every RESULT and then forwards it.
fn wants_head(
    bytes: usize,
    seen: &mut Vec<(u32, Vec<u8>)>,
) -> impl FnMut(View<'_>) -> Verdict<()> + '_ {
    move |view| {
        if view.body.len() < bytes && !view.complete {
            return Verdict::Head;
        }
        let head = &view.body[..bytes.min(view.body.len())];
        seen.push((view.header.length, head.to_vec()));
        Verdict::Forward
    }
}

fn compressed(compression: Compression, body: &[u8]) -> Envelope {
    let body = match compression {
        Compression::Lz4 => {
            let length = (body.len() as u32).to_be_bytes();
            [&length[..], &lz4_flex::block::compress(body)].concat()
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(body).expect("fits"),
    };
    let mut envelope = Envelope::new(4, 1, opcode::RESULT, body);
    envelope.header.flags |= flag::COMPRESSED;
    envelope
}

#[test]
fn heads_are_shown_without_holding_the_message() {
    let text = b"a head and then rows, ".repeat(7_000);
    let short = b"short".to_vec();
    let plain = |body: &Vec<u8>| Envelope::new(4, 1, opcode::RESULT, body.clone());
    for (framing, version) in [
        (Framing::Bare(None), 4),
        (Framing::Bare(Some(Compression::Lz4)), 4),
        (Framing::Bare(Some(Compression::Snappy)), 4),
        (Framing::Segments(Format::Plain), 5),
        (Framing::Segments(Format::Lz4), 5),
    ] {
        let mut wire = Vec::new();
        for body in [&text, &short, &text] {
            let mut envelope = match framing {
                Framing::Bare(Some(compression)) => compressed(compression, body),
                _ => plain(body),
            };
            envelope.header.version = version;
            wire.extend(framing.frame(&envelope));
        }
        let is_bare = matches!(framing, Framing::Bare(_));
        for chunk in [if is_bare { 1 } else { 777 }, 1000, wire.len()] {
            let (mut out, mut seen, mut held) = (Vec::new(), Vec::new(), 0);
            let mut deframer = Deframer::new(1 << 20);
            deframer.set_framing(framing);
            let mut buffer = Vec::new();
            for piece in wire.chunks(chunk) {
                buffer.extend_from_slice(piece);
                loop {
                    let mut inspect = wants_head(100, &mut seen);
                    let step = deframer.step(&buffer, &mut inspect).expect("valid");
                    out.extend_from_slice(&buffer[..step.relay]);
                    assert_eq!(step.then, [], "nothing is held or taken");
                    buffer.drain(..step.consumed);
                    held = held.max(buffer.len() * usize::from(chunk == 1));
                    if step.consumed == 0 {
                        break;
                    }
                }
            }
            assert!(out == wire && buffer.is_empty(), "{framing:?} {chunk}");
            let large = (text.len() as u32, text[..100].to_vec());
            assert_eq!(seen, [large.clone(), (5, short.clone()), large]);
            assert!(!is_bare || held < 200, "{framing:?} held {held}");
        }
    }
}

#[test]
fn what_cannot_be_decompressed_passes_as_it_is() {
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        for body in [&b""[..], &[0xff; 3], &[0xff; 300]] {
            let mut envelope = Envelope::new(4, 1, opcode::RESULT, body.to_vec());
            envelope.header.flags |= flag::COMPRESSED;
            let wire = envelope.encode();
            let mut deframer = Deframer::new(1 << 20);
            deframer.set_framing(Framing::Bare(compression));
            let mut seen = Vec::new();
            let step = deframer.step(&wire, &mut wants_head(100, &mut seen));
            assert_eq!(step.expect("it passes").relay, wire.len());
            assert_eq!(seen.len(), 1);
        }
    }
}
