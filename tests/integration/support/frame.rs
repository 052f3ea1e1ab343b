//! Envelopes as this test client reads and writes them; written apart from the proxy's own code.

pub(crate) mod opcode {
    pub(crate) const ERROR: u8 = 0x00;
    pub(crate) const STARTUP: u8 = 0x01;
    pub(crate) const READY: u8 = 0x02;
    pub(crate) const OPTIONS: u8 = 0x05;
    pub(crate) const SUPPORTED: u8 = 0x06;
    pub(crate) const QUERY: u8 = 0x07;
    pub(crate) const RESULT: u8 = 0x08;
    pub(crate) const PREPARE: u8 = 0x09;
    pub(crate) const EXECUTE: u8 = 0x0A;
    pub(crate) const REGISTER: u8 = 0x0B;
    pub(crate) const EVENT: u8 = 0x0C;
    pub(crate) const BATCH: u8 = 0x0D;
    pub(crate) const AUTH_RESPONSE: u8 = 0x0F;
}

pub(crate) mod flag {
    pub(crate) const COMPRESSED: u8 = 0x01;
    pub(crate) const TRACING: u8 = 0x02;
    pub(crate) const CUSTOM_PAYLOAD: u8 = 0x04;
    pub(crate) const WARNING: u8 = 0x08;
    pub(crate) const BETA: u8 = 0x10;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Lz4,
    Snappy,
}

/// A protocol version with a compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Codec {
    pub(crate) version: u8,
    pub(crate) compression: Compression,
}

impl Codec {
    pub(crate) const V3: Self = Self::new(3, Compression::None);
    pub(crate) const V4: Self = Self::new(4, Compression::None);
    pub(crate) const V4_LZ4: Self = Self::new(4, Compression::Lz4);
    pub(crate) const V5: Self = Self::new(5, Compression::None);
    pub(crate) const V5_LZ4: Self = Self::new(5, Compression::Lz4);
    /// Every combination that there is.
    pub(crate) const ALL: [Self; 8] = [
        Self::V3,
        Self::new(3, Compression::Lz4),
        Self::new(3, Compression::Snappy),
        Self::V4,
        Self::V4_LZ4,
        Self::new(4, Compression::Snappy),
        Self::V5,
        Self::V5_LZ4,
    ];

    pub(crate) const fn new(version: u8, compression: Compression) -> Self {
        Self {
            version,
            compression,
        }
    }

    /// The name for STARTUP.
    pub(crate) fn compression_name(self) -> Option<&'static str> {
        match self.compression {
            Compression::None => None,
            Compression::Lz4 => Some("lz4"),
            Compression::Snappy => Some("snappy"),
        }
    }

    fn compress(self, body: &[u8]) -> Vec<u8> {
        match self.compression {
            Compression::None => body.to_vec(),
            Compression::Lz4 => {
                let length = u32::try_from(body.len()).expect("small").to_be_bytes();
                [&length[..], &lz4_flex::block::compress(body)].concat()
            }
            Compression::Snappy => snap::raw::Encoder::new()
                .compress_vec(body)
                .expect("snappy compresses everything"),
        }
    }

    fn decompress(self, body: &[u8]) -> Vec<u8> {
        match self.compression {
            Compression::None => panic!("compressed without being asked to"),
            Compression::Lz4 => {
                let (length, block) = body.split_first_chunk().expect("a length");
                let length = u32::from_be_bytes(*length) as usize;
                lz4_flex::block::decompress(block, length).expect("an lz4 block")
            }
            Compression::Snappy => snap::raw::Decoder::new()
                .decompress_vec(body)
                .expect("a snappy block"),
        }
    }
}

/// A response, its body uncompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) version: u8,
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Takes one whole envelope from the front of `bytes`.
    pub(crate) fn decode(bytes: &mut Vec<u8>, codec: Codec) -> Option<Self> {
        let header = *bytes.first_chunk::<9>()?;
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
        if bytes.len() < 9 + length {
            return None;
        }
        let body = &bytes[9..9 + length];
        let body = if header[1] & flag::COMPRESSED != 0 {
            codec.decompress(body)
        } else {
            body.to_vec()
        };
        bytes.drain(..9 + length);
        Some(Self {
            version: header[0],
            flags: header[1],
            stream: i16::from_be_bytes([header[2], header[3]]),
            opcode: header[4],
            body,
        })
    }

    /// The frame without compression, to compare what was said rather than how it was packed.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let flags = self.flags & !flag::COMPRESSED;
        raw(self.version, flags, self.stream, self.opcode, &self.body)
    }
}

/// Header and body as given; the length is the body's.
pub(crate) fn raw(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = header(version, flags, stream, opcode, body.len() as u32);
    out.extend_from_slice(body);
    out
}

pub(crate) fn header(version: u8, flags: u8, stream: i16, opcode: u8, length: u32) -> Vec<u8> {
    let mut out = vec![version, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.push(opcode);
    out.extend_from_slice(&length.to_be_bytes());
    out
}

/// A request as a driver would send it: compressed when the connection is (v3, v4).
pub(crate) fn request(codec: Codec, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let compress = codec.version < 5 && codec.compression != Compression::None && !body.is_empty();
    if compress && !matches!(opcode, opcode::STARTUP | opcode::OPTIONS) {
        let body = codec.compress(body);
        return raw(
            codec.version,
            flags | flag::COMPRESSED,
            stream,
            opcode,
            &body,
        );
    }
    raw(codec.version, flags, stream, opcode, body)
}
