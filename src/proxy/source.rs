//! A statement of a request, prepared or as text, and what it means.

use std::sync::Arc;

use super::concern::Concern;
use super::prepared::Statement;
use crate::protocol::header::Header;
use crate::protocol::types::Cursor;
use crate::rewrite::keyed::Keyed;
use crate::rewrite::pageable::Pageable;
use crate::rewrite::written::Written;
use crate::rewrite::{Readable, Reason};
use crate::schema::TableSchema;
use crate::statement::Shape;

/// A QUERY or an EXECUTE, as far as the judge has read it.
pub(super) struct Asking<'a> {
    pub(super) header: Header,
    /// All of the message that has arrived.
    pub(super) body: &'a [u8],
    /// The rest of the message, after the statement's text or id.
    pub(super) rest: Cursor<'a>,
    pub(super) source: Source<'a>,
    pub(super) shape: &'a Shape,
    pub(super) concern: Arc<Concern>,
    /// The tables in case upstream runs the text in a keyspace other than the connection's. `None`: the keyspace makes
    /// no difference.
    pub(super) anywhere: Option<Arc<Concern>>,
}

impl Asking<'_> {
    /// Whether all of the message has arrived.
    pub(super) fn is_whole(&self) -> bool {
        self.body.len() >= self.header.length as usize
    }
}

pub(super) enum Source<'a> {
    Prepared(&'a Statement),
    Text {
        text: &'a str,
        /// The keyspace of its unqualified names, if it is certain.
        keyspace: Option<&'a str>,
    },
}

/// A prepared statement caches what it means for a schema; a text is parsed each time.
impl Source<'_> {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Prepared(statement) => &statement.text,
            Self::Text { text, .. } => text,
        }
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text { .. })
    }

    /// How a split answers the statement, if one can.
    pub(super) fn readable(&self, schema: &Arc<TableSchema>) -> Result<Arc<Readable>, Reason> {
        match self {
            Self::Prepared(statement) => statement.readable(schema),
            Self::Text { text, .. } => Readable::parse(text, schema).map(Arc::new),
        }
    }

    /// The partition that the statement reads, if it reads exactly one.
    pub(super) fn keyed(&self, schema: &Arc<TableSchema>) -> Option<Arc<Keyed>> {
        match self {
            Self::Prepared(statement) => statement.keyed(schema),
            Self::Text { text, .. } => Keyed::parse(text, schema).map(Arc::new),
        }
    }

    /// Whether its pages may be cut short.
    pub(super) fn pageable(&self) -> Option<Arc<Pageable>> {
        match self {
            Self::Prepared(statement) => statement.pageable(),
            Self::Text { text, .. } => Pageable::parse(text).map(Arc::new),
        }
    }

    /// The partitions that the statement writes, if they can be computed.
    pub(super) fn written(&self, schema: &Arc<TableSchema>) -> Option<Arc<Written>> {
        match self {
            Self::Prepared(statement) => statement.written(schema),
            Self::Text { text, keyspace } => Written::parse(text, *keyspace, schema).map(Arc::new),
        }
    }
}
