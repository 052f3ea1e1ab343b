//! Rows results (native_protocol_v5 §4.2.5.2): reads the replies to sub-reads, and writes the head of the client's.
//!
//! Rows are relayed as bytes. They are the same in every protocol version, so nothing here looks into a value.

use crate::protocol::response::result::{kind, metadata_flag, read_columns};
use crate::protocol::types::{Cursor, Write, int_len};

/// The reply to one sub-read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<'a> {
    /// Where the sub-read continues; `None` at its end.
    pub paging_state: Option<&'a [u8]>,
    pub column_count: usize,
    /// The description of the columns, after the id of changed metadata. Each part is there only if the reply has it.
    pub columns: &'a [u8],
    pub row_count: usize,
    /// The rows as they came: exactly `row_count` times `column_count` values.
    pub rows: &'a [u8],
}

impl<'a> Page<'a> {
    /// Reads a Rows message, with or without columns. `None`: another kind of result, or an inconsistent one.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut message = Cursor::new(body);
        if message.int().ok()? != kind::ROWS {
            return None;
        }
        let flags = message.int().ok()?;
        let column_count = message.count("column count").ok()?;
        // Every SELECT has columns, and without them a row has no bytes, so any row count would seem valid.
        if column_count == 0 {
            return None;
        }
        let paging_state = match flags & metadata_flag::HAS_MORE_PAGES {
            0 => None,
            _ => message.bytes().ok()?,
        };
        let before = message.rest();
        read_columns(&mut message, flags, column_count).ok()?;
        let columns = &before[..before.len() - message.rest().len()];
        let row_count = message.count("row count").ok()?;
        let rows = message.rest();
        adds_up(rows, row_count, column_count)?;
        Some(Self {
            paging_state,
            column_count,
            columns,
            row_count,
            rows,
        })
    }

    /// Whether each row has a value in one of these places, which are in ascending order.
    pub fn tell(&self, places: &[usize]) -> bool {
        let mut cursor = Cursor::new(self.rows);
        let mut tells = || {
            let mut has_one = false;
            for place in 0..self.column_count {
                let value = cursor.bytes().ok()?;
                has_one |= value.is_some() && places.binary_search(&place).is_ok();
            }
            Some(has_one)
        };
        (0..self.row_count).all(|_| tells() == Some(true))
    }

    /// The values of the first row, `None` for null. An aggregate has no other row.
    pub fn first_row_values(&self) -> Option<Vec<Option<&'a [u8]>>> {
        if self.row_count == 0 {
            return None;
        }
        let mut cursor = Cursor::new(self.rows);
        (0..self.column_count)
            .map(|_| cursor.bytes().ok())
            .collect()
    }
}

/// Checks that the bytes are exactly this many rows.
fn adds_up(rows: &[u8], row_count: usize, column_count: usize) -> Option<()> {
    // A value takes at least four bytes, so a count that is too high is refused before any value is read.
    let values = row_count.checked_mul(column_count)?;
    if values > rows.len() / 4 {
        return None;
    }
    let mut cursor = Cursor::new(rows);
    for _ in 0..values {
        cursor.bytes().ok()?;
    }
    cursor.rest().is_empty().then_some(())
}

/// The part of a client's page before its rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heading<'a> {
    pub column_count: usize,
    /// The columns as [`Columns::encode`](super::metadata::Columns::encode) writes them; `None`: the client wants none.
    pub metadata: Option<&'a [u8]>,
    /// Set if there are more pages.
    pub paging_state: Option<&'a [u8]>,
    /// Set in v5, if the client's EXECUTE named another id. The columns are then included, wanted or not.
    pub changed_metadata_id: Option<&'a [u8]>,
}

/// The client's Rows message up to its rows. These follow as they came from the sub-reads.
pub fn head(heading: &Heading<'_>, row_count: usize) -> Vec<u8> {
    let before =
        heading.metadata.map_or(0, <[u8]>::len) + heading.paging_state.map_or(0, <[u8]>::len);
    let mut out = Vec::with_capacity(before + 64);
    out.put_int(kind::ROWS);
    out.put_int(heading.flags());
    out.put_int(int_len(heading.column_count));
    if let Some(state) = heading.paging_state {
        out.put_bytes(Some(state));
    }
    if let Some(id) = heading.changed_metadata_id {
        out.put_short_bytes(id);
    }
    out.extend_from_slice(heading.metadata.unwrap_or_default());
    out.put_int(int_len(row_count));
    out
}

/// Joins consecutive pages of the same statement into one message, with the columns of the first and the paging state
/// of the last. Returns the message up to its rows, which are those of the pages. `None`: they do not fit together.
pub fn joined_head(messages: &[&[u8]]) -> Option<Vec<u8>> {
    let pages: Option<Vec<Page<'_>>> = messages.iter().map(|message| Page::read(message)).collect();
    let pages = pages?;
    let (first, last) = (pages.first()?, pages.last()?);
    let mut head = Cursor::new(messages.first()?);
    head.int().ok()?;
    let flags = head.int().ok()?;
    let columns = first.columns;
    // If the table was altered between two pages, their rows have different columns.
    let same = |page: &Page<'_>| page.column_count == first.column_count && page.columns == columns;
    if !pages.iter().all(same) {
        return None;
    }
    let state = last.paging_state.map_or(0, <[u8]>::len);
    let mut out = Vec::with_capacity(columns.len() + state + 64);
    out.put_int(kind::ROWS);
    let more = last
        .paging_state
        .map_or(0, |_| metadata_flag::HAS_MORE_PAGES);
    out.put_int(flags & !metadata_flag::HAS_MORE_PAGES | more);
    out.put_int(int_len(first.column_count));
    if last.paging_state.is_some() {
        out.put_bytes(last.paging_state);
    }
    out.extend_from_slice(columns);
    out.put_int(int_len(pages.iter().map(|page| page.row_count).sum()));
    Some(out)
}

