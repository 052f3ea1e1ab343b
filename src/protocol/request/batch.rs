//! BATCH (native_protocol_v5 §4.1.7): texts and prepared ids, each with its values.

use crate::protocol::ProtocolError;
use crate::protocol::types::Cursor;

/// The first prepared id for which `known` says no. Statements given as text are stepped over.
pub fn first_unknown_id<'a>(
    mut message: Cursor<'a>,
    mut known: impl FnMut(&[u8]) -> bool,
) -> Result<Option<&'a [u8]>, ProtocolError> {
    message.byte()?;
    for _ in 0..message.short()? {
        let prepared = message.byte()? != 0;
        if prepared {
            let id = message.short_bytes()?;
            if !known(id) {
                return Ok(Some(id));
            }
        } else {
            message.long_string()?;
        }
        for _ in 0..message.short()? {
            message.value()?;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::types::Write;

    fn batch() -> Vec<u8> {
        let mut body = vec![0];
        body.put_short(3);
        for id in [b"aa", b"bb"] {
            body.put_byte(1);
            body.put_short_bytes(id);
            body.put_short(1);
            body.put_bytes(Some(b"value"));
        }
        body.put_byte(0);
        body.put_long_string("INSERT");
        body.put_short(0);
        body
    }

    #[test]
    fn names_the_first_unknown_id() {
        let body = batch();
        assert_eq!(first_unknown_id(Cursor::new(&body), |_| true), Ok(None));
        assert_eq!(
            first_unknown_id(Cursor::new(&body), |id| id == b"aa"),
            Ok(Some(&b"bb"[..]))
        );
    }

    #[test]
    fn truncation_is_an_error() {
        let body = batch();
        for end in 0..body.len() {
            assert!(
                first_unknown_id(Cursor::new(&body[..end]), |_| true).is_err(),
                "{end}"
            );
        }
    }
}
