//! A small blocking CQL client that says what it is told to, right or wrong.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::frame::{self, Compression};
use super::segment::{self, PAYLOAD_MAX};
use super::{Codec, Frame, PATIENCE, eventually, opcode, request};

const OVERLOADED: i32 = 0x1001;

pub(crate) struct RawClient {
    stream: TcpStream,
    pub(crate) codec: Codec,
    /// v5 after READY.
    segments: bool,
    /// Received and not taken apart yet: the wire's bytes, and envelopes out of segments.
    wire: Vec<u8>,
    envelopes: Vec<u8>,
    /// Everything received since it was last taken.
    record: Vec<u8>,
    /// What is being asked, for the message when nothing comes back.
    pub(crate) asking: String,
}

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Frame(Frame),
    /// The connection ended between two frames.
    Closed,
    /// It was reset, or ended within a frame.
    Broken,
}

impl RawClient {
    /// Connects and says nothing.
    pub(crate) fn open(address: SocketAddr, codec: Codec) -> Self {
        let stream = TcpStream::connect(address).expect("somebody listens");
        Self::over(stream, codec)
    }

    fn over(stream: TcpStream, codec: Codec) -> Self {
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Self {
            stream,
            codec,
            segments: false,
            wire: Vec::new(),
            envelopes: Vec::new(),
            record: Vec::new(),
            asking: String::new(),
        }
    }

    /// Connects and is READY.
    pub(crate) fn connect(address: SocketAddr, codec: Codec) -> Self {
        let mut client = Self::open(address, codec);
        let reply = client.startup();
        assert_eq!(reply.opcode, opcode::READY, "{:?}", reply.error());
        client
    }

    /// The same to somebody who may be gone, or hang up.
    pub(crate) fn try_connect(address: SocketAddr, codec: Codec) -> Option<Self> {
        let mut client = Self::over(TcpStream::connect(address).ok()?, codec);
        let reply = client.try_ask(opcode::STARTUP, &request::startup(codec.compression_name()))?;
        client.segments = reply.opcode == opcode::READY && codec.version == 5;
        (reply.opcode == opcode::READY).then_some(client)
    }

    /// Sends STARTUP and returns what came back.
    pub(crate) fn startup(&mut self) -> Frame {
        let body = request::startup(self.codec.compression_name());
        self.send(0, opcode::STARTUP, &body);
        let reply = self.receive();
        self.segments = reply.opcode == opcode::READY && self.codec.version == 5;
        reply
    }

    pub(crate) fn send(&mut self, stream: i16, opcode: u8, body: &[u8]) {
        self.send_flagged(0, stream, opcode, body);
    }

    pub(crate) fn send_flagged(&mut self, flags: u8, stream: i16, opcode: u8, body: &[u8]) {
        let envelope = frame::request(self.codec, flags, stream, opcode, body);
        self.send_envelopes(&envelope);
    }

    /// Frames envelopes as the connection does; v5: in one segment if they fit, else in as many as are needed.
    pub(crate) fn send_envelopes(&mut self, envelopes: &[u8]) {
        let wire = self.framed(envelopes);
        self.send_raw(&wire);
    }

    pub(crate) fn framed(&self, envelopes: &[u8]) -> Vec<u8> {
        if !self.segments {
            return envelopes.to_vec();
        }
        let lz4 = self.codec.compression == Compression::Lz4;
        let whole = envelopes.len() <= PAYLOAD_MAX;
        let part = |part: &[u8]| segment::encode(part, whole, lz4);
        envelopes.chunks(PAYLOAD_MAX).flat_map(part).collect()
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.try_send_raw(bytes).expect("the connection is open");
    }

    /// Sends to somebody who may have hung up.
    pub(crate) fn try_send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Tells the other side that there is no more.
    pub(crate) fn finish(&mut self) {
        // The other side may have hung up first.
        drop(self.stream.shutdown(std::net::Shutdown::Write));
    }

