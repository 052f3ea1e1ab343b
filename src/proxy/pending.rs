//! The requests whose replies a session must look at.

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
    Own(oneshot::Sender<Envelope>),
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
