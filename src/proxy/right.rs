//! Proof that a client may do something with an original: Cassandra itself says so, on the client's own connection.
//!
//! A statement that the server refuses for what it says, if the client has the right, and for want of the right, if it has
//! not: the right is looked at first. A SELECT and a DELETE by a null key, and an ALTER that drops a column which no table
//! has. Nothing is read or changed either way, not even if the table was made anew meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::session::Session;
use crate::protocol::header::opcode;
use crate::protocol::request::execute::SubRead;
use crate::protocol::request::parameters::CONSISTENCY_ONE;
use crate::protocol::response::{self, error};
use crate::protocol::types::Value;
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::statement::quoted;

/// How long a proof is believed, from when it was asked for.
const BELIEVED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(1);
const UNAUTHORIZED: i32 = 0x2100;
/// What a server answers for what a proof says. Names that it does not know are invalid, too, and come before any right.
const INVALID: i32 = 0x2200;
const NULL_IN_KEY: &str = "Invalid null value in condition for column";
const NO_SUCH_COLUMN: &str = "Column ";
/// Nobody calls a column so.
const IMPOSSIBLE_COLUMN: &str = "narrows asks whether this table may be altered";
/// Tables that one connection has proofs for, all of which are out of date soon.
const PROOFS_MAX: usize = 256;

/// What a client wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Read,
    Write,
    Alter,
}

/// Whether it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Proven,
    /// Upstream said no.
    Denied,
    /// It did not say in time, or what was not expected.
    Unknown,
}

/// A deed on a table.
type Subject = (Deed, String, String);

/// What was proven on one connection, and when.
#[derive(Default)]
pub(super) struct Rights {
    proven: RefCell<HashMap<Subject, Instant>>,
    /// Counts logins: whoever logs in again may be somebody else.
    login: Cell<u64>,
    /// Held by the one who asks.
    asking: Mutex<()>,
    /// Watched tables that whoever logged in has written, as upstream's replies say, or was proven to be allowed to.
    written: RefCell<HashSet<TableName>>,
}

impl Session {
    /// Whether upstream lets the client read the table. Unknown is no.
    pub(super) async fn may_read(self: &Rc<Self>, schema: &Arc<TableSchema>) -> bool {
        self.right(Deed::Read, schema).await == Right::Proven
    }

    /// Without a login there are no roles, and so no rights that some have and others have not; unless our certificate is
    /// the login of all.
    pub(super) fn has_no_roles(&self) -> bool {
        !self.logged_in.get() && !self.proxy.config.upstream.shared_identity
    }

    /// What is known of this client's rights; `None` where there are none to have.
    pub(super) fn rights_to_have(&self) -> Option<Rc<Rights>> {
        (!self.has_no_roles()).then(|| self.rights.clone())
    }

    pub(super) async fn right(self: &Rc<Self>, deed: Deed, schema: &Arc<TableSchema>) -> Right {
        if self.has_no_roles() {
            return Right::Proven;
        }
        let subject = (deed, schema.keyspace.clone(), schema.table.clone());
        if self.rights.believes(&subject) {
            return Right::Proven;
        }
        let proven = self.prove_right(schema, subject);
        tokio::time::timeout(PATIENCE, proven)
            .await
            .unwrap_or(Right::Unknown)
    }

    async fn prove_right(self: &Rc<Self>, schema: &TableSchema, subject: Subject) -> Right {
        // Those who come meanwhile share what is found out.
        let _asking = self.rights.asking.lock().await;
        if self.rights.believes(&subject) {
            return Right::Proven;
        }
        let (asked_at, login) = (Instant::now(), self.rights.login.get());
        let (text, nulls, expected) = proof(subject.0, schema);
        let question = SubRead {
            values: vec![Value::Null; nulls],
            consistency: CONSISTENCY_ONE,
            ..SubRead::default()
        };
        let Ok(body) = question.encode_query(self.version.get(), &text) else {
            return Right::Unknown;
        };
        let Some(reply) = self.ask_beside(opcode::QUERY, body).await else {
            return Right::Unknown;
        };
        if reply.header.opcode != opcode::ERROR || login != self.rights.login.get() {
            return Right::Unknown;
        }
        match response::message(reply.header, &reply.body).and_then(error::read) {
            Ok((INVALID, text)) if text.starts_with(expected) => {
                self.rights.believe(subject, asked_at, login);
                Right::Proven
            }
            // Also of what is not there, or not what it was: upstream says so of the request itself.
            Ok((UNAUTHORIZED | INVALID, _)) => Right::Denied,
            _ => Right::Unknown,
        }
    }
}

impl Rights {
    /// Nothing is proven of whoever has just logged in.
    pub(super) fn forget(&self) {
        self.login.set(self.login.get() + 1);
        self.proven.borrow_mut().clear();
        self.written.borrow_mut().clear();
    }

    /// The client may write this table.
    pub(super) fn note_written(&self, table: &TableName) {
        let mut written = self.written.borrow_mut();
        if !written.contains(table) {
            written.insert(table.clone());
        }
    }

    pub(super) fn has_written(&self, table: &TableName) -> bool {
        self.written.borrow().contains(table)
    }

    fn believes(&self, subject: &Subject) -> bool {
        let proven = self.proven.borrow().get(subject).copied();
        proven.is_some_and(|at| at.elapsed() < BELIEVED)
    }

    fn believe(&self, subject: Subject, at: Instant, login: u64) {
        let mut proven = self.proven.borrow_mut();
        if login != self.login.get() {
            return;
        }
        if proven.len() >= PROOFS_MAX {
            proven.clear();
        }
        proven.insert(subject, at);
    }
}

/// The statement, how many nulls it takes, and how the answer begins that proves the right.
fn proof(deed: Deed, schema: &TableSchema) -> (String, usize, &'static str) {
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
