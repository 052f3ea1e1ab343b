//! What a session remembers about requests whose replies it must look at.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::held::Held;
use super::late::in_flight::{InFlight, Replied};
use super::prepared::Statement;
use super::sight::Sight;
use crate::protocol::Envelope;
use crate::statement::TopologySelect;

/// Why the reply on a stream matters. Replies on other streams are relayed unseen.
pub(super) enum Pending {
    /// OPTIONS: the SUPPORTED reply is cut to what we speak.
    Options,
    /// PREPARE: the PREPARED reply names the id of this statement. Whether the request itself names a keyspace.
    Prepare(Box<Statement>, bool),
    /// USE: the reply names the keyspace.
    Use,
    /// The reply to a schema change waits until the cluster agrees.
    SchemaChange(Held),
    /// A read of a topology table: its rows are replaced.
    Topology(TopologyRead, Held),
    /// A request of our own on the client's connection.
    Own(oneshot::Sender<Envelope>),
    /// A write that was forwarded at once: what it touches of watched tables is checked again before the reply passes.
    Write(Box<InFlight>),
    /// A write that first had to wait for a split. The task that forwarded it gets a reply that does not pass.
    LateWrite(Box<InFlight>, oneshot::Sender<Replied>),
    /// A read of one partition that may be wide: the head of the reply says more. It passes as it is.
    Sight(Sight),
}

impl Pending {
    /// Whether no other request may use the stream meanwhile. A reply that is only looked at may be mistaken for another.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self, Self::Sight(_))
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