impl Heading<'_> {
    fn flags(&self) -> i32 {
        let flag = |set: bool, flag: i32| if set { flag } else { 0 };
        // GLOBAL_TABLE_SPEC is set even if the columns, and the table with them, are left out.
        metadata_flag::GLOBAL_TABLE_SPEC
            | flag(self.metadata.is_none(), metadata_flag::NO_METADATA)
            | flag(self.paging_state.is_some(), metadata_flag::HAS_MORE_PAGES)
            | flag(
                self.changed_metadata_id.is_some(),
                metadata_flag::METADATA_CHANGED,
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        for value in values {
            out.put_bytes(*value);
        }
        out
    }

    #[test]
    fn rows_tell_if_each_has_a_value_in_one_of_the_places() {
        let one: &[u8] = b"1";
        let rows = [Some(one), None, Some(b""), Some(one), Some(one), None];
        let rows = values(&rows);
        let page = |rows| Page {
            paging_state: None,
            column_count: 3,
            columns: &[],
            row_count: 2,
            rows,
        };
        let tell = |places: &[usize]| page(&rows).tell(places);
        assert!(tell(&[0]) && tell(&[1, 2]) && tell(&[0, 1, 2]));
        assert!(!tell(&[1]) && !tell(&[2]) && !tell(&[]));
        assert!(!page(&rows[..rows.len() - 1]).tell(&[0]), "cut short");
    }

    /// Table `ks.t` with `a int` and `b list<text>`.
    fn columns() -> Vec<u8> {
        let mut out = Vec::new();
        for name in ["ks", "t", "a"] {
            out.put_string(name);
        }
        out.put_short(0x0009);
        out.put_string("b");
        out.put_short(0x0020);
        out.put_short(0x000D);
        out
    }

    #[test]
    fn reads_what_it_composes() {
        let first = values(&[Some(b"1"), None, Some(b""), Some(b"22")]);
        let second = values(&[Some(b"3"), Some(b"4")]);
        let columns = columns();
        for metadata in [None, Some(&columns[..])] {
            for paging_state in [None, Some(&b"state"[..])] {
                for changed_metadata_id in [None, metadata.map(|_| &b"id"[..])] {
                    let heading = Heading {
                        column_count: 2,
                        metadata,
                        paging_state,
                        changed_metadata_id,
                    };
                    let message = [head(&heading, 3), first.clone(), second.clone()].concat();
                    let page = Page::read(&message).expect("valid");
                    assert_eq!(page.paging_state, paging_state);
                    assert_eq!((page.column_count, page.row_count), (2, 3));
                    assert_eq!(page.rows, [&first[..], &second].concat());
                    assert_eq!(page.first_row_values(), Some(vec![Some(&b"1"[..]), None]));
                    for end in 0..message.len() {
                        assert_eq!(Page::read(&message[..end]), None, "{end}");
                    }
                    assert_eq!(Page::read(&[&message[..], &[0]].concat()), None);
                }
            }
        }
    }

    #[test]
    fn joined_pages_are_one_page() {
        let columns = columns();
        let page = |paging_state, rows: &[Option<&[u8]>]| {
            let heading = Heading {
                column_count: 2,
                metadata: Some(&columns),
                paging_state,
                ..Heading::default()
            };
            [head(&heading, rows.len() / 2), values(rows)].concat()
        };
        let first = page(Some(b"one"), &[Some(b"1"), None]);
        let second = page(Some(b"two"), &[Some(b"2"), None, Some(b"3"), None]);
        let rows = values(&[Some(b"1"), None, Some(b"2"), None, Some(b"3"), None]);
        let joined = joined_head(&[&first, &second]).expect("they fit");
        let joined = [joined, rows].concat();
        let page = Page::read(&joined).expect("valid");
        assert_eq!((page.paging_state, page.row_count), (Some(&b"two"[..]), 3));
        assert_eq!(page.columns, Page::read(&first).expect("valid").columns);
        let other = head(&Heading::default(), 0);
        assert_eq!(joined_head(&[&first, &other]), None);
        assert_eq!(joined_head(&[]), None);
    }

    #[test]
    fn an_empty_page_has_no_first_row() {
        let heading = Heading {
            column_count: 2,
            ..Heading::default()
        };
        let message = head(&heading, 0);
        let page = Page::read(&message).expect("valid");
        assert_eq!((page.row_count, page.first_row_values()), (0, None));
    }

    #[test]
    fn counts_that_promise_too_much_are_refused_at_once() {
        let page = |columns, rows, bytes: &[u8]| {
            let mut out = Vec::new();
            for number in [kind::ROWS, metadata_flag::NO_METADATA, columns, rows] {
                out.put_int(number);
            }
            out.extend_from_slice(bytes);
            Page::read(&out).map(|page| page.row_count)
        };
        assert_eq!(page(1, 1, &values(&[None])), Some(1));
        assert_eq!(page(i32::MAX, i32::MAX, &values(&[None])), None);
        assert_eq!(page(1, i32::MAX, &values(&[None])), None);
        assert_eq!(page(0, i32::MAX, &[]), None);
        assert_eq!(page(0, 0, &[]), None);
        assert_eq!(page(-1, 1, &[]), None);
        assert_eq!(page(1, -1, &[]), None);
    }

    #[test]
    fn other_results_are_none() {
        for kind in [1, 3, 4, 5] {
            let mut out = Vec::new();
            for number in [kind, metadata_flag::NO_METADATA, 1, 0] {
                out.put_int(number);
            }
            assert_eq!(Page::read(&out), None, "{kind}");
        }
    }
}
