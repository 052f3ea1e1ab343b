//! The requests whose replies a session must look at.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::held::Held;
use super::late::in_flight::{InFlight, Replied};
use super::prepared::Statement;
use super::sight::Sight;
use crate::budget::Reserved;
use crate::protocol::Envelope;
use crate::protocol::deframer::View;
use crate::statement::TopologySelect;

/// Why the reply on a stream matters. Replies on other streams are relayed unseen.
pub(super) enum Pending {
    /// OPTIONS: the proxy removes from SUPPORTED the options that it does not support.
    Options,
    /// PREPARE: the reply has the id of this statement. The flag says whether the request itself names a keyspace.
    Prepare(Box<Statement>, bool),
    /// USE: the reply names the keyspace.
    Use,
    /// A schema change: its reply waits until the nodes agree.
    SchemaChange(Held),
    /// A read of a topology table: its rows are replaced.
    Topology(TopologyRead, Held),
    /// A request of our own on the client's connection.
    Own(Own),
    /// A write that was forwarded at once. The proxy checks it again before its reply passes.
    Write(Box<InFlight>),
    /// A write that waited until splits were retired. The task that forwarded it gets a reply that does not pass.
    LateWrite(Box<InFlight>, oneshot::Sender<Replied>),
    /// A read of one partition: the head of the reply shows whether it may be wide. The reply passes unchanged.
    Sight(Sight),
}

impl Pending {
    /// Whether the stream is in use until the reply arrives. A `Sight` leaves it free: looking at the reply to another
    /// request does no harm.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self, Self::Sight(_))
    }
}

/// The reply to a request of our own, and the memory for it; `None`: there was no room for it.
pub(super) type OwnReply = Option<(Envelope, Reserved)>;

/// Who waits for the reply to a request of our own.
pub(super) struct Own {
    asker: oneshot::Sender<OwnReply>,
    reserved: Reserved,
    is_large: bool,
    has_room: bool,
}

impl Own {
    /// `reserved` grows with the reply if that may be large.
    pub(super) fn new(
        asker: oneshot::Sender<OwnReply>,
        reserved: Reserved,
        is_large: bool,
    ) -> Self {
        Self {
            asker,
            reserved,
            is_large,
            has_room: true,
        }
    }

    /// Reserves memory for a reply that is arriving. `false`: there is too little.
    pub(super) fn make_room(&mut self, view: View<'_>) -> bool {
        // The header of a compressed message has its compressed length.
        let bytes = view.body.len().max(view.header.length as usize);
        self.has_room = !self.is_large || self.reserved.grow_to(bytes);
        self.has_room
    }

    /// The task that asked may be gone.
    pub(super) fn deliver(self, reply: Envelope) {
        let reply = self.has_room.then_some((reply, self.reserved));
        drop(self.asker.send(reply));
    }
}

/// A read of a topology table with its bound values.
pub(super) struct TopologyRead {
    pub(super) select: Arc<TopologySelect>,
    pub(super) values: Vec<BoundValue>,
}

/// A value and the name it was bound to, if any.
pub(super) struct BoundValue {
    pub(super) name: Option<String>,
    pub(super) bytes: Option<Vec<u8>>,
}
