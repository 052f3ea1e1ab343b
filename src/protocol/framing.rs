//! How messages of our own are framed: piece by piece, so that no second copy of a large one is made.

use super::compression::Compression;
use super::header::{Envelope, HEADER_BYTES, Header};
use super::segment::{Format, OVERHEAD_MAX, PAYLOAD_MAX, put_crc32};

/// Parts of a bare message up to this size are joined into one piece, and so into one write.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// The current framing of a connection's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Bare envelopes: v3, v4, and the handshake of v5.
    Bare(Option<Compression>),
    /// v5 after READY or AUTHENTICATE.
    Segments(Format),
}

impl Framing {
    /// Frames a whole envelope in memory; never compressed, which every peer accepts. [`Framed`] copies less.
    pub fn frame(self, envelope: &Envelope) -> Vec<u8> {
        let mut framed = Framed::new(self, envelope.header, &[&envelope.body]);
        let mut out = Vec::with_capacity(HEADER_BYTES + envelope.body.len() + OVERHEAD_MAX);
        while let Some(piece) = framed.next_piece() {
            out.extend_from_slice(piece);
        }
        out
    }
}

/// A message on its way out. In v5 at most one segment of it is copied at a time; bare, only its small parts are.
pub struct Framed<'a> {
    framing: Framing,
    /// The rest of the body, in the order in which it is sent. The first part is the next one.
    parts: Vec<&'a [u8]>,
    /// Header and body, as far as they are not in a segment yet.
    left: usize,
    self_contained: bool,
    /// The header, until it is sent.
    header: Option<[u8; HEADER_BYTES]>,
    /// The piece that was returned last.
    piece: Vec<u8>,
}

impl<'a> Framed<'a> {
    /// A message with this header, whose body is in several parts.
    pub fn new(framing: Framing, header: Header, parts: &[&'a [u8]]) -> Self {
        let left = HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
        let longest = match framing {
            Framing::Bare(_) => JOINED_BYTES_MAX,
            Framing::Segments(_) => PAYLOAD_MAX,
        };
        Self {
            framing,
            parts: parts.iter().rev().copied().collect(),
            left,
            self_contained: left <= PAYLOAD_MAX,
            header: Some(header.encode()),
            piece: Vec::with_capacity(left.min(longest) + OVERHEAD_MAX),
        }
    }

    /// The next bytes to write; `None` after the last ones.
    pub fn next_piece(&mut self) -> Option<&[u8]> {
        if self.left == 0 {
            return None;
        }
        self.piece.clear();
        match self.framing {
            Framing::Bare(_) => Some(self.bare_piece()),
            Framing::Segments(format) => Some(self.segment(format)),
        }
    }

    fn bare_piece(&mut self) -> &[u8] {
        self.piece.extend(self.header.take().iter().flatten());
        while let Some(part) = self.parts.pop() {
            if self.piece.len() + part.len() <= JOINED_BYTES_MAX {
                self.piece.extend_from_slice(part);
            } else if self.piece.is_empty() {
                self.left -= part.len();
                return part;
            } else {
                self.parts.push(part);
                break;
            }
        }
        self.left -= self.piece.len();
        &self.piece
    }

    fn segment(&mut self, format: Format) -> &[u8] {
        let length = self.left.min(PAYLOAD_MAX);
        format.put_head(length, self.self_contained, &mut self.piece);
        let payload = self.piece.len();
        self.piece.extend(self.header.take().iter().flatten());
        let end = payload + length;
        while self.piece.len() < end
            && let Some(part) = self.parts.pop()
        {
            let (now, later) = part.split_at(part.len().min(end - self.piece.len()));
            self.piece.extend_from_slice(now);
            if !later.is_empty() {
                self.parts.push(later);
            }
        }
        put_crc32(payload, &mut self.piece);
        self.left -= length;
        &self.piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::opcode;

    fn header(body: &[&[u8]]) -> Header {
        Envelope::new(0x85, 7, opcode::RESULT, body.concat()).header
    }

    /// However a body is cut, the bytes on the wire are those of the whole.
    #[test]
    fn parts_make_the_message_that_the_whole_makes() {
        let body: Vec<u8> = (0..700_000_u32).map(|i| (i ^ i >> 8) as u8).collect();
        for framing in [
            Framing::Bare(None),
            Framing::Segments(Format::Plain),
            Framing::Segments(Format::Lz4),
        ] {
            for length in [0, 1, PAYLOAD_MAX - 9, PAYLOAD_MAX - 8, 700_000] {
                let body = &body[..length];
                let envelope = Envelope::new(0x85, 7, opcode::RESULT, body.to_vec());
                let whole = framing.frame(&envelope);
                for cuts in [vec![], vec![0, 5], vec![100_000], vec![9, 300_000, 300_001]] {
                    let mut parts = Vec::new();
                    let mut rest = body;
                    for cut in cuts {
                        let (part, after) = rest.split_at(cut.min(rest.len()));
                        parts.push(part);
                        rest = after;
                    }
                    parts.push(rest);
                    let mut framed = Framed::new(framing, header(&parts), &parts);
                    let mut sent = Vec::new();
                    while let Some(piece) = framed.next_piece() {
                        assert!(!piece.is_empty());
                        sent.extend_from_slice(piece);
                    }
                    assert!(sent == whole, "{framing:?} {length}");
                }
            }
        }
    }

    #[test]
    fn a_small_message_is_one_piece_and_a_large_one_is_not_copied_whole() {
        let large = vec![7; 5 << 20];
        for (framing, copied_max) in [
            (Framing::Bare(None), JOINED_BYTES_MAX),
            (Framing::Segments(Format::Plain), PAYLOAD_MAX),
        ] {
            let small: [&[u8]; 3] = [b"head", b"rows", b""];
            let mut framed = Framed::new(framing, header(&small), &small);
            assert!(framed.next_piece().is_some() && framed.next_piece().is_none());
            let parts: [&[u8]; 2] = [b"head", &large];
            let mut framed = Framed::new(framing, header(&parts), &parts);
            while framed.next_piece().is_some() {
                assert!(framed.piece.capacity() <= copied_max + OVERHEAD_MAX);
            }
        }
    }
}
