//! A SELECT that was taken out of the stream, with everything that its answer needs, so that its message is parsed only
//! once.

use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::cut::Cut;
use super::share::Taken;
use crate::budget::Reserved;
use crate::known::Watched;
use crate::protocol::ProtocolError;
use crate::protocol::header::{Version, flag};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::request::{self, execute};
use crate::protocol::types::{Value, Write};
use crate::proxy::held::Held;
use crate::proxy::short_names::ShortRead;
use crate::proxy::sight::Sight;
use crate::proxy::source::{Asking, Source};
use crate::rewrite::Readable;
use crate::rewrite::bind::{KeptValues, Key, Limits};
use crate::rewrite::state::{PagingState, StateError};
use crate::schema::names::TableName;

/// A request that might be answered from a split, or whose page might be cut.
pub(in crate::proxy) struct SplitRead {
    pub(super) asked: Asked,
    /// The partitions to read, if a split may answer.
    pub(super) wanted: Option<Wanted>,
    /// The statement names its table without a keyspace.
    pub(super) short: Option<ShortRead>,
    /// The position of the scan that the request continues, if the scan began on a split.
    pub(super) state: Option<Result<PagingState, StateError>>,
    /// The size limit for a page of the original.
    pub(super) cut: Option<Cut>,
    /// Looks at the reply, if the original answers.
    pub(super) sight: Option<Sight>,
    pub(super) _room: RequestRoom,
}

/// Room for the request itself. Rows are counted as they arrive.
pub(super) struct RequestRoom {
    /// One of the requests that a connection may have.
    pub(super) _held: Held,
    /// In the connection's share.
    pub(super) _taken: Taken,
    /// In the memory that all connections share.
    pub(super) _bytes: Reserved,
}

impl SplitRead {
    /// Ends when the read must be forwarded now or never, because a USE waits behind it.
    pub(super) async fn hurried(&self) {
        match &self.short {
            Some(short) => short.hurried().await,
            None => std::future::pending().await,
        }
    }
}

/// The statement with its values, and the partitions that they name.
pub(super) struct Wanted {
    pub(super) readable: Arc<Readable>,
    pub(super) watched: Arc<Watched>,
    pub(super) values: KeptValues,
    pub(super) keys: Vec<Key>,
    pub(super) limits: Limits,
}

/// The client's settings for its request.
pub(super) struct Asked {
    pub(super) consistency: u16,
    pub(super) serial_consistency: Option<u16>,
    pub(super) page_size: Option<i32>,
    pub(super) skip_metadata: bool,
    pub(super) timestamp: Option<i64>,
    pub(super) now_in_seconds: Option<i32>,
    /// The result metadata id that the client knows, in an EXECUTE of v5.
    pub(super) result_metadata_id: Option<Vec<u8>>,
    /// As the client sent it: a `[bytes map]`.
    pub(super) custom_payload: Option<Vec<u8>>,
    /// Tells scans apart: only a request with the same statement and values continues on the split.
    pub(super) fingerprint: u64,
    /// Tells tables apart: a paging state is valid only for its own table.
    pub(super) table: u64,
}

impl Asked {
    pub(super) fn new(
        version: Version,
        asking: &Asking<'_>,
        table: &TableName,
        parameters: &Parameters<'_>,
    ) -> Result<Self, ProtocolError> {
        let result_metadata_id = match asking.source {
            Source::Prepared(_) => execute::result_metadata_id(version, asking.rest.clone())?,
            Source::Text { .. } => None,
        };
        let message = request::message(asking.header, asking.body)?;
        let before = asking.body.len() - message.rest().len();
        let has_payload = asking.header.has(flag::CUSTOM_PAYLOAD) && before > 0;
        Ok(Self {
            consistency: parameters.consistency,
            serial_consistency: parameters.serial_consistency,
            page_size: parameters.page_size,
            skip_metadata: parameters.skip_metadata,
            timestamp: parameters.timestamp,
            now_in_seconds: parameters.now_in_seconds,
            result_metadata_id: result_metadata_id.map(<[u8]>::to_vec),
            custom_payload: has_payload.then(|| asking.body[..before].to_vec()),
            fingerprint: fingerprint(asking.source.text(), table, parameters),
            table: table_fingerprint(table),
        })
    }
}

/// Tells a scan from others.
fn fingerprint(text: &str, table: &TableName, parameters: &Parameters<'_>) -> u64 {
    let mut bytes = Vec::new();
    bytes.put_long_string(text);
    bytes.put_long_string(&table.keyspace);
    bytes.put_long_string(&table.table);
    for (name, value) in &parameters.values {
        bytes.put_bytes(name.map(str::as_bytes));
        match value {
            Value::Bytes(value) => bytes.put_bytes(Some(value)),
            Value::Null => bytes.put_int(-1),
            Value::Unset => bytes.put_int(-2),
        }
    }
    XxHash3_64::oneshot(&bytes)
}

/// Of its name: to Cassandra, a table that was dropped and created again is the same as well.
fn table_fingerprint(table: &TableName) -> u64 {
    let mut bytes = Vec::new();
    bytes.put_long_string(&table.keyspace);
    bytes.put_long_string(&table.table);
    XxHash3_64::oneshot(&bytes)
}
