//! A connection of Narrows' own to one node: STARTUP and login, then one request at a time. The control connection and
//! `narrows check` use it; a pool opens its connections here and then sends many requests at a time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::{UpstreamError, dial::Dialer};
use crate::config::Credentials;
use crate::protocol::deframer::{Deframer, Framing, Part, Verdict};
use crate::protocol::header::{BODY_BYTES_MAX, Envelope, HEADER_BYTES, Version, opcode};
use crate::protocol::request::{query, startup};
use crate::protocol::response::result::{self, Rows};
use crate::protocol::response::{error, event};
use crate::protocol::segment::Format;
use crate::protocol::types::{Cursor, Write};
use crate::protocol::{ProtocolError, response};
use crate::transport::{Buffer, Reader, Writer};

/// Every server that Narrows supports speaks v4, and v4 needs no segments.
const VERSION: Version = Version::V4;
/// How messages of v5 are framed once STARTUP is answered.
pub(super) const SEGMENTS: Framing = Framing::Segments(Format::Plain);
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const EVENT_STREAM: i16 = -1;

pub struct Connection {
    pub address: SocketAddr,
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) buffer: Buffer,
    pub(super) deframer: Deframer,
    version: Version,
    framing: Framing,
    events: VecDeque<Envelope>,
}

impl Connection {
    /// Dials, starts up and logs in.
    pub async fn open(
        dialer: &Dialer,
        address: SocketAddr,
        credentials: Option<&Credentials>,
    ) -> Result<Self, UpstreamError> {
        let mut connection = Self::dial(dialer, address, VERSION, MESSAGE_BYTES_MAX).await?;
        connection.start_up(credentials).await?;
        Ok(connection)
    }

    /// The same in v5, for messages of any size.
    pub(super) async fn open_v5(
        dialer: &Dialer,
        address: SocketAddr,
        credentials: Option<&Credentials>,
    ) -> Result<Self, UpstreamError> {
        let longest = BODY_BYTES_MAX + HEADER_BYTES;
        let mut connection = Self::dial(dialer, address, Version::V5, longest).await?;
        connection.start_up(credentials).await?;
        Ok(connection)
    }

    async fn dial(
        dialer: &Dialer,
        address: SocketAddr,
        version: Version,
        message_bytes_max: usize,
    ) -> Result<Self, UpstreamError> {
        let (reader, writer) = dialer.dial(address).await?.split();
        Ok(Self {
            address,
            reader,
            writer,
            buffer: Buffer::default(),
            deframer: Deframer::new(message_bytes_max),
            version,
            framing: Framing::Bare(None),
            events: VecDeque::new(),
        })
    }

    /// STARTUP and its answer are bare envelopes; from then on v5 uses segments.
    async fn start_up(&mut self, credentials: Option<&Credentials>) -> Result<(), UpstreamError> {
        let hello = startup::encode("narrows", env!("CARGO_PKG_VERSION"));
        let reply = self.ask(opcode::STARTUP, hello).await?;
        if self.version == Version::V5 {
            self.framing = SEGMENTS;
            self.deframer.set_framing(SEGMENTS);
        }
        match reply.header.opcode {
            opcode::READY => Ok(()),
            opcode::AUTHENTICATE => self.log_in(credentials).await,
            opcode => Err(UpstreamError::Unexpected {
                address: self.address,
                opcode,
            }),
        }
    }

    /// Logs in with SASL PLAIN, which PasswordAuthenticator and similar authenticators expect.
    async fn log_in(&mut self, credentials: Option<&Credentials>) -> Result<(), UpstreamError> {
        let credentials = credentials.ok_or(UpstreamError::LoginRequired(self.address))?;
        let reply = self.ask(opcode::AUTH_RESPONSE, login(credentials)).await?;
        match reply.header.opcode {
            opcode::AUTH_SUCCESS => Ok(()),
            opcode => Err(UpstreamError::Unexpected {
                address: self.address,
                opcode,
            }),
        }
    }

