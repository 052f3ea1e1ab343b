//! The warnings of sub-reads, as the client's own request would have got them: joined without repeats and put before
//! its message (native_protocol_v5 §2.2).
//!
//! Of a bucket's warnings only guardrails pass, because they judge the request. All others are about tombstones, sizes
//! or our own connection, and most quote the split table's name and hidden columns. Some guardrails quote a number of
//! the request; the client's number takes its place. A guardrail that only the whole request violates is not noticed.

use crate::protocol::header::{Version, flag};
use crate::protocol::types::Write;
use crate::schema::bucket::{BUCKET, GENERATION};

/// What warnings quote of the client's own request.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a> {
    pub table: &'a str,
    pub page_size: Option<i32>,
    /// How many partition keys it has; `None`: as many as the sub-read.
    pub keys: Option<usize>,
}

const GUARDRAIL: &str = "Guardrail ";
const PAGE_SIZE: (&str, &str) = ("Guardrail page_size ", " with page size ");
const KEYS: [(&str, &str); 2] = [
    (
        "Guardrail partition_keys_in_select ",
        "number of partition keys ",
    ),
    (
        "Guardrail in_select_cartesian_product ",
        "on partition key produces ",
    ),
];

/// The warnings of a read of a bucket in this split table.
pub fn of_bucket(texts: Vec<String>, split_table: &str, quoted: &Quoted<'_>) -> Vec<String> {
    let texts = texts.into_iter();
    let guardrails = texts.filter(|text| text.starts_with(GUARDRAIL));
    let named = guardrails.map(|text| text.replace(split_table, quoted.table));
    let shown = named.filter(|text| !text.contains(GENERATION) && !text.contains(BUCKET));
    of_original(shown.collect(), quoted)
}

/// The warnings of a read of the original on the client's connection.
pub fn of_original(texts: Vec<String>, quoted: &Quoted<'_>) -> Vec<String> {
    let texts = texts.into_iter();
    texts.filter_map(|text| quoted.amend(text)).collect()
}

impl Quoted<'_> {
    /// `None`: the client's own request would not get this warning.
    fn amend(&self, text: String) -> Option<String> {
        let is = |(guardrail, _): &(&str, &str)| text.starts_with(guardrail);
        if is(&PAGE_SIZE) {
            let size = self.page_size.filter(|size| *size > 0)?;
            return Some(with_number(&text, PAGE_SIZE.1, &size.to_string()));
        }
        Some(match (KEYS.iter().find(|keys| is(keys)), self.keys) {
            (Some((_, before)), Some(keys)) => with_number(&text, before, &keys.to_string()),
            _ => text,
        })
    }
}

/// The text with another number behind these words.
fn with_number(text: &str, before: &str, number: &str) -> String {
    match text.split_once(before) {
        Some((head, tail)) => {
            let rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            [head, before, number, rest].concat()
        }
        None => text.to_owned(),
    }
}

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

    const QUOTED: Quoted<'_> = Quoted {
        table: "t",
        page_size: Some(5_000),
        keys: Some(128),
    };

    /// Texts of Cassandra 4.1 and 5.0.
    #[test]
    fn a_bucket_shows_only_what_concerns_the_request() {
        let about_tombstones = "Read 7 live rows and 1001 tombstone cells for query SELECT v FROM ks.wide_t_1 WHERE k = 1 AND \
             narrows_generation = 7 AND narrows_bucket = 0 LIMIT 5000; token 1 (see tombstone_warn_threshold)";
        // Cassandra cuts the query off after 512 characters, which may be before its table.
        let cut_off = "Read 7 live rows and 1001 tombstone cells for query SELECT many, columns; token 1 (see tombstone_warn_threshold)";
        let about_size = "Read on table ks.wide_t_1 has exceeded the size warning threshold of 1,024 bytes with token: 1";
        let level = "Guardrail read_consistency_levels violated: Provided values [ONE] are not recommended for read consistency levels (warned values are: [ONE])";
        let page = |table: &str, size: u32| {
            format!(
                "Guardrail page_size violated: Query for table {table} with page size {size} exceeds warning threshold of 100."
            )
        };
        let pages = [page("wide_t_1", 5_000), page("wide_t_1", 120)];
        let mut all = Warnings::default();
        for page in pages {
            let texts = texts(&[about_tombstones, cut_off, about_size, level, &page]);
            all.add(of_bucket(texts, "wide_t_1", &QUOTED));
        }
        assert_eq!(all, Warnings(texts(&[level, &page("t", 5_000)])));
        let unpaged = Quoted {
            page_size: None,
            ..QUOTED
        };
        let shown = of_bucket(texts(&[&page("wide_t_1", 120)]), "wide_t_1", &unpaged);
        assert!(shown.is_empty());
    }

    #[test]
    fn the_original_counts_the_keys_of_the_whole_request() {
        let some = |keys: usize| {
            [
                format!(
                    "Guardrail partition_keys_in_select violated: Query with partition keys in IN clause on table t, with number of partition keys {keys} exceeds warning threshold of 20."
                ),
                format!(
                    "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on partition key produces {keys} values, this exceeds warning threshold of 20."
                ),
            ]
        };
        let own = "Read 7 live rows and 1001 tombstone cells for query SELECT v FROM ks.t WHERE k = 4 LIMIT 5000; token 1 (see tombstone_warn_threshold)".to_owned();
        let clustering = "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on clustering key produces 30 values, this exceeds warning threshold of 20.".to_owned();
        let mut all = Warnings::default();
        for keys in [60, 67] {
            let texts = [&some(keys)[..], &[clustering.clone(), own.clone()]].concat();
            all.add(of_original(texts, &QUOTED));
        }
        let expected = [&some(128)[..], &[clustering, own]].concat();
        assert_eq!(all, Warnings(expected));
        let as_sent = Quoted {
            keys: None,
            ..QUOTED
        };
        assert_eq!(of_original(some(60).to_vec(), &as_sent), some(60));
    }

    #[test]
    fn no_warnings_leave_the_message_alone() {
        let (flags, body) = Warnings::default().before(Version::V5, b"message".to_vec());
        assert_eq!((flags, &body[..]), (0, &b"message"[..]));
    }
}
