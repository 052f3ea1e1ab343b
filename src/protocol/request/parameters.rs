//! The `<query_parameters>` of QUERY and EXECUTE (native_protocol_v5 §4.1.4).

use crate::protocol::ProtocolError;
use crate::protocol::header::Version;
use crate::protocol::types::{Cursor, Value, Write};

pub const CONSISTENCY_ONE: u16 = 0x0001;

/// SERIAL and LOCAL_SERIAL.
const CONSISTENCIES_SERIAL: [u16; 2] = [0x0008, 0x0009];

pub(super) mod flag {
    pub(in crate::protocol::request) const VALUES: u32 = 0x01;
    pub(in crate::protocol::request) const SKIP_METADATA: u32 = 0x02;
    pub(in crate::protocol::request) const PAGE_SIZE: u32 = 0x04;
    pub(in crate::protocol::request) const PAGING_STATE: u32 = 0x08;
    pub(in crate::protocol::request) const SERIAL_CONSISTENCY: u32 = 0x10;
    pub(in crate::protocol::request) const TIMESTAMP: u32 = 0x20;
    pub(in crate::protocol::request) const NAMES: u32 = 0x40;
    pub(in crate::protocol::request) const KEYSPACE: u32 = 0x80;
    pub(in crate::protocol::request) const NOW_IN_SECONDS: u32 = 0x100;
}

/// The parameters that the proxy reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    pub consistency: u16,
    /// Bound values in the order given, with their names if they have any.
    pub values: Vec<(Option<&'a str>, Value<'a>)>,
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<u16>,
    pub timestamp: Option<i64>,
    /// The keyspace of unqualified names.
    pub keyspace: Option<&'a str>,
    pub now_in_seconds: Option<i32>,
    flags: u32,
    places: Places,
}

/// Number of bytes that follow each of these parts in the message, whether the part is present or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places {
    flags: usize,
    values: usize,
    paging_state: usize,
}

impl<'a> Parameters<'a> {
    pub fn read(version: Version, cursor: &mut Cursor<'a>) -> Result<Self, ProtocolError> {
        let consistency = cursor.short()?;
        let flags = read_flags(version, cursor)?;
        let has = |bit: u32| flags & bit != 0;
        let mut parameters = Self {
            consistency,
            flags,
            skip_metadata: has(flag::SKIP_METADATA),
            ..Self::default()
        };
        parameters.places.flags = cursor.rest().len();
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
        parameters.places.values = cursor.rest().len();
        if has(flag::PAGE_SIZE) {
            parameters.page_size = Some(cursor.int()?);
        }
        if has(flag::PAGING_STATE) {
            parameters.paging_state = cursor.bytes()?;
        }
        parameters.places.paging_state = cursor.rest().len();
        if has(flag::SERIAL_CONSISTENCY) {
            parameters.serial_consistency = Some(cursor.short()?);
        }
        if has(flag::TIMESTAMP) {
            parameters.timestamp = Some(cursor.long()?);
        }
        // Only v5 specifies it, but Cassandra reads it in every version.
        if has(flag::KEYSPACE) {
            parameters.keyspace = Some(cursor.string()?);
        }
        if has(flag::NOW_IN_SECONDS) {
            parameters.now_in_seconds = Some(cursor.int()?);
        }
        Ok(parameters)
    }

    /// Copies the body from which these were read, with another page size and paging state. `None` if they were read
    /// from another body.
    pub fn with_page(
        &self,
        version: Version,
        body: &[u8],
        page_size: Option<i32>,
        paging_state: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let part = |from: usize, to: usize| {
            let (from, to) = (body.len().checked_sub(from)?, body.len().checked_sub(to)?);
            body.get(from..to)
        };
        let Places {
            flags,
            values,
            paging_state: rest,
        } = self.places;
        let width = if version == Version::V5 { 4 } else { 1 };
        let mut out = part(body.len(), flags.checked_add(width)?)?.to_vec();
        let mut bits = self.flags & !(flag::PAGE_SIZE | flag::PAGING_STATE);
        bits |= page_size.map_or(0, |_| flag::PAGE_SIZE);
        bits |= paging_state.map_or(0, |_| flag::PAGING_STATE);
        match version {
            Version::V3 | Version::V4 => out.put_byte((bits & 0xFF) as u8),
            Version::V5 => out.put_int(bits.cast_signed()),
        }
        out.extend_from_slice(part(flags, values)?);
        if let Some(size) = page_size {
            out.put_int(size);
        }
        if paging_state.is_some() {
            out.put_bytes(paging_state);
        }
        out.extend_from_slice(part(rest, 0)?);
        Some(out)
    }

    /// Needs no more of the parameters than their flags.
    pub(super) fn has_paging_state(
        version: Version,
        mut cursor: Cursor<'_>,
    ) -> Result<bool, ProtocolError> {
        cursor.short()?;
        Ok(read_flags(version, &mut cursor)? & flag::PAGING_STATE != 0)
    }

    pub fn is_serial(&self) -> bool {
        CONSISTENCIES_SERIAL.contains(&self.consistency)
    }
}

fn read_flags(version: Version, cursor: &mut Cursor<'_>) -> Result<u32, ProtocolError> {
    match version {
        Version::V3 | Version::V4 => cursor.byte().map(u32::from),
        Version::V5 => cursor.int().map(i32::cast_unsigned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(parameters.page_size, Some(100));
        assert_eq!(parameters.paging_state, Some(&b"state"[..]));
        assert_eq!(parameters.serial_consistency, Some(8));
        assert_eq!(parameters.timestamp, Some(7));
        assert!(!parameters.is_serial() && !parameters.skip_metadata);
    }

    #[test]
    fn another_page_changes_nothing_else() {
        for (version, wide) in [(Version::V4, false), (Version::V5, true)] {
            for flags in [0x01 | 0x20, 0x01 | 0x04 | 0x20, 0x01 | 0x04 | 0x08 | 0x20] {
                let mut body = b"text".to_vec();
                body.put_short(CONSISTENCY_ONE);
                match wide {
                    true => body.put_int(flags),
                    false => body.put_byte(flags as u8),
                }
                body.put_short(1);
                body.put_bytes(Some(b"v"));
                if flags & 0x04 != 0 {
                    body.put_int(100);
                }
                if flags & 0x08 != 0 {
                    body.put_bytes(Some(b"state"));
                }
                body.extend_from_slice(&7_i64.to_be_bytes());
                let read = |body: &[u8]| {
                    let size_and_state = |parameters: &Parameters<'_>| {
                        let state = parameters.paging_state.map(<[u8]>::to_vec);
                        (parameters.page_size, state, parameters.timestamp)
                    };
                    let mut cursor = Cursor::new(&body[4..]);
                    let parameters = Parameters::read(version, &mut cursor).expect("valid");
                    assert_eq!(parameters.values, [(None, Value::Bytes(b"v"))]);
                    size_and_state(&parameters)
                };
                let parameters = Parameters::read(version, &mut Cursor::new(&body[4..]));
                let parameters = parameters.expect("valid");
                let same = parameters.with_page(
                    version,
                    &body,
                    parameters.page_size,
                    parameters.paging_state,
                );
                assert_eq!(same.as_ref(), Some(&body));
                let other = parameters.with_page(version, &body, Some(5), Some(b"other"));
                let other = read(&other.expect("the same body"));
                assert_eq!(other, (Some(5), Some(b"other".to_vec()), Some(7)));
                assert_eq!(parameters.with_page(version, b"x", None, None), None);
            }
        }
    }
}
