//! What becomes of a request. The judge decides, the session's hand acts on it, and nothing in between decides again.

use std::sync::Arc;

use super::concern::Stale;
use super::held::Held;
use super::late::late_write::LateWrite;
use super::metrics::Metrics;
use super::pending::Pending;
use super::prepared::Statement;
use super::split::read::SplitRead;
use crate::protocol::Compression;
use crate::protocol::header::Version;
use crate::protocol::response::error::{self, ErrorCode};

pub(super) enum Decision {
    Forward,
    /// Forward, and look at the reply.
    Watch(Pending),
    /// Forward, now that the client's version and compression are known.
    Startup(Version, Option<Compression>),
    /// Take it out of the stream.
    Take(Taken),
}

/// Why a request was taken out of the stream, with all that is needed to act on it.
pub(super) enum Taken {
    /// It is answered with an ERROR.
    Refuse(Refusal),
    /// The node behind this session does not have these statements yet; then the request is judged again.
    PrepareFirst(Vec<Arc<Statement>>),
    /// It writes, and what is split is not known well enough; then it is judged again.
    HoldWrite(Stale, Held),
    /// It writes what might be guarded or split: that is retired first.
    LateWrite(Box<LateWrite>),
    /// It reads what might be split.
    SplitRead(Box<SplitRead>),
}

/// An ERROR of our own, in place of a request.
pub(super) struct Refusal {
    body: Vec<u8>,
    counted_as: CountedAs,
}

#[derive(Clone, Copy)]
enum CountedAs {
    Unprepared,
    Rejected,
    HeldWrite,
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, text: &str) -> Self {
        Self {
            body: error::encode(code, text),
            counted_as: CountedAs::Rejected,
        }
    }

    /// The driver prepares the statement and comes again.
    pub(super) fn unprepared(id: &[u8]) -> Self {
        Self {
            body: error::unprepared(id),
            counted_as: CountedAs::Unprepared,
        }
    }

    /// Of a write that waited for the control keyspace, or would have to.
    pub(super) fn held(code: ErrorCode, text: &str) -> Self {
        Self {
            body: error::encode(code, text),
            counted_as: CountedAs::HeldWrite,
        }
    }

    /// Counts it and gives the body.
    pub(super) fn into_body(self, metrics: &Metrics) -> Vec<u8> {
        match self.counted_as {
            CountedAs::Unprepared => metrics.unprepared.increment(1),
            CountedAs::Rejected => metrics.rejected.increment(1),
            CountedAs::HeldWrite => metrics.held_writes_refused.increment(1),
        }
        self.body
    }
}

impl Decision {
    pub(super) fn refuse(code: ErrorCode, text: &str) -> Self {
        Self::Take(Taken::Refuse(Refusal::new(code, text)))
    }

    pub(super) fn unprepared(id: &[u8]) -> Self {
        Self::Take(Taken::Refuse(Refusal::unprepared(id)))
    }

    pub(super) fn overloaded(what: &str) -> Self {
        let text = format!("narrows: too many {what} at once on this connection");
        Self::refuse(ErrorCode::Overloaded, &text)
    }
}

pub(super) const KEYSPACE_CHANGED: &str = "narrows: USE has changed the keyspace while this statement was under way; it was not forwarded, try again";
