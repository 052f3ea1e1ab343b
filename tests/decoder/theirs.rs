//! What `cassandra-protocol` reads of a message.
//!
//! Its custom payload is taken off first (`deviations::a_custom_payload_is_read_as_the_message`).

use std::collections::BTreeMap;

use cassandra_protocol::consistency::Consistency;
use cassandra_protocol::error::Error;
use cassandra_protocol::frame::events::{
    SchemaChangeOptions, SchemaChangeTarget, ServerEvent, StatusChangeType, TopologyChangeType,
};
use cassandra_protocol::frame::message_batch::{BatchQuerySubj, BodyReqBatch};
use cassandra_protocol::frame::message_request::RequestBody;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::message_result::{ResResultBody, RowsMetadata, RowsMetadataFlags};
use cassandra_protocol::frame::{Direction, Envelope, Flags};
use cassandra_protocol::query::{QueryParams, QueryValues};
use cassandra_protocol::types::CBytesShort;
use cassandra_protocol::types::value::Value;

use crate::reading::{self, Body, Message, Parameters, Statement};

type Result<T> = std::result::Result<T, Error>;

pub(crate) fn read(envelope: &Envelope) -> Result<Message> {
    let mut envelope = envelope.clone();
    if envelope.flags.contains(Flags::CUSTOM_PAYLOAD) {
        envelope.body = behind_payload(&envelope.body).to_vec();
    }
    let body = match envelope.direction {
        Direction::Request => request_body(envelope.request_body()?),
        Direction::Response => response_body(envelope.response_body()?),
    };
    Ok(Message {
        version: u8::from(envelope.version) | u8::from(envelope.direction),
        flags: envelope.flags.difference(Flags::COMPRESSION).bits(),
        stream: envelope.stream_id,
        opcode: u8::from(envelope.opcode),
        warnings: envelope.warnings,
        body,
    })
}

/// What follows a `[bytes map]`.
fn behind_payload(body: &[u8]) -> &[u8] {
    let short = |at: usize| usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
    let mut at = 2;
    for _ in 0..short(0) {
        at += 2 + short(at);
        let length = i32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        at += 4 + usize::try_from(length).unwrap_or_default();
    }
    &body[at..]
}

fn request_body(body: RequestBody) -> Body {
    match body {
        RequestBody::Startup(startup) => Body::Startup(startup.map.into_iter().collect()),
        RequestBody::Options(_) => Body::Options,
        RequestBody::Query(query) => Body::Query {
            text: query.query,
            parameters: parameters(query.query_params),
        },
        RequestBody::Prepare(prepare) => Body::Prepare {
            text: prepare.query,
            keyspace: prepare.keyspace,
        },
        RequestBody::Execute(execute) => Body::Execute {
            id: short_bytes(execute.id),
            result_metadata_id: execute.result_metadata_id.map(short_bytes),
            parameters: parameters(execute.query_parameters),
        },
        RequestBody::Batch(batch) => batch_body(batch),
        RequestBody::Register(register) => {
            let events = register.events.iter();
            Body::Register(events.map(|event| event.as_str().to_owned()).collect())
        }
        RequestBody::AuthResponse(response) => Body::AuthResponse(response.data.into_bytes()),
        other => panic!("cassandra-protocol has learned a request: {other:?}"),
    }
}

fn batch_body(batch: BodyReqBatch) -> Body {
    let statements = batch.queries.into_iter().map(|query| {
        let statement = match query.subject {
            BatchQuerySubj::PreparedId(id) => Statement::Prepared(short_bytes(id)),
            BatchQuerySubj::QueryString(text) => Statement::Text(text),
        };
        let values = values(query.values).into_iter().map(|(_, value)| value);
        (statement, values.collect())
    });
    Body::Batch {
        kind: batch.batch_type.into(),
        statements: statements.collect(),
        parameters: Parameters {
            consistency: consistency(batch.consistency),
            serial_consistency: batch.serial_consistency.map(consistency),
            timestamp: batch.timestamp,
            keyspace: batch.keyspace,
            now_in_seconds: batch.now_in_seconds,
            ..Parameters::default()
        },
    }
}

