//! What a session remembers about requests whose replies it must look at.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::late::{InFlight, LateWrite};
use super::prepared::Statement;
use super::sight::Sight;
use super::split::SplitRead;
use super::watching::Stale;
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
    /// A write: what it touches of watched tables is checked again before the reply passes.
    Write(Box<InFlight>),
    /// A read of one partition that may be wide: the head of the reply says more. It passes as it is.
    Sight(Sight),
}

/// A request whose reply takes work of ours, counted until the client has it or the session ends.
pub(super) struct Held(Rc<Cell<usize>>);

impl Held {
    /// `None`: as many as `limit` are under way.
    pub(super) fn begin(count: &Rc<Cell<usize>>, limit: usize) -> Option<Self> {
        if count.get() >= limit {
            return None;
        }
        count.set(count.get() + 1);
        Some(Self(count.clone()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
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

/// Why a request was taken out of the stream.
pub(super) enum Taken {
    /// It is answered with this ERROR body.
    Refused(Vec<u8>),
    /// The node behind this session does not have these statements yet; then the request goes on.
    PrepareFirst(Vec<Arc<Statement>>),
    /// It writes, and what is split is not known well enough.
    HoldWrite(Stale, Held),
    /// It writes what might be guarded or split.
    LateWrite(Box<LateWrite>),
    /// It reads what might be split.
    SplitRead(Box<SplitRead>),
}
