//! What a decoder reads, in words of neither: [`crate::ours`] and [`crate::theirs`] translate into these.
//!
//! There is a field for everything that Narrows reads. What it never looks at is not here.

use std::collections::BTreeMap;
use std::net::SocketAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The version byte, direction bit included.
    pub(crate) version: u8,
    /// Without the one that says that the body is compressed.
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Startup(BTreeMap<String, String>),
    Options,
    Query {
        text: String,
        parameters: Parameters,
    },
    Prepare {
        text: String,
        keyspace: Option<String>,
    },
    Execute {
        id: Vec<u8>,
        result_metadata_id: Option<Vec<u8>>,
        parameters: Parameters,
    },
    Batch {
        kind: u8,
        statements: Vec<(Statement, Vec<Value>)>,
        parameters: Parameters,
    },
    Register(Vec<String>),
    AuthResponse(Option<Vec<u8>>),
    Error {
        code: i32,
        text: String,
    },
    Ready,
    Authenticate(String),
    AuthChallenge(Option<Vec<u8>>),
    AuthSuccess(Option<Vec<u8>>),
    Supported(BTreeMap<String, Vec<String>>),
    Event(Event),
    Void,
    Rows {
        metadata_changed: bool,
        column_count: usize,
        /// Empty if the result comes without metadata.
        names: Vec<String>,
        rows: Vec<Vec<Option<Vec<u8>>>>,
    },
    SetKeyspace(String),
    Prepared {
        id: Vec<u8>,
        /// From v5 on: the id of the result's metadata, and the names of its columns.
        result: Option<(Vec<u8>, Vec<String>)>,
    },
    SchemaChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    Null,
    Unset,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    Prepared(Vec<u8>),
    Text(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) consistency: u16,
    pub(crate) values: Vec<(Option<String>, Value)>,
    pub(crate) skip_metadata: bool,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<Vec<u8>>,
    pub(crate) serial_consistency: Option<u16>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) keyspace: Option<String>,
    pub(crate) now_in_seconds: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Node {
        kind: String,
        change: String,
        address: SocketAddr,
    },
    Table {
        keyspace: String,
        table: String,
    },
    Schema,
}

impl Message {
    /// What is left of it in `cassandra-protocol`: `deviations` has a test for each difference.
    pub(crate) fn less_what_theirs_drops(mut self) -> Self {
        let (Body::Query { parameters, .. } | Body::Execute { parameters, .. }) = &mut self.body
        else {
            return self;
        };
        // deviations::skip_metadata_is_dropped
        parameters.skip_metadata = false;
        // deviations::named_values_lose_their_order
        parameters.values.sort_by(|a, b| a.0.cmp(&b.0));
        self
    }
}
