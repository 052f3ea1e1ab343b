//! Proof that a client may read the original: Cassandra itself says so, on the client's own connection.
//!
//! `SELECT key FROM original WHERE key = ?` with null is refused for the null by a server that lets the client read, and
//! for want of the right by one that does not: the right is looked at first. Nothing is read either way.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::protocol::header::opcode;
use crate::protocol::request::execute::SubRead;
use crate::protocol::request::parameters::CONSISTENCY_ONE;
use crate::protocol::response::{self, error};
use crate::protocol::types::Value;
use crate::proxy::session::Session;
use crate::schema::TableSchema;
use crate::statement::quoted;

/// How long a proof is believed, from when it was asked for.
const BELIEVED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(1);
/// What a server answers to a null in the key of a client that may read. Names that it does not know are invalid, too, and
/// come before any right.
const INVALID: i32 = 0x2200;
const NULL_IN_KEY: &str = "Invalid null value in condition for column";
/// Tables that one connection has proofs for, all of which are out of date soon.
const PROOFS_MAX: usize = 256;

/// What was proven on one connection, and when.
#[derive(Default)]
pub(in crate::proxy) struct Rights {
    proven: RefCell<HashMap<(String, String), Instant>>,
    /// Counts logins: whoever logs in again may be somebody else.
    login: Cell<u64>,
    /// Held by the one who asks.
    asking: Mutex<()>,
}

impl Session {
    /// Whether upstream lets the client read the table. Unknown is no.
    pub(super) async fn may_read(self: &Rc<Self>, schema: &Arc<TableSchema>) -> bool {
        // Without a login there are no roles, and so no rights that some have and others have not; unless our certificate
        // is the login of all.
        if !self.logged_in.get() && !self.proxy.config.upstream.shared_identity {
            return true;
        }
        let name = (schema.keyspace.clone(), schema.table.clone());
        if self.rights.believes(&name) {
            return true;
        }
        let proven = self.prove_right(schema, name);
        tokio::time::timeout(PATIENCE, proven)
            .await
            .unwrap_or(false)
    }

    async fn prove_right(self: &Rc<Self>, schema: &TableSchema, name: (String, String)) -> bool {
        // Those who come meanwhile share what is found out.
        let _asking = self.rights.asking.lock().await;
        if self.rights.believes(&name) {
            return true;
        }
        let (asked_at, login) = (Instant::now(), self.rights.login.get());
        let nulls = SubRead {
            values: vec![Value::Null; schema.partition_key.len()],
            consistency: CONSISTENCY_ONE,
            ..SubRead::default()
        };
        let Ok(body) = nulls.encode_query(self.version.get(), &proof(schema)) else {
            return false;
        };
        let Some(reply) = self.ask_beside(opcode::QUERY, body).await else {
            return false;
        };
        let code = response::message(reply.header, &reply.body).and_then(error::read);
        let may = reply.header.opcode == opcode::ERROR
            && matches!(code, Ok((INVALID, text)) if text.starts_with(NULL_IN_KEY));
        if may {
            self.rights.believe(name, asked_at, login);
        }
        may && login == self.rights.login.get()
    }
}

impl Rights {
    /// Nothing is proven of whoever has just logged in.
    pub(in crate::proxy) fn forget(&self) {
        self.login.set(self.login.get() + 1);
        self.proven.borrow_mut().clear();
    }

    fn believes(&self, name: &(String, String)) -> bool {
        let proven = self.proven.borrow().get(name).copied();
        proven.is_some_and(|at| at.elapsed() < BELIEVED)
    }

    fn believe(&self, name: (String, String), at: Instant, login: u64) {
        let mut proven = self.proven.borrow_mut();
        if login != self.login.get() {
            return;
        }
        if proven.len() >= PROOFS_MAX {
            proven.clear();
        }
        proven.insert(name, at);
    }
}

fn proof(schema: &TableSchema) -> String {
    let names: Vec<String> = schema
        .partition_key
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    let nulls: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
    format!(
        "SELECT {} FROM {}.{} WHERE {}",
        names.join(", "),
        quoted(&schema.keyspace),
        quoted(&schema.table),
        nulls.join(" AND ")
    )
}
