//! The 9-byte envelope header, protocol versions and opcodes (native_protocol_v5 §2.1, §4).

use super::ProtocolError;

pub const HEADER_BYTES: usize = 9;
/// The longest body that the specification allows (native_protocol_v5 §2.1.5); a longer one is not CQL.
pub const BODY_BYTES_MAX: usize = 256 << 20;
/// Set in the version byte of every response.
pub const RESPONSE_BIT: u8 = 0x80;

/// Header flags (native_protocol_v5 §2.2).
pub mod flag {
    pub const COMPRESSED: u8 = 0x01;
    pub const TRACING: u8 = 0x02;
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    pub const WARNING: u8 = 0x08;
}

pub mod opcode {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const AUTHENTICATE: u8 = 0x03;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0A;
    pub const REGISTER: u8 = 0x0B;
    pub const EVENT: u8 = 0x0C;
    pub const BATCH: u8 = 0x0D;
    pub const AUTH_CHALLENGE: u8 = 0x0E;
    pub const AUTH_RESPONSE: u8 = 0x0F;
    pub const AUTH_SUCCESS: u8 = 0x10;
}

/// A protocol version that Narrows speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V3,
    V4,
    V5,
}

impl Version {
    pub const HIGHEST: Self = Self::V5;

    /// Reads a version byte, ignoring the direction bit. `None`: Narrows does not speak it (DSE, v6-beta, v1, noise).
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte & !RESPONSE_BIT {
            3 => Some(Self::V3),
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }

    pub fn byte(self) -> u8 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The raw version byte, direction bit included.
    pub version: u8,
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    /// Length of the body on the wire.
    pub length: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` until nine bytes have arrived.
    pub fn peek(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some(raw) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes([raw[5], raw[6], raw[7], raw[8]]);
        Ok(Some(Self {
            version: raw[0],
            flags: raw[1],
            stream: i16::from_be_bytes([raw[2], raw[3]]),
            opcode: raw[4],
            length: u32::try_from(length)
                .map_err(|_| ProtocolError::NegativeLength(length, "frame"))?,
        }))
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let stream = self.stream.to_be_bytes();
        let length = self.length.to_be_bytes();
        [
            self.version,
            self.flags,
            stream[0],
            stream[1],
            self.opcode,
            length[0],
            length[1],
            length[2],
            length[3],
        ]
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// One whole message: header and uncompressed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    pub header: Header,
    pub body: Vec<u8>,
}

impl Envelope {
    /// A message of our own; the header's length follows from the body.
    pub fn new(version: u8, stream: i16, opcode: u8, body: Vec<u8>) -> Self {
        Self::with_flags(version, 0, stream, opcode, body)
    }

    pub fn with_flags(version: u8, flags: u8, stream: i16, opcode: u8, body: Vec<u8>) -> Self {
        let length = u32::try_from(body.len()).expect("bodies are bounded by the frame limit");
        let header = Header {
            version,
            flags: flags & !flag::COMPRESSED,
            stream,
            opcode,
            length,
        };
        Self { header, body }
    }

    /// Header and body as one unframed message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.body.len());
        out.extend_from_slice(&self.header.encode());
        out.extend_from_slice(&self.body);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let header = Header {
            version: 0x84,
            flags: 0x0A,
            stream: -2,
            opcode: opcode::RESULT,
            length: 77,
        };
        assert_eq!(Header::peek(&header.encode()), Ok(Some(header)));
    }

    #[test]
    fn waits_for_nine_bytes_and_refuses_negative_lengths() {
        assert_eq!(Header::peek(&[4, 0, 0, 0, 7, 0, 0, 0]), Ok(None));
        assert_eq!(
            Header::peek(&[4, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xfe]),
            Err(ProtocolError::NegativeLength(-2, "frame"))
        );
    }

    #[test]
    fn knows_only_three_versions() {
        let known: Vec<u8> = (0..=255)
            .filter(|b| Version::from_byte(*b).is_some())
            .collect();
        assert_eq!(known, [3, 4, 5, 0x83, 0x84, 0x85]);
    }
}
