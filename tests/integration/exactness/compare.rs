//! Asks both sides the same and compares every page, byte by byte; only the paging states are each side's own.

use std::fmt;
use std::net::SocketAddr;

use super::query::Question;
use crate::support::frame::flag;
use crate::support::request::{self, Parameters};
use crate::support::{Codec, Frame, RawClient, opcode};

/// A busy machine, or two SERIAL reads of one partition in each other's way: overloaded, timeouts, failures, and a CAS
/// of unknown outcome. Asked again.
const PASSING_ERRORS: [i32; 8] = [
    0x1000, 0x1001, 0x1100, 0x1200, 0x1300, 0x1500, 0x1700, 0x2500,
];
const ATTEMPTS: usize = 4;
/// A full cache of prepared statements drops new ones again and again, until one was asked for often enough. Drivers then
/// prepare it once more, too.
pub(super) const UNPREPARED: i32 = 0x2500;
const ATTEMPTS_TO_PREPARE: usize = 20;
/// If a node still does not keep a statement, the question is asked as a text. That happened once in 3,000 pages at most.
/// If it happens more often than once in this many pages, the proxy is at fault.
const PAGES_PER_UNPREPARED: usize = 500;
/// Of a description.
const CHARACTERS_MAX: usize = 3000;

/// Connections to the original and through the proxy, of every version that was needed so far.
pub(crate) struct Sides {
    keyspace: String,
    addresses: [SocketAddr; 2],
    clients: Vec<(Codec, [RawClient; 2])>,
    pub(crate) answers: Answers,
}

/// What there was to compare: a run of errors and empty results proves little.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    errors: usize,
    pages: usize,
    empty_pages: usize,
    rows: usize,
    /// Questions whose statement did not stay in a node's cache.
    unprepared: usize,
}

impl Answers {
    pub(crate) fn add(&mut self, other: &Self) {
        self.errors += other.errors;
        self.pages += other.pages;
        self.empty_pages += other.empty_pages;
        self.rows += other.rows;
        self.unprepared += other.unprepared;
    }

    /// Whether nodes kept nearly all statements.
    pub(crate) fn were_prepared(&self) -> bool {
        self.unprepared <= self.pages / PAGES_PER_UNPREPARED
    }

    fn count(&mut self, rows: usize) {
        self.pages += 1;
        self.empty_pages += usize::from(rows == 0);
        self.rows += rows;
    }
}

/// Where the two differ.
pub(crate) struct Difference {
    page: String,
    direct: String,
    through: String,
    /// Both have the same passing error. Some statements always have it: Cassandra fails on a few of its own.
    is_same_failure: bool,
    /// One of them does not have the statement any more.
    is_unprepared: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            page,
            direct,
            through,
            ..
        } = self;
        write!(out, "{page}\n  direct:  {direct}\n  through: {through}")
    }
}

impl Sides {
    pub(crate) fn new(keyspace: &str, direct: SocketAddr, through: SocketAddr) -> Self {
        Self {
            keyspace: keyspace.to_owned(),
            addresses: [direct, through],
            clients: Vec::new(),
            answers: Answers::default(),
        }
    }

    /// Runs a question to its end. What differs for the time it was asked at, or for a passing error, is asked again.
    pub(crate) fn compare(&mut self, question: &Question) -> Result<(), Difference> {
        let mut last = Ok(());
        let mut attempts = 0;
        for _ in 0..ATTEMPTS_TO_PREPARE {
            let mut passing = false;
            last = self.once(question, &mut passing);
            if last.is_ok() || !passing && !question.depends_on_time() {
                break;
            }
            let unprepared = matches!(&last, Err(difference) if difference.is_unprepared);
            attempts += usize::from(!unprepared);
            if attempts == ATTEMPTS {
                break;
            }
        }
        match &last {
            Err(difference) if difference.is_same_failure => {
                self.answers.errors += 1;
                Ok(())
            }
            Err(difference) if difference.is_unprepared => {
                self.answers.unprepared += 1;
                self.compare(&Question {
                    is_prepared: false,
                    ..question.clone()
                })
            }
            _ => last,
        }
    }

