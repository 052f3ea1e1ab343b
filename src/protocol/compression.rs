//! Decompression of frame bodies (v3, v4) and segment payloads (v5).
//!
//! There is no compressor: an uncompressed frame or segment is always legal, so Narrows sends its own messages plain.
//! Messages that it relays keep the bytes they came with.

mod head;

use super::ProtocolError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Lz4,
    Snappy,
}

impl Compression {
    /// The names of the STARTUP option COMPRESSION, as Cassandra spells them.
    pub const NAMES: [&str; 2] = ["snappy", "lz4"];

    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("lz4") {
            Some(Self::Lz4)
        } else if name.eq_ignore_ascii_case("snappy") {
            Some(Self::Snappy)
        } else {
            None
        }
    }

    /// Decompresses the body of a v3 or v4 frame; `limit` bounds the allocation.
    pub fn decompress_body(self, body: &[u8], limit: usize) -> Result<Vec<u8>, ProtocolError> {
        match self {
            // A big-endian length, then a block; lz4_flex's own helpers expect a little-endian length.
            Self::Lz4 => {
                let (length, block) = body
                    .split_first_chunk::<4>()
                    .ok_or(ProtocolError::Truncated("lz4 body"))?;
                let length = i32::from_be_bytes(*length);
                let length = usize::try_from(length)
                    .map_err(|_| ProtocolError::NegativeLength(length, "lz4 body"))?;
                lz4_block(block, length, limit)
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(body)
                    .map_err(|_| ProtocolError::Decompress("snappy"))?;
                within(length, limit)?;
                snap::raw::Decoder::new()
                    .decompress_vec(body)
                    .map_err(|_| ProtocolError::Decompress("snappy"))
            }
        }
    }
}

/// Decompresses one LZ4 block to exactly `length` bytes.
pub fn lz4_block(block: &[u8], length: usize, limit: usize) -> Result<Vec<u8>, ProtocolError> {
    within(length, limit)?;
    let mut out = vec![0; length];
    match lz4_flex::block::decompress_into(block, &mut out) {
        Ok(written) if written == length => Ok(out),
        _ => Err(ProtocolError::Decompress("lz4")),
    }
}

fn within(length: usize, limit: usize) -> Result<(), ProtocolError> {
    if length > limit {
        return Err(ProtocolError::TooLarge {
            length: length as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lz4_bodies_carry_a_big_endian_length() {
        let text = b"narrows narrows narrows narrows narrows narrows".repeat(30);
        let mut body = (text.len() as u32).to_be_bytes().to_vec();
        body.extend(lz4_flex::block::compress(&text));
        assert_eq!(Compression::Lz4.decompress_body(&body, 1 << 20), Ok(text));
    }

    #[test]
    fn a_length_beyond_the_limit_allocates_nothing() {
        let body = [0x7f, 0xff, 0xff, 0xff, 0];
        assert!(matches!(
            Compression::Lz4.decompress_body(&body, 1 << 20),
            Err(ProtocolError::TooLarge { .. })
        ));
        let snappy = [0xff, 0xff, 0xff, 0xff, 0x07];
        assert!(matches!(
            Compression::Snappy.decompress_body(&snappy, 1 << 20),
            Err(ProtocolError::TooLarge { .. })
        ));
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(
            Compression::Lz4
                .decompress_body(&[0, 0, 0, 9, 0xff, 0xff], 1 << 20)
                .is_err()
        );
        assert!(Compression::Lz4.decompress_body(&[0], 1 << 20).is_err());
        assert!(
            Compression::Snappy
                .decompress_body(&[200, 1, 2, 3], 1 << 20)
                .is_err()
        );
    }
}
