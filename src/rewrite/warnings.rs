//! The warnings of sub-reads, joined without repeats and put before the client's message (native_protocol_v5 §2.2).

use crate::protocol::header::{Version, flag};
use crate::protocol::types::Write;

/// In the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Warnings(Vec<String>);

impl Warnings {
    /// Adds the warnings of a reply.
    pub fn add(&mut self, texts: Vec<String>) {
        for text in texts {
            // The count of the list is a [short]; nobody would read more.
            if !self.0.contains(&text) && self.0.len() < usize::from(u16::MAX) {
                self.0.push(text);
            }
        }
    }

    /// The header's flags and the body of a message with these warnings. v3 has no warnings.
    pub fn before(&self, version: Version, message: Vec<u8>) -> (u8, Vec<u8>) {
        if self.0.is_empty() || version < Version::V4 {
            return (0, message);
        }
        let mut body = Vec::with_capacity(message.len() + 256);
        body.put_string_list(&self.0);
        body.extend_from_slice(&message);
        (flag::WARNING, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::response;
    use crate::protocol::{Envelope, opcode};

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn joins_without_repeats() {
        let mut all = Warnings::default();
        for reply in [texts(&[]), texts(&["a", "b"]), texts(&["b", "c", "c"])] {
            all.add(reply);
        }
        for (version, expected) in [(Version::V4, flag::WARNING), (Version::V3, 0)] {
            let (flags, body) = all.before(version, b"message".to_vec());
            assert_eq!(flags, expected);
            let envelope = Envelope::with_flags(0x84, flags, 1, opcode::RESULT, body);
            let message = response::message(envelope.header, &envelope.body).expect("valid");
            assert_eq!(message.rest(), b"message");
        }
        assert_eq!(all, Warnings(texts(&["a", "b", "c"])));
    }

    #[test]
    fn no_warnings_leave_the_message_alone() {
        let (flags, body) = Warnings::default().before(Version::V5, b"message".to_vec());
        assert_eq!((flags, &body[..]), (0, &b"message"[..]));
    }
}
