//! Reads a node's reply to a request of the pool. Pure.

use std::net::SocketAddr;

use super::{PoolError, Prepared};
use crate::budget::Reserved;
use crate::protocol::response::result::{self, PreparedColumns};
use crate::protocol::response::{self, error};
use crate::protocol::{Envelope, ProtocolError, opcode};

/// The answer to a sub-read.
#[derive(Debug)]
pub struct SubReply {
    pub warnings: Vec<String>,
    /// The RESULT message: its kind and what follows.
    pub body: Vec<u8>,
    /// The memory for it. Whoever keeps the body keeps this, too.
    pub reserved: Reserved,
}

/// Reads a reply. An ERROR becomes an `Err`, and so do columns that have changed.
pub(super) fn answered(
    address: SocketAddr,
    (reply, reserved): (Envelope, Reserved),
) -> Result<SubReply, PoolError> {
    let header = reply.header;
    let mut body = reply.body;
    let wrong = |source| PoolError::Protocol { address, source };
    let (warnings, message) = response::warnings_and_message(header, &body).map_err(wrong)?;
    match header.opcode {
        opcode::RESULT => {}
        opcode::ERROR => {
            let (code, text) = error::read(message).map_err(wrong)?;
            return Err(PoolError::Refused {
                address,
                code,
                text: text.to_owned(),
            });
        }
        other => return Err(wrong(ProtocolError::UnexpectedOpcode(other))),
    }
    if result::has_changed_metadata(message.rest()).map_err(wrong)? {
        return Err(PoolError::Changed);
    }
    let warnings = warnings.into_iter().map(str::to_owned).collect();
    let prefix = body.len() - message.rest().len();
    body.drain(..prefix);
    Ok(SubReply {
        warnings,
        body,
        reserved,
    })
}

pub(super) fn prepared(message: &[u8], text: &str) -> Result<Prepared, ProtocolError> {
    let found = result::prepared_message(message)?;
    let (id, after_id) = found.ok_or(ProtocolError::UnexpectedOpcode(opcode::RESULT))?;
    let columns = PreparedColumns::read(after_id)?;
    Ok(Prepared {
        id: id.into(),
        result_metadata_id: columns.result_metadata_id.into(),
        columns: columns.result_metadata.to_vec(),
        text: text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::protocol::header::flag;
    use crate::protocol::types::Write;

    const ADDRESS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9042);

    fn reply(flags: u8, opcode: u8, body: Vec<u8>) -> Result<SubReply, PoolError> {
        let reply = Envelope::with_flags(0x85, flags, 0, opcode, body);
        answered(ADDRESS, (reply, Budget::new(0).nothing()))
    }

    fn rows(metadata_flags: i32) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_int(result::kind::ROWS);
        body.put_int(metadata_flags);
        body
    }

    #[test]
    fn the_message_stands_behind_warnings_and_payload() {
        let mut body = Vec::new();
        body.put_string_list(&["beware", "of otters"]);
        body.extend_from_slice(&[0, 1, 0, 1, b'k', 0, 0, 0, 1, b'p']);
        body.extend_from_slice(&rows(0x04));
        let flags = flag::WARNING | flag::CUSTOM_PAYLOAD;
        let found = reply(flags, opcode::RESULT, body).expect("rows");
        assert_eq!(found.warnings, ["beware", "of otters"]);
        assert_eq!(found.body, rows(0x04));
    }

    #[test]
    fn errors_and_other_columns_are_errors_and_texts_are_in_no_message() {
        let mut body = Vec::new();
        body.put_int(0x1200);
        body.put_string("secret");
        let error = reply(0, opcode::ERROR, body).expect_err("refused");
        assert!(
            matches!(&error, PoolError::Refused { code: 0x1200, text, .. } if text == "secret")
        );
        assert!(!error.to_string().contains("secret"));
        let changed = reply(0, opcode::RESULT, rows(0x08));
        assert!(matches!(changed, Err(PoolError::Changed)));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let cases = [
            (0, opcode::RESULT, vec![]),
            (0, opcode::RESULT, vec![0, 0, 0, 2, 0]),
            (0, opcode::ERROR, vec![0, 0]),
            (0, opcode::READY, vec![]),
            (flag::WARNING, opcode::RESULT, vec![0, 9]),
        ];
        for (flags, opcode, body) in cases {
            let found = reply(flags, opcode, body);
            assert!(
                matches!(found, Err(PoolError::Protocol { .. })),
                "{found:?}"
            );
        }
        assert!(prepared(&rows(0), "SELECT").is_err());
    }
}
