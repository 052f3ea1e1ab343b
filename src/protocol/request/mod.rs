//! Requests, read only as far as a proxy needs them: one file per opcode.

pub mod batch;
pub mod execute;
pub mod parameters;
pub mod query;
pub mod startup;

use super::header::{Header, Version, flag};
use super::types::Cursor;
use super::{ProtocolError, opcode};

/// The message inside a request's body, behind its custom payload (native_protocol_v4 §2.2).
pub fn message<'a>(header: Header, body: &'a [u8]) -> Result<Cursor<'a>, ProtocolError> {
    let mut cursor = Cursor::new(body);
    let has_payload = Version::from_byte(header.version) >= Some(Version::V4);
    if has_payload && header.has(flag::CUSTOM_PAYLOAD) {
        cursor.skip_bytes_map()?;
    }
    Ok(cursor)
}

/// Whether requests of this opcode can carry statements.
pub fn carries_statement(code: u8) -> bool {
    matches!(
        code,
        opcode::QUERY | opcode::PREPARE | opcode::EXECUTE | opcode::BATCH
    )
}
