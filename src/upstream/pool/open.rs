//! Opens one v5 connection: STARTUP in a bare envelope, its answer too, and from then on segments; then the login.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::PoolConfig;
use crate::config::Credentials;
use crate::protocol::deframer::{Deframer, Framing, Part, Verdict};
use crate::protocol::header::{BODY_BYTES_MAX, HEADER_BYTES, Version};
use crate::protocol::request::startup;
use crate::protocol::segment::Format;
use crate::protocol::{Envelope, opcode};
use crate::transport::{Buffer, Reader, Writer};
use crate::upstream::UpstreamError;
use crate::upstream::connection::{answered, login};

/// How messages are framed once a connection is open.
pub(super) const FRAMING: Framing = Framing::Segments(Format::Plain);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that is ready for requests.
pub(super) struct Opened {
    pub(super) address: SocketAddr,
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) buffer: Buffer,
    pub(super) deframer: Deframer,
}

impl Opened {
    pub(super) async fn open(
        config: &PoolConfig,
        address: SocketAddr,
    ) -> Result<Self, UpstreamError> {
        let (reader, writer) = config.dialer.dial(address).await?.split();
        let mut opened = Self {
            address,
            reader,
            writer,
            buffer: Buffer::default(),
            deframer: Deframer::new(BODY_BYTES_MAX + HEADER_BYTES),
        };
        let hello = startup::encode("narrows", env!("CARGO_PKG_VERSION"));
        let bare = Framing::Bare(None);
        let reply = opened.ask(bare, opcode::STARTUP, hello).await?;
        opened.deframer.set_framing(FRAMING);
        match reply.header.opcode {
            opcode::READY => Ok(opened),
            opcode::AUTHENTICATE => {
                opened.log_in(config.credentials.as_ref()).await?;
                Ok(opened)
            }
            opcode => Err(UpstreamError::Unexpected { address, opcode }),
        }
    }

    /// SASL PLAIN, which is what PasswordAuthenticator and its kin expect.
    async fn log_in(&mut self, credentials: Option<&Credentials>) -> Result<(), UpstreamError> {
        let address = self.address;
        let credentials = credentials.ok_or(UpstreamError::LoginRequired(address))?;
        let body = login(credentials);
        let reply = self.ask(FRAMING, opcode::AUTH_RESPONSE, body).await?;
        match reply.header.opcode {
            opcode::AUTH_SUCCESS => Ok(()),
            opcode => Err(UpstreamError::Unexpected { address, opcode }),
        }
    }

    /// One request and its answer; an ERROR is an error.
    async fn ask(
        &mut self,
        framing: Framing,
        opcode: u8,
        body: Vec<u8>,
    ) -> Result<Envelope, UpstreamError> {
        let address = self.address;
        let request = Envelope::new(Version::V5.byte(), 0, opcode, body);
        let exchange = async {
            let sent = self.writer.write_all(&framing.frame(&request)).await;
            sent.map_err(|source| UpstreamError::Broken { address, source })?;
            self.receive().await
        };
        let reply = timeout(ANSWER_TIMEOUT, exchange)
            .await
            .map_err(|_| UpstreamError::Silent(address))??;
        answered(address, reply)
    }

    async fn receive(&mut self) -> Result<Envelope, UpstreamError> {
        let address = self.address;
        loop {
            let step = self
                .deframer
                .step(self.buffer.filled(), &mut |_| Verdict::Take(()));
            let step = step.map_err(|source| UpstreamError::Protocol { address, source })?;
            self.buffer.consume(step.consumed);
            // Nothing but the one answer can come before we have asked for more.
            if let Some(Part::Taken(envelope, ())) = step.then.into_iter().next() {
                return Ok(envelope);
            }
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