    pub(crate) fn receive(&mut self) -> Frame {
        match self.next() {
            Received::Frame(frame) => frame,
            other => panic!("{other:?} instead of a reply to {:?}", self.asking),
        }
    }

    pub(crate) fn next(&mut self) -> Received {
        let codec = self.codec;
        loop {
            if let Some(frame) = self.decode() {
                return Received::Frame(frame);
            }
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) if self.wire.is_empty() && self.envelopes.is_empty() => {
                    return Received::Closed;
                }
                Ok(0) => return Received::Broken,
                Ok(count) => {
                    self.wire.extend_from_slice(&chunk[..count]);
                    self.record.extend_from_slice(&chunk[..count]);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                    ) =>
                {
                    return Received::Broken;
                }
                Err(error) => panic!("no reply to {:?} ({codec:?}): {error}", self.asking),
            }
        }
    }

    fn decode(&mut self) -> Option<Frame> {
        if !self.segments {
            return Frame::decode(&mut self.wire, self.codec);
        }
        loop {
            if let Some(frame) = Frame::decode(&mut self.envelopes, self.codec) {
                return Some(frame);
            }
            let lz4 = self.codec.compression == Compression::Lz4;
            let content = segment::decode(&mut self.wire, lz4)?;
            self.envelopes.extend_from_slice(&content);
        }
    }

    /// The bytes as they came since this was last asked, however they were packed.
    pub(crate) fn take_record(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.record)
    }

    /// Sends a request on stream 1 and returns its reply.
    pub(crate) fn ask(&mut self, opcode: u8, body: &[u8]) -> Frame {
        self.send(1, opcode, body);
        self.receive()
    }

    /// The same of somebody who may hang up.
    pub(crate) fn try_ask(&mut self, opcode: u8, body: &[u8]) -> Option<Frame> {
        let request = frame::request(self.codec, 0, 1, opcode, body);
        let request = self.framed(&request);
        self.try_send_raw(&request).ok()?;
        match self.next() {
            Received::Frame(frame) => Some(frame),
            Received::Closed | Received::Broken => None,
        }
    }

    /// The same, again and again while a proxy on a busy machine says that it has not forwarded it.
    pub(crate) fn ask_until_forwarded(&mut self, opcode: u8, body: &[u8]) -> Frame {
        eventually("it is forwarded", || {
            let reply = self.ask(opcode, body);
            let error = reply.error();
            let is_refused = error.is_some_and(|(code, text)| {
                code == OVERLOADED && text.starts_with("narrows:") && text.ends_with("try again")
            });
            (!is_refused).then_some(reply)
        })
    }

    /// Runs a statement that must succeed.
    pub(crate) fn query(&mut self, text: &str) -> Frame {
        let body = request::query(self.codec, text);
        let reply = self.ask_until_forwarded(opcode::QUERY, &body);
        assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
        reply
    }

    /// Prepares a statement and returns its id, and in v5 the id of its result metadata.
    pub(crate) fn prepare(&mut self, text: &str) -> (Vec<u8>, Vec<u8>) {
        let reply = self.ask(opcode::PREPARE, &request::prepare(self.codec, text, None));
        assert_eq!(reply.opcode, opcode::RESULT, "{text}: {:?}", reply.error());
        reply.prepared(self.codec)
    }

    /// Reads to the end without understanding anything; says whether that was an orderly one.
    pub(crate) fn ends(&mut self) -> bool {
        match std::io::copy(&mut self.stream, &mut std::io::sink()) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{}: no end: {error}", self.asking),
        }
    }

    /// Whether the connection still answers; what was asked before is read first.
    pub(crate) fn is_alive(&mut self) -> bool {
        const STREAM: i16 = 4321;
        let options = self.framed(&frame::request(self.codec, 0, STREAM, opcode::OPTIONS, &[]));
        if self.try_send_raw(&options).is_err() {
            return false;
        }
        loop {
            match self.next() {
                Received::Frame(frame) if frame.stream == STREAM => return true,
                Received::Frame(_) => {}
                Received::Closed | Received::Broken => return false,
            }
        }
    }
}
