//! The segments of protocol v5 (native_protocol_v5 §2.2): header with CRC24, payload with CRC32, lz4 or plain.

use super::{ProtocolError, compression::lz4_block};

/// The most bytes one segment may carry.
pub const PAYLOAD_MAX: usize = (1 << 17) - 1;
/// The most bytes that a segment has besides its payload.
pub(super) const OVERHEAD_MAX: usize = 5 + CRC24_BYTES + CRC32_BYTES;
const CRC24_BYTES: usize = 3;
const CRC32_BYTES: usize = 4;
const CRC24_INIT: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
/// Hashed before the payload. Only the server's source says so; the specification does not.
const CRC32_PREFIX: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

/// Which of the two segment formats a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Plain,
    Lz4,
}

/// One whole segment, borrowed from the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    payload: &'a [u8],
    /// 0 if the payload is not compressed, in the lz4 format, too: §2.2 and the server agree on that, §2.3.2 is wrong.
    uncompressed_length: usize,
    crc32: [u8; CRC32_BYTES],
    /// The segment holds only whole envelopes.
    pub self_contained: bool,
    /// Bytes of the segment on the wire.
    pub wire_length: usize,
}

impl Format {
    fn header_bytes(self) -> usize {
        match self {
            Self::Plain => 3,
            Self::Lz4 => 5,
        }
    }

    /// Reads the segment at the start of `bytes`; `None` until all of it has arrived.
    pub fn peek(self, bytes: &[u8]) -> Result<Option<Segment<'_>>, ProtocolError> {
        let header_bytes = self.header_bytes();
        let Some((head, after)) = bytes.split_at_checked(header_bytes + CRC24_BYTES) else {
            return Ok(None);
        };
        let (head, crc) = head.split_at(header_bytes);
        if little_endian(crc) != u64::from(crc24(head)) {
            return Err(ProtocolError::SegmentHeaderCrc);
        }
        let bits = little_endian(head);
        let low17 = |bits: u64| (bits & PAYLOAD_MAX as u64) as usize;
        let length = low17(bits);
        let (uncompressed_length, self_contained) = match self {
            Self::Plain => (0, bits >> 17 & 1 == 1),
            Self::Lz4 => (low17(bits >> 17), bits >> 34 & 1 == 1),
        };
        let Some((payload, after)) = after.split_at_checked(length) else {
            return Ok(None);
        };
        let Some(crc32) = after.first_chunk::<CRC32_BYTES>() else {
            return Ok(None);
        };
        let wire_length = header_bytes + CRC24_BYTES + length + CRC32_BYTES;
        Ok(Some(Segment {
            payload,
            uncompressed_length,
            crc32: *crc32,
            self_contained,
            wire_length,
        }))
    }

    /// Writes what stands before an uncompressed payload of this length.
    pub(super) fn put_head(self, length: usize, self_contained: bool, out: &mut Vec<u8>) {
        let (length, contained) = (length as u64, u64::from(self_contained));
        let bits = match self {
            Self::Plain => length | contained << 17,
            Self::Lz4 => length | contained << 34,
        };
        let head = &bits.to_le_bytes()[..self.header_bytes()];
        out.extend_from_slice(head);
        out.extend_from_slice(&crc24(head).to_le_bytes()[..CRC24_BYTES]);
    }
}

impl Segment<'_> {
    /// Number of bytes of envelopes in the segment.
    pub fn content_length(&self) -> usize {
        match self.uncompressed_length {
            0 => self.payload.len(),
            length => length,
        }
    }

    /// The envelopes' bytes. Checks the CRC32, because the caller acts on them.
    pub fn content(&self) -> Result<std::borrow::Cow<'_, [u8]>, ProtocolError> {
        if crc32(self.payload).to_le_bytes() != self.crc32 {
            return Err(ProtocolError::SegmentPayloadCrc);
        }
        match self.uncompressed_length {
            0 => Ok(self.payload.into()),
            length => Ok(lz4_block(self.payload, length, PAYLOAD_MAX)?.into()),
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn crc24(bytes: &[u8]) -> u32 {
    let step = |crc: u32| {
        if crc & 0x0080_0000 != 0 {
            crc << 1 ^ CRC24_POLYNOMIAL
        } else {
            crc << 1
        }
    };
    bytes.iter().fold(CRC24_INIT, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 16, |crc, _| step(crc))
    })
}

/// Writes what stands behind a payload, which begins at `payload` and is the end of `out`.
pub(super) fn put_crc32(payload: usize, out: &mut Vec<u8>) {
    let crc32 = crc32(&out[payload..]);
    out.extend_from_slice(&crc32.to_le_bytes());
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::framing::Framing;
    use crate::protocol::{Envelope, opcode};

    fn envelope(length: usize) -> Envelope {
        Envelope::new(5, 1, opcode::QUERY, (0..length).map(|i| i as u8).collect())
    }

    #[test]
    fn frames_and_reads_back_in_both_formats() {
        for format in [Format::Plain, Format::Lz4] {
            for length in [
                0,
                1,
                1000,
                PAYLOAD_MAX - 9,
                PAYLOAD_MAX - 8,
                3 * PAYLOAD_MAX,
            ] {
                let wire = Framing::Segments(format).frame(&envelope(length));
                let (mut at, mut message) = (0, Vec::new());
                while at < wire.len() {
                    let segment = format.peek(&wire[at..]).expect("valid").expect("whole");
                    assert_eq!(segment.self_contained, length + 9 <= PAYLOAD_MAX);
                    message.extend_from_slice(&segment.content().expect("intact"));
                    at += segment.wire_length;
                }
                assert_eq!(message, envelope(length).encode());
            }
        }
    }

    #[test]
    fn reads_compressed_payloads() {
        let text = b"a quiet river ".repeat(100);
        let block = lz4_flex::block::compress(&text);
        let bits = block.len() as u64 | (text.len() as u64) << 17 | 1 << 34;
        let mut wire = bits.to_le_bytes()[..5].to_vec();
        let crc = crc24(&wire);
        wire.extend(&crc.to_le_bytes()[..3]);
        wire.extend(&block);
        wire.extend(crc32(&block).to_le_bytes());
        let segment = Format::Lz4.peek(&wire).expect("valid").expect("whole");
        assert_eq!(segment.content_length(), text.len());
        assert_eq!(segment.content().expect("intact"), text);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let wire = Framing::Segments(Format::Plain).frame(&envelope(40));
        for bit in 0..wire.len() * 8 {
            let mut damaged = wire.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let noticed = match Format::Plain.peek(&damaged) {
                Err(_) => true,
                Ok(None) => false,
                Ok(Some(segment)) => segment.content().is_err(),
            };
            assert!(noticed, "bit {bit}");
        }
    }

    #[test]
    fn waits_for_the_whole_segment() {
        let wire = Framing::Segments(Format::Lz4).frame(&envelope(40));
        for end in 0..wire.len() {
            assert_eq!(Format::Lz4.peek(&wire[..end]), Ok(None), "{end}");
        }
    }
}
