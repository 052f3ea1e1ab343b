//! TCP relays that do to bytes what networks do: deliver them one at a time, or late.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A relay to one target. It lives as long as the process.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    gate: Arc<Gate>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    OneByOne,
    Gated,
}

/// Holds back what the target says while it is closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Relay {
    /// Delivers one byte at a time, both ways.
    pub(crate) fn one_by_one(target: SocketAddr) -> Self {
        Self::start(target, Pace::OneByOne)
    }

    /// Delivers as fast as it can while its gate is open, as it is at first.
    pub(crate) fn gated(target: SocketAddr) -> Self {
        Self::start(target, Pace::Gated)
    }

    fn start(target: SocketAddr, pace: Pace) -> Self {
        let listener = TcpListener::bind("127.0.77.1:0").expect("a free port");
        let relay = Self {
            address: listener.local_addr().expect("bound"),
            connections: Arc::default(),
            gate: Arc::default(),
        };
        let (connections, gate) = (relay.connections.clone(), relay.gate.clone());
        std::thread::spawn(move || {
            for near in listener.incoming() {
                // A target that is gone closes the connection, which says the same.
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(target)) else {
                    continue;
                };
                let kept = near.try_clone().expect("a socket");
                connections
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(kept);
                both_ways(near, far, pace, &gate);
            }
        });
        relay
    }

    /// How many connections it has carried.
    pub(crate) fn connections(&self) -> usize {
        self.all().len()
    }

    /// Ends all connections, as a node does that dies.
    pub(crate) fn cut(&self) {
        for connection in self.all().iter() {
            // Some may have ended before.
            drop(connection.shutdown(std::net::Shutdown::Both));
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close_gate(&self) {
        self.gate.set(true);
    }

    pub(crate) fn open_gate(&self) {
        self.gate.set(false);
    }
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(closed, |closed| *closed));
    }
}

fn both_ways(near: TcpStream, far: TcpStream, pace: Pace, gate: &Arc<Gate>) {
    let forth = (
        near.try_clone().expect("a socket"),
        far.try_clone().expect("a socket"),
    );
    let always_open = Arc::default();
    for ((from, to), gate) in [(forth, always_open), ((far, near), gate.clone())] {
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
