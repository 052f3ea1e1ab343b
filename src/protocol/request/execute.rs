//! EXECUTE (native_protocol_v5 §4.1.6).

use super::parameters::Parameters;
use crate::protocol::ProtocolError;
use crate::protocol::header::Version;
use crate::protocol::types::Cursor;

/// The prepared id; leaves the cursor behind it.
pub fn id<'a>(message: &mut Cursor<'a>) -> Result<&'a [u8], ProtocolError> {
    message.short_bytes()
}

/// The parameters; the cursor stands behind the id.
pub fn parameters<'a>(
    version: Version,
    mut after_id: Cursor<'a>,
) -> Result<Parameters<'a>, ProtocolError> {
    if version == Version::V5 {
        after_id.short_bytes()?;
    }
    Parameters::read(version, &mut after_id)
}
