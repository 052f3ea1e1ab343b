//! TCP relays that do to bytes what networks do: deliver them one at a time, late, or not at all.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A relay to one target. It lives as long as the process.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    gates: Gates,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    OneByOne,
    Gated,
}

/// What stands on both ways of a connection.
#[derive(Clone, Default)]
struct Gates {
    requests: Arc<Gate>,
    replies: Arc<Gate>,
}

/// Holds back what comes while it is closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicU8,
}

impl Relay {
    /// Delivers one byte at a time, both ways.
    pub(crate) fn one_by_one(target: SocketAddr) -> Self {
        Self::start(anywhere(), target, Pace::OneByOne, None)
    }

    /// Delivers as fast as it can while its gates are open, as they are at first.
    pub(crate) fn gated(target: SocketAddr) -> Self {
        Self::start(anywhere(), target, Pace::Gated, None)
    }

    /// The same on the port of a node, since drivers take it for that of all nodes. Only connections of this version are
    /// counted, cut, and stand before gates: the proxy's own speak other ones than its clients do here.
    pub(crate) fn before(node: SocketAddr, version: u8) -> Self {
        static STARTED: AtomicU8 = AtomicU8::new(100);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, number, high, low);
        let listener = TcpListener::bind((address, node.port())).expect("nobody else is there");
        Self::start(listener, node, Pace::Gated, Some(version))
    }

    fn start(listener: TcpListener, target: SocketAddr, pace: Pace, version: Option<u8>) -> Self {
        let relay = Self {
            address: listener.local_addr().expect("bound"),
            connections: Arc::default(),
            gates: Gates::default(),
        };
        let (connections, gates) = (relay.connections.clone(), relay.gates.clone());
        std::thread::spawn(move || {
            for near in listener.incoming() {
                // A target that is gone closes the connection, which says the same.
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(target)) else {
                    continue;
                };
                let (connections, gates) = (connections.clone(), gates.clone());
                std::thread::spawn(move || {
                    let is_ours = version.is_none_or(|version| speaks(&near, version));
                    if is_ours {
                        let kept = near.try_clone().expect("a socket");
                        locked(&connections).push(kept);
                    }
                    let gates = if is_ours { gates } else { Gates::default() };
                    both_ways(near, far, pace, gates);
                });
            }
        });
        relay
    }

    /// How many connections it has carried.
    pub(crate) fn connections(&self) -> usize {
        locked(&self.connections).len()
    }

    /// Ends all connections, as a node does that dies. What waits at a gate is still delivered to the target.
    pub(crate) fn cut(&self) {
        for connection in locked(&self.connections).iter() {
            // Some may have ended before.
            drop(connection.shutdown(std::net::Shutdown::Both));
        }
    }

    /// Holds back what the target says.
    pub(crate) fn close_gate(&self) {
        self.gates.replies.set(true);
    }

    pub(crate) fn open_gate(&self) {
        self.gates.replies.set(false);
    }

    /// Holds back what is said to the target.
    pub(crate) fn hold_requests(&self) {
        self.gates.requests.set(true);
    }

    pub(crate) fn release_requests(&self) {
        self.gates.requests.set(false);
    }

    /// Something waits to be delivered to the target.
    pub(crate) fn holds_requests(&self) -> bool {
        self.gates.requests.waiting.load(Ordering::SeqCst) > 0
    }

    /// The target has said something that waits.
    pub(crate) fn holds_replies(&self) -> bool {
        self.gates.replies.waiting.load(Ordering::SeqCst) > 0
    }
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            drop(self.changed.wait_while(closed, |closed| *closed));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn anywhere() -> TcpListener {
    TcpListener::bind("127.0.77.1:0").expect("a free port")
}

fn locked(connections: &Mutex<Vec<TcpStream>>) -> MutexGuard<'_, Vec<TcpStream>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the first frame is of this version.
fn speaks(near: &TcpStream, version: u8) -> bool {
    let mut first = [0];
    near.peek(&mut first).is_ok_and(|_| first[0] == version)
}

fn both_ways(near: TcpStream, far: TcpStream, pace: Pace, gates: Gates) {
    let forth = (
        near.try_clone().expect("a socket"),
        far.try_clone().expect("a socket"),
    );
    for ((from, to), gate) in [(forth, gates.requests), ((far, near), gates.replies)] {
        to.set_nodelay(true).expect("a socket");
        std::thread::spawn(move || deliver(from, to, pace, &gate));
    }
}

fn deliver(mut from: TcpStream, mut to: TcpStream, pace: Pace, gate: &Gate) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        gate.pass();
        let size = if pace == Pace::OneByOne { 1 } else { count };
        for piece in chunk[..count].chunks(size) {
            if to.write_all(piece).is_err() {
                return;
            }
            // Lets the other side read before the next piece joins this one.
            std::thread::yield_now();
        }
    }
    // Already closed is fine too.
    drop(to.shutdown(std::net::Shutdown::Write));
}
