//! BATCH (native_protocol_v5 §4.1.7): reads those of clients, whose statements are texts or prepared ids with values,
//! and writes our own in v5.

use std::borrow::Cow;

use super::parameters::{Parameters, flag};
use super::query;
use crate::protocol::ProtocolError;
use crate::protocol::header::Version;
use crate::protocol::types::{Cursor, Value, Write};

/// One statement of a batch.
pub enum Statement<'a> {
    Prepared(&'a [u8]),
    Text(Cow<'a, str>),
}

/// The first prepared id for which `known` says no.
pub fn first_unknown_id<'a>(
    message: Cursor<'a>,
    mut known: impl FnMut(&[u8]) -> bool,
) -> Result<Option<&'a [u8]>, ProtocolError> {
    let mut unknown = None;
    each(message, |statement, _| match statement {
        Statement::Prepared(id) if unknown.is_none() && !known(id) => unknown = Some(id),
        Statement::Prepared(_) | Statement::Text(_) => {}
    })?;
    Ok(unknown)
}

/// The values of one statement, read on demand.
pub struct Values<'a> {
    count: u16,
    first: Cursor<'a>,
}

impl<'a> Values<'a> {
    /// Returns the values in the same form as those of QUERY and EXECUTE; in a batch none has a name.
    pub fn read(&self) -> Result<Vec<(Option<&'a str>, Value<'a>)>, ProtocolError> {
        let mut cursor = self.first.clone();
        let value = |_| Ok((None, cursor.value()?));
        (0..self.count).map(value).collect()
    }
}

/// Shows every statement with its values; returns a cursor after the last.
pub fn each<'a>(
    mut message: Cursor<'a>,
    mut show: impl FnMut(Statement<'a>, Values<'a>),
) -> Result<Cursor<'a>, ProtocolError> {
    message.byte()?;
    for _ in 0..message.short()? {
        let prepared = message.byte()? != 0;
        let statement = if prepared {
            Statement::Prepared(message.short_bytes()?)
        } else {
            Statement::Text(query::text(&mut message)?)
        };
        let count = message.short()?;
        let first = message.clone();
        for _ in 0..count {
            message.value()?;
        }
        show(statement, Values { count, first });
    }
    Ok(message)
}

/// The parameters of the batch itself, read from the cursor that [`each`] returned. They have the same layout as those
/// of a QUERY without values.
pub fn parameters(version: Version, mut rest: Cursor<'_>) -> Result<Parameters<'_>, ProtocolError> {
    Parameters::read(version, &mut rest)
}

/// An unlogged BATCH of our own in v5, written statement by statement.
#[derive(Debug, Clone, Default)]
pub struct OwnBatch {
    count: u16,
    statements: Vec<u8>,
}

const UNLOGGED: u8 = 1;

impl OwnBatch {
    /// Adds a prepared statement; `false` if it does not fit.
    pub fn push(&mut self, id: &[u8], values: &[Value<'_>]) -> bool {
        let (Some(count), Ok(length)) = (self.count.checked_add(1), u16::try_from(values.len()))
        else {
            return false;
        };
        self.count = count;
        self.statements.put_byte(1);
        self.statements.put_short_bytes(id);
        self.statements.put_short(length);
        for value in values {
            self.statements.put_value(*value);
        }
        true
    }

    pub fn bytes(&self) -> usize {
        self.statements.len()
    }

    /// The envelope's body.
    pub fn encode(&self, consistency: u16, now_in_seconds: i32) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.statements.len() + 16);
        body.put_byte(UNLOGGED);
        body.put_short(self.count);
        body.extend_from_slice(&self.statements);
        body.put_short(consistency);
        body.put_int(flag::NOW_IN_SECONDS.cast_signed());
        body.put_int(now_in_seconds);
        body
    }
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
    fn the_keyspace_stands_behind_the_statements() {
        for (version, flags) in [
            (Version::V4, vec![0x80]),
            (Version::V5, vec![0, 0, 0, 0x80]),
        ] {
            let mut body = batch();
            body.put_short(1);
            body.extend_from_slice(&flags);
            body.put_string("shop");
            let rest = each(Cursor::new(&body), |_, _| {}).expect("whole");
            let parameters = parameters(version, rest).expect("whole");
            assert_eq!(parameters.keyspace, Some("shop"));
        }
        let mut body = batch();
        body.put_short(1);
        body.put_byte(0);
        let rest = each(Cursor::new(&body), |_, _| {}).expect("whole");
        let parameters = parameters(Version::V4, rest).expect("whole");
        assert_eq!((parameters.keyspace, parameters.consistency), (None, 1));
    }

    #[test]
    fn every_statement_comes_with_its_values() {
        let body = batch();
        let mut all = Vec::new();
        let rest = each(Cursor::new(&body), |_, values| {
            all.push(values.read().expect("whole"));
        });
        assert!(rest.is_ok());
        let value = vec![(None, Value::Bytes(b"value"))];
        assert_eq!(all, [value.clone(), value, Vec::new()]);
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
