//! The column metadata of a result, in the client's protocol version and under the original's name.
//!
//! The proxy's own connections speak v5. A type newer than the client's version is sent as CUSTOM, with its class name.

use crate::protocol::Version;
use crate::protocol::response::result::{TYPE_DEPTH_MAX, metadata_flag};
use crate::protocol::types::{Cursor, Write};

/// The columns of a result, ready to be written in every version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    /// Names and types, one after the other.
    v3: Vec<u8>,
    v4: Vec<u8>,
    v5: Vec<u8>,
}

impl Columns {
    /// Reads all of a v5 result's `<metadata>`. `None`: it is malformed, or has no columns or unknown types.
    pub fn read(raw: &[u8]) -> Option<Self> {
        let mut message = Cursor::new(raw);
        let flags = message.int().ok()?;
        let count = message.count("column count").ok()?;
        if flags & metadata_flag::HAS_MORE_PAGES != 0 {
            message.bytes().ok()?;
        }
        if flags & metadata_flag::METADATA_CHANGED != 0 {
            message.short_bytes().ok()?;
        }
        if flags & metadata_flag::NO_METADATA != 0 {
            return None;
        }
        let columns = Self::read_columns(&mut message, flags, count)?;
        message.rest().is_empty().then_some(columns)
    }

    fn read_columns(message: &mut Cursor<'_>, flags: i32, count: usize) -> Option<Self> {
        let global = flags & metadata_flag::GLOBAL_TABLE_SPEC != 0;
        if global && count > 0 {
            message.string().ok()?;
            message.string().ok()?;
        }
        let mut columns = Self {
            names: Vec::new(),
            v3: Vec::new(),
            v4: Vec::new(),
            v5: Vec::new(),
        };
        for _ in 0..count {
            if !global {
                message.string().ok()?;
                message.string().ok()?;
            }
            let name = message.string().ok()?;
            columns.push(name, message)?;
        }
        Some(columns)
    }

    /// Adds a column, whose type is next in the message.
    fn push(&mut self, name: &str, message: &mut Cursor<'_>) -> Option<()> {
        self.names.push(name.to_owned());
        let start = message.clone();
        for (version, out) in [
            (Version::V3, &mut self.v3),
            (Version::V4, &mut self.v4),
            (Version::V5, &mut self.v5),
        ] {
            *message = start.clone();
            out.put_string(name);
            translate(message, version, out, TYPE_DEPTH_MAX)?;
        }
        Some(())
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The part of `<metadata>` after counts and ids: the table, then the columns.
    pub fn encode(&self, version: Version, keyspace: &str, table: &str) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_string(keyspace);
        out.put_string(table);
        out.extend_from_slice(match version {
            Version::V3 => &self.v3,
            Version::V4 => &self.v4,
            Version::V5 => &self.v5,
        });
        out
    }
}

/// Copies one type of v5 (native_protocol_v5 §4.2.5.2) in the form that `version` has for it.
fn translate(
    message: &mut Cursor<'_>,
    version: Version,
    out: &mut Vec<u8>,
    depth: usize,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let option = message.short().ok()?;
    if let Some(class) = custom_in(version, option) {
        out.put_short(0x0000);
        out.put_string(class);
        return Some(());
    }
    out.put_short(option);
    let inner = match option {
        0x0000 => {
            out.put_string(message.string().ok()?);
            0
        }
        0x0001..=0x0015 => 0,
        0x0020 | 0x0022 => 1,
        0x0021 => 2,
        0x0030 => return translate_user_type(message, version, out, depth),
        0x0031 => {
            let count = message.short().ok()?;
            out.put_short(count);
            count
        }
        _ => return None,
    };
    (0..inner).try_for_each(|_| translate(message, version, out, depth))
}

/// Copies keyspace, name and fields of a user-defined type.
fn translate_user_type(
    message: &mut Cursor<'_>,
    version: Version,
    out: &mut Vec<u8>,
    depth: usize,
) -> Option<()> {
    out.put_string(message.string().ok()?);
    out.put_string(message.string().ok()?);
    let count = message.short().ok()?;
    out.put_short(count);
    for _ in 0..count {
        out.put_string(message.string().ok()?);
        translate(message, version, out, depth)?;
    }
    Some(())
}

