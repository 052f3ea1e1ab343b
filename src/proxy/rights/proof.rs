//! Proof that a client may read, write or alter an original: Cassandra itself says so, on the client's own connection.
//!
//! Cassandra checks the right before it checks the content of a statement. So the proxy sends a statement with invalid
//! content: a SELECT or DELETE by a null key, or an ALTER that drops a column which no table has. If Cassandra refuses
//! the content, the client has the right. Nothing is read or changed either way, not even if the table was recreated
//! meanwhile.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::record::{Deed, Rights, Subject};
use crate::protocol::header::opcode;
use crate::protocol::request::execute::SubRead;
use crate::protocol::request::parameters::CONSISTENCY_ONE;
use crate::protocol::response::{self, error};
use crate::protocol::types::Value;
use crate::proxy::wire::Wire;
use crate::schema::TableSchema;
use crate::statement::quoted;

const PATIENCE: Duration = Duration::from_secs(1);
const UNAUTHORIZED: i32 = 0x2100;
/// Cassandra's code for invalid content. Unknown names get the same code, and Cassandra checks them before the right.
const INVALID: i32 = 0x2200;
const NULL_IN_KEY: &str = "Invalid null value in condition for column";
const NO_SUCH_COLUMN: &str = "Column ";
/// No column has this name.
const IMPOSSIBLE_COLUMN: &str = "narrows asks whether this table may be altered";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum Right {
    Proven,
    /// Upstream refused.
    Denied,
    /// Upstream did not answer in time, or said something unexpected.
    Unknown,
}

/// Asks upstream, unless a recent proof is still believed.
pub(in crate::proxy) async fn prove(
    wire: &Rc<Wire>,
    rights: &Rights,
    deed: Deed,
    schema: &TableSchema,
) -> Right {
    if rights.has_no_roles() {
        return Right::Proven;
    }
    let subject = (deed, schema.keyspace.clone(), schema.table.clone());
    if rights.believes(&subject) {
        return Right::Proven;
    }
    let asked = ask(wire, rights, schema, subject);
    tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or(Right::Unknown)
}

async fn ask(wire: &Rc<Wire>, rights: &Rights, schema: &TableSchema, subject: Subject) -> Right {
    // Requests that arrive while one asks share its answer.
    let _asking = rights.asking.lock().await;
    if rights.believes(&subject) {
        return Right::Proven;
    }
    let (asked_at, login) = (Instant::now(), rights.login());
    let (text, nulls, expected) = question(subject.0, schema);
    let question = SubRead {
        values: vec![Value::Null; nulls],
        consistency: CONSISTENCY_ONE,
        ..SubRead::default()
    };
    let Ok(body) = question.encode_query(wire.version.get(), &text) else {
        return Right::Unknown;
    };
    let Some(reply) = wire.ask_beside(opcode::QUERY, body).await else {
        return Right::Unknown;
    };
    if reply.header.opcode != opcode::ERROR || login != rights.login() {
        return Right::Unknown;
    }
    match response::message(reply.header, &reply.body).and_then(error::read) {
        Ok((INVALID, text)) if text.starts_with(expected) => {
            rights.believe(subject, asked_at, login);
            Right::Proven
        }
        // INVALID with another text: the table is missing or replaced. Upstream will say so of the request itself.
        Ok((UNAUTHORIZED | INVALID, _)) => Right::Denied,
        _ => Right::Unknown,
    }
}

/// The statement, its number of nulls, and the beginning of the error text that proves the right.
fn question(deed: Deed, schema: &TableSchema) -> (String, usize, &'static str) {
    let names: Vec<String> = schema
        .partition_key
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    let nulls: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
    let nulls = nulls.join(" AND ");
    let table = format!("{}.{}", quoted(&schema.keyspace), quoted(&schema.table));
    match deed {
        Deed::Read => {
            let text = format!("SELECT {} FROM {table} WHERE {nulls}", names.join(", "));
            (text, names.len(), NULL_IN_KEY)
        }
        Deed::Write => {
            let text = format!("DELETE FROM {table} WHERE {nulls}");
            (text, names.len(), NULL_IN_KEY)
        }
        Deed::Alter => {
            let column = quoted(IMPOSSIBLE_COLUMN);
            (
                format!("ALTER TABLE {table} DROP {column}"),
                0,
                NO_SUCH_COLUMN,
            )
        }
    }
}
