//! One v5 connection that carries many requests at a time.
//!
//! A separate task reads and writes, so a request that is given up in the middle never leaves half a message behind.
//! When the connection ends, for whatever reason, everybody who waits learns of it at once. Nothing is ever sent twice
//! here. A node that is silent for long though answers are due is first asked whether it is alive.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::silence::{Silence, TICK, Tick};
use super::streams::{Answered, Stream, Streams};
use super::{PoolConfig, PoolError, STATEMENTS_MAX};
use crate::budget::Reserved;
use crate::protocol::deframer::{Part, Verdict, View};
use crate::protocol::header::Version;
use crate::protocol::{Envelope, ProtocolError, opcode};
use crate::transport::Writer;
use crate::upstream::UpstreamError;
use crate::upstream::balance::Lease;
use crate::upstream::connection::{Connection, SEGMENTS};

/// Maximum number of requests in flight on one connection; more wait for their turn.
const IN_FLIGHT_MAX: i16 = 1024;
/// Requests that wait to be written are joined up to this size.
const WRITE_BYTES: usize = 64 << 10;

pub(super) struct Link {
    shared: Rc<Shared>,
    task: JoinHandle<()>,
    /// Ids that are prepared here, each with the number of its preparation, which tells it from later ones.
    known: RefCell<HashMap<Box<[u8]>, u64>>,
    preparations: Cell<u64>,
}

/// A reply and the memory that is reserved for it; `None`: there was no room for it.
type Arrived = Option<(Envelope, Reserved)>;

struct Shared {
    config: Arc<PoolConfig>,
    address: SocketAddr,
    streams: RefCell<Streams<oneshot::Sender<Arrived>>>,
    /// The memory for the reply that is arriving.
    arriving: RefCell<Reserved>,
    /// One permit per free stream id.
    room: Semaphore,
    outgoing: mpsc::Sender<Vec<u8>>,
    closed: Cell<bool>,
    silence: Silence,
    /// Tells that an answer is due.
    asked: Notify,
}

/// Counts a connection until its task ends, however it ends.
struct Counted {
    shared: Rc<Shared>,
    _lease: Lease,
}

/// A request in flight; dropping this gives it up.
struct Ticket<'a> {
    shared: &'a Shared,
    stream: Stream,
}

