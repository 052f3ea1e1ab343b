//! Requests of our own on a client's connection: with the client's identity, on stream ids that clients never use.
//!
//! Ids run from −2 down (−1 is for events); Cassandra echoes them in v3, v4 and v5.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::pending::Pending;
use super::prepared::Statement;
use super::session::Session;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::request::query;
use crate::protocol::response;
use crate::protocol::response::result::{self, Rows};

/// One above the first id used.
pub(super) const FIRST_STREAM: i16 = -1;

impl Session {
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

    /// Prepares statements on the node behind this session. One that cannot be prepared counts as tried: the client's
    /// request then meets upstream's own UNPREPARED.
    pub(super) async fn prepare_upstream(&self, statements: Vec<Arc<Statement>>) {
        for statement in statements
            .iter()
            .filter(|statement| !statement.is_on(self.node))
        {
            let Statement { text, keyspace, .. } = &**statement;
            let body = query::encode_prepare(self.version.get(), text, keyspace.as_deref());
            self.ask(opcode::PREPARE, body).await;
            statement.set_on(self.node);
            self.proxy.metrics.prepared_upstream.increment(1);
        }
    }

    async fn ask(&self, opcode: u8, body: Vec<u8>) -> Option<Envelope> {
        let (sender, receiver) = oneshot::channel();
        let stream = self.free_own_stream();
        self.pending
            .borrow_mut()
            .insert(stream, Pending::Own(sender));
        self.requests.set(self.requests.get() + 1);
        let request = Envelope::new(self.version.get().byte(), stream, opcode, body);
        self.send_upstream(&request).await.ok()?;
        receiver.await.ok()
    }

    /// The next id that has no request under way.
    fn free_own_stream(&self) -> i16 {
        let pending = self.pending.borrow();
        let mut stream = self.last_own_stream.get();
        loop {
            stream = if stream == i16::MIN {
                FIRST_STREAM - 1
            } else {
                stream - 1
            };
            if !pending.contains_key(&stream) {
                self.last_own_stream.set(stream);
                return stream;
            }
        }
    }
}
