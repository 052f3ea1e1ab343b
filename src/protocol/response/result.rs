//! RESULT (native_protocol_v5 §4.2.5): kinds, PREPARED ids, and the metadata and rows of Rows.

use crate::protocol::types::{Cursor, Write, int_len};
use crate::protocol::{Header, ProtocolError, opcode};

pub mod kind {
    pub const ROWS: i32 = 2;
    pub const SET_KEYSPACE: i32 = 3;
    pub const PREPARED: i32 = 4;
    pub const SCHEMA_CHANGE: i32 = 5;
}

pub(crate) mod metadata_flag {
    pub(crate) const GLOBAL_TABLE_SPEC: i32 = 0x01;
    pub(crate) const HAS_MORE_PAGES: i32 = 0x02;
    pub(crate) const NO_METADATA: i32 = 0x04;
    pub(crate) const METADATA_CHANGED: i32 = 0x08;
}

/// One row: a value per column, `None` for null.
pub type Row = Vec<Option<Vec<u8>>>;

/// A parsed Rows result. `metadata` is kept as bytes, so that it can be sent back as upstream wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// `<metadata>` without a paging state.
    metadata: Vec<u8>,
    pub column_count: usize,
    /// Column names; empty under NO_METADATA.
    pub names: Vec<String>,
    pub rows: Vec<Row>,
}

/// The id of a prepared statement, and the rest of the PREPARED reply, which describes its columns.
pub type Prepared<'a> = (&'a [u8], &'a [u8]);

/// Reads a PREPARED result. `None`: another kind of result.
pub fn prepared(header: Header, body: &[u8]) -> Result<Option<Prepared<'_>>, ProtocolError> {
    let message = super::message(header, body)?;
    if header.opcode != opcode::RESULT {
        return Ok(None);
    }
    prepared_message(message.rest())
}

/// Like [`prepared`], from the message of a RESULT.
pub fn prepared_message(message: &[u8]) -> Result<Option<Prepared<'_>>, ProtocolError> {
    let mut message = Cursor::new(message);
    if message.int()? != kind::PREPARED {
        return Ok(None);
    }
    let id = message.short_bytes()?;
    Ok(Some((id, message.rest())))
}

/// The columns that a v5 PREPARED reply describes after the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedColumns<'a> {
    pub result_metadata_id: &'a [u8],
    /// `<metadata>` of the result, as upstream wrote it.
    pub result_metadata: &'a [u8],
}

impl<'a> PreparedColumns<'a> {
    /// Reads the rest of a v5 PREPARED reply, after the id.
    pub fn read(after_id: &'a [u8]) -> Result<Self, ProtocolError> {
        let mut message = Cursor::new(after_id);
        let result_metadata_id = message.short_bytes()?;
        let flags = message.int()?;
        let column_count = message.count("column count")?;
        for _ in 0..message.count("partition key")? {
            message.short()?;
        }
        read_columns(&mut message, flags, column_count)?;
        Ok(Self {
            result_metadata_id,
            result_metadata: message.rest(),
        })
    }
}

/// Whether a message is Rows whose columns have changed since the statement was prepared.
pub fn has_changed_metadata(message: &[u8]) -> Result<bool, ProtocolError> {
    let mut message = Cursor::new(message);
    Ok(message.int()? == kind::ROWS && message.int()? & metadata_flag::METADATA_CHANGED != 0)
}

impl Rows {
    /// Reads a Rows result. The cursor must be after the kind.
    pub fn read(message: &mut Cursor<'_>) -> Result<Self, ProtocolError> {
        let flags = message.int()?;
        let column_count = message.count("column count")?;
        if flags & metadata_flag::HAS_MORE_PAGES != 0 {
            message.bytes()?;
        }
        let mut metadata = Vec::new();
        metadata.put_int(flags & !metadata_flag::HAS_MORE_PAGES);
        metadata.put_int(int_len(column_count));
        let rest = message.clone();
        let names = read_columns(message, flags, column_count)?;
        metadata.extend_from_slice(&rest.rest()[..rest.rest().len() - message.rest().len()]);
        let count = message.count("row count")?;
        // A row without columns has no bytes, and a row count alone must not cost memory.
        let count = if column_count == 0 { 0 } else { count };
        let mut rows = Vec::new();
        for _ in 0..count {
            let row: Result<Row, _> = (0..column_count)
                .map(|_| Ok(message.bytes()?.map(<[u8]>::to_vec)))
                .collect();
            rows.push(row?);
        }
        Ok(Self {
            metadata,
            column_count,
            names,
            rows,
        })
    }

    /// Kind, metadata and rows, as a message without paging state.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::new();
        message.put_int(kind::ROWS);
        message.extend_from_slice(&self.metadata);
        message.put_int(int_len(self.rows.len()));
        for value in self.rows.iter().flatten() {
            message.put_bytes(value.as_deref());
        }
        message
    }

    /// The value of a named column in the first row.
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        value(&self.names, self.rows.first()?, name)
    }
}

/// The value of a named column in a row.
pub fn value<'a>(names: &[String], row: &'a Row, name: &str) -> Option<&'a [u8]> {
    let index = names.iter().position(|column| column == name)?;
    row.get(index)?.as_deref()
}

