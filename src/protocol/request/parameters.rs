//! The `<query_parameters>` of QUERY and EXECUTE (native_protocol_v5 §4.1.4).

use crate::protocol::ProtocolError;
use crate::protocol::header::Version;
use crate::protocol::types::{Cursor, Value};

pub const CONSISTENCY_ONE: u16 = 0x0001;

mod flag {
    pub(super) const VALUES: u32 = 0x01;
    pub(super) const PAGE_SIZE: u32 = 0x04;
    pub(super) const PAGING_STATE: u32 = 0x08;
    pub(super) const SERIAL_CONSISTENCY: u32 = 0x10;
    pub(super) const TIMESTAMP: u32 = 0x20;
    pub(super) const NAMES: u32 = 0x40;
    pub(super) const KEYSPACE: u32 = 0x80;
}

/// What the proxy reads of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    /// Bound values in the order given, with their names if they have any.
    pub values: Vec<(Option<&'a str>, Value<'a>)>,
    /// The keyspace of unqualified names.
    pub keyspace: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    pub fn read(version: Version, cursor: &mut Cursor<'a>) -> Result<Self, ProtocolError> {
        cursor.short()?;
        let flags = match version {
            Version::V3 | Version::V4 => u32::from(cursor.byte()?),
            Version::V5 => cursor.int()?.cast_unsigned(),
        };
        let has = |bit: u32| flags & bit != 0;
        let mut parameters = Self::default();
        if has(flag::VALUES) {
            for _ in 0..cursor.short()? {
                let name = if has(flag::NAMES) {
                    Some(cursor.string()?)
                } else {
                    None
                };
                parameters.values.push((name, cursor.value()?));
            }
        }
        if has(flag::PAGE_SIZE) {
            cursor.int()?;
        }
        if has(flag::PAGING_STATE) {
            cursor.bytes()?;
        }
        if has(flag::SERIAL_CONSISTENCY) {
            cursor.short()?;
        }
        if has(flag::TIMESTAMP) {
            cursor.long()?;
        }
        // Only v5 specifies it, but Cassandra reads it in every version.
        if has(flag::KEYSPACE) {
            parameters.keyspace = Some(cursor.string()?);
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::types::Write;

    #[test]
    fn reads_names_values_and_keyspace_past_everything_else() {
        let mut body = Vec::new();
        body.put_short(CONSISTENCY_ONE);
        body.put_int(0x01 | 0x04 | 0x08 | 0x10 | 0x20 | 0x40 | 0x80);
        body.put_short(1);
        body.put_string("k");
        body.put_bytes(Some(b"v"));
        body.put_int(100);
        body.put_bytes(Some(b"state"));
        body.put_short(8);
        body.extend_from_slice(&7_i64.to_be_bytes());
        body.put_string("system");
        let parameters = Parameters::read(Version::V5, &mut Cursor::new(&body)).expect("valid");
        assert_eq!(parameters.values, [(Some("k"), Value::Bytes(b"v"))]);
        assert_eq!(parameters.keyspace, Some("system"));
    }
}
