//! Answers a request beside the session's other requests: from a split, or else from the original.

use std::rc::Rc;

use super::fallback::{Instead, Reply};
use super::read::SplitRead;
use super::reader::SplitReader;
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::response::error::{self, ErrorCode};
use crate::proxy::pending::Pending;

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
        match self.answer(&request, &read).await {
            Ok(Reply { flags, body }) => {
                metrics.answered.increment(1);
                // A client that reads slowly does not hold up its own USE.
                drop(read.short.take());
                self.wire
                    .answer(&request, (flags, opcode::RESULT), body)
                    .await;
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
                self.wire.answer(&request, (0, opcode::ERROR), body).await;
            }
        }
    }

    async fn send_to_original(self: &Rc<Self>, request: Envelope, read: SplitRead) {
        if let Some(cut) = read.cut {
            let rest = (read.sight, read.short);
            return self.answer_cut(request, cut, rest).await;
        }
        if let Some(sight) = read.sight {
            let mut pending = self.wire.pending.borrow_mut();
            pending.insert(request.header.stream, Pending::Sight(sight));
        }
        self.wire.forward(&request).await;
    }
}
