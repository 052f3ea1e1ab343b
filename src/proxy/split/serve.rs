//! Answers a request beside the session's other requests: from a split, or else from the original.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::fallback::{Instead, Reply};
use super::read::SplitRead;
use super::reader::SplitReader;
use super::share::Expected;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::response::error::{self, ErrorCode};
use crate::proxy::pending::Pending;

/// How long a read without room waits for its client to read the replies before it. The original needs the rest of the
/// time that the client waits.
const ROOM_PATIENCE: Duration = Duration::from_millis(500);

impl SplitReader {
    pub(in crate::proxy) fn begin(self: &Rc<Self>, request: Envelope, read: SplitRead) {
        self.wire.count_request();
        let reader = self.clone();
        self.wire
            .begin_beside(async move { reader.serve(request, read).await });
    }

    async fn serve(self: &Rc<Self>, request: Envelope, mut read: SplitRead) {
        let metrics = &self.wire.proxy.metrics.split;
        if read.wanted.is_none() && read.state.is_none() {
            return self.send_to_original(request, read).await;
        }
        match self.answer_in_turn(&request, &read).await {
            Ok(reply) => {
                metrics.answered.increment(1);
                // A client that reads slowly does not hold up its own USE.
                drop(read.short.take());
                self.send(&request, opcode::RESULT, &reply).await;
            }
            Err(Instead::Original(fallback)) => {
                metrics.count(fallback);
                self.send_to_original(request, read).await;
            }
            Err(Instead::GoOn(fallback, request)) => {
                metrics.count(fallback);
                metrics.went_on.increment(1);
                self.send_to_original(request, read).await;
            }
            Err(Instead::Refuse(text)) => {
                metrics.refused.increment(1);
                drop(read.short.take());
                let body = error::encode(ErrorCode::Protocol, text);
                let head = (0, opcode::ERROR);
                self.wire.answer(&request, head, &[&body]).await;
            }
        }
    }

    /// Sends a reply. Until all of it is written, it counts as unsent.
    pub(super) async fn send(&self, request: &Envelope, opcode: u8, reply: &Reply) {
        let body = reply.body();
        let _unsent = self.share.sending(body.iter().map(|part| part.len()).sum());
        self.wire
            .answer(request, (reply.flags, opcode), &body)
            .await;
    }

    /// Answers the request once its connection has not much unsent. If there is no room, and replies that this client
    /// has not read take some of it, the request waits for these a little and tries once more.
    async fn answer_in_turn(
        self: &Rc<Self>,
        request: &Envelope,
        read: &SplitRead,
    ) -> Result<Reply, Instead> {
        let expected = match &read.wanted {
            Some(_) => unless_hurried(read, self.share.little_unsent()).await,
            // It goes on at the original, without a reply of ours.
            None => None,
        };
        let answered = self.answer(request, read).await;
        drop(expected);
        match answered {
            Err(instead) if instead.lacks_room() && self.share.has_room_later() => {
                let client_reads = unless_hurried(read, self.share.nothing_unsent());
                match timeout(ROOM_PATIENCE, client_reads).await {
                    Ok(_expected) => self.answer(request, read).await,
                    Err(_) => Err(instead),
                }
            }
            answered => answered,
        }
    }

    async fn send_to_original(self: &Rc<Self>, request: Envelope, mut read: SplitRead) {
        if let Some(cut) = read.cut {
            let sight = read.sight.as_ref();
            let answered = self.answer_cut(&request, cut, sight, &mut read.short);
            if answered.await {
                return;
            }
        }
        if let Some(sight) = read.sight {
            let mut pending = self.wire.pending.borrow_mut();
            pending.insert(request.header.stream, Pending::Sight(sight));
        }
        self.wire.forward(&request).await;
    }
}

/// Waits for the client to read. A USE that waits behind the read ends that: the read then turns to the original at once.
async fn unless_hurried(
    read: &SplitRead,
    client_reads: impl Future<Output = Option<Expected>>,
) -> Option<Expected> {
    tokio::select! {
        biased;
        () = read.hurried() => None,
        expected = client_reads => expected,
    }
}
