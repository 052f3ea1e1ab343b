//! STARTUP (native_protocol_v5 §4.1.1): a map of options. The proxy reads only COMPRESSION, and forwards them all.

use crate::protocol::types::{Cursor, Write};
use crate::protocol::{Compression, ProtocolError};

/// The requested compression. `None`: none, or an unknown one, for which the server refuses the STARTUP.
pub fn compression(mut message: Cursor<'_>) -> Result<Option<Compression>, ProtocolError> {
    let options = message.string_map()?;
    let asked = options.iter().find(|(key, _)| *key == "COMPRESSION");
    Ok(asked.and_then(|(_, name)| Compression::from_name(name)))
}

/// The body of a STARTUP of our own.
pub fn encode(driver_name: &str, driver_version: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_string_map(&[
        ("CQL_VERSION", "3.0.0"),
        ("DRIVER_NAME", driver_name),
        ("DRIVER_VERSION", driver_version),
    ]);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_compression_among_other_options() {
        let mut body = Vec::new();
        body.put_string_map(&[("CQL_VERSION", "3.4.7"), ("COMPRESSION", "LZ4")]);
        assert_eq!(compression(Cursor::new(&body)), Ok(Some(Compression::Lz4)));
        assert_eq!(compression(Cursor::new(&encode("n", "1"))), Ok(None));
    }
}