impl Link {
    pub(super) async fn open(
        config: Arc<PoolConfig>,
        address: SocketAddr,
    ) -> Result<Self, UpstreamError> {
        let credentials = config.credentials.as_ref();
        let opened = Connection::open_v5(&config.dialer, address, credentials).await?;
        let lease = config.balance.connected(address);
        config.metrics.connections.increment(1);
        let (outgoing, queued) = mpsc::channel(IN_FLIGHT_MAX.unsigned_abs().into());
        let shared = Rc::new(Shared {
            arriving: RefCell::new(config.memory.nothing()),
            config,
            address,
            streams: RefCell::new(Streams::new(IN_FLIGHT_MAX)),
            room: Semaphore::new(IN_FLIGHT_MAX.unsigned_abs().into()),
            outgoing,
            closed: Cell::new(false),
            silence: Silence::default(),
            asked: Notify::new(),
        });
        let counted = Counted {
            shared: shared.clone(),
            _lease: lease,
        };
        let task = tokio::task::spawn_local(carry(counted, opened, queued));
        Ok(Self {
            shared,
            task,
            known: RefCell::default(),
            preparations: Cell::new(0),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.shared.address
    }

    pub(super) fn is_open(&self) -> bool {
        !self.shared.closed.get()
    }

    pub(super) fn has_room(&self) -> bool {
        self.shared.room.available_permits() > 0
    }

    /// Whether it has been silent for long although answers are due.
    pub(super) fn is_overdue(&self) -> bool {
        self.shared.silence.is_overdue()
    }

    /// Sends one request and waits for its answer, whatever that is.
    pub(super) async fn ask(
        &self,
        kind: (u8, u8),
        body: Vec<u8>,
        deadline: Instant,
    ) -> Result<(Envelope, Reserved), PoolError> {
        let shared = &*self.shared;
        let address = shared.address;
        match timeout_at(deadline, shared.room.acquire()).await {
            // The permit comes back with the reply, however late.
            Ok(Ok(permit)) => permit.forget(),
            Ok(Err(_)) => return Err(PoolError::Unsent(address)),
            Err(_) => return Err(PoolError::Timeout(address)),
        }
        let sent = shared.send(kind, body);
        let (_ticket, receiver) = sent.ok_or(PoolError::Unsent(address))?;
        match timeout_at(deadline, receiver).await {
            Ok(Ok(reply)) => reply.ok_or(PoolError::NoRoom),
            Ok(Err(_)) => Err(PoolError::Broken(address)),
            Err(_) => Err(PoolError::Timeout(address)),
        }
    }

    /// The number of a statement's last preparation here, if it is prepared.
    pub(super) fn knows(&self, id: &[u8]) -> Option<u64> {
        self.known.borrow().get(id).copied()
    }

    pub(super) fn learn(&self, id: &[u8]) {
        let mut known = self.known.borrow_mut();
        // Drops all ids, because many are of statements that nobody uses any more; the others are prepared again.
        if known.len() >= 2 * STATEMENTS_MAX {
            known.clear();
        }
        self.preparations.set(self.preparations.get() + 1);
        known.insert(id.into(), self.preparations.get());
    }

    /// Forgets a statement that the node does not have any more, unless it was prepared again since.
    pub(super) fn forget(&self, id: &[u8], since: u64) {
        if self.knows(id) == Some(since) {
            self.known.borrow_mut().remove(id);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn close(&self) {
        self.closed.set(true);
        self.room.close();
        self.streams.borrow_mut().clear();
        self.arriving.replace(self.config.memory.nothing());
    }

    /// Puts a request on its way; the caller has taken room for it. `None`: the connection has ended.
    fn send(
        &self,
        (flags, opcode): (u8, u8),
        body: Vec<u8>,
    ) -> Option<(Ticket<'_>, oneshot::Receiver<Arrived>)> {
        let (sender, receiver) = oneshot::channel();
        let stream = self.streams.borrow_mut().take(sender)?;
        let ticket = Ticket {
            shared: self,
            stream,
        };
        let request = Envelope::with_flags(Version::V5.byte(), flags, stream.id, opcode, body);
        self.outgoing.try_send(SEGMENTS.frame(&request)).ok()?;
        self.silence.sent();
        self.asked.notify_one();
        Some((ticket, receiver))
    }

    /// Returns when the node has said nothing for so long that the connection counts as dead.
    async fn until_dead(&self) {
        loop {
            match self.silence.tick() {
                Tick::Idle => self.asked.notified().await,
                Tick::Wait => {}
                Tick::Ask => self.ask_whether_alive(),
                Tick::Dead => return,
            }
            sleep(TICK).await;
        }
    }

    /// Any reply will do, and nobody waits for it. OPTIONS costs a node next to nothing.
    fn ask_whether_alive(&self) {
        if let Ok(permit) = self.room.try_acquire() {
            permit.forget();
            drop(self.send((0, opcode::OPTIONS), Vec::new()));
        }
    }

    /// Reserves memory when a reply begins to arrive. A reply for which there is no room, or nobody waits, is dropped as
    /// it arrives.
    fn judge(&self, view: View<'_>) -> Verdict<Option<Reserved>> {
        let mut arriving = self.arriving.borrow_mut();
        let is_given_up = self.streams.borrow().is_given_up(view.header.stream);
        if is_given_up || !arriving.grow_to(view.header.length as usize) {
            *arriving = self.config.memory.nothing();
            return Verdict::Discard(None);
        }
        if !view.complete {
            return Verdict::Collect;
        }
        let reserved = std::mem::replace(&mut *arriving, self.config.memory.nothing());
        Verdict::Take(Some(reserved))
    }

    /// Hands a reply over. Returns `false` if nothing was asked on its stream.
    fn deliver(&self, reply: Envelope, reserved: Option<Reserved>) -> bool {
        match self.streams.borrow_mut().answered(reply.header.stream) {
            // If the request was given up at this very moment, the reply is dropped.
            Answered::Waiter(waiter) => {
                drop(waiter.send(reserved.map(|reserved| (reply, reserved))));
            }
            Answered::Late => {}
            Answered::Unknown => return false,
        }
        self.silence.answered();
        self.room.add_permits(1);
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.close();
        self.shared.config.metrics.connections.decrement(1);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.shared.streams.borrow_mut().give_up(self.stream);
    }
}

/// Runs a connection until it ends.
async fn carry(counted: Counted, opened: Connection, queued: mpsc::Receiver<Vec<u8>>) {
    let Connection {
        address,
        reader,
        writer,
        buffer,
        deframer,
        ..
    } = opened;
    let shared = &counted.shared;
    let incoming = Incoming {
        reader,
        buffer,
        deframer,
    };
    tokio::select! {
        broken = incoming.run(shared) => if let Err(error) = broken {
            tracing::warn!(node = %address, %error, "a node broke the CQL protocol on a connection for split reads");
        },
        () = write(writer, queued) => {}
        () = shared.until_dead() => {
            tracing::info!(node = %address, "connection for split reads gets no answers, closing it");
            shared.config.left_alone(address);
        }
    }
}

struct Incoming {
    reader: crate::transport::Reader,
    buffer: crate::transport::Buffer,
    deframer: crate::protocol::deframer::Deframer,
}

impl Incoming {
    /// Reads replies until the connection ends.
    async fn run(mut self, shared: &Shared) -> Result<(), ProtocolError> {
        loop {
            let mut judge = |view: View<'_>| shared.judge(view);
            let step = self.deframer.step(self.buffer.filled(), &mut judge)?;
            self.buffer.consume(step.consumed);
            for part in step.then {
                // We asked for no events, so every message is a reply.
                if let Part::Taken(reply, reserved) = part
                    && !shared.deliver(reply, reserved)
                {
                    return Err(ProtocolError::UnknownStream);
                }
            }
            if step.consumed == 0 {
                if !matches!(self.reader.read(&mut self.buffer).await, Ok(1..)) {
                    return Ok(());
                }
                shared.silence.heard();
            }
        }
    }
}

/// Writes requests until nobody can send any more, or the connection ends.
async fn write(mut writer: Writer, mut queued: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut bytes) = queued.recv().await {
        while bytes.len() < WRITE_BYTES
            && let Ok(more) = queued.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