/// The class of a type that `version` does not know yet.
fn custom_in(version: Version, option: u16) -> Option<&'static str> {
    let (since, class) = match option {
        0x0011 => (
            Version::V4,
            "org.apache.cassandra.db.marshal.SimpleDateType",
        ),
        0x0012 => (Version::V4, "org.apache.cassandra.db.marshal.TimeType"),
        0x0013 => (Version::V4, "org.apache.cassandra.db.marshal.ShortType"),
        0x0014 => (Version::V4, "org.apache.cassandra.db.marshal.ByteType"),
        0x0015 => (Version::V5, "org.apache.cassandra.db.marshal.DurationType"),
        _ => return None,
    };
    (version < since).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `d` duration and `m` map<smallint, frozen<tuple<duration, user type of a date>>>.
    fn columns(flags: i32) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_int(flags);
        out.put_int(2);
        if flags & metadata_flag::HAS_MORE_PAGES != 0 {
            out.put_bytes(Some(b"paging state"));
        }
        if flags & metadata_flag::METADATA_CHANGED != 0 {
            out.put_short_bytes(b"id");
        }
        let table = |out: &mut Vec<u8>, global: bool| {
            if global == (flags & metadata_flag::GLOBAL_TABLE_SPEC != 0) {
                out.put_string("ks");
                out.put_string("wide_t_0");
            }
        };
        table(&mut out, true);
        table(&mut out, false);
        out.put_string("d");
        out.put_short(0x0015);
        table(&mut out, false);
        out.put_string("m");
        for option in [0x0021, 0x0013, 0x0031, 2, 0x0015, 0x0030] {
            out.put_short(option);
        }
        out.put_string("ks");
        out.put_string("u");
        out.put_short(1);
        out.put_string("day");
        out.put_short(0x0011);
        out
    }

    #[test]
    fn reads_columns_however_they_are_named() {
        let read = |flags| Columns::read(&columns(flags)).expect("valid");
        let plain = read(metadata_flag::GLOBAL_TABLE_SPEC);
        assert_eq!(plain.names(), ["d", "m"]);
        for flags in [0x00, 0x03, 0x09, 0x0B, 0x0A] {
            assert_eq!(read(flags), plain, "{flags}");
        }
        assert_eq!(Columns::read(&columns(metadata_flag::NO_METADATA)), None);
    }

    #[test]
    fn newer_types_are_custom_at_every_depth() {
        let columns = Columns::read(&columns(1)).expect("valid");
        let customs = |version| {
            let encoded = columns.encode(version, "ks", "t");
            let class = b"org.apache.cassandra.db.marshal.";
            let found = encoded.windows(class.len()).filter(|w| w == class);
            found.count()
        };
        assert_eq!(customs(Version::V5), 0);
        assert_eq!(customs(Version::V4), 2);
        assert_eq!(customs(Version::V3), 4);
    }

    #[test]
    fn what_it_writes_in_v5_is_what_it_read() {
        let columns = Columns::read(&columns(1)).expect("valid");
        let mut again = Vec::new();
        again.put_int(metadata_flag::GLOBAL_TABLE_SPEC);
        again.put_int(2);
        again.extend_from_slice(&columns.encode(Version::V5, "other", "name"));
        assert_eq!(Columns::read(&again), Some(columns));
    }

    #[test]
    fn truncated_and_bottomless_metadata_is_none() {
        let whole = columns(1);
        for end in 0..whole.len() {
            assert_eq!(Columns::read(&whole[..end]), None, "{end}");
        }
        assert_eq!(Columns::read(&[&whole[..], &[0]].concat()), None);
        let mut deep = Vec::new();
        deep.put_int(metadata_flag::GLOBAL_TABLE_SPEC);
        deep.put_int(1);
        for name in ["ks", "t", "c"] {
            deep.put_string(name);
        }
        deep.extend_from_slice(&[0x00, 0x20].repeat(1000));
        assert_eq!(Columns::read(&deep), None);
    }
}
