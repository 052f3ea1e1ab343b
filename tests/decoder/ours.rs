//! What Narrows reads of a message: only its own public functions, in the order in which the proxy calls them.

use narrows::protocol::header::Envelope;
use narrows::protocol::request::parameters::Parameters;
use narrows::protocol::request::{self, batch, execute, query};
use narrows::protocol::response::{self, error, event, result};
use narrows::protocol::types::{Cursor, Value, Write};
use narrows::protocol::{Header, ProtocolError, Version, opcode};

use crate::reading::{self, Body, Message, Statement};

type Result<T> = std::result::Result<T, ProtocolError>;

/// RESULT kinds that the proxy does not name.
const KIND_VOID: i32 = 1;

pub(crate) fn read(envelope: &Envelope) -> Result<Message> {
    let Envelope { header, body } = envelope;
    let version =
        Version::from_byte(header.version).ok_or(ProtocolError::Version(header.version))?;
    let (warnings, body) = if header.version & 0x80 == 0 {
        let message = request::message(*header, body)?;
        (Vec::new(), request_body(*header, version, message)?)
    } else {
        let (warnings, message) = response::warnings_and_message(*header, body)?;
        (
            strings(&warnings),
            response_body(*header, version, message)?,
        )
    };
    Ok(Message {
        version: header.version,
        flags: header.flags & !0x01,
        stream: header.stream,
        opcode: header.opcode,
        warnings,
        body,
    })
}

fn request_body(header: Header, version: Version, mut message: Cursor<'_>) -> Result<Body> {
    Ok(match header.opcode {
        opcode::STARTUP => Body::Startup(owned_map(message.string_map()?)),
        opcode::OPTIONS => Body::Options,
        opcode::QUERY => Body::Query {
            text: query::text(&mut message)?.into_owned(),
            parameters: parameters(&Parameters::read(version, &mut message)?),
        },
        opcode::PREPARE => Body::Prepare {
            text: query::text(&mut message)?.into_owned(),
            keyspace: query::prepare_keyspace(version, message)?.map(str::to_owned),
        },
        opcode::EXECUTE => Body::Execute {
            id: execute::id(&mut message)?.to_vec(),
            result_metadata_id: execute::result_metadata_id(version, message.clone())?
                .map(<[u8]>::to_vec),
            parameters: parameters(&execute::parameters(version, message)?),
        },
        opcode::BATCH => batch_body(version, message)?,
        opcode::REGISTER => Body::Register(strings(&message.string_list()?)),
        opcode::AUTH_RESPONSE => Body::AuthResponse(message.bytes()?.map(<[u8]>::to_vec)),
        other => return Err(ProtocolError::UnexpectedOpcode(other)),
    })
}

fn batch_body(version: Version, message: Cursor<'_>) -> Result<Body> {
    let kind = message.clone().byte()?;
    let mut statements = Vec::new();
    let rest = batch::each(message, |statement, values| {
        let statement = match statement {
            batch::Statement::Prepared(id) => Statement::Prepared(id.to_vec()),
            batch::Statement::Text(text) => Statement::Text(text.into_owned()),
        };
        statements.push((statement, values.read()));
    })?;
    let statements: Result<Vec<_>> = statements
        .into_iter()
        .map(|(statement, values)| Ok((statement, values?.iter().map(|v| value(v.1)).collect())))
        .collect();
    Ok(Body::Batch {
        kind,
        statements: statements?,
        parameters: parameters(&batch::parameters(version, rest)?),
    })
}

fn response_body(header: Header, version: Version, mut message: Cursor<'_>) -> Result<Body> {
    Ok(match header.opcode {
        opcode::ERROR => {
            let (code, text) = error::read(message)?;
            let text = text.to_owned();
            Body::Error { code, text }
        }
        opcode::READY => Body::Ready,
        opcode::AUTHENTICATE => Body::Authenticate(message.string()?.to_owned()),
        opcode::AUTH_CHALLENGE => Body::AuthChallenge(message.bytes()?.map(<[u8]>::to_vec)),
        opcode::AUTH_SUCCESS => Body::AuthSuccess(message.bytes()?.map(<[u8]>::to_vec)),
        opcode::SUPPORTED => Body::Supported(
            message
                .string_multimap()?
                .iter()
                .map(|(key, values)| ((*key).to_owned(), strings(values)))
                .collect(),
        ),
        opcode::EVENT => Body::Event(event_body(message)?),
        opcode::RESULT => result_body(version, message)?,
        other => return Err(ProtocolError::UnexpectedOpcode(other)),
    })
}

fn event_body(message: Cursor<'_>) -> Result<reading::Event> {
    Ok(match event::read(message)? {
        event::Event::Node {
            kind,
            change,
            address,
        } => reading::Event::Node {
            kind: kind.to_owned(),
            change: change.to_owned(),
            address,
        },
        event::Event::Table { keyspace, table } => reading::Event::Table {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        },
        event::Event::Schema => reading::Event::Schema,
        event::Event::Other => return Err(ProtocolError::Truncated("event that we know")),
    })
}

fn result_body(version: Version, message: Cursor<'_>) -> Result<Body> {
    let mut behind_kind = message.clone();
    Ok(match behind_kind.int()? {
        KIND_VOID => Body::Void,
        result::kind::ROWS => {
            let rows = result::Rows::read(&mut behind_kind)?;
            Body::Rows {
                metadata_changed: result::has_changed_metadata(message.rest())?,
                column_count: rows.column_count,
                names: rows.names,
                rows: rows.rows,
            }
        }
        result::kind::SET_KEYSPACE => Body::SetKeyspace(behind_kind.string()?.to_owned()),
        result::kind::PREPARED => {
            let (id, after_id) = result::prepared_message(message.rest())?
                .ok_or(ProtocolError::Truncated("prepared result"))?;
            let result = match version {
                Version::V3 | Version::V4 => None,
                Version::V5 => Some(prepared_columns(after_id)?),
            };
            let id = id.to_vec();
            Body::Prepared { id, result }
        }
        result::kind::SCHEMA_CHANGE => Body::SchemaChange,
        _ => return Err(ProtocolError::Truncated("result of a kind that we know")),
    })
}

/// The id of the result's metadata, and its columns: the metadata is that of a Rows result, so we read one without rows.
fn prepared_columns(after_id: &[u8]) -> Result<(Vec<u8>, Vec<String>)> {
    let columns = result::PreparedColumns::read(after_id)?;
    let mut rows = columns.result_metadata.to_vec();
    rows.put_int(0);
    let rows = result::Rows::read(&mut Cursor::new(&rows))?;
    Ok((columns.result_metadata_id.to_vec(), rows.names))
}

fn parameters(ours: &Parameters<'_>) -> reading::Parameters {
    reading::Parameters {
        consistency: ours.consistency,
        values: ours
            .values
            .iter()
            .map(|(name, bytes)| (name.map(str::to_owned), value(*bytes)))
            .collect(),
        skip_metadata: ours.skip_metadata,
        page_size: ours.page_size,
        paging_state: ours.paging_state.map(<[u8]>::to_vec),
        serial_consistency: ours.serial_consistency,
        timestamp: ours.timestamp,
        keyspace: ours.keyspace.map(str::to_owned),
        now_in_seconds: ours.now_in_seconds,
    }
}

fn value(ours: Value<'_>) -> reading::Value {
    match ours {
        Value::Bytes(bytes) => reading::Value::Bytes(bytes.to_vec()),
        Value::Null => reading::Value::Null,
        Value::Unset => reading::Value::Unset,
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn owned_map(map: Vec<(&str, &str)>) -> std::collections::BTreeMap<String, String> {
    map.into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
