//! A client's QUERY or EXECUTE, read for answering it.

use twox_hash::XxHash3_64;

use crate::protocol::header::{Envelope, Version, flag, opcode};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::request::{self, execute, query};
use crate::protocol::types::{Value, Write};
use crate::schema::names::TableName;

pub(super) struct Asked<'a> {
    pub(super) parameters: Parameters<'a>,
    pub(super) kind: Kind<'a>,
    /// As the client sent it: a `[bytes map]`.
    pub(super) custom_payload: Option<&'a [u8]>,
}

pub(super) enum Kind<'a> {
    Query,
    /// With the id of the result's columns that the client knows, in v5.
    Execute(Option<&'a [u8]>),
}

impl<'a> Asked<'a> {
    pub(super) fn read(version: Version, request: &'a Envelope) -> Option<Self> {
        let mut message = request::message(request.header, &request.body).ok()?;
        let before = request.body.len() - message.rest().len();
        let has_payload = request.header.has(flag::CUSTOM_PAYLOAD) && before > 0;
        let (kind, parameters) = match request.header.opcode {
            opcode::QUERY => {
                query::text(&mut message).ok()?;
                let parameters = Parameters::read(version, &mut message).ok()?;
                (Kind::Query, parameters)
            }
            opcode::EXECUTE => {
                execute::id(&mut message).ok()?;
                let known = execute::result_metadata_id(version, message.clone()).ok()?;
                let parameters = execute::parameters(version, message).ok()?;
                (Kind::Execute(known), parameters)
            }
            _ => return None,
        };
        Some(Self {
            parameters,
            kind,
            custom_payload: has_payload.then(|| &request.body[..before]),
        })
    }

    /// Tells scans apart: a paging state is good for the statement and the values that it came from.
    pub(super) fn fingerprint(&self, text: &str, table: &TableName) -> u64 {
        let mut bytes = Vec::new();
        bytes.put_long_string(text);
        bytes.put_long_string(&table.keyspace);
        bytes.put_long_string(&table.table);
        for (name, value) in &self.parameters.values {
            bytes.put_bytes(name.map(str::as_bytes));
            match value {
                Value::Bytes(value) => bytes.put_bytes(Some(value)),
                Value::Null => bytes.put_int(-1),
                Value::Unset => bytes.put_int(-2),
            }
        }
        XxHash3_64::oneshot(&bytes)
    }
}

/// The same request with another page.
pub(super) fn with_page(
    version: Version,
    request: &Envelope,
    page_size: Option<i32>,
    paging_state: Option<&[u8]>,
) -> Option<Envelope> {
    let parameters = Asked::read(version, request)?.parameters;
    let body = parameters.with_page(version, &request.body, page_size, paging_state)?;
    let header = request.header;
    Some(Envelope::with_flags(
        header.version,
        header.flags,
        header.stream,
        header.opcode,
        body,
    ))
}
