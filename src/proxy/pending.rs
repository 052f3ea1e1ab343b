//! What a session remembers about requests whose replies it must look at.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::protocol::Envelope;
use crate::statement::{Shape, TopologySelect};

/// Why the reply on a stream matters. Replies on other streams are relayed unseen.
pub(super) enum Pending {
    /// OPTIONS: the SUPPORTED reply is cut to what we speak.
    Options,
    /// PREPARE: the PREPARED reply names the id that means this shape.
    Prepare(Shape),
    /// USE: the reply names the keyspace.
    Use,
    /// The reply to a schema change waits until the cluster agrees.
    SchemaChange,
    /// A read of a topology table: its rows are replaced.
    Topology(TopologyRead),
    /// A request of our own on the client's connection.
    Own(oneshot::Sender<Envelope>),
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
