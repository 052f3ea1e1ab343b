//! Responses: read where Narrows changes them, written where it answers itself.

pub mod error;
pub mod event;
pub mod result;
pub mod supported;

use super::ProtocolError;
use super::header::{Header, flag};
use super::types::Cursor;

/// The message inside a response's body, behind trace id, warnings and custom payload (native_protocol_v5 §2.2).
pub fn message<'a>(header: Header, body: &'a [u8]) -> Result<Cursor<'a>, ProtocolError> {
    let mut cursor = Cursor::new(body);
    if header.has(flag::TRACING) {
        cursor.take(16, "trace id")?;
    }
    if header.has(flag::WARNING) {
        cursor.string_list()?;
    }
    if header.has(flag::CUSTOM_PAYLOAD) {
        cursor.skip_bytes_map()?;
    }
    Ok(cursor)
}

/// How many bytes stand before the message.
pub fn prefix_length(header: Header, body: &[u8]) -> Result<usize, ProtocolError> {
    Ok(body.len() - message(header, body)?.rest().len())
}
