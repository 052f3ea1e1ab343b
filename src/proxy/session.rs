//! One client connection and its one upstream connection. The file to read first.
//!
//! Each direction is a loop: read ▸ split ▸ decide ▸ relay. What needs no decision is written straight from the read
//! buffer. A session belongs to one thread, so its state is in plain cells; the two writers are behind locks because
//! replies and requests of our own must go between messages, never into one.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, Notify};

use super::pending::Pending;
use super::{Close, Presented, Proxy};
use crate::protocol::header::{Envelope, RESPONSE_BIT, Version, opcode};
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::splitter::{Framing, Part, Splitter, Step};
use crate::protocol::{Compression, ProtocolError};
use crate::transport::{Buffer, Reader, Writer, close_gently};

pub(super) struct Session {
    pub(super) proxy: Arc<Proxy>,
    pub(super) presented: Presented,
    /// The upstream node behind this session.
    pub(super) upstream_address: SocketAddr,
    pub(super) version: Cell<Version>,
    /// What the client's STARTUP asked for; frames say themselves whether they use it.
    pub(super) compression: Cell<Option<Compression>>,
    pub(super) framing: Cell<Framing>,
    /// Upstream has answered the STARTUP.
    pub(super) started: Cell<bool>,
    pub(super) keyspace: RefCell<Option<String>>,
    pub(super) pending: RefCell<HashMap<i16, Pending>>,
    /// ERROR bodies for requests that were taken out, in the order they were.
    pub(super) refusals: RefCell<VecDeque<Vec<u8>>>,
    pub(super) requests: Cell<u64>,
    pub(super) replies: Cell<u64>,
    /// A reply is on its way to the client, in part or in whole.
    replying: Cell<bool>,
    /// Replies that arrived and wait for something before the client gets them.
    pub(super) held: Cell<u64>,
    pub(super) last_own_stream: Cell<i16>,
    client: Mutex<Writer>,
    upstream: Mutex<Writer>,
    /// No further requests are read.
    draining: Cell<bool>,
    /// Ends the session from outside.
    close: Notify,
    close_reason: Cell<Close>,
}

/// How a session ended, with what the client must still be told.
pub(super) enum Ending {
    Quiet(Close),
    /// The client sent what is not CQL.
    Bad(ProtocolError),
}

impl Session {
    pub(super) fn new(
        proxy: Arc<Proxy>,
        presented: Presented,
        version: Version,
        (upstream_address, upstream): (SocketAddr, Writer),
        client: Writer,
    ) -> Rc<Self> {
        Rc::new(Self {
            proxy,
            presented,
            upstream_address,
            version: Cell::new(version),
            compression: Cell::new(None),
            framing: Cell::new(Framing::Bare(None)),
            started: Cell::new(false),
            keyspace: RefCell::default(),
            pending: RefCell::default(),
            refusals: RefCell::default(),
            requests: Cell::new(0),
            replies: Cell::new(0),
            replying: Cell::new(false),
            held: Cell::new(0),
            last_own_stream: Cell::new(super::own::FIRST_STREAM),
            client: Mutex::new(client),
            upstream: Mutex::new(upstream),
            draining: Cell::new(false),
            close: Notify::new(),
            close_reason: Cell::new(Close::Client),
        })
    }

    /// Relays until one side ends, then closes the other.
    pub(super) async fn run(
        self: Rc<Self>,
        mut client: Reader,
        already_read: Buffer,
        upstream: Reader,
    ) -> Close {
        let session = self.clone();
        let mut replies =
            tokio::task::spawn_local(async move { session.relay_replies(upstream).await });
        let ending = tokio::select! {
            ending = self.relay_requests(&mut client, already_read) => ending,
            ended = &mut replies => Ending::Quiet(ended.unwrap_or(Close::Panic)),
            () = self.close.notified() => Ending::Quiet(self.close_reason.get()),
        };
        // Whoever waits for a reply on the client's connection learns that there will be none.
        self.pending.borrow_mut().clear();
        let (close, farewell) = match ending {
            Ending::Quiet(close) => (close, None),
            Ending::Bad(error) => (Close::ClientProtocol, Some(error)),
        };
        if !replies.is_finished() {
            replies.abort();
            // An aborted task ends with an error that says so.
            drop(replies.await);
        }
        self.say_goodbye(client, farewell).await;
        close
    }

    /// Client to upstream.
    async fn relay_requests(self: &Rc<Self>, reader: &mut Reader, mut buffer: Buffer) -> Ending {
        let mut splitter = Splitter::new(self.proxy.config.limits.request_bytes);
        let mut lane = Lane::new(&self.upstream);
        loop {
            splitter.set_framing(self.framing.get());
            let before = self.requests.get();
            let step = match splitter.step(buffer.filled(), &mut |view| self.judge_request(view)) {
                Ok(step) => step,
                Err(error) => return Ending::Bad(error),
            };
            self.proxy
                .metrics
                .forwarded
                .increment(self.requests.get() - before);
            if step.consumed == 0 {
                if self.draining.get() && splitter.at_boundary() {
                    std::future::pending::<()>().await;
                }
                match reader.read(&mut buffer).await {
                    Ok(count @ 1..) => self.proxy.metrics.client_bytes.increment(count as u64),
                    Ok(0) | Err(_) => return Ending::Quiet(Close::Client),
                }
                continue;
            }
            if lane
                .relay(&step, buffer.filled(), splitter.at_boundary())
                .await
                .is_err()
            {
                return Ending::Quiet(Close::Upstream);
            }
            buffer.consume(step.consumed);
            for part in step.then {
                let done = match part {
                    Part::Raw(bytes) => lane
                        .write(&bytes, splitter.at_boundary())
                        .await
                        .map_err(|_| Close::Upstream),
                    Part::Taken(request) => self.refuse(&request).await.map_err(|_| Close::Client),
                };
                if let Err(close) = done {
                    return Ending::Quiet(close);
                }
            }
        }
    }

