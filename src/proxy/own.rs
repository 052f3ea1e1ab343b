//! Our own requests on a client's connection. They run with the client's identity, on stream ids that clients never
//! use.
//!
//! The ids run from −2 down (−1 is for events). Cassandra echoes them in v3, v4 and v5.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::pending::Pending;
use super::prepared::Statement;
use super::wire::Wire;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::request::query;
use crate::protocol::response;
use crate::protocol::response::result::{self, Rows};

/// The highest of our own stream ids.
const FIRST_STREAM: i16 = -2;

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

    async fn ask(&self, opcode: u8, body: Vec<u8>) -> Option<Envelope> {
        if self.is_closed() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let stream = self.free_own_stream()?;
        self.pending
            .borrow_mut()
            .insert(stream, Pending::Own(sender));
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
