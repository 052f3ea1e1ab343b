//! A request that was taken out of the stream because it touches what might be guarded or split.

use std::sync::Arc;

use super::named::Named;
use super::touched::Touched;
use crate::known::retire::Retirer;
use crate::proxy::budget::Reserved;
use crate::proxy::held::Held;

/// A request that touches what might be guarded or split, and is not forwarded yet.
pub(in crate::proxy) struct LateWrite {
    pub(super) touched: Touched,
    pub(super) named: Named,
    pub(super) retirer: Arc<Retirer>,
    pub(super) kind: Kind,
    pub(super) not_understood: Vec<NotUnderstood>,
    /// The connection's keyspace, where a statement needs one.
    pub(super) keyspace: Option<String>,
    /// For the request and its keys.
    pub(super) room: Reserved,
    pub(super) held: Held,
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