fn response_body(body: ResponseBody) -> Body {
    match body {
        ResponseBody::Error(error) => Body::Error {
            code: error.ty.to_error_code(),
            text: error.message,
        },
        ResponseBody::Ready => Body::Ready,
        ResponseBody::Authenticate(authenticate) => Body::Authenticate(authenticate.data),
        ResponseBody::AuthChallenge(challenge) => Body::AuthChallenge(challenge.data.into_bytes()),
        ResponseBody::AuthSuccess(success) => Body::AuthSuccess(success.data.into_bytes()),
        ResponseBody::Supported(supported) => {
            Body::Supported(supported.data.into_iter().collect::<BTreeMap<_, _>>())
        }
        ResponseBody::Event(event) => Body::Event(event_body(event.event)),
        ResponseBody::Result(result) => result_body(result),
        other => panic!("cassandra-protocol has learned a response: {other:?}"),
    }
}

fn event_body(event: ServerEvent) -> reading::Event {
    let node = |kind: &str, change: &str, address| reading::Event::Node {
        kind: kind.to_owned(),
        change: change.to_owned(),
        address,
    };
    match event {
        ServerEvent::TopologyChange(change) => {
            let name = match change.change_type {
                TopologyChangeType::NewNode => "NEW_NODE",
                TopologyChangeType::RemovedNode => "REMOVED_NODE",
                other => panic!("cassandra-protocol has learned a change: {other:?}"),
            };
            node("TOPOLOGY_CHANGE", name, change.addr)
        }
        ServerEvent::StatusChange(change) => {
            let name = match change.change_type {
                StatusChangeType::Up => "UP",
                StatusChangeType::Down => "DOWN",
                other => panic!("cassandra-protocol has learned a change: {other:?}"),
            };
            node("STATUS_CHANGE", name, change.addr)
        }
        ServerEvent::SchemaChange(change) => match (change.target, change.options) {
            (SchemaChangeTarget::Table, SchemaChangeOptions::TableType(keyspace, table)) => {
                reading::Event::Table { keyspace, table }
            }
            _ => reading::Event::Schema,
        },
        other => panic!("cassandra-protocol has learned an event: {other:?}"),
    }
}

fn result_body(result: ResResultBody) -> Body {
    match result {
        ResResultBody::Void => Body::Void,
        ResResultBody::Rows(rows) => {
            let metadata_changed = RowsMetadataFlags::METADATA_CHANGED;
            let row = |row: Vec<cassandra_protocol::types::CBytes>| {
                row.into_iter().map(|value| value.into_bytes()).collect()
            };
            Body::Rows {
                metadata_changed: rows.metadata.flags.contains(metadata_changed),
                column_count: usize::try_from(rows.metadata.columns_count).unwrap_or_default(),
                names: names(&rows.metadata),
                rows: rows.rows_content.into_iter().map(row).collect(),
            }
        }
        ResResultBody::SetKeyspace(keyspace) => Body::SetKeyspace(keyspace.body),
        ResResultBody::Prepared(prepared) => Body::Prepared {
            id: short_bytes(prepared.id),
            result: prepared
                .result_metadata_id
                .map(|id| (short_bytes(id), names(&prepared.result_metadata))),
        },
        ResResultBody::SchemaChange(_) => Body::SchemaChange,
        other => panic!("cassandra-protocol has learned a result: {other:?}"),
    }
}

fn names(metadata: &RowsMetadata) -> Vec<String> {
    let columns = metadata.col_specs.iter();
    columns.map(|column| column.name.clone()).collect()
}

fn parameters(theirs: QueryParams) -> Parameters {
    Parameters {
        consistency: consistency(theirs.consistency),
        values: theirs.values.map(values).unwrap_or_default(),
        skip_metadata: false,
        page_size: theirs.page_size,
        paging_state: theirs.paging_state.and_then(|state| state.into_bytes()),
        serial_consistency: theirs.serial_consistency.map(consistency),
        timestamp: theirs.timestamp,
        keyspace: theirs.keyspace,
        now_in_seconds: theirs.now_in_seconds,
    }
}

fn values(theirs: QueryValues) -> Vec<(Option<String>, reading::Value)> {
    let value = |value: Value| match value {
        Value::Some(bytes) => reading::Value::Bytes(bytes),
        Value::Null => reading::Value::Null,
        Value::NotSet => reading::Value::Unset,
    };
    match theirs {
        QueryValues::SimpleValues(values) => values.into_iter().map(|v| (None, value(v))).collect(),
        QueryValues::NamedValues(values) => {
            let named = values.into_iter().map(|(name, v)| (Some(name), value(v)));
            let sorted: BTreeMap<_, _> = named.collect();
            sorted.into_iter().collect()
        }
    }
}

fn consistency(theirs: Consistency) -> u16 {
    i16::from(theirs).cast_unsigned()
}

fn short_bytes(theirs: CBytesShort) -> Vec<u8> {
    theirs.into_bytes().expect("ids are never null")
}