    fn once(&mut self, question: &Question, passing: &mut bool) -> Result<(), Difference> {
        let codec = question.codec;
        let mut ids = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        if question.is_prepared {
            let body = request::prepare(codec, &question.text, question.keyspace.as_deref());
            let replies = self.ask(question, opcode::PREPARE, [body.clone(), body]);
            let is_error = check("PREPARE", &replies, passing)?;
            if is_error {
                self.answers.errors += 1;
                return Ok(());
            }
            ids = replies.map(|reply| reply.prepared(codec));
        }
        let mut states = [None, None];
        for page in 1.. {
            let parameters = states.map(|state| parameters(question, page, state));
            let [direct, through] = [0, 1].map(|side| match question.is_prepared {
                true => request::execute(codec, &ids[side], &parameters[side]),
                false => request::query_with(codec, &question.text, &parameters[side]),
            });
            let operation = if question.is_prepared {
                opcode::EXECUTE
            } else {
                opcode::QUERY
            };
            let mut replies = self.ask(question, operation, [direct, through]);
            if question.adds_up() {
                replies
                    .iter_mut()
                    .for_each(|reply| unsign_nans(&mut reply.body));
            }
            let is_error = check(&format!("page {page}"), &replies, passing)?;
            if is_error {
                self.answers.errors += 1;
                break;
            }
            self.answers.count(row_count(&replies[0]));
            states = replies
                .map(|reply| paging_state(&reply).map(|state| reply.body[state][4..].to_vec()));
            if states[0].is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Both at a time; SERIAL reads one after the other, since each is a round of Paxos on the same partition.
    fn ask(&mut self, question: &Question, opcode: u8, bodies: [Vec<u8>; 2]) -> [Frame; 2] {
        let [direct, through] = self.clients(question.codec);
        let send = |client: &mut RawClient, body: &[u8]| {
            question.text.clone_into(&mut client.asking);
            client.send(1, opcode, body);
        };
        send(direct, &bodies[0]);
        if question.is_serial() {
            let reply = direct.receive();
            send(through, &bodies[1]);
            return [reply, through.receive()];
        }
        send(through, &bodies[1]);
        [direct.receive(), through.receive()]
    }

    fn clients(&mut self, codec: Codec) -> &mut [RawClient; 2] {
        let known = self.clients.iter().position(|(known, _)| *known == codec);
        let at = known.unwrap_or_else(|| {
            let clients = self.addresses.map(|address| {
                let mut client = RawClient::connect(address, codec);
                client.query(&format!("USE {}", self.keyspace));
                client
            });
            self.clients.push((codec, clients));
            self.clients.len() - 1
        });
        &mut self.clients[at].1
    }
}

fn parameters(question: &Question, page: usize, paging_state: Option<Vec<u8>>) -> Parameters {
    let (first, pages, then) = question.pages;
    Parameters {
        consistency: Some(question.consistency),
        values: question.values_of(page),
        names: question.names.clone(),
        skip_metadata: question.skip_metadata,
        page_size: if page <= pages { first } else { then },
        paging_state,
        now_in_seconds: question.now,
        // A prepared statement has its keyspace already.
        keyspace: question.keyspace.clone().filter(|_| !question.is_prepared),
        timestamp: question.timestamp,
        serial_consistency: question.serial_consistency,
    }
}

/// Whether both are the same error; a difference if they are not the same at all.
fn check(page: &str, replies: &[Frame; 2], passing: &mut bool) -> Result<bool, Difference> {
    let code = |reply: &Frame| reply.error().map(|error| error.0);
    let passes = |reply: &Frame| code(reply).is_some_and(|code| PASSING_ERRORS.contains(&code));
    *passing |= replies.iter().any(passes);
    let [direct, through] = replies;
    if comparable(direct) == comparable(through) && !replies.iter().any(passes) {
        return Ok(direct.opcode == opcode::ERROR);
    }
    Err(Difference {
        page: page.to_owned(),
        direct: describe(direct),
        through: describe(through),
        is_same_failure: replies.iter().all(passes) && code(direct) == code(through),
        is_unprepared: replies.iter().any(|reply| code(reply) == Some(UNPREPARED)),
    })
}

/// Everything that must be equal.
pub(crate) fn comparable(reply: &Frame) -> (u8, u8, u8, Vec<u8>) {
    let mut flags = reply.flags & !flag::COMPRESSED;
    let mut body = reply.body.clone();
    if let Some(state) = paging_state(reply) {
        body.drain(state);
    }
    if is_prepared(reply) {
        // Cassandra warns of USE only when the statement is new to the node.
        body = reply.message().0.to_vec();
        flags &= !flag::WARNING;
    }
    if let Some((code, text)) = reply.error() {
        let rest = &reply.message().0[6 + text.len()..];
        body = [
            &code.to_be_bytes(),
            sorted_signatures(own_words(code, &text)).as_bytes(),
            rest,
        ]
        .concat();
    }
    (reply.version, flags, reply.opcode, body)
}

fn is_prepared(reply: &Frame) -> bool {
    reply.opcode == opcode::RESULT && reply.message().int() == 4
}

/// An exception that Java has thrown often loses its details, on each node at another time.
fn own_words(code: i32, text: &str) -> &str {
    const SERVER_ERROR: i32 = 0x0000;
    match text.split_once(':') {
        Some((exception, _)) if code == SERVER_ERROR => exception,
        _ => text,
    }
}

/// What infinity and minus infinity add up to is NaN, whose sign is the processor's where Java compiled the addition and
/// Java's own where it interprets it: nodes answer the same SELECT with either.
fn unsign_nans(body: &mut [u8]) {
    const NANS: [&[u8]; 2] = [
        &[0, 0, 0, 4, 0xff, 0xc0, 0, 0],
        &[0, 0, 0, 8, 0xff, 0xf8, 0, 0, 0, 0, 0, 0],
    ];
    for nan in NANS {
        for at in 0..body.len().saturating_sub(nan.len() - 1) {
            if body[at..].starts_with(nan) {
                body[at + 4] &= 0x7f;
            }
        }
    }
}

/// Every node lists the signatures of a function in an order of its own.
fn sorted_signatures(text: &str) -> String {
    const SIGNATURES: [&str; 2] = ["(known type signatures: ", "by following signatures: "];
    let parts = SIGNATURES.iter().find_map(|lead| text.split_once(lead));
    let Some((before, (list, after))) =
        parts.and_then(|(before, list)| Some((before, list.rsplit_once(')')?)))
    else {
        return text.to_owned();
    };
    let mut list: Vec<&str> = list.split(", system.").collect();
    list.iter_mut()
        .for_each(|item| *item = item.trim_start_matches("system."));
    list.sort_unstable();
    format!("{before}{list:?}{after}")
}

/// Where it is in the body of a RESULT; its length is in front and left out, since it is each side's own, too.
pub(crate) fn paging_state(reply: &Frame) -> Option<std::ops::Range<usize>> {
    if reply.opcode != opcode::RESULT {
        return None;
    }
    let mut message = reply.message();
    let has_more = message.int() == 2 && message.int() & 2 != 0;
    if !has_more {
        return None;
    }
    message.int();
    let start = reply.body.len() - message.0.len();
    let length = message.bytes().map_or(0, <[u8]>::len);
    Some(start..start + 4 + length)
}

/// Nothing of the metadata needs to be understood for it.
fn row_count(reply: &Frame) -> usize {
    reply.rows().rows.len()
}

/// For people; a reply that cannot be read is shown as it came.
pub(crate) fn describe(reply: &Frame) -> String {
    if let Some(error) = reply.error() {
        return format!(
            "flags {:#x}, error {:#06x} {}",
            reply.flags, error.0, error.1
        );
    }
    let described = std::panic::catch_unwind(|| {
        let mut message = reply.message();
        let prefix = reply.body.len() - message.0.len();
        if message.int() != 2 {
            return format!("flags {:#x}, {}", reply.flags, hex(&reply.body));
        }
        let rows = reply.rows();
        let has_more = rows.paging_state.is_some();
        let metadata = match &rows.paging_state {
            Some(state) => &rows.metadata[12 + state.len()..],
            None => &rows.metadata,
        };
        let values = rows.rows.iter().map(|row| {
            let row: Vec<String> = row
                .iter()
                .map(|value| value.as_ref().map_or("null".to_owned(), |value| hex(value)))
                .collect();
            row.join(" ")
        });
        format!(
            "flags {:#x}, prefix {}, {} rows, more: {has_more}, columns {:?}, metadata {}\n    {}",
            reply.flags,
            String::from_utf8_lossy(&reply.body[..prefix]),
            rows.rows.len(),
            rows.names,
            hex(metadata),
            values.collect::<Vec<_>>().join("\n    ")
        )
    });
    let mut text = described.unwrap_or_else(|_| format!("unreadable: {}", hex(&reply.body)));
    if let Some((end, _)) = text.char_indices().nth(CHARACTERS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::request::{int, long_string};

    /// A result of one int column without metadata.
    fn rows(state: Option<&[u8]>, rows: &[i32]) -> Frame {
        let mut body = Vec::new();
        int(&mut body, 2);
        int(&mut body, if state.is_some() { 6 } else { 4 });
        int(&mut body, 1);
        if let Some(state) = state {
            long_string(&mut body, state);
        }
        int(&mut body, rows.len() as i32);
        for row in rows {
            long_string(&mut body, &row.to_be_bytes());
        }
        frame(opcode::RESULT, body)
    }

    fn error(code: i32, text: &str) -> Frame {
        let mut body = code.to_be_bytes().to_vec();
        request::string(&mut body, text);
        frame(opcode::ERROR, body)
    }

    fn frame(opcode: u8, body: Vec<u8>) -> Frame {
        Frame {
            version: 0x85,
            flags: 0,
            stream: 1,
            opcode,
            body,
        }
    }

    fn differ(direct: Frame, through: Frame) -> bool {
        check("page 1", &[direct, through], &mut false).is_err()
    }

    #[test]
    fn only_the_paging_state_may_differ() {
        assert!(!differ(
            rows(Some(b"one"), &[1, 2]),
            rows(Some(b"another"), &[1, 2])
        ));
        assert!(differ(rows(Some(b"one"), &[1, 2]), rows(None, &[1, 2])));
        assert!(differ(rows(None, &[1, 2]), rows(None, &[2, 1])));
        assert!(differ(rows(None, &[1, 2]), rows(None, &[1])));
        let mut warned = rows(None, &[1]);
        warned.flags = flag::WARNING;
        warned.body.splice(0..0, [0, 1, 0, 1, b'w']);
        assert!(differ(warned.clone(), rows(None, &[1])));
        assert!(!differ(warned.clone(), warned));
        assert!(differ(error(0x2200, "one"), rows(None, &[])));
        assert!(differ(error(0x2200, "one"), error(0x2200, "other")));
        assert!(differ(error(0x2200, "one"), error(0x2000, "one")));
        assert!(!differ(error(0x2200, "one"), error(0x2200, "one")));
    }

    #[test]
    fn the_sign_of_a_nan_is_nobodys() {
        let mut sums = [0xffc0_0000_u32, 0x7fc0_0000].map(|sum| {
            let one = (-1.5_f32).to_be_bytes();
            [&[0, 0, 0, 4][..], &sum.to_be_bytes(), &[0, 0, 0, 4], &one].concat()
        });
        sums.iter_mut().for_each(|sum| unsign_nans(sum));
        assert_eq!(sums[0], sums[1]);
        assert!(sums[0].ends_with(&(-1.5_f32).to_be_bytes()));
        let mut doubles = [0, 0, 0, 8, 0xff, 0xf8, 0, 0, 0, 0, 0, 0];
        unsign_nans(&mut doubles);
        assert_eq!(doubles[4], 0x7f);
        unsign_nans(&mut doubles[..3]);
    }

    #[test]
    fn the_order_of_signatures_is_a_nodes_own() {
        let known = |list: &str| format!("no such avg (known type signatures: {list})");
        let ambiguous =
            |list: &str| format!("(can be matched by following signatures: {list}): use casts");
        let texts: [&dyn Fn(&str) -> String; 2] = [&known, &ambiguous];
        for text in texts {
            let one = text("system.avg : (int) -> int, system.avg : (map<int, int>) -> int");
            let other = text("system.avg : (map<int, int>) -> int, system.avg : (int) -> int");
            assert!(!differ(error(0x2200, &one), error(0x2200, &other)));
            let fewer = text("system.avg : (int) -> int");
            assert!(differ(error(0x2200, &one), error(0x2200, &fewer)));
        }
    }
}
