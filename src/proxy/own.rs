//! Our own requests on a client's connection. They run with the client's identity, on stream ids that clients never
//! use.
//!
//! The ids run from −2 down (−1 is for events). Cassandra echoes them in v3, v4 and v5.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::pending::{Own, OwnReply, Pending};
use super::prepared::Statement;
use super::wire::Wire;
use crate::budget::Reserved;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::request::query;
use crate::protocol::response;
use crate::protocol::response::result::{self, Rows};

/// The highest of our own stream ids.
const FIRST_STREAM: i16 = -2;

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
        let reply = self
            .ask(opcode::QUERY, query::encode(self.version.get(), text))
            .await?;
        let mut message = response::message(reply.header, &reply.body).ok()?;
        match (reply.header.opcode, message.int().ok()?) {
            (opcode::RESULT, result::kind::ROWS) => Rows::read(&mut message).ok(),
            _ => None,
        }
    }

    /// Prepares statements on the session's node. `Err` has the id of a statement that the node refuses, or describes
    /// with another id or other columns than the client was told: its table was changed, or this connection is in
    /// another keyspace. The client must prepare it again.
    pub(super) async fn prepare_upstream(
        &self,
        statements: Vec<Arc<Statement>>,
    ) -> Result<(), Box<[u8]>> {
        let version = self.version.get();
        for statement in statements
            .iter()
            .filter(|statement| !statement.is_on(self.node))
        {
            let Statement {
                id, text, keyspace, ..
            } = &**statement;
            let body = query::encode_prepare(version, text, keyspace.as_deref());
            let reply = self.ask(opcode::PREPARE, body).await;
            let same = |reply: &Envelope| {
                let prepared = result::prepared(reply.header, &reply.body).ok().flatten();
                prepared.is_some_and(|(reply_id, columns)| {
                    *reply_id == **id && statement.was_told(version, columns)
                })
            };
            if !reply.as_ref().is_some_and(same) {
                return Err(id.clone());
            }
            statement.set_on(self.node);
            self.proxy.metrics.prepared_upstream.increment(1);
        }
        Ok(())
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