    /// Upstream to client.
    async fn relay_replies(self: &Rc<Self>, mut reader: Reader) -> Close {
        let mut splitter = Splitter::new(super::response::REPLY_BYTES_HELD_MAX);
        let mut lane = Lane::new(&self.client);
        let mut buffer = Buffer::default();
        loop {
            splitter.set_framing(self.framing.get());
            let before = self.replies.get();
            let step = match splitter.step(buffer.filled(), &mut |view| self.judge_reply(view)) {
                Ok(step) => step,
                Err(error) => {
                    tracing::warn!(upstream = %self.upstream_address, %error, "upstream sent what is not CQL");
                    return Close::UpstreamProtocol;
                }
            };
            self.proxy
                .metrics
                .replies
                .increment(self.replies.get() - before);
            if step.consumed == 0 {
                match reader.read(&mut buffer).await {
                    Ok(count @ 1..) => self.proxy.metrics.upstream_bytes.increment(count as u64),
                    Ok(0) | Err(_) => {
                        self.proxy.suspicion.notify_one();
                        return Close::Upstream;
                    }
                }
                continue;
            }
            self.replying.set(true);
            if lane
                .relay(&step, buffer.filled(), splitter.at_boundary())
                .await
                .is_err()
            {
                return Close::Client;
            }
            buffer.consume(step.consumed);
            for part in step.then {
                let done = match part {
                    Part::Raw(bytes) => lane.write(&bytes, splitter.at_boundary()).await,
                    Part::Taken(reply) => self.take_reply(reply).await,
                };
                if done.is_err() {
                    return Close::Client;
                }
            }
            self.replying.set(!splitter.at_boundary());
        }
    }

    /// Answers a request that was taken out with the error that `judge_request` left for it.
    async fn refuse(&self, request: &Envelope) -> std::io::Result<()> {
        let body = self.refusals.borrow_mut().pop_front();
        let body = body.unwrap_or_else(|| {
            error::encode(ErrorCode::Server, "narrows: request without an answer")
        });
        self.reply(request.header.stream, 0, opcode::ERROR, body)
            .await
    }

    /// Sends the client a message of our own, between two of upstream's.
    pub(super) async fn reply(
        &self,
        stream: i16,
        flags: u8,
        opcode: u8,
        body: Vec<u8>,
    ) -> std::io::Result<()> {
        let version = self.version.get().byte() | RESPONSE_BIT;
        let reply = Envelope::with_flags(version, flags, stream, opcode, body);
        let mut client = self.client.lock().await;
        client.write_all(&self.framing.get().frame(&reply)).await
    }

    /// Sends upstream a request of our own, between two of the client's.
    pub(super) async fn send_upstream(&self, request: &Envelope) -> std::io::Result<()> {
        let mut upstream = self.upstream.lock().await;
        upstream.write_all(&self.framing.get().frame(request)).await
    }

    /// Ends the session from outside of it.
    pub(super) fn close(&self, reason: Close) {
        self.close_reason.set(reason);
        self.close.notify_one();
    }

    /// Stops reading requests; those under way are still answered.
    pub(super) fn drain(&self) {
        self.draining.set(true);
    }

    pub(super) fn has_requests_under_way(&self) -> bool {
        self.requests.get() > self.replies.get() || self.replying.get() || self.held.get() > 0
    }

    /// A number that moves whenever a message passes.
    pub(super) fn activity(&self) -> u64 {
        self.requests.get() + self.replies.get()
    }

    async fn say_goodbye(self: Rc<Self>, client: Reader, bad: Option<ProtocolError>) {
        if let Some(error) = bad {
            let code = ErrorCode::Protocol;
            let body = error::encode(code, &format!("narrows: {error}; closing the connection"));
            if self.reply(0, 0, opcode::ERROR, body).await.is_err() {
                return;
            }
        }
        // Tasks that still hold the session were told to end; if one is late, closing plainly is right.
        if let Ok(session) = Rc::try_unwrap(self).map_err(drop) {
            close_gently(client, session.client.into_inner()).await;
        }
    }
}

/// The way to one writer. Keeps it locked while a message is relayed in parts, so that nobody writes into it.
struct Lane<'a> {
    writer: &'a Mutex<Writer>,
    held: Option<MutexGuard<'a, Writer>>,
}

impl<'a> Lane<'a> {
    fn new(writer: &'a Mutex<Writer>) -> Self {
        Self { writer, held: None }
    }

    async fn relay(&mut self, step: &Step, input: &[u8], at_boundary: bool) -> std::io::Result<()> {
        match step.relay {
            0 => Ok(()),
            // Parts follow: whatever came before them ended between two messages.
            count => {
                self.write(&input[..count], at_boundary || !step.then.is_empty())
                    .await
            }
        }
    }

    async fn write(&mut self, bytes: &[u8], at_boundary: bool) -> std::io::Result<()> {
        let mut writer = match self.held.take() {
            Some(writer) => writer,
            None => self.writer.lock().await,
        };
        writer.write_all(bytes).await?;
        if !at_boundary {
            self.held = Some(writer);
        }
        Ok(())
    }
}