    /// Asks for all events; they arrive through [`Connection::next_event`].
    pub async fn register(&mut self) -> Result<(), UpstreamError> {
        let mut body = Vec::new();
        body.put_string_list(&event::TYPES);
        self.ask(opcode::REGISTER, body).await.map(drop)
    }

    pub async fn query(&mut self, text: &str) -> Result<Rows, UpstreamError> {
        let reply = self
            .ask(opcode::QUERY, query::encode(self.version, text))
            .await?;
        let address = self.address;
        let read = || {
            let mut message = response::message(reply.header, &reply.body)?;
            match message.int()? {
                result::kind::ROWS => Rows::read(&mut message).map(Some),
                _ => Ok(None),
            }
        };
        match read() {
            Ok(Some(rows)) => Ok(rows),
            Ok(None) => Err(UpstreamError::Unexpected {
                address,
                opcode: reply.header.opcode,
            }),
            Err(source) => Err(UpstreamError::Protocol { address, source }),
        }
    }

    /// Sends one request and waits for its answer; an ERROR becomes an `Err`.
    async fn ask(&mut self, opcode: u8, body: Vec<u8>) -> Result<Envelope, UpstreamError> {
        let address = self.address;
        let exchange = async {
            let request = Envelope::new(self.version.byte(), 0, opcode, body);
            let sent = self.writer.write_all(&self.framing.frame(&request)).await;
            sent.map_err(|source| UpstreamError::Broken { address, source })?;
            loop {
                let reply = self.receive().await?;
                if reply.header.stream != EVENT_STREAM {
                    return Ok(reply);
                }
                self.events.push_back(reply);
            }
        };
        let reply = timeout(ANSWER_TIMEOUT, exchange)
            .await
            .map_err(|_| UpstreamError::Silent(address))??;
        answered(address, reply)
    }

    /// Waits for the next event. Dropping the future loses nothing.
    pub async fn next_event(&mut self) -> Result<Envelope, UpstreamError> {
        match self.events.pop_front() {
            Some(event) => Ok(event),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Result<Envelope, UpstreamError> {
        let address = self.address;
        loop {
            let step = self
                .deframer
                .step(self.buffer.filled(), &mut |_| Verdict::Take(()));
            let step = step.map_err(|source| UpstreamError::Protocol { address, source })?;
            self.buffer.consume(step.consumed);
            // One request is in flight at a time, so a segment holds nothing besides its answer.
            if let Some(Part::Taken(envelope, ())) = step.then.into_iter().next() {
                return Ok(envelope);
            }
            // The segment held only a part of the message.
            if step.consumed > 0 {
                continue;
            }
            match self.reader.read(&mut self.buffer).await {
                Ok(0) => return Err(UpstreamError::Closed(address)),
                Ok(_) => {}
                Err(source) => return Err(UpstreamError::Broken { address, source }),
            }
        }
    }
}

/// The body of an AUTH_RESPONSE: a SASL PLAIN token.
fn login(credentials: &Credentials) -> Vec<u8> {
    let (username, password) = (&credentials.username, credentials.password.expose());
    let mut body = Vec::new();
    body.put_bytes(Some(format!("\0{username}\0{password}").as_bytes()));
    body
}

/// Returns the reply; an ERROR becomes an `Err`.
fn answered(address: SocketAddr, reply: Envelope) -> Result<Envelope, UpstreamError> {
    if reply.header.opcode != opcode::ERROR {
        return Ok(reply);
    }
    let message = response::message(reply.header, &reply.body);
    Err(match message.and_then(error::read) {
        Ok((code, text)) => UpstreamError::Refused {
            address,
            code,
            text: text.to_owned(),
        },
        Err(source) => UpstreamError::Protocol { address, source },
    })
}

/// What an event says.
pub fn read_event(envelope: &Envelope) -> Result<event::Event<'_>, ProtocolError> {
    event::read(Cursor::new(&envelope.body))
}
