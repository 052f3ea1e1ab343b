//! One client connection and its one upstream connection. Read this file first.
//!
//! Each direction is a loop: read ▸ deframe ▸ decide ▸ relay. Forwarded messages are written straight from the read
//! buffer. [`Session::act`] is the only function that acts on a request that was taken out of the stream.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::decision::{Refusal, Taken};
use super::metrics::Close;
use super::outlet::Outlet;
use super::rights::record::Rights;
use super::split::answer::NOT_CONTINUED;
use super::watching::Watching;
use super::wire::Wire;
use crate::protocol::ProtocolError;
use crate::protocol::deframer::{Deframer, Framing, Part, Step, Verdict, View};
use crate::protocol::header::{BODY_BYTES_MAX, Envelope, HEADER_BYTES};
use crate::protocol::response::error::{self, ErrorCode};
use crate::transport::{Buffer, Reader, Writer, close_gently};
use crate::upstream::pool::Pool;

/// How long it may take to send a client its last ERROR and close its connection.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);
/// Replies that the judge needs whole are small (SUPPORTED, PREPARED, schema changes, topology rows), or pages with as
/// many rows as the proxy itself asked for.
const REPLY_BYTES_HELD_MAX: usize = BODY_BYTES_MAX + HEADER_BYTES;

pub(super) struct Session {
    pub(super) wire: Rc<Wire>,
    pub(super) rights: Rc<Rights>,
    /// `None` in a plain relay.
    pub(super) watching: Option<Watching>,
    /// Our own connections of this thread.
    pub(super) pool: Rc<Pool>,
    /// The stream of the client's first request.
    first_stream: i16,
    /// A reply is on its way to the client, in part or in whole.
    replying: Cell<bool>,
    /// A request was taken out of the stream and has not been acted on yet.
    taking: Cell<bool>,
    /// No further requests are read.
    draining: Cell<bool>,
}

/// Upstream closed the connection while the client was sending. It may have sent an ERROR that says why, so this
/// direction waits: the other one relays those last words, then reads the end of the stream and ends the session.
async fn last_words() -> Ending {
    std::future::pending().await
}

/// How a session ended.
pub(super) enum Ending {
    Quiet(Close),
    /// The client broke the CQL protocol. It gets an ERROR.
    Bad(ProtocolError),
}

/// What happened to a request that was taken out of the stream.
pub(super) enum Acted {
    /// It is answered, or a task beside the loop answers it.
    Done,
    /// Its statements are prepared now, or the reads that a USE had to wait for are over.
    JudgeAgain(Envelope),
    /// It goes on to upstream in its place, as this request.
    Forward(Envelope),
}

impl Session {
    pub(super) fn new(wire: Rc<Wire>, first_stream: i16, pool: Rc<Pool>) -> Rc<Self> {
        let rights = Rights::new(wire.proxy.config.upstream.shared_identity);
        let wide_row = wire.proxy.wide_row();
        Rc::new(Self {
            watching: wide_row
                .map(|wide_row| Watching::new(&wide_row, &wire, &rights, pool.clone())),
            pool,
            wire,
            rights,
            first_stream,
            replying: Cell::new(false),
            taking: Cell::new(false),
            draining: Cell::new(false),
        })
    }

