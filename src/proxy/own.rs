//! Our own requests on a client's connection. They run with the client's identity, on stream ids that clients never
//! use.
//!
//! The ids run from −2 down (−1 is for events). Cassandra echoes them in v3, v4 and v5.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::pending::{Own, OwnReply, Pending};
use super::prepared::Statement;
use super::wire::Wire;
use crate::budget::Reserved;
use crate::protocol::header::{Envelope, Version, opcode};
use crate::protocol::request::query;
use crate::protocol::response;
use crate::protocol::response::result::{self, Rows};
use crate::rewrite::metadata;
use crate::upstream::pool::Pool;

/// The highest of our own stream ids.
const FIRST_STREAM: i16 = -2;
/// How long preparing one statement may hold up the requests behind it.
const PREPARE_PATIENCE: Duration = Duration::from_secs(5);

/// Why a request of our own has no reply.
pub(super) enum Unanswered {
    /// Upstream is gone.
    Gone,
    /// There was no room for the reply.
    NoRoom,
}

impl Wire {
    /// Runs a statement as the client. `None`: upstream refused it, or is gone.
    pub(super) async fn ask_rows(&self, text: &str) -> Option<Rows> {
        let query = query::encode(self.version.get(), text);
        rows(&self.ask(opcode::QUERY, query).await?)
    }

    /// The same for a caller that may stop waiting.
    pub(super) async fn ask_rows_beside(self: &Rc<Self>, text: &str) -> Option<Rows> {
        let query = query::encode(self.version.get(), text);
        rows(&self.ask_beside(opcode::QUERY, query).await?)
    }

    /// Prepares statements on the session's node. `Err` has the id of a statement that the node refuses, or describes
    /// with another id or other columns than the client was told: its table was changed. The client must prepare it
    /// again.
    pub(super) async fn prepare_upstream(
        self: &Rc<Self>,
        statements: Vec<Arc<Statement>>,
        pool: &Pool,
    ) -> Result<(), Box<[u8]>> {
        for statement in statements
            .iter()
            .filter(|statement| !statement.is_on(self.node))
        {
            let prepared = timeout(PREPARE_PATIENCE, self.prepare_one(statement, pool)).await;
            if !prepared.unwrap_or(false) {
                return Err(statement.id.clone());
            }
            statement.set_on(self.node);
            self.proxy.metrics.prepared_upstream.increment(1);
        }
        Ok(())
    }

    /// Whether the session's node has the statement now, as clients were told of it.
    async fn prepare_one(self: &Rc<Self>, statement: &Statement, pool: &Pool) -> bool {
        let version = self.version.get();
        let Statement {
            id, text, keyspace, ..
        } = statement;
        let body = query::encode_prepare(version, text, keyspace.as_deref());
        if let Some(reply) = self.ask_beside(opcode::PREPARE, body).await
            && let Ok(Some((found, columns))) = result::prepared(reply.header, &reply.body)
            && *found == **id
        {
            return statement.was_told(version, columns);
        }
        // Before v5 a PREPARE cannot name a keyspace, and this connection may be in another one. A node's statements
        // belong to all its connections, and their ids follow from keyspace and text, so one of our own can do it.
        let keyspace = keyspace.as_deref().filter(|_| version < Version::V5);
        let Some(keyspace) = keyspace.filter(|keyspace| !self.is_in(keyspace)) else {
            return false;
        };
        let address = self.upstream_address;
        let reply = pool.prepare_in(address, text, keyspace, PREPARE_PATIENCE);
        let Ok(reply) = reply.await else {
            return false;
        };
        match result::prepared(reply.header, &reply.body) {
            Ok(Some((found, columns))) if *found == **id => {
                let columns = metadata::prepared_before_v5(version, columns);
                columns.is_some_and(|columns| statement.was_told(version, &columns))
            }
            _ => false,
        }
    }

    fn is_in(&self, keyspace: &str) -> bool {
        self.keyspace.borrow().as_deref() == Some(keyspace)
    }

    /// Like [`Self::ask`], for a caller that may stop waiting: the message is still written in full.
    pub(super) async fn ask_beside(self: &Rc<Self>, opcode: u8, body: Vec<u8>) -> Option<Envelope> {
        let wire = self.clone();
        let asked = tokio::task::spawn_local(async move { wire.ask(opcode, body).await });
        asked.await.ok().flatten()
    }

    /// The same for a reply with rows of the original. It counts as memory for split reads as long as it is held.
    pub(super) async fn ask_large(
        self: &Rc<Self>,
        opcode: u8,
        body: Vec<u8>,
    ) -> Result<(Envelope, Reserved), Unanswered> {
        let wire = self.clone();
        let asked = tokio::task::spawn_local(async move { wire.asked(opcode, body, true).await });
        let reply = asked.await.ok().flatten().ok_or(Unanswered::Gone)?;
        reply.ok_or(Unanswered::NoRoom)
    }

    /// For a small reply.
    async fn ask(&self, opcode: u8, body: Vec<u8>) -> Option<Envelope> {
        let (reply, _) = self.asked(opcode, body, false).await??;
        Some(reply)
    }

    async fn asked(&self, opcode: u8, body: Vec<u8>, is_large: bool) -> Option<OwnReply> {
        if self.is_closed() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let stream = self.free_own_stream()?;
        let own = Own::new(sender, self.proxy.split_reads.nothing(), is_large);
        self.pending.borrow_mut().insert(stream, Pending::Own(own));
        self.count_request();
        let request = Envelope::new(self.version.get().byte(), stream, opcode, body);
        self.send_upstream(&request).await.ok()?;
        receiver.await.ok()
    }

    /// The next id without a request in flight.
    fn free_own_stream(&self) -> Option<i16> {
        let pending = self.pending.borrow();
        let below = |stream: i16| {
            if stream == i16::MIN {
                FIRST_STREAM
            } else {
                stream - 1
            }
        };
        let next = std::iter::successors(Some(below(self.last_own_stream.get())), |stream| {
            Some(below(*stream))
        });
        let free = next
            .take(usize::from(i16::MAX.unsigned_abs()))
            .find(|stream| !pending.contains_key(stream))?;
        self.last_own_stream.set(free);
        Some(free)
    }
}

/// `None`: the reply has no rows.
fn rows(reply: &Envelope) -> Option<Rows> {
    let mut message = response::message(reply.header, &reply.body).ok()?;
    match (reply.header.opcode, message.int().ok()?) {
        (opcode::RESULT, result::kind::ROWS) => Rows::read(&mut message).ok(),
        _ => None,
    }
}
