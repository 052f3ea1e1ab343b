//! The column metadata of a result, in the client's protocol version and under the original's name.
//!
//! The proxy's own connections speak v5. A type newer than the client's version is sent as CUSTOM, with its class name.

use crate::protocol::Version;
use crate::protocol::response::result::{TYPE_DEPTH_MAX, metadata_flag};
use crate::protocol::types::{Cursor, Write, int_len};

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

/// The columns that a v5 PREPARED reply describes after the id, as an older version describes them: without an id of
/// the result, and in v3 without the partition key. `None`: they cannot be read.
pub fn prepared_before_v5(version: Version, after_id: &[u8]) -> Option<Vec<u8>> {
    let (mut message, mut out) = (Cursor::new(after_id), Vec::new());
    message.short_bytes().ok()?;
    let (flags, count) = copy_counts(&mut message, &mut out)?;
    let indexes = message.count("partition key").ok()?;
    let mut key = Vec::new();
    key.put_int(int_len(indexes));
    for _ in 0..indexes {
        key.put_short(message.short().ok()?);
    }
    if version > Version::V3 {
        out.extend_from_slice(&key);
    }
    copy_columns(&mut message, version, &mut out, (flags, count))?;
    let (flags, count) = copy_counts(&mut message, &mut out)?;
    if flags & metadata_flag::NO_METADATA == 0 {
        copy_columns(&mut message, version, &mut out, (flags, count))?;
    }
    message.rest().is_empty().then_some(out)
}

/// Copies the flags and the column count of a `<metadata>`. `None`: it has more in front of its columns.
fn copy_counts(message: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<(i32, usize)> {
    let flags = message.int().ok()?;
    let count = message.count("column count").ok()?;
    out.put_int(flags);
    out.put_int(int_len(count));
    let more = metadata_flag::HAS_MORE_PAGES | metadata_flag::METADATA_CHANGED;
    (flags & more == 0).then_some((flags, count))
}

/// Copies the columns of a `<metadata>`, with their tables.
fn copy_columns(
    message: &mut Cursor<'_>,
    version: Version,
    out: &mut Vec<u8>,
    (flags, count): (i32, usize),
) -> Option<()> {
    let global = flags & metadata_flag::GLOBAL_TABLE_SPEC != 0;
    if global {
        copy_strings(message, out, 2)?;
    }
    for _ in 0..count {
        // Table and name, or the name alone.
        copy_strings(message, out, if global { 1 } else { 3 })?;
        translate(message, version, out, TYPE_DEPTH_MAX)?;
    }
    Some(())
}

fn copy_strings(message: &mut Cursor<'_>, out: &mut Vec<u8>, count: usize) -> Option<()> {
    for _ in 0..count {
        out.put_string(message.string().ok()?);
    }
    Some(())
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

    /// The values and the result of a statement, in every form.
    #[test]
    fn a_preparation_reads_as_in_the_older_version() {
        let after_id = |flags: i32| {
            let mut out = Vec::new();
            out.put_short_bytes(b"id of the result");
            let of_values = columns(flags);
            out.extend_from_slice(&of_values[..8]);
            out.put_int(1);
            out.put_short(0);
            out.extend_from_slice(&of_values[8..]);
            [out, columns(flags)].concat()
        };
        for flags in [0, metadata_flag::GLOBAL_TABLE_SPEC] {
            let reply = after_id(flags);
            let before = |version| prepared_before_v5(version, &reply).expect("valid");
            // Everything but the types, and in v3 the partition key, is as it was.
            assert_eq!(before(Version::V5), reply[18..]);
            let of = |version: Version, name: &[u8]| {
                let encoded = before(version);
                encoded.windows(name.len()).filter(|w| *w == name).count()
            };
            assert_eq!(of(Version::V4, b"marshal.DurationType"), 4);
            assert_eq!(of(Version::V4, b"marshal."), 4);
            assert_eq!(of(Version::V3, b"marshal."), 8);
            let class = "org.apache.cassandra.db.marshal.ShortType".len() + 2;
            let more = 2 * (2 * class + "SimpleDate".len() - "Short".len());
            let length = |version| before(version).len();
            assert_eq!(length(Version::V3), length(Version::V4) - 6 + more);
            for end in 0..reply.len() {
                assert_eq!(prepared_before_v5(Version::V4, &reply[..end]), None);
            }
        }
    }

    #[test]
    fn a_preparation_without_a_result_reads_as_in_the_older_version() {
        let mut reply = Vec::new();
        reply.put_short_bytes(b"id");
        for number in [0, 0, 0, metadata_flag::NO_METADATA, 0] {
            reply.put_int(number);
        }
        let before = |version| prepared_before_v5(version, &reply).expect("valid");
        assert_eq!(before(Version::V4), reply[4..]);
        assert_eq!(before(Version::V3).len(), 16);
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
