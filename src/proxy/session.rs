//! One client connection and its one upstream connection. The file to read first.
//!
//! Each direction is a loop: read ▸ split ▸ decide ▸ relay. What needs no decision is written straight from the read
//! buffer. A session belongs to one thread, so its state is in plain cells; the two writers are behind locks because
//! replies and requests of our own must go between messages, never into one.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::beside::Beside;
use super::pending::{Pending, Taken};
use super::prepared::NodeBit;
use super::response::REPLY_BYTES_HELD_MAX;
use super::right::Rights;
use super::{Close, Presented, Proxy};
use crate::protocol::header::{Envelope, RESPONSE_BIT, Version, opcode};
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::splitter::{Framing, Part, Splitter, Step, Verdict, View};
use crate::protocol::{Compression, ProtocolError};
use crate::transport::{Buffer, Reader, Writer, close_gently};
use crate::upstream::pool::Pool;

/// How long a client may take to read our last words.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Session {
    pub(super) proxy: Arc<Proxy>,
    pub(super) presented: Presented,
    /// The upstream node behind this session.
    pub(super) upstream_address: SocketAddr,
    pub(super) node: NodeBit,
    pub(super) version: Cell<Version>,
    /// The stream of the client's first request.
    first_stream: i16,
    /// What the client's STARTUP asked for; frames say themselves whether they use it.
    pub(super) compression: Cell<Option<Compression>>,
    pub(super) framing: Cell<Framing>,
    pub(super) stage: Cell<Stage>,
    pub(super) keyspace: RefCell<Option<String>>,
    pub(super) pending: RefCell<HashMap<i16, Pending>>,
    /// Why requests were taken out, in the order they were.
    pub(super) taken: RefCell<VecDeque<Taken>>,
    pub(super) requests: Cell<u64>,
    pub(super) replies: Cell<u64>,
    /// A reply is on its way to the client, in part or in whole.
    replying: Cell<bool>,
    /// Requests whose replies take work of ours.
    pub(super) held: Rc<Cell<usize>>,
    /// Upstream asked for a login, so it has roles with different rights.
    pub(super) logged_in: Cell<bool>,
    pub(super) rights: Rc<Rights>,
    pub(super) beside: Beside,
    /// Requests that are being answered from splits.
    pub(super) reading: Rc<Cell<usize>>,
    /// Writes that wait for what is split of their partitions.
    pub(super) writing: Rc<Cell<usize>>,
    /// Our own connections, for what is split.
    pub(super) pool: Rc<Pool>,
    /// A request was taken out and is not dealt with yet.
    taking: Cell<bool>,
    /// The session has ended; whoever still works for it need not go on.
    pub(super) closed: Cell<bool>,
    pub(super) last_own_stream: Cell<i16>,
    client: Mutex<Writer>,
    upstream: Mutex<Writer>,
    /// No further requests are read.
    draining: Cell<bool>,
    /// Ends the session from outside.
    close: Notify,
    close_reason: Cell<Close>,
}

/// How far the client's handshake has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Upstream has not accepted a STARTUP yet.
    Opening,
    /// Upstream asks for a login.
    Authenticating,
    Established,
}

