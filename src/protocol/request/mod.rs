//! Requests, read only as far as a proxy needs them: one file per opcode.

pub mod batch;
pub mod execute;
pub mod parameters;
pub mod query;
pub mod startup;

use super::ProtocolError;
use super::header::{Header, Version, flag};
use super::types::Cursor;

/// The message in a request's body, after the custom payload (native_protocol_v4 §2.2).
pub fn message<'a>(header: Header, body: &'a [u8]) -> Result<Cursor<'a>, ProtocolError> {
    let mut cursor = Cursor::new(body);
    let has_payload = Version::from_byte(header.version) >= Some(Version::V4);
    if has_payload && header.has(flag::CUSTOM_PAYLOAD) {
        cursor.skip_bytes_map()?;
    }
    Ok(cursor)
}
