//! What a session remembers about requests whose replies it must look at.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::prepared::Statement;
use crate::protocol::Envelope;
use crate::statement::TopologySelect;

/// Why the reply on a stream matters. Replies on other streams are relayed unseen.
pub(super) enum Pending {
    /// OPTIONS: the SUPPORTED reply is cut to what we speak.
    Options,
    /// PREPARE: the PREPARED reply names the id of this statement.
    Prepare(Statement),
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

/// Why a request was taken out of the stream.
pub(super) enum Taken {
    /// It is answered with this ERROR body.
    Refused(Vec<u8>),
    /// The node behind this session does not have these statements yet; then the request goes on.
    PrepareFirst(Vec<Arc<Statement>>),
}
