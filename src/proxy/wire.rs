//! The two connections of one session, for everything that writes to them: the loops, and the tasks beside the loops.
//!
//! A session belongs to one thread, so its state is in plain cells. The two writers are behind locks, because our own
//! replies and requests must go between messages, never into one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{MutexGuard, Notify};
use tokio::task::spawn_local;

use super::beside::Beside;
use super::held::Held;
use super::metrics::Close;
use super::outlet::Outlet;
use super::pending::Pending;
use super::prepared::NodeBit;
use super::shared::Proxy;
use super::short_names::ShortNames;
use super::topology::Presented;
use crate::protocol::framing::{Framed, Framing};
use crate::protocol::header::{Envelope, RESPONSE_BIT, Version, flag, opcode};
use crate::protocol::{Compression, Header};
use crate::transport::Writer;

/// Maximum number of requests and replies of one connection that the proxy works on at a time. Drivers have one or two.
const HELD_MAX: usize = 256;
/// The stream ids of our own requests count down from here. −1 itself is for events.
const FIRST_OWN_STREAM: i16 = -1;

pub(super) struct Wire {
    pub(super) proxy: Arc<Proxy>,
    pub(super) presented: Presented,
    /// The upstream node behind this session.
    pub(super) upstream_address: SocketAddr,
    pub(super) node: NodeBit,
    pub(super) version: Cell<Version>,
    /// The compression of the client's STARTUP. Each frame says whether it uses it.
    pub(super) compression: Cell<Option<Compression>>,
    pub(super) framing: Cell<Framing>,
    pub(super) stage: Cell<Stage>,
    pub(super) keyspace: RefCell<Option<String>>,
    pub(super) short_names: Rc<ShortNames>,
    pub(super) pending: RefCell<HashMap<i16, Pending>>,
    pub(super) requests: Cell<u64>,
    pub(super) replies: Cell<u64>,
    /// Requests and replies that the proxy works on.
    pub(super) held: Rc<Cell<usize>>,
    pub(super) last_own_stream: Cell<i16>,
    pub(super) client: Outlet,
    pub(super) upstream: Outlet,
    beside: Beside,
    /// The session has ended, and its tasks may stop.
    closed: Cell<bool>,
    close_reason: Cell<Close>,
    close: Notify,
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

impl Wire {
    pub(super) fn new(
        proxy: Arc<Proxy>,
        presented: Presented,
        version: Version,
        client: Writer,
        (upstream_address, upstream): (SocketAddr, Writer),
    ) -> Rc<Self> {
        Rc::new(Self {
            node: proxy.prepared.node_bit(upstream_address),
            proxy,
            presented,
            upstream_address,
            version: Cell::new(version),
            compression: Cell::new(None),
            framing: Cell::new(Framing::Bare(None)),
            stage: Cell::new(Stage::Opening),
            keyspace: RefCell::default(),
            short_names: Rc::default(),
            pending: RefCell::default(),
            requests: Cell::new(0),
            replies: Cell::new(0),
            held: Rc::default(),
            last_own_stream: Cell::new(FIRST_OWN_STREAM),
            client: Outlet::new(client),
            upstream: Outlet::new(upstream),
            beside: Beside::default(),
            closed: Cell::new(false),
            close_reason: Cell::new(Close::Client),
            close: Notify::new(),
        })
    }

    /// `None`: the proxy works on too many requests and replies already.
    pub(super) fn begin_held(&self) -> Option<Held> {
        Held::begin(&self.held, HELD_MAX)
    }

    pub(super) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    pub(super) fn count_reply(&self) {
        self.replies.set(self.replies.get() + 1);
    }

    /// Sends the client our own message, between two of upstream's.
    pub(super) async fn reply(
        &self,
        stream: i16,
        (flags, opcode): (u8, u8),
        body: Vec<u8>,
    ) -> io::Result<()> {
        self.reply_in_parts(stream, (flags, opcode), &[&body]).await
    }

    /// The same for a body in several parts, which may be large.
    async fn reply_in_parts(
        &self,
        stream: i16,
        (flags, opcode): (u8, u8),
        body: &[&[u8]],
    ) -> io::Result<()> {
        let length = body.iter().map(|part| part.len()).sum::<usize>();
        let header = Header {
            version: self.version.get().byte() | RESPONSE_BIT,
            flags: flags & !flag::COMPRESSED,
            stream,
            opcode,
            length: u32::try_from(length).map_err(io::Error::other)?,
        };
        let mut client = self.client.lock().await;
        let framed = Framed::new(self.framing.get(), header, body);
        write(&mut client, framed).await
    }