    /// Relays until one side ends, then closes the other.
    pub(super) async fn run(
        self: Rc<Self>,
        mut client: Reader,
        already_read: Buffer,
        upstream: Reader,
    ) -> Close {
        let _over = Over(self.wire.clone());
        let session = self.clone();
        let relay = async move { session.relay_replies(upstream).await };
        let mut replies = AbortOnDrop(tokio::task::spawn_local(relay));
        let ending = tokio::select! {
            ending = self.relay_requests(&mut client, already_read) => ending,
            ended = &mut replies.0 => Ending::Quiet(ended.unwrap_or(Close::Panic)),
            close = self.wire.closing() => Ending::Quiet(close),
        };
        self.wire.abandon();
        let (close, farewell) = match ending {
            Ending::Bad(error) => {
                let text = format!("narrows: {error}; closing the connection");
                (Close::ClientProtocol, Some((0, ErrorCode::Protocol, text)))
            }
            // Drivers wait for seconds if a connection closes without an ERROR.
            Ending::Quiet(close) if close == Close::Upstream && self.wire.replies.get() == 0 => {
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
        close
    }

    /// Client to upstream.
    async fn relay_requests(self: &Rc<Self>, client: &mut Reader, already_read: Buffer) -> Ending {
        let held_max = self.wire.proxy.config.limits.request_bytes;
        let mut direction = Direction::new(&self.wire.upstream, already_read, held_max);
        loop {
            let before = self.wire.requests.get();
            let framing = self.wire.framing.get();
            let step = match direction.deframe(framing, &mut |view| self.judge_request(view)) {
                Ok(step) => step,
                Err(error) => return Ending::Bad(error),
            };
            self.wire
                .proxy
                .metrics
                .forwarded
                .increment(self.wire.requests.get() - before);
            if step.consumed == 0 {
                if self.draining.get() && direction.at_boundary() {
                    std::future::pending::<()>().await;
                }
                match direction.read(client).await {
                    Some(count) => self.wire.proxy.metrics.client_bytes.increment(count),
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
                    Part::Taken(request, taken) => {
                        self.taking.set(true);
                        let ending = self.take_request(request, taken, &mut direction).await;
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

    /// Acts on a request that was taken out of the stream. The requests behind it wait only while its statements are
    /// prepared, or while a USE waits for reads before it to be forwarded.
    async fn take_request(
        self: &Rc<Self>,
        mut request: Envelope,
        mut taken: Taken,
        direction: &mut Direction<'_>,
    ) -> Option<Ending> {
        loop {
            request = match self.act(request, taken).await {
                Ok(Acted::Done) => return None,
                Ok(Acted::JudgeAgain(request)) => request,
                Ok(Acted::Forward(forwarded)) => {
                    request = forwarded;
                    break;
                }
                Err(_) => return Some(Ending::Quiet(Close::Client)),
            };
            taken = match self.judge_again(&request) {
                Some(taken) => taken,
                None => break,
            };
        }
        self.wire.proxy.metrics.forwarded.increment(1);
        let message = self.wire.framing.get().frame(&request);
        match direction.write(&message).await {
            Ok(()) => None,
            Err(_) => Some(last_words().await),
        }
    }

    /// Carries out what the judge decided; no other function does. `Err`: the client is gone.
    pub(super) async fn act(self: &Rc<Self>, request: Envelope, taken: Taken) -> io::Result<Acted> {
        let stream = request.header.stream;
        let refusal = match taken {
            Taken::Refuse(refusal) => Err((stream, refusal)),
            Taken::PrepareFirst(statements, _coming) => {
                match self.wire.prepare_upstream(statements, &self.pool).await {
                    Ok(()) => return Ok(Acted::JudgeAgain(request)),
                    Err(id) => Err((stream, Refusal::unprepared(&id))),
                }
            }
            Taken::Use => {
                self.wire.short_names.none_left().await;
                return Ok(Acted::JudgeAgain(request));
            }
            Taken::HoldWrite(stale, held) => self.hold_write(request, stale, held),
            Taken::LateWrite(late) => {
                self.watched(|watching| watching.writes.begin(request, *late));
                Ok(())
            }
            Taken::SplitRead(read) => {
                self.watched(|watching| watching.reads.begin(request, *read));
                Ok(())
            }
            Taken::GoOn(state) => {
                let watching = self.watching.as_ref();
                match watching.and_then(|watching| watching.reads.go_on(&request, &state)) {
                    Some(request) => {
                        self.wire.count_request();
                        return Ok(Acted::Forward(request));
                    }
                    None => Err((stream, Refusal::new(ErrorCode::Protocol, NOT_CONTINUED))),
                }
            }
        };
        if let Err((stream, refusal)) = refusal {
            let body = refusal.into_body(&self.wire.proxy.metrics);
            self.wire.refuse(stream, body).await?;
        }
        Ok(Acted::Done)
    }

    /// Does nothing in a plain relay, which never calls it.
    pub(super) fn watched(&self, act: impl FnOnce(&Watching)) {
        if let Some(watching) = &self.watching {
            act(watching);
        }
    }

    /// `None`: the request may be forwarded now.
    pub(super) fn judge_again(&self, request: &Envelope) -> Option<Taken> {
        let view = View {
            header: request.header,
            body: &request.body,
            complete: true,
        };
        match self.judge_request(view) {
            Verdict::Take(taken) | Verdict::Discard(taken) => Some(taken),
            Verdict::Forward
            | Verdict::ForwardThen(_)
            | Verdict::Collect
            | Verdict::More
            | Verdict::Head => None,
        }
    }

    /// Upstream to client.
    async fn relay_replies(self: &Rc<Self>, mut upstream: Reader) -> Close {
        let mut direction =
            Direction::new(&self.wire.client, Buffer::default(), REPLY_BYTES_HELD_MAX);
        loop {
            let before = self.wire.replies.get();
            let framing = self.wire.framing.get();
            let step = match direction.deframe(framing, &mut |view| self.judge_reply(view)) {
                Ok(step) => step,
                Err(error) => {
                    tracing::warn!(upstream = %self.wire.upstream_address, %error, "upstream broke the CQL protocol");
                    return Close::UpstreamProtocol;
                }
            };
            self.wire
                .proxy
                .metrics
                .replies
                .increment(self.wire.replies.get() - before);
            if step.consumed == 0 {
                match direction.read(&mut upstream).await {
                    Some(count) => self.wire.proxy.metrics.upstream_bytes.increment(count),
                    None => {
                        self.wire.proxy.suspicion.notify_one();
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
                    Part::Taken(reply, taken) => self.take_reply(reply, taken).await,
                };
                if done.is_err() {
                    return Close::Client;
                }
            }
            self.replying.set(!direction.at_boundary());
        }
    }

    /// Stops reading new requests. A request that is still arriving is forwarded, and all of them are answered.
    pub(super) fn drain(&self) {
        self.draining.set(true);
    }

    pub(super) fn has_requests_under_way(&self) -> bool {
        self.wire.requests.get() > self.wire.replies.get()
            || self.replying.get()
            || self.taking.get()
            || self.wire.held.get() > 0
    }

    /// Grows with every message.
    pub(super) fn activity(&self) -> u64 {
        self.wire.requests.get() + self.wire.replies.get()
    }

    async fn say_goodbye(&self, client: Reader, farewell: Option<(i16, ErrorCode, String)>) {
        // After half a reply, the client would take the farewell for the rest of it.
        if let Some((stream, code, text)) = farewell.filter(|_| !self.replying.get()) {
            let body = error::encode(code, &text);
            if self.wire.refuse(stream, body).await.is_err() {
                return;
            }
        }
        close_gently(client, &mut *self.wire.client.lock().await).await;
    }
}

/// Ends the tasks beside a session, even if it panicked: they keep the wire alive and wait for replies on it.
struct Over(Rc<Wire>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.abandon();
        self.0.stop_beside();
    }
}

/// Ends a task together with the task that started it, even if that one panics.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One direction of a session: bytes that were read and not relayed yet, and the writer of the other side.
struct Direction<'a> {
    buffer: Buffer,
    deframer: Deframer,
    outlet: &'a Outlet,
    /// Held while a message is relayed in parts, so that nothing is written into it.
    locked: Option<MutexGuard<'a, Writer>>,
}

impl<'a> Direction<'a> {
    fn new(outlet: &'a Outlet, buffer: Buffer, held_max: usize) -> Self {
        Self {
            buffer,
            deframer: Deframer::new(held_max),
            outlet,
            locked: None,
        }
    }

    fn at_boundary(&self) -> bool {
        self.deframer.at_boundary()
    }

    fn deframe<T>(
        &mut self,
        framing: Framing,
        judge: &mut dyn FnMut(View<'_>) -> Verdict<T>,
    ) -> Result<Step<T>, ProtocolError> {
        self.deframer.set_framing(framing);
        self.deframer.step(self.buffer.filled(), judge)
    }

    /// `None`: the stream has ended, or failed.
    async fn read(&mut self, reader: &mut Reader) -> Option<u64> {
        match reader.read(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(count) => Some(count as u64),
        }
    }

    /// Forwards the run at the beginning of a step, and drops the bytes that the step consumed.
    async fn relay<T>(&mut self, step: &Step<T>) -> io::Result<()> {
        if step.relay > 0 {
            let mut writer = self.lock().await;
            let run = &self.buffer.filled()[..step.relay];
            let ends_inside = step.boundary < step.relay;
            if ends_inside && step.boundary > 0 && self.outlet.is_awaited() {
                // With a backlog every run ends inside a message. Those who wait get their turn here or never.
                let (whole, begun) = run.split_at(step.boundary);
                writer.write_all(whole).await?;
                drop(writer);
                writer = self.outlet.lock().await;
                writer.write_all(begun).await?;
            } else {
                writer.write_all(run).await?;
            }
            if ends_inside {
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
            None => self.outlet.lock().await,
        }
    }
}