/// Reads the names of a result's columns, starting after its paging state; empty under NO_METADATA.
pub(crate) fn read_columns(
    message: &mut Cursor<'_>,
    flags: i32,
    column_count: usize,
) -> Result<Vec<String>, ProtocolError> {
    if flags & metadata_flag::METADATA_CHANGED != 0 {
        message.short_bytes()?;
    }
    if flags & metadata_flag::NO_METADATA != 0 {
        return Ok(Vec::new());
    }
    let global = flags & metadata_flag::GLOBAL_TABLE_SPEC != 0;
    if global {
        message.string()?;
        message.string()?;
    }
    let mut names = Vec::new();
    for _ in 0..column_count {
        if !global {
            message.string()?;
            message.string()?;
        }
        names.push(message.string()?.to_owned());
        skip_type(message, TYPE_DEPTH_MAX)?;
    }
    Ok(names)
}

/// Maximum nesting of types, to bound the recursion. Real types are not this deep.
pub(crate) const TYPE_DEPTH_MAX: usize = 64;

/// Steps over an `[option]` that names a type.
fn skip_type(message: &mut Cursor<'_>, depth: usize) -> Result<(), ProtocolError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(ProtocolError::Truncated("type nested too deeply"));
    };
    match message.short()? {
        0x0000 => message.string().map(drop),
        0x0001..=0x0015 => Ok(()),
        0x0020 | 0x0022 => skip_type(message, depth),
        0x0021 => {
            skip_type(message, depth)?;
            skip_type(message, depth)
        }
        0x0030 => {
            message.string()?;
            message.string()?;
            for _ in 0..message.short()? {
                message.string()?;
                skip_type(message, depth)?;
            }
            Ok(())
        }
        0x0031 => (0..message.short()?).try_for_each(|_| skip_type(message, depth)),
        other => Err(ProtocolError::UnknownType(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two columns, `a int` and `m map<text, frozen<list<uuid>>>`, one row, more pages to come.
    fn message() -> Vec<u8> {
        let mut out = Vec::new();
        out.put_int(metadata_flag::GLOBAL_TABLE_SPEC | metadata_flag::HAS_MORE_PAGES);
        out.put_int(2);
        out.put_bytes(Some(b"paging state"));
        out.put_string("ks");
        out.put_string("t");
        out.put_string("a");
        out.put_short(0x0009);
        out.put_string("m");
        for option in [0x0021, 0x000D, 0x0020, 0x000C] {
            out.put_short(option);
        }
        out.put_int(1);
        out.put_bytes(Some(&[0, 0, 0, 7]));
        out.put_bytes(None);
        out
    }

    #[test]
    fn takes_rows_apart_and_drops_the_paging_state() {
        let rows = Rows::read(&mut Cursor::new(&message())).expect("valid");
        assert_eq!(rows.names, ["a", "m"]);
        assert_eq!(rows.first("a"), Some(&[0u8, 0, 0, 7][..]));
        assert_eq!(rows.first("m"), None);
        let encoded = rows.encode();
        let mut cursor = Cursor::new(&encoded);
        assert_eq!(cursor.int(), Ok(kind::ROWS));
        assert_eq!(Rows::read(&mut cursor), Ok(rows));
        assert!(cursor.rest().is_empty());
        assert!(!encoded.windows(6).any(|w| w == b"paging"));
    }

    #[test]
    fn truncation_is_an_error_at_every_length() {
        let message = message();
        for end in 0..message.len() {
            assert!(
                Rows::read(&mut Cursor::new(&message[..end])).is_err(),
                "{end}"
            );
        }
    }

    /// A statement with one bound `int` and the columns of [`message`].
    fn after_id() -> Vec<u8> {
        let mut out = Vec::new();
        out.put_short_bytes(b"metadata");
        out.put_int(metadata_flag::GLOBAL_TABLE_SPEC);
        out.put_int(1);
        out.put_int(1);
        out.put_short(0);
        for name in ["ks", "t", "k"] {
            out.put_string(name);
        }
        out.put_short(0x0009);
        out
    }

    #[test]
    fn finds_the_result_metadata_behind_that_of_the_values() {
        let mut reply = after_id();
        let before = reply.len();
        reply.extend_from_slice(&message());
        let columns = PreparedColumns::read(&reply).expect("valid");
        assert_eq!(columns.result_metadata_id, b"metadata");
        assert_eq!(columns.result_metadata, message());
        for end in 0..before {
            assert!(PreparedColumns::read(&reply[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn only_rows_can_have_changed_metadata() {
        let of = |kind: i32, flags: i32| {
            let mut out = Vec::new();
            out.put_int(kind);
            out.put_int(flags);
            has_changed_metadata(&out)
        };
        assert_eq!(of(kind::ROWS, metadata_flag::METADATA_CHANGED), Ok(true));
        assert_eq!(of(kind::ROWS, metadata_flag::NO_METADATA), Ok(false));
        assert_eq!(of(kind::SET_KEYSPACE, 0x08), Ok(false));
        assert!(has_changed_metadata(&[0, 0, 0, 2, 0]).is_err());
    }

    #[test]
    fn a_bottomless_type_is_an_error() {
        let bytes = [0x00, 0x20].repeat(1000);
        assert!(skip_type(&mut Cursor::new(&bytes), TYPE_DEPTH_MAX).is_err());
    }
}
