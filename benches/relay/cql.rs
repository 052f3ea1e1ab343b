//! As much of the CQL native protocol v4 as the load generator needs: a blocking
//! connection for set-up, request frames built ahead of time, and a scanner that
//! finds response frames in a byte stream without keeping or copying their bodies.
//!
//! Another protocol version or a compression is one more way to build and scan here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

const VERSION_REQUEST: u8 = 0x04;
const VERSION_RESPONSE: u8 = 0x84;
const HEADER_BYTES: usize = 9;
const LOCAL_ONE: u16 = 0x000A;

const OP_ERROR: u8 = 0x00;
const OP_STARTUP: u8 = 0x01;
const OP_READY: u8 = 0x02;
const OP_QUERY: u8 = 0x07;
const OP_RESULT: u8 = 0x08;
const OP_PREPARE: u8 = 0x09;
const OP_EXECUTE: u8 = 0x0A;

/// A connection that has finished its handshake.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        // A response that takes this long fails the run instead of hanging it.
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut connection = Self { socket };
        let mut body = 1u16.to_be_bytes().to_vec();
        put_short_bytes(&mut body, b"CQL_VERSION");
        put_short_bytes(&mut body, b"3.0.0");
        connection.call(OP_STARTUP, &body, OP_READY)?;
        Ok(connection)
    }

    /// Runs one statement without bound values; returns the body of its RESULT.
    pub(crate) fn query(&mut self, cql: &str) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        put_long_string(&mut body, cql);
        body.extend(LOCAL_ONE.to_be_bytes());
        body.push(0);
        self.call(OP_QUERY, &body, OP_RESULT)
            .with_context(|| format!("statement failed: {cql:.80}"))
    }

    /// Prepares a statement and returns its id.
    pub(crate) fn prepare(&mut self, cql: &str) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        put_long_string(&mut body, cql);
        let result = self.call(OP_PREPARE, &body, OP_RESULT)?;
        // [int kind = 4 Prepared][short bytes id]…  (native_protocol_v4 §4.2.5.4)
        ensure!(
            result.get(..4) == Some(&[0, 0, 0, 4]),
            "PREPARE was not answered with a Prepared result"
        );
        let length =
            u16::from_be_bytes([*result.get(4).unwrap_or(&0), *result.get(5).unwrap_or(&0)]);
        let id = result.get(6..6 + usize::from(length));
        Ok(id.context("the Prepared result is cut short")?.to_vec())
    }

    fn call(&mut self, opcode: u8, body: &[u8], expected: u8) -> Result<Vec<u8>> {
        self.socket.write_all(&frame(0, opcode, body))?;
        let mut header = [0; HEADER_BYTES];
        self.socket.read_exact(&mut header)?;
        let header = Header::parse(header)?;
        let mut body = vec![0; header.length];
        self.socket.read_exact(&mut body)?;
        if header.opcode == OP_ERROR {
            bail!(error_text(&body));
        }
        ensure!(
            header.opcode == expected,
            "opcode {:#04x} where {expected:#04x} was expected",
            header.opcode
        );
        Ok(body)
    }
}

/// A prebuilt EXECUTE of a statement with one `int` as its only bound value.
#[derive(Clone)]
pub(crate) struct Execute {
    bytes: Vec<u8>,
}

impl Execute {
    pub(crate) fn new(statement_id: &[u8]) -> Self {
        const VALUES_SKIP_METADATA_PAGE_SIZE: u8 = 0x01 | 0x02 | 0x04;
        let mut body = Vec::new();
        put_short_bytes(&mut body, statement_id);
        body.extend(LOCAL_ONE.to_be_bytes());
        body.push(VALUES_SKIP_METADATA_PAGE_SIZE);
        body.extend(1u16.to_be_bytes());
        body.extend(4u32.to_be_bytes());
        body.extend([0; 4]); // the key, patched in by `append`
        body.extend(5000u32.to_be_bytes());
        Self {
            bytes: frame(0, OP_EXECUTE, &body),
        }
    }

    /// Appends the request for `key` on `stream` to `out`: one copy, two patches.
    pub(crate) fn append(&self, out: &mut Vec<u8>, stream: u16, key: u32) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        out[start + 2..start + 4].copy_from_slice(&stream.to_be_bytes());
        let key_at = out.len() - 8;
        out[key_at..key_at + 4].copy_from_slice(&key.to_be_bytes());
    }
}

/// Walks over response frames as bytes arrive in pieces of any size.
#[derive(Default)]
pub(crate) struct Scanner {
    header: [u8; HEADER_BYTES],
    header_have: usize,
    body_left: usize,
    stream: u16,
    error: Option<Vec<u8>>,
}

impl Scanner {
    /// Calls `finished` with the stream id of every response that ends in `bytes`.
    /// Anything but a RESULT is an error, with the text of an ERROR frame in it.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut finished: impl FnMut(u16)) -> Result<()> {
        while !bytes.is_empty() {
            if self.header_have < HEADER_BYTES {
                let take = bytes.len().min(HEADER_BYTES - self.header_have);
                self.header[self.header_have..self.header_have + take]
                    .copy_from_slice(&bytes[..take]);
                self.header_have += take;
                bytes = &bytes[take..];
                if self.header_have < HEADER_BYTES {
                    return Ok(());
                }
                self.begin_body()?;
            }
            let take = bytes.len().min(self.body_left);
            if let Some(body) = &mut self.error {
                body.extend_from_slice(&bytes[..take]);
            }
            self.body_left -= take;
            bytes = &bytes[take..];
            if self.body_left == 0 {
                if let Some(body) = &self.error {
                    bail!(error_text(body));
                }
                self.header_have = 0;
                finished(self.stream);
            }
        }
        Ok(())
    }

    fn begin_body(&mut self) -> Result<()> {
        let header = Header::parse(self.header)?;
        match header.opcode {
            OP_RESULT => {}
            OP_ERROR => self.error = Some(Vec::new()),
            other => bail!("opcode {other:#04x} in answer to an EXECUTE"),
        }
        // A RESULT always has a kind, so a frame never ends with its header.
        ensure!(header.length >= 4, "a response without a body");
        self.stream = header.stream;
        self.body_left = header.length;
        Ok(())
    }
}

struct Header {
    stream: u16,
    opcode: u8,
    length: usize,
}

impl Header {
    fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self> {
        ensure!(
            bytes[0] == VERSION_RESPONSE,
            "a frame that starts with {:#04x} is no v4 response",
            bytes[0]
        );
        Ok(Self {
            stream: u16::from_be_bytes([bytes[2], bytes[3]]),
            opcode: bytes[4],
            length: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) as usize,
        })
    }
}

fn frame(stream: u16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("request bodies here are small");
    let mut out = vec![VERSION_REQUEST, 0];
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend(length.to_be_bytes());
    out.extend(body);
    out
}

fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("ids and options here are short");
    out.extend(length.to_be_bytes());
    out.extend(bytes);
}

fn put_long_string(out: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).expect("statements here are short");
    out.extend(length.to_be_bytes());
    out.extend(text.as_bytes());
}

/// [int code][string message], then details that depend on the code.
fn error_text(body: &[u8]) -> String {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let code = number(body.get(..4).unwrap_or_default());
    let length = number(body.get(4..6).unwrap_or_default());
    let message = body.get(6..6 + length).unwrap_or_default();
    format!(
        "ERROR response {code:#06x}: {}",
        String::from_utf8_lossy(message)
    )
}