    /// Answers a request with an ERROR. Upstream never saw the request.
    pub(super) async fn refuse(&self, stream: i16, body: Vec<u8>) -> io::Result<()> {
        self.reply(stream, (0, opcode::ERROR), body).await
    }

    /// Answers a counted request from a task beside the loops. A client that has gone needs no reply.
    pub(super) async fn answer(&self, request: &Envelope, head: (u8, u8), body: &[&[u8]]) {
        let stream = request.header.stream;
        drop(self.reply_in_parts(stream, head, body).await);
        self.count_reply();
    }

    /// Waits until no message is being written.
    pub(super) async fn lock_upstream(&self) -> MutexGuard<'_, Writer> {
        self.upstream.lock().await
    }

    /// Forwards a client's request under the lock. If upstream is gone, the loops notice it.
    pub(super) async fn forward_locked(
        &self,
        upstream: &mut MutexGuard<'_, Writer>,
        request: &Envelope,
    ) {
        self.proxy.metrics.forwarded.increment(1);
        drop(write(upstream, self.framed(request)).await);
    }

    /// Forwards a client's request that was taken out of the stream.
    pub(super) async fn forward(&self, request: &Envelope) {
        let mut upstream = self.lock_upstream().await;
        if !self.is_closed() {
            self.forward_locked(&mut upstream, request).await;
        }
    }

    /// Sends upstream our own request, between two of the client's.
    pub(super) async fn send_upstream(&self, request: &Envelope) -> io::Result<()> {
        let mut upstream = self.lock_upstream().await;
        // A writer may have been cut off in the middle of a message, and this request would become part of it.
        if self.is_closed() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        write(&mut upstream, self.framed(request)).await
    }

    fn framed<'a>(&self, request: &'a Envelope) -> Framed<'a> {
        Framed::new(self.framing.get(), request.header, &[&request.body])
    }

    /// Ends the session from outside its loops.
    pub(super) fn close(&self, reason: Close) {
        self.closed.set(true);
        self.close_reason.set(reason);
        self.close.notify_one();
    }

    /// Waits until [`Self::close`] is called.
    pub(super) async fn closing(&self) -> Close {
        self.close.notified().await;
        self.close_reason.get()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// The loops have ended: dropping the pending requests tells their tasks that no reply will come.
    pub(super) fn abandon(&self) {
        self.closed.set(true);
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        drop(pending);
    }

    pub(super) fn stop_beside(&self) {
        self.beside.stop();
    }

    /// Starts a task for a request. The task ends with the session at the latest.
    pub(super) fn begin_beside(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        let or_panic = OrPanic(self.clone());
        self.beside.begin(async move {
            let _or_panic = or_panic;
            work.await;
        });
    }

    /// Starts a task that works on a reply, then sends it. The task outlives the session: its work may concern other
    /// clients.
    pub(super) fn hold_reply<F>(self: &Rc<Self>, held: Held, reply: Envelope, work: F)
    where
        F: AsyncFnOnce(&Wire, Envelope) -> Envelope + 'static,
    {
        let wire = self.clone();
        let or_panic = OrPanic(self.clone());
        spawn_local(async move {
            let (_held, _or_panic) = (held, or_panic);
            let stream = reply.header.stream;
            let Envelope { header, body } = work(&wire, reply).await;
            let Header { flags, opcode, .. } = header;
            // A client that has gone needs no reply.
            drop(wire.reply(stream, (flags, opcode), body).await);
        });
    }
}

/// Writes a message piece by piece. The writer stays locked meanwhile.
async fn write(writer: &mut Writer, mut framed: Framed<'_>) -> io::Result<()> {
    while let Some(piece) = framed.next_piece() {
        writer.write_all(piece).await?;
    }
    Ok(())
}

/// Ends the session if a task panics, because the task's request would never be answered.
struct OrPanic(Rc<Wire>);

impl Drop for OrPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a task that handles a request panicked; please report this");
            self.0.close(Close::Panic);
        }
    }
}
