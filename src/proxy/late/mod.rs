//! Writes to watched tables. In the order a request meets the files: `requests` says which partitions it touches, `consider`
//! holds them against the filter when it is about to be forwarded, `before` takes what is split of them out of service
//! first, `after` checks once more when the reply is there, before the client sees it.
//!
//! The second check closes what the first cannot: a partition that was guarded while the write was under way, however
//! long that took. A generation is copied only when every write that did not see its guard is over or was checked again.
//! Writes to tables that nobody watches are remembered, too, by the names that they have: somebody may by then.

mod after;
mod before;
mod consider;
mod named;
mod requests;
mod touched;

use std::rc::Rc;
use std::sync::Arc;

use super::budget::Reserved;
use super::pending::Held;
use super::session::Session;
use crate::known::retire::Retirer;
use crate::protocol::header::Envelope;
pub(super) use after::InFlight;
pub(super) use consider::Considering;
pub use consider::WatchedWrites;
pub(super) use named::Named;
pub(super) use requests::Source;
use touched::Touched;

/// A request that touches what might be guarded or split, and is not forwarded yet.
pub(super) struct LateWrite {
    touched: Touched,
    named: Named,
    guards: Arc<Retirer>,
    kind: Kind,
    not_understood: Vec<NotUnderstood>,
    /// The connection's keyspace, where a statement needs one.
    keyspace: Option<String>,
    /// For the request and its keys.
    room: Reserved,
    _held: Held,
}

/// A statement whose partitions cannot be told.
pub(super) struct NotUnderstood {
    pub(super) text: String,
    /// Upstream has understood it before.
    pub(super) is_prepared: bool,
    /// Where its unqualified names are, if the request itself says so.
    pub(super) keyspace: Option<String>,
    /// The text without its constants, for people.
    pub(super) shape: String,
}

/// What kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Write {
        consistency: u16,
        /// One statement about one partition without a condition: UNAVAILABLE means that nothing happened.
        is_simple: bool,
        /// Its reply waits until the nodes agree on the schema.
        changes_schema: bool,
    },
    /// To tables that nobody watched: neither its values nor its consistency were read.
    Unwatched {
        /// As above.
        changes_schema: bool,
    },
    /// A serial read may finish a conditional write of before on the original.
    SerialRead,
}

impl Session {
    /// Works on it beside the session's other requests.
    pub(super) fn begin_late_write(self: &Rc<Self>, request: Envelope, late: LateWrite) {
        self.requests.set(self.requests.get() + 1);
        let session = self.clone();
        self.begin_beside(async move { session.serve_late_write(request, late).await });
    }
}
