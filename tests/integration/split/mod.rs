//! Reads of split partitions by name: every line of the table of what is rewritten, scans through changes, paging states
//! that do not fit, faults, and splits taken out of service. Random reads are the oracle's, beside this.

mod backlog;
mod faults;
mod hostile;
mod invalidated;
mod keyspaces;
mod lines;
mod many_keys;
mod page_bytes;
mod prepared;
mod scan;
mod scans;
mod shapes;
mod states;
mod tables;
mod warnings;
mod world;
mod written;

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::exactness::compare;
use crate::support::request::{self, Parameters, Value};
use crate::support::{Codec, Frame, RawClient, opcode};

pub(crate) const CODECS: [Codec; 3] = [Codec::V3, Codec::V4, Codec::V5];
/// More than any scan here has.
const PAGES_MAX: usize = 200;
const UNPREPARED: i32 = 0x2500;
const ATTEMPTS: usize = 20;

/// One request with all its pages.
#[derive(Debug, Clone)]
struct Ask {
    text: String,
    codec: Codec,
    is_prepared: bool,
    flags: u8,
    parameters: Parameters,
}

impl Ask {
    fn new(codec: Codec, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            codec,
            is_prepared: false,
            flags: 0,
            parameters: Parameters::default(),
        }
    }

    fn paged(mut self, size: i32) -> Self {
        self.parameters.page_size = Some(size);
        self
    }

    fn with(mut self, values: &[Value]) -> Self {
        self.parameters.values = values.to_vec();
        self
    }

    fn prepared(mut self, is_prepared: bool) -> Self {
        self.is_prepared = is_prepared;
        self
    }

    fn flagged(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    fn consistency(mut self, consistency: u16) -> Self {
        self.parameters.consistency = Some(consistency);
        self
    }

    fn behind(mut self, state: &[u8]) -> Self {
        self.parameters.paging_state = Some(state.to_vec());
        self
    }

    /// One page. What is not prepared any more is prepared again, as drivers do: a node whose cache is full may forget a
    /// statement at once.
    fn once(&self, clients: &mut Clients) -> Frame {
        for _ in 1..ATTEMPTS {
            let reply = self.attempt(clients);
            if reply.error().is_none_or(|(code, _)| code != UNPREPARED) {
                return reply;
            }
            clients.forget(self.codec, &self.text);
        }
        self.attempt(clients)
    }

    fn attempt(&self, clients: &mut Clients) -> Frame {
        let id = self.is_prepared.then(|| clients.id(self.codec, &self.text));
        let client = clients.of(self.codec);
        client.asking = format!("{self:?}");
        let (opcode, body) = if let Some(id) = id {
            let body = request::execute(self.codec, &id, &self.parameters);
            (opcode::EXECUTE, body)
        } else {
            let body = request::query_with(self.codec, &self.text, &self.parameters);
            (opcode::QUERY, body)
        };
        client.send_flagged(self.flags, 1, opcode, &body);
        client.receive()
    }

    /// All pages, or an error where they end.
    fn all(&self, clients: &mut Clients) -> Vec<Frame> {
        let mut next = Some(self.clone());
        let mut pages = Vec::new();
        while let Some(ask) = next {
            let page = ask.once(clients);
            next = state(&page).map(|state| self.clone().behind(&state));
            pages.push(page);
            assert!(pages.len() < PAGES_MAX, "{self:?} never ends");
        }
        pages
    }
}

/// The paging state of a reply; none where it ends, or is an error.
fn state(reply: &Frame) -> Option<Vec<u8>> {
    let range = compare::paging_state(reply)?;
    // Its length stands before it.
    Some(reply.body[range][4..].to_vec())
}

/// Rows of each page.
fn shape(pages: &[Frame]) -> Vec<usize> {
    pages.iter().map(|page| page.rows().rows.len()).collect()
}

/// Page by page the same to a client: rows, metadata, warnings, errors, and whether there are more.
fn assert_same(what: &str, direct: &[Frame], through: &[Frame]) {
    let pages = direct.iter().zip(through).enumerate();
    for (number, (direct, through)) in pages {
        assert!(
            compare::comparable(direct) == compare::comparable(through),
            "{what}, page {number}:\n  direct:  {}\n  through: {}",
            compare::describe(direct),
            compare::describe(through)
        );
    }
    assert_eq!(direct.len(), through.len(), "{what}: pages");
}

/// Connections to one address, one of each version as they are needed, with what was prepared on them.
struct Clients {
    address: SocketAddr,
    clients: Vec<RawClient>,
    prepared: HashMap<(u8, String), Id>,
}

/// Of a statement, and in v5 of its result metadata.
type Id = (Vec<u8>, Vec<u8>);

impl Clients {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            clients: Vec::new(),
            prepared: HashMap::new(),
        }
    }

    fn id(&mut self, codec: Codec, text: &str) -> Id {
        let known = (codec.version, text.to_owned());
        if let Some(id) = self.prepared.get(&known) {
            return id.clone();
        }
        let id = self.of(codec).prepare(text);
        self.prepared.insert(known, id.clone());
        id
    }

    fn forget(&mut self, codec: Codec, text: &str) {
        self.prepared.remove(&(codec.version, text.to_owned()));
    }

    fn of(&mut self, codec: Codec) -> &mut RawClient {
        let known = self.clients.iter().position(|client| client.codec == codec);
        let at = known.unwrap_or_else(|| {
            self.clients.push(RawClient::connect(self.address, codec));
            self.clients.len() - 1
        });
        &mut self.clients[at]
    }
}