/// Upstream hung up while the client was still talking. It may have said why, so the other direction, which reads that
/// and then the end, is the one to end the session.
async fn last_words() -> Ending {
    std::future::pending().await
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
        (version, first_stream): (Version, i16),
        (upstream_address, upstream): (SocketAddr, Writer),
        client: Writer,
        pool: Rc<Pool>,
    ) -> Rc<Self> {
        Rc::new(Self {
            node: proxy.prepared.node_bit(upstream_address),
            proxy,
            presented,
            upstream_address,
            version: Cell::new(version),
            first_stream,
            compression: Cell::new(None),
            framing: Cell::new(Framing::Bare(None)),
            stage: Cell::new(Stage::Opening),
            keyspace: RefCell::default(),
            pending: RefCell::default(),
            taken: RefCell::default(),
            requests: Cell::new(0),
            replies: Cell::new(0),
            replying: Cell::new(false),
            held: Rc::default(),
            logged_in: Cell::new(false),
            rights: Rc::default(),
            beside: Beside::default(),
            reading: Rc::default(),
            writing: Rc::default(),
            pool,
            taking: Cell::new(false),
            closed: Cell::new(false),
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
        let relay = async move { session.relay_replies(upstream).await };
        let mut replies = AbortOnDrop(tokio::task::spawn_local(relay));
        let ending = tokio::select! {
            ending = self.relay_requests(&mut client, already_read) => ending,
            ended = &mut replies.0 => Ending::Quiet(ended.unwrap_or(Close::Panic)),
            () = self.close.notified() => Ending::Quiet(self.close_reason.get()),
        };
        // Whoever waits for a reply on the client's connection learns that there will be none.
        self.closed.set(true);
        self.pending.borrow_mut().clear();
        let (close, farewell) = match ending {
            Ending::Bad(error) => {
                let text = format!("narrows: {error}; closing the connection");
                (Close::ClientProtocol, Some((0, ErrorCode::Protocol, text)))
            }
            // Drivers wait for seconds after a connection that closes without a word.
            Ending::Quiet(close) if close == Close::Upstream && self.replies.get() == 0 => {
                let text = "narrows: upstream closed the connection before it answered".to_owned();
                (
                    close,
                    Some((self.first_stream, ErrorCode::Overloaded, text)),
                )
            }
            Ending::Quiet(close) => (close, None),
        };
        if !replies.0.is_finished() {
            replies.0.abort();
            // An aborted task ends with an error that says so.
            drop((&mut replies.0).await);
        }
        // A peer that does not read must not hold us up.
        drop(timeout(GOODBYE_PATIENCE, self.say_goodbye(client, farewell)).await);
        self.beside.stop();
        close
    }

    /// Client to upstream.
    async fn relay_requests(self: &Rc<Self>, client: &mut Reader, already_read: Buffer) -> Ending {
        let held_max = self.proxy.config.limits.request_bytes;
        let mut direction = Direction::new(&self.upstream, already_read, held_max);
        loop {
            let before = self.requests.get();
            let step =
                match direction.split(self.framing.get(), &mut |view| self.judge_request(view)) {
                    Ok(step) => step,
                    Err(error) => return Ending::Bad(error),
                };
            self.proxy
                .metrics
                .forwarded
                .increment(self.requests.get() - before);
            if step.consumed == 0 {
                if self.draining.get() && direction.at_boundary() {
                    std::future::pending::<()>().await;
                }
                match direction.read(client).await {
                    Some(count) => self.proxy.metrics.client_bytes.increment(count),
                    None => return Ending::Quiet(Close::Client),
                }
                continue;
            }
            if direction.relay(&step).await.is_err() {
                return last_words().await;
            }
            for part in step.then {
                let ending = match part {
                    Part::Raw(bytes) => match direction.write(&bytes).await {
                        Ok(()) => None,
                        Err(_) => Some(last_words().await),
                    },
                    Part::Taken(request) => {
                        self.taking.set(true);
                        let ending = self.take_request(request, &mut direction).await;
                        self.taking.set(false);
                        ending
                    }
                };
                if let Some(ending) = ending {
                    return ending;
                }
            }
        }
    }

    /// Deals with a request that was taken out of the stream, as `judge_request` left word.
    async fn take_request(
        self: &Rc<Self>,
        request: Envelope,
        direction: &mut Direction<'_>,
    ) -> Option<Ending> {
        let mut taken = self.taken.borrow_mut().pop_front();
        loop {
            match taken {
                Some(Taken::Refused(body)) => {
                    let refused = self
                        .reply(request.header.stream, 0, opcode::ERROR, body)
                        .await;
                    return refused.is_err().then_some(Ending::Quiet(Close::Client));
                }
                Some(Taken::PrepareFirst(statements)) => {
                    match self.prepare_upstream(statements).await {
                        Ok(()) => {}
                        Err(id) => {
                            self.proxy.metrics.unprepared.increment(1);
                            let body = error::unprepared(&id);
                            let refused = self
                                .reply(request.header.stream, 0, opcode::ERROR, body)
                                .await;
                            return refused.is_err().then_some(Ending::Quiet(Close::Client));
                        }
                    }
                }
                Some(Taken::HoldWrite(stale, held)) => {
                    let Err(stream) = self.hold_write(stale, request, held) else {
                        return None;
                    };
                    let body = self.too_many_held();
                    let refused = self.reply(stream, 0, opcode::ERROR, body).await;
                    return refused.is_err().then_some(Ending::Quiet(Close::Client));
                }
                Some(Taken::LateWrite(late)) => {
                    self.begin_late_write(request, *late);
                    return None;
                }
                Some(Taken::SplitRead(read)) => {
                    self.begin_split_read(request, *read);
                    return None;
                }
                None => return None,
            }
            let Envelope { header, body } = &request;
            if self.judge_request(View {
                header: *header,
                body,
                complete: true,
            }) == Verdict::Forward
            {
                self.proxy.metrics.forwarded.increment(1);
                let message = self.framing.get().frame(&request);
                return match direction.write(&message).await {
                    Ok(()) => None,
                    Err(_) => Some(last_words().await),
                };
            }
            // What was just left word of; requests behind this one may wait in front.
            taken = self.taken.borrow_mut().pop_back();
        }
    }

    /// Upstream to client.
    async fn relay_replies(self: &Rc<Self>, mut upstream: Reader) -> Close {
        let mut direction = Direction::new(&self.client, Buffer::default(), REPLY_BYTES_HELD_MAX);
        loop {
            let before = self.replies.get();
            let step = match direction.split(self.framing.get(), &mut |view| self.judge_reply(view))
            {
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
                match direction.read(&mut upstream).await {
                    Some(count) => self.proxy.metrics.upstream_bytes.increment(count),
                    None => {
                        self.proxy.suspicion.notify_one();
                        return Close::Upstream;
                    }
                }
                continue;
            }
            self.replying.set(true);
            if direction.relay(&step).await.is_err() {
                return Close::Client;
            }
            for part in step.then {
                let done = match part {
                    Part::Raw(bytes) => direction.write(&bytes).await,
                    Part::Taken(reply) => self.take_reply(reply).await,
                };
                if done.is_err() {
                    return Close::Client;
                }
            }
            self.replying.set(!direction.at_boundary());
        }
    }

    /// Sends the client a message of our own, between two of upstream's.
    pub(super) async fn reply(
        &self,
        stream: i16,
        flags: u8,
        opcode: u8,
        body: Vec<u8>,
    ) -> io::Result<()> {
        let version = self.version.get().byte() | RESPONSE_BIT;
        let reply = Envelope::with_flags(version, flags, stream, opcode, body);
        let mut client = self.client.lock().await;
        client.write_all(&self.framing.get().frame(&reply)).await
    }

    /// The right to write upstream, between two messages.
    pub(super) async fn lock_upstream(&self) -> MutexGuard<'_, Writer> {
        self.upstream.lock().await
    }

    /// Sends upstream a request of our own, between two of the client's.
    pub(super) async fn send_upstream(&self, request: &Envelope) -> io::Result<()> {
        let mut upstream = self.lock_upstream().await;
        // Whoever had the lock may have been broken off in the middle of a message, which this would then become part of.
        if self.closed.get() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        upstream.write_all(&self.framing.get().frame(request)).await
    }

    /// Ends the session from outside of it.
    pub(super) fn close(&self, reason: Close) {
        self.closed.set(true);
        self.close_reason.set(reason);
        self.close.notify_one();
    }

    /// Reads no further requests once those that are arriving were forwarded; all of them are still answered.
    pub(super) fn drain(&self) {
        self.draining.set(true);
    }

    pub(super) fn has_requests_under_way(&self) -> bool {
        self.requests.get() > self.replies.get()
            || self.replying.get()
            || self.taking.get()
            || self.held.get() > 0
    }

    /// A number that moves whenever a message passes.
    pub(super) fn activity(&self) -> u64 {
        self.requests.get() + self.replies.get()
    }

    async fn say_goodbye(&self, client: Reader, farewell: Option<(i16, ErrorCode, String)>) {
        // After half a reply the client could not tell a farewell from the rest of it.
        if let Some((stream, code, text)) = farewell.filter(|_| !self.replying.get()) {
            let body = error::encode(code, &text);
            if self.reply(stream, 0, opcode::ERROR, body).await.is_err() {
                return;
            }
        }
        close_gently(client, &mut *self.client.lock().await).await;
    }
}

