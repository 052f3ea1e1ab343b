//! EXECUTE (native_protocol_v5 §4.1.6): reads those of clients, and writes our own in v5.

use super::parameters::{Parameters, flag};
use crate::protocol::ProtocolError;
use crate::protocol::header::{self, BODY_BYTES_MAX, Version};
use crate::protocol::types::{Cursor, Value, Write};

/// The prepared id; leaves the cursor after it.
pub fn id<'a>(message: &mut Cursor<'a>) -> Result<&'a [u8], ProtocolError> {
    message.short_bytes()
}

/// The id of the result metadata that the client knows (v5 only). The cursor must be after the statement's id.
pub fn result_metadata_id<'a>(
    version: Version,
    mut after_id: Cursor<'a>,
) -> Result<Option<&'a [u8]>, ProtocolError> {
    match version {
        Version::V3 | Version::V4 => Ok(None),
        Version::V5 => after_id.short_bytes().map(Some),
    }
}

/// The query parameters. The cursor must be after the statement's id.
pub fn parameters<'a>(
    version: Version,
    mut after_id: Cursor<'a>,
) -> Result<Parameters<'a>, ProtocolError> {
    if version == Version::V5 {
        after_id.short_bytes()?;
    }
    Parameters::read(version, &mut after_id)
}

/// Whether the parameters have a paging state. Needs no more of them than their beginning. The cursor must be after the
/// statement's id.
pub fn has_paging_state(version: Version, mut after_id: Cursor<'_>) -> Result<bool, ProtocolError> {
    if version == Version::V5 {
        after_id.short_bytes()?;
    }
    Parameters::has_paging_state(version, after_id)
}

/// An EXECUTE of our own in v5, without the statement's ids.
#[derive(Debug, Clone, Default)]
pub struct SubRead<'a> {
    /// In the order of the statement's markers.
    pub values: Vec<Value<'a>>,
    pub consistency: u16,
    pub serial_consistency: Option<u16>,
    /// 0 or less: all rows in one page.
    pub page_size: i32,
    pub paging_state: Option<&'a [u8]>,
    pub timestamp: Option<i64>,
    pub keyspace: Option<&'a str>,
    pub now_in_seconds: Option<i32>,
    /// A `[bytes map]` as the client wrote it.
    pub custom_payload: Option<&'a [u8]>,
}

impl SubRead<'_> {
    /// The flags of the envelope's header.
    pub fn header_flags(&self) -> u8 {
        self.custom_payload
            .map_or(0, |_| header::flag::CUSTOM_PAYLOAD)
    }

    /// The envelope's body. The reply comes without metadata, unless that has changed since the statement was prepared.
    pub fn encode(&self, id: &[u8], result_metadata_id: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let count = self.check(id, result_metadata_id)?;
        let mut body = Vec::with_capacity(128);
        body.extend_from_slice(self.custom_payload.unwrap_or_default());
        body.put_short_bytes(id);
        body.put_short_bytes(result_metadata_id);
        self.put_parameters(Version::V5, count, &mut body);
        Ok(body)
    }

    /// The same as a QUERY in any version, without a custom payload.
    pub fn encode_query(&self, version: Version, text: &str) -> Result<Vec<u8>, ProtocolError> {
        let count = self.check(&[], &[])?;
        let mut body = Vec::with_capacity(text.len() + 128);
        body.put_long_string(text);
        self.put_parameters(version, count, &mut body);
        Ok(body)
    }

    fn put_parameters(&self, version: Version, count: u16, body: &mut Vec<u8>) {
        body.put_short(self.consistency);
        let flags = self.query_flags();
        match version {
            // Flags that do not fit this byte exist only in v5, so a v3 or v4 client has not set them.
            Version::V3 | Version::V4 => body.put_byte((flags & 0xFF) as u8),
            Version::V5 => body.put_int(flags.cast_signed()),
        }
        if count > 0 {
            body.put_short(count);
            self.values.iter().for_each(|value| body.put_value(*value));
        }
        if self.page_size > 0 {
            body.put_int(self.page_size);
        }
        if self.paging_state.is_some() {
            body.put_bytes(self.paging_state);
        }
        if let Some(consistency) = self.serial_consistency {
            body.put_short(consistency);
        }
        if let Some(timestamp) = self.timestamp {
            body.extend_from_slice(&timestamp.to_be_bytes());
        }
        if let Some(keyspace) = self.keyspace {
            body.put_string(keyspace);
        }
        if let Some(seconds) = self.now_in_seconds {
            body.put_int(seconds);
        }
    }

    fn query_flags(&self) -> u32 {
        let parts = [
            (!self.values.is_empty(), flag::VALUES),
            (true, flag::SKIP_METADATA),
            (self.page_size > 0, flag::PAGE_SIZE),
            (self.paging_state.is_some(), flag::PAGING_STATE),
            (self.serial_consistency.is_some(), flag::SERIAL_CONSISTENCY),
            (self.timestamp.is_some(), flag::TIMESTAMP),
            (self.keyspace.is_some(), flag::KEYSPACE),
            (self.now_in_seconds.is_some(), flag::NOW_IN_SECONDS),
        ];
        let set = parts.iter().filter(|(present, _)| *present);
        set.fold(0, |all, (_, bit)| all | bit)
    }

    /// Checks that everything fits its notation; returns the number of values.
    fn check(&self, id: &[u8], result_metadata_id: &[u8]) -> Result<u16, ProtocolError> {
        let keyspace = self.keyspace.map_or(0, str::len);
        for length in [id.len(), result_metadata_id.len(), keyspace] {
            within(length, usize::from(u16::MAX))?;
        }
        let values = self.values.iter().map(|value| match value {
            Value::Bytes(bytes) => bytes.len() + 4,
            Value::Null | Value::Unset => 4,
        });
        let state = self.paging_state.map_or(0, <[u8]>::len);
        let payload = self.custom_payload.map_or(0, <[u8]>::len);
        let total = values.fold(state.saturating_add(payload), usize::saturating_add);
        // Everything else is short.
        within(total, BODY_BYTES_MAX - (256 << 10))?;
        let count = self.values.len();
        within(count, usize::from(u16::MAX)).map(|()| count as u16)
    }
}

