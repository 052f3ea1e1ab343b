//! A request that was taken out of the stream because it touches partitions that might be guarded or split.

use std::sync::Arc;

use super::named::Named;
use super::touched::Touched;
use crate::budget::Reserved;
use crate::known::retire::Retirer;
use crate::proxy::held::Held;

pub(in crate::proxy) struct LateWrite {
    pub(super) touched: Touched,
    pub(super) named: Named,
    pub(super) retirer: Arc<Retirer>,
    pub(super) kind: Kind,
    pub(super) not_understood: Vec<NotUnderstood>,
    /// The connection's keyspace, if a statement needs one.
    pub(super) keyspace: Option<String>,
    /// Memory for the request and its keys.
    pub(super) room: Reserved,
    pub(super) held: Held,
}

/// A statement whose partitions cannot be computed.
pub(super) struct NotUnderstood {
    pub(super) text: String,
    /// Upstream understood the statement when it prepared it.
    pub(super) is_prepared: bool,
    /// The keyspace of its unqualified names, if it is certain.
    pub(super) keyspace: Option<String>,
    /// The text without its constants, for the log.
    pub(super) shape: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Write {
        consistency: u16,
        /// One statement that writes one partition without a condition: UNAVAILABLE means that nothing was written.
        is_simple: bool,
        /// The reply waits until the nodes agree on the schema.
        changes_schema: bool,
    },
    /// A write to unwatched tables: the proxy read neither its values nor its consistency.
    Unwatched {
        /// The reply waits until the nodes agree on the schema.
        changes_schema: bool,
    },
    /// A serial read may finish an earlier conditional write on the original.
    SerialRead,
}
