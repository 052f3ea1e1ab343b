//! SELECTs of watched tables, answered from splits. In the order a request meets the files: `consider` decides beside all
//! other requests whether one might be answered here, `asked` reads it again, `answer` finds out how its partitions stand
//! and whether the client may read them, `pages` reads the buckets, `sub_read` one of them.
//!
//! Whatever is in doubt before the reply is sent goes to the original: nothing was said to the client yet, so nothing is
//! lost but time.

mod answer;
mod asked;
mod consider;
mod cut;
mod fallback;
mod pages;
mod sub_read;

use std::rc::Rc;
use std::sync::Arc;

use super::budget::Reserved;
use super::pending::Held;
use super::session::Session;
use super::sight::Sight;
use crate::known::Watched;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::response::error::{self, ErrorCode};
use crate::rewrite::Readable;
use crate::rewrite::state::{State, StateError};
use crate::schema::names::TableName;
pub use consider::might_be_answered;
pub(super) use consider::{Considered, Considering};
use cut::Cut;
use fallback::Fallback;
pub(super) use fallback::SplitMetrics;
pub(crate) use pages::SIDE_BY_SIDE;

/// A request that might be answered from a split, or whose page might be cut.
pub(super) struct SplitRead {
    table: TableName,
    /// The statement and the table, if a split may answer.
    readable: Option<(Arc<Readable>, Arc<Watched>)>,
    text: Arc<str>,
    /// The connection's keyspace, where the statement needs one.
    keyspace: Option<String>,
    /// Where the scan stands that it goes on with, if that began on a split.
    state: Option<Result<State, StateError>>,
    /// How large a page of the original may become.
    cut: Option<Cut>,
    /// What the reply is looked at for, if the original answers.
    sight: Option<Sight>,
    /// Of the request itself; what is read for it is counted as it comes.
    _bytes: Reserved,
    _held: Held,
}

/// A RESULT for the client.
struct Reply {
    flags: u8,
    body: Vec<u8>,
}

/// What happens where a split does not answer.
#[derive(Debug)]
enum Instead {
    /// The original answers the request as it came.
    Original(Fallback),
    /// The original goes on with the scan, by this request with a paging state of its own.
    GoOn(Fallback, Envelope),
    /// The paging state is not of this request.
    Refuse(&'static str),
}

impl From<Fallback> for Instead {
    fn from(fallback: Fallback) -> Self {
        Self::Original(fallback)
    }
}

impl Session {
    /// Answers beside the session's other requests.
    pub(super) fn begin_split_read(self: &Rc<Self>, request: Envelope, read: SplitRead) {
        self.requests.set(self.requests.get() + 1);
        let session = self.clone();
        self.begin_beside(async move { session.serve_split_read(request, read).await });
    }

    async fn serve_split_read(self: &Rc<Self>, request: Envelope, mut read: SplitRead) {
        let metrics = &self.proxy.metrics.split;
        if read.readable.is_none() && read.state.is_none() {
            return self.send_to_original(request, &mut read).await;
        }
        match self.answer(&request, &read).await {
            Ok(reply) => {
                metrics.answered.increment(1);
                self.answer_taken(&request, (reply.flags, opcode::RESULT), reply.body)
                    .await;
            }
            Err(Instead::Original(fallback)) => {
                metrics.count(fallback);
                self.send_to_original(request, &mut read).await;
            }
            Err(Instead::GoOn(fallback, request)) => {
                metrics.count(fallback);
                metrics.went_on.increment(1);
                self.send_to_original(request, &mut read).await;
            }
            Err(Instead::Refuse(text)) => {
                metrics.refused.increment(1);
                let body = error::encode(ErrorCode::Protocol, text);
                self.answer_taken(&request, (0, opcode::ERROR), body).await;
            }
        }
    }

    /// Answers a request that was taken out of the stream. A client that has gone needs no reply.
    pub(super) async fn answer_taken(
        &self,
        request: &Envelope,
        (flags, opcode): (u8, u8),
        body: Vec<u8>,
    ) {
        let sent = self.reply(request.header.stream, flags, opcode, body);
        drop(sent.await);
        self.replies.set(self.replies.get() + 1);
    }

    async fn send_to_original(self: &Rc<Self>, request: Envelope, read: &mut SplitRead) {
        // What USE has changed since would change what the statement means.
        if read.keyspace.is_some() && *self.keyspace.borrow() != read.keyspace {
            let body = error::encode(ErrorCode::Overloaded, KEYSPACE_CHANGED);
            return self.answer_taken(&request, (0, opcode::ERROR), body).await;
        }
        match read.cut {
            Some(cut) => self.answer_cut(request, cut, read.sight.take()).await,
            None => {
                self.look_out(request.header.stream, read.sight.take());
                self.forward_taken(request).await;
            }
        }
    }

    /// Forwards a request that was taken out of the stream. If upstream is gone, the session ends by that.
    async fn forward_taken(&self, request: Envelope) {
        self.proxy.metrics.forwarded.increment(1);
        drop(self.send_upstream(&request).await);
    }
}

pub(super) const KEYSPACE_CHANGED: &str = "narrows: USE has changed the keyspace while this statement was under way; it was not forwarded, try again";