fn within(length: usize, limit: usize) -> Result<(), ProtocolError> {
    if length <= limit {
        return Ok(());
    }
    Err(ProtocolError::TooLarge {
        length: length as u64,
        limit: limit as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_everything_in_the_order_of_the_specification() {
        let read = SubRead {
            values: vec![Value::Bytes(b"v"), Value::Null, Value::Unset],
            consistency: 6,
            serial_consistency: Some(9),
            page_size: 100,
            paging_state: Some(b"state"),
            timestamp: Some(-7),
            keyspace: Some("ks"),
            now_in_seconds: Some(1234),
            custom_payload: Some(&[0, 1, 0, 1, b'k', 0, 0, 0, 1, b'p']),
        };
        let body = read.encode(b"id", b"meta").expect("fits");
        let mut expected = vec![0, 1, 0, 1, b'k', 0, 0, 0, 1, b'p'];
        expected.put_short_bytes(b"id");
        expected.put_short_bytes(b"meta");
        expected.put_short(6);
        expected.put_int(0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x20 | 0x80 | 0x100);
        expected.put_short(3);
        expected.put_bytes(Some(b"v"));
        expected.put_int(-1);
        expected.put_int(-2);
        expected.put_int(100);
        expected.put_bytes(Some(b"state"));
        expected.put_short(9);
        expected.extend_from_slice(&(-7_i64).to_be_bytes());
        expected.put_string("ks");
        expected.put_int(1234);
        assert_eq!(body, expected);
        assert_eq!(read.header_flags(), 0x04);
    }

    #[test]
    fn our_own_reader_understands_what_is_written() {
        let read = SubRead {
            values: vec![Value::Bytes(b"v"), Value::Unset],
            keyspace: Some("ks"),
            ..SubRead::default()
        };
        let body = read.encode(b"id", b"meta").expect("fits");
        let mut cursor = Cursor::new(&body);
        assert_eq!(id(&mut cursor), Ok(&b"id"[..]));
        let parameters = parameters(Version::V5, cursor).expect("valid");
        let values = [(None, Value::Bytes(b"v")), (None, Value::Unset)];
        assert_eq!(parameters.values, values);
        assert_eq!(parameters.keyspace, Some("ks"));
    }

    #[test]
    fn leaves_out_what_is_not_given() {
        let read = SubRead {
            consistency: 1,
            page_size: -1,
            ..SubRead::default()
        };
        let body = read.encode(b"i", b"m").expect("fits");
        assert_eq!(body, [0, 1, b'i', 0, 1, b'm', 0, 1, 0, 0, 0, 0x02]);
        assert_eq!(read.header_flags(), 0);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let many = SubRead {
            values: vec![Value::Null; 65_536],
            ..SubRead::default()
        };
        assert!(many.encode(b"i", b"m").is_err());
        let long = SubRead::default();
        assert!(long.encode(&[0; 65_536], b"m").is_err());
    }
}
