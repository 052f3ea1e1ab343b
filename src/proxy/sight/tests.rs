//! Replies in, what they say out.

use super::*;
use crate::protocol::header::{Header, flag};
use crate::protocol::types::Write;

const STATE: &[u8] = b"where the scan stands";

/// A page of 300 rows with two columns named.
fn rows_message(more: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let flags = match more {
        true => metadata_flag::GLOBAL_TABLE_SPEC | metadata_flag::HAS_MORE_PAGES,
        false => metadata_flag::GLOBAL_TABLE_SPEC,
    };
    out.put_int(kind::ROWS);
    out.put_int(flags);
    out.put_int(2);
    if more {
        out.put_bytes(Some(STATE));
    }
    for text in ["ks", "t", "a"] {
        out.put_string(text);
    }
    out.put_short(0x0009);
    out.put_string("b");
    out.put_short(0x000D);
    out.put_int(300);
    out
}

fn view(opcode: u8, flags: u8, body: &[u8], length: u32, complete: bool) -> View<'_> {
    let header = Header {
        version: 0x84,
        flags,
        stream: 7,
        opcode,
        length,
    };
    View {
        header,
        body,
        complete,
    }
}

fn all(opcode: u8, flags: u8, body: &[u8]) -> Told {
    let view = view(opcode, flags, body, 1_000_000, true);
    read(view, |_, _| true).expect("all of it is there")
}

fn page(ends_at: Option<u64>, rows: u64, warning: Option<Warning>) -> Told {
    Told::Page(Head {
        ends_at,
        bytes: 1_000_000,
        rows,
        warning,
    })
}

#[test]
fn a_page_tells_its_state_and_its_rows() {
    let state = Some(XxHash3_64::oneshot(STATE));
    assert_eq!(
        all(opcode::RESULT, 0, &rows_message(true)),
        page(state, 300, None)
    );
    assert_eq!(
        all(opcode::RESULT, 0, &rows_message(false)),
        page(None, 300, None)
    );
}

#[test]
fn no_more_is_waited_for_than_is_needed() {
    let message = rows_message(true);
    let read_to = |end: usize, counts: bool| {
        let view = view(opcode::RESULT, 0, &message[..end], 1_000_000, false);
        read(view, |_, _| counts).is_ok()
    };
    for end in 0..message.len() {
        assert!(!read_to(end, true), "{end}");
    }
    assert!(read_to(message.len(), true));
    // Without the rows, what stands before the names of the columns is enough.
    let state_end = 4 + 4 + 4 + 4 + STATE.len();
    assert!(read_to(state_end, false) && !read_to(state_end - 1, false));
}

#[test]
fn a_head_longer_than_anybody_waits_for_still_tells_its_state() {
    let mut message = rows_message(true);
    message.truncate(message.len() - 4);
    let state = Some(XxHash3_64::oneshot(STATE));
    assert_eq!(all(opcode::RESULT, 0, &message), page(state, 0, None));
}

#[test]
fn warnings_of_cassandra_are_told_apart() {
    let quoted =
        "SELECT * FROM t WHERE k = '(see tombstone_warn_threshold)' LIMIT 5 ALLOW FILTERING";
    for (text, expected) in [
        (
            format!("Read 20 live rows and 2000 tombstone cells for query {quoted}; token 1 (see tombstone_warn_threshold)"),
            Some(Warning::Tombstones),
        ),
        (
            format!("2 nodes scanned up to 2000 tombstones and issued tombstone warnings for query {quoted} (see tombstone_warn_threshold)"),
            Some(Warning::Tombstones),
        ),
        (
            format!("1 nodes loaded over 9 bytes and issued local read size warnings for query {quoted} (see local_read_size_warn_threshold)"),
            Some(Warning::ReadSize),
        ),
        (
            format!("1 nodes loaded over 9 bytes in RowIndexEntry and issued warnings for query {quoted} (see row_index_size_warn_threshold)"),
            Some(Warning::RowIndex),
        ),
        (
            "Read on table ks.t has exceeded the size warning threshold of 1,024 bytes with token 1".to_owned(),
            Some(Warning::ReadSize),
        ),
        (format!("something about {quoted}"), None),
        ("Aggregation query used without partition key".to_owned(), None),
    ] {
        assert_eq!(warning(&text), expected, "{text}");
        let mut body = Vec::new();
        body.put_short(2);
        body.put_string("another warning");
        body.put_string(&text);
        body.extend(rows_message(false));
        let told = all(opcode::RESULT, flag::WARNING, &body);
        assert_eq!(told, page(None, 300, expected), "{text}");
    }
}

#[test]
fn errors_that_point_at_a_partition_are_told_apart() {
    let failed = |reason: &str| {
        format!(
            "Operation failed - received 0 responses and 1 failures: {reason} from /127.0.0.1:7000"
        )
    };
    for (code, text, expected) in [
        (
            0x1200,
            "Operation timed out".to_owned(),
            Told::Failure(Failure::Timeout),
        ),
        (
            0x1300,
            failed("READ_TOO_MANY_TOMBSTONES"),
            Told::Failure(Failure::TombstoneOverload),
        ),
        (
            0x1300,
            failed("READ_SIZE"),
            Told::Failure(Failure::TooLarge),
        ),
        (
            0x1300,
            failed("UNKNOWN"),
            Told::Failure(Failure::ReadFailure),
        ),
        (
            0x1000,
            "Cannot achieve consistency level".to_owned(),
            Told::Nothing,
        ),
        (0x2200, "READ_SIZE".to_owned(), Told::Nothing),
    ] {
        let mut body = Vec::new();
        body.put_int(code);
        body.put_string(&text);
        assert_eq!(all(opcode::ERROR, 0, &body), expected, "{code:x} {text}");
        for end in 0..body.len() {
            let view = view(opcode::ERROR, 0, &body[..end], 100, false);
            assert!(read(view, |_, _| true).is_err(), "{end}");
        }
    }
}

#[test]
fn other_results_say_nothing() {
    let mut void = Vec::new();
    void.put_int(1);
    assert_eq!(all(opcode::RESULT, 0, &void), Told::Nothing);
    assert_eq!(all(opcode::SUPPORTED, 0, b"whatever"), Told::Nothing);
}