/// Ends a task with whoever started it, also when that one panics.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One direction of a session: what was read and not relayed yet, and the way to the other side's writer.
struct Direction<'a> {
    buffer: Buffer,
    splitter: Splitter,
    writer: &'a Mutex<Writer>,
    /// Kept while a message is relayed in parts, so that nobody writes into it.
    locked: Option<MutexGuard<'a, Writer>>,
}

impl<'a> Direction<'a> {
    fn new(writer: &'a Mutex<Writer>, buffer: Buffer, held_max: usize) -> Self {
        Self {
            buffer,
            splitter: Splitter::new(held_max),
            writer,
            locked: None,
        }
    }

    fn at_boundary(&self) -> bool {
        self.splitter.at_boundary()
    }

    fn split(
        &mut self,
        framing: Framing,
        judge: &mut dyn FnMut(View<'_>) -> Verdict,
    ) -> Result<Step, ProtocolError> {
        self.splitter.set_framing(framing);
        self.splitter.step(self.buffer.filled(), judge)
    }

    /// Reads more; `None` at the end of the stream, however it came.
    async fn read(&mut self, reader: &mut Reader) -> Option<u64> {
        match reader.read(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(count) => Some(count as u64),
        }
    }

    /// Forwards the run that a step begins with, and drops all that it consumed.
    async fn relay(&mut self, step: &Step) -> io::Result<()> {
        if step.relay > 0 {
            let mut writer = self.lock().await;
            writer
                .write_all(&self.buffer.filled()[..step.relay])
                .await?;
            // Where parts follow, the run before them ended between two messages.
            if step.then.is_empty() && !self.at_boundary() {
                self.locked = Some(writer);
            }
        }
        self.buffer.consume(step.consumed);
        Ok(())
    }

    /// Forwards messages that were held back or framed anew.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.lock().await;
        writer.write_all(bytes).await?;
        if !self.at_boundary() {
            self.locked = Some(writer);
        }
        Ok(())
    }

    async fn lock(&mut self) -> MutexGuard<'a, Writer> {
        match self.locked.take() {
            Some(writer) => writer,
            None => self.writer.lock().await,
        }
    }
}
