//! SUPPORTED (native_protocol_v5 §4.2.4): upstream's reply, without the options that Narrows does not support.

use crate::protocol::types::{Cursor, Write};
use crate::protocol::{Compression, ProtocolError};

const VERSIONS: [&str; 3] = ["3/v3", "4/v4", "5/v5"];

/// Keeps only the compressions and versions that Narrows supports. Drops `SCYLLA_…` options, since a shard-aware driver
/// would choose source ports that mean nothing behind a proxy.
pub fn restrict(mut message: Cursor<'_>) -> Result<Vec<u8>, ProtocolError> {
    let mut options = message.string_multimap()?;
    options.retain(|(key, _)| !key.starts_with("SCYLLA_"));
    for (key, values) in &mut options {
        match *key {
            "COMPRESSION" => values.retain(|name| Compression::NAMES.contains(name)),
            "PROTOCOL_VERSIONS" => values.retain(|name| VERSIONS.contains(name)),
            _ => {}
        }
    }
    let mut body = Vec::new();
    body.put_short(u16::try_from(options.len()).unwrap_or(u16::MAX));
    for (key, values) in &options {
        body.put_string(key);
        body.put_string_list(values);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_both_sides_speak() {
        let mut body = Vec::new();
        body.put_short(4);
        for (key, values) in [
            (
                "PROTOCOL_VERSIONS",
                &["3/v3", "4/v4", "5/v5", "6/v6-beta"][..],
            ),
            ("COMPRESSION", &["snappy", "zstd", "lz4"]),
            ("CQL_VERSION", &["3.4.7"]),
            ("SCYLLA_SHARD", &["0"]),
        ] {
            body.put_string(key);
            body.put_string_list(values);
        }
        let restricted = restrict(Cursor::new(&body)).expect("valid");
        let options = Cursor::new(&restricted).string_multimap();
        assert_eq!(
            options,
            Ok(vec![
                ("PROTOCOL_VERSIONS", vec!["3/v3", "4/v4", "5/v5"]),
                ("COMPRESSION", vec!["snappy", "lz4"]),
                ("CQL_VERSION", vec!["3.4.7"]),
            ])
        );
    }
}
