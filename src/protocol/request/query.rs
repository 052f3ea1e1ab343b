//! QUERY and PREPARE (native_protocol_v5 §4.1.4, §4.1.5): both begin with the statement's text.

use std::borrow::Cow;

use crate::protocol::header::Version;
use crate::protocol::types::{Cursor, Write};
use crate::protocol::{ProtocolError, request::parameters::CONSISTENCY_ONE};

/// Flag of PREPARE (v5): the message names the keyspace of unqualified names.
const PREPARE_KEYSPACE: i32 = 0x01;

/// The text of a QUERY or PREPARE; leaves the cursor after it. Cassandra replaces invalid UTF-8 and goes on, so we do
/// the same to see the text that it sees.
pub fn text<'a>(message: &mut Cursor<'a>) -> Result<Cow<'a, str>, ProtocolError> {
    let length = message.count("long string")?;
    Ok(String::from_utf8_lossy(
        message.take(length, "long string")?,
    ))
}

/// The keyspace that a PREPARE names (v5 only). The cursor must be after the text.
pub fn prepare_keyspace<'a>(
    version: Version,
    mut after_text: Cursor<'a>,
) -> Result<Option<&'a str>, ProtocolError> {
    if version < Version::V5 || after_text.int()? & PREPARE_KEYSPACE == 0 {
        return Ok(None);
    }
    after_text.string().map(Some)
}

/// The body of a PREPARE of our own. Before v5, `keyspace` is ignored: the statement is prepared in the connection's.
pub fn encode_prepare(version: Version, text: &str, keyspace: Option<&str>) -> Vec<u8> {
    let mut body = Vec::with_capacity(text.len() + 10);
    body.put_long_string(text);
    match (version, keyspace) {
        (Version::V3 | Version::V4, _) => {}
        (Version::V5, None) => body.put_int(0),
        (Version::V5, Some(keyspace)) => {
            body.put_int(PREPARE_KEYSPACE);
            body.put_string(keyspace);
        }
    }
    body
}

/// The body of an unpaged QUERY of our own, without values, at consistency ONE.
pub fn encode(version: Version, text: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(text.len() + 10);
    body.put_long_string(text);
    body.put_short(CONSISTENCY_ONE);
    match version {
        Version::V3 | Version::V4 => body.put_byte(0),
        Version::V5 => body.put_int(0),
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_utf8_is_read_as_cassandra_reads_it() {
        let mut body = Vec::new();
        body.put_bytes(Some(b"SELECT * FROM system.peers -- \xff"));
        assert_eq!(
            text(&mut Cursor::new(&body)),
            Ok("SELECT * FROM system.peers -- \u{fffd}".into())
        );
    }

    #[test]
    fn reads_the_text_and_the_keyspace_of_a_prepare() {
        let body = encode_prepare(Version::V5, "SELECT 1", Some("ks"));
        let mut cursor = Cursor::new(&body);
        assert_eq!(text(&mut cursor), Ok("SELECT 1".into()));
        assert_eq!(
            prepare_keyspace(Version::V5, cursor.clone()),
            Ok(Some("ks"))
        );
        assert_eq!(prepare_keyspace(Version::V4, cursor), Ok(None));
    }
}
