//! The one decision about a request. The judge makes it, `Session::act` carries it out, and nothing in between decides
//! again.

use std::sync::Arc;

use super::concern::Stale;
use super::held::Held;
use super::late::late_write::LateWrite;
use super::metrics::Metrics;
use super::pending::Pending;
use super::prepared::Statement;
use super::short_names::ComingUse;
use super::split::read::SplitRead;
use crate::protocol::Compression;
use crate::protocol::header::Version;
use crate::protocol::response::error::{self, ErrorCode};
use crate::rewrite::state::PagingState;

pub(super) enum Decision {
    Forward,
    /// Forward, and look at the reply.
    Watch(Pending),
    /// Forward a STARTUP, which names the client's version and compression.
    Startup(Version, Option<Compression>),
    /// Take the request out of the stream.
    Take(Taken),
}

/// Why a request was taken out of the stream, with everything that the session needs to act on it.
pub(super) enum Taken {
    /// The client gets an ERROR.
    Refuse(Refusal),
    /// The session's node does not have these statements yet. Prepare them there, then judge the request again.
    PrepareFirst(Vec<Arc<Statement>>, Option<ComingUse>),
    /// A USE, and reads that were taken before it depend on the connection's keyspace. Wait until they are answered or
    /// forwarded, then judge the USE again.
    Use,
    /// The request writes, and the knowledge about splits is stale. Wait for a refresh, then judge the request again.
    HoldWrite(Stale, Held),
    /// The request writes partitions that might be guarded or split. Retire these splits first.
    LateWrite(Box<LateWrite>),
    /// The request reads partitions that might be split.
    SplitRead(Box<SplitRead>),
    /// The request continues a scan of a split, and there is no room for it. The original continues from here.
    GoOn(Box<PagingState>),
}

/// An ERROR of our own. Upstream does not get the request.
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

    /// After UNPREPARED, the driver prepares the statement and sends the request again.
    pub(super) fn unprepared(id: &[u8]) -> Self {
        Self {
            body: error::unprepared(id),
            counted_as: CountedAs::Unprepared,
        }
    }

    /// For a write that waited for the control keyspace, or would have to wait.
    pub(super) fn held(code: ErrorCode, text: &str) -> Self {
        Self {
            body: error::encode(code, text),
            counted_as: CountedAs::HeldWrite,
        }
    }

    /// Counts the refusal and returns the body of its ERROR.
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

pub(super) const KEYSPACE_CHANGED: &str = "narrows: a USE changed the keyspace while the proxy was working on this statement; it was not forwarded, try again";
