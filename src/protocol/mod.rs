//! The CQL native protocol, v3 to v5, as far as a proxy needs it.
//!
//! Pure: bytes in, values or bytes out. Nothing here knows sockets, sessions or splits. Everything that reads bytes
//! from a peer returns an error on bad input; nothing here may panic on it.

pub mod compression;
pub mod deframer;
pub mod framing;
pub mod header;
pub mod request;
pub mod response;
pub mod segment;
pub mod types;

pub use compression::Compression;
pub use header::{Envelope, Header, Version, opcode};

/// What can be wrong with bytes that claim to be CQL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("body ends in the middle of a {0}")]
    Truncated(&'static str),
    #[error("negative length {0} of a {1}")]
    NegativeLength(i32, &'static str),
    #[error("frame of {length} bytes exceeds the limit of {limit} bytes")]
    TooLarge { length: u64, limit: u64 },
    #[error("protocol version {0} in the middle of a connection")]
    Version(u8),
    #[error("segment header fails its CRC24")]
    SegmentHeaderCrc,
    #[error("segment payload fails its CRC32")]
    SegmentPayloadCrc,
    #[error("self-contained segment ends in the middle of an envelope")]
    SegmentShort,
    #[error("compressed frame on a connection without compression")]
    UnexpectedCompression,
    #[error("cannot decompress a {0} body")]
    Decompress(&'static str),
    #[error("text is not UTF-8")]
    NotUtf8,
    #[error("reply on a stream without a request")]
    UnknownStream,
    #[error("unexpected opcode 0x{0:02x}")]
    UnexpectedOpcode(u8),
    #[error("unknown type option 0x{0:04x}")]
    UnknownType(u16),
}
