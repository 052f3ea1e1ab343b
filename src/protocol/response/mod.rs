//! Responses: read where Narrows changes them, written where it answers itself.

pub mod error;
pub mod event;
pub mod result;
pub mod supported;

use super::ProtocolError;
use super::header::{Header, flag};
use super::types::Cursor;

/// The message in a response's body, after trace id, warnings and custom payload (native_protocol_v5 §2.2).
pub fn message<'a>(header: Header, body: &'a [u8]) -> Result<Cursor<'a>, ProtocolError> {
    Ok(warnings_and_message(header, body)?.1)
}

/// The warnings, and the message as [`message`] returns it.
pub fn warnings_and_message<'a>(
    header: Header,
    body: &'a [u8],
) -> Result<(Vec<&'a str>, Cursor<'a>), ProtocolError> {
    let mut cursor = Cursor::new(body);
    if header.has(flag::TRACING) {
        cursor.take(16, "trace id")?;
    }
    let mut warnings = Vec::new();
    if header.has(flag::WARNING) {
        warnings = cursor.string_list()?;
    }
    if header.has(flag::CUSTOM_PAYLOAD) {
        cursor.skip_bytes_map()?;
    }
    Ok((warnings, cursor))
}

/// Number of bytes before the message.
pub fn prefix_length(header: Header, body: &[u8]) -> Result<usize, ProtocolError> {
    Ok(body.len() - message(header, body)?.rest().len())
}
