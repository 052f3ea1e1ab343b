//! ERROR (native_protocol_v5 §9): written when Narrows refuses a request, read when upstream reports an error.

use crate::protocol::ProtocolError;
use crate::protocol::types::{Cursor, Write};

const TEXT_BYTES_MAX: usize = 4096;

/// The codes that Narrows uses itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    Protocol = 0x000A,
    Overloaded = 0x1001,
    WriteTimeout = 0x1100,
    Invalid = 0x2200,
    Unprepared = 0x2500,
}

pub fn encode(code: ErrorCode, text: &str) -> Vec<u8> {
    // The length of a `[string]` is a `[short]`, and the text may quote what a client sent.
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let mut body = Vec::with_capacity(text.len() + 6);
    body.put_int(code as i32);
    body.put_string(text);
    body
}

/// UNPREPARED names the unknown id; drivers then prepare the statement and try again.
pub fn unprepared(id: &[u8]) -> Vec<u8> {
    // A real id is an MD5 hash. Of a longer one that a client made up, the text shows only the beginning.
    let hex: String = id
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let text = format!(
        "Prepared query with ID {hex} not found (either the query was not prepared on this host (maybe the host has \
         been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
    );
    let mut body = encode(ErrorCode::Unprepared, &text);
    body.put_short_bytes(id);
    body
}

/// WRITE_TIMEOUT: the outcome of the write is unknown. `SIMPLE` is the write type that no driver retries by itself.
pub fn write_timeout(consistency: u16, text: &str) -> Vec<u8> {
    let mut body = encode(ErrorCode::WriteTimeout, text);
    body.put_short(consistency);
    // Number of replicas that acknowledged the write, then number of replicas that were required.
    body.put_int(0);
    body.put_int(1);
    body.put_string("SIMPLE");
    body
}

/// Refuses a protocol version in Cassandra's words: drivers read the list to choose another.
pub fn unsupported_version(version: u8) -> Vec<u8> {
    let text = format!(
        "Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)"
    );
    encode(ErrorCode::Protocol, &text)
}

/// Why replicas failed a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// They scanned more tombstones than they may.
    Tombstones,
    /// The read exceeded a size threshold.
    Size,
    /// Anything else, such as a damaged file or a server error.
    Other,
}

/// Finds the reason in the text of a READ_FAILURE. v5 has a field for it (native_protocol_v5 §9), but the text names it
/// in every version.
pub fn read_failure(text: &str) -> ReadFailure {
    const TOMBSTONES: [&str; 2] = [
        "READ_TOO_MANY_TOMBSTONES",
        "(see tombstone_failure_threshold)",
    ];
    const SIZE: [&str; 3] = [
        "READ_SIZE",
        "has exceeded the size failure threshold of",
        "size_fail_threshold)",
    ];
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&TOMBSTONES) {
        ReadFailure::Tombstones
    } else if says(&SIZE) {
        ReadFailure::Size
    } else {
        ReadFailure::Other
    }
}

/// Code and text of an error from upstream.
pub fn read(mut message: Cursor<'_>) -> Result<(i32, &str), ProtocolError> {
    Ok((message.int()?, message.string()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprepared_ends_with_the_id() {
        let body = unprepared(&[0xAB, 0x01]);
        let (code, text) = read(Cursor::new(&body)).expect("valid");
        assert_eq!(code, 0x2500);
        assert!(text.contains("ab01"));
        assert!(body.ends_with(&[0, 2, 0xAB, 0x01]));
    }

    #[test]
    fn texts_fit_whatever_a_client_sent() {
        let long = unprepared(&[7; 65_535]);
        assert!(read(Cursor::new(&long)).expect("valid").1.len() < TEXT_BYTES_MAX);
        let body = encode(ErrorCode::Invalid, &"é".repeat(70_000));
        assert_eq!(
            read(Cursor::new(&body)).expect("valid").1.len(),
            TEXT_BYTES_MAX
        );
    }
}
