//! A TCP or TLS stream in two halves, and the read buffer of one direction.
//!
//! Idle connections hold no buffer: the thread lends one when bytes arrive and gets it back when they are consumed, so
//! a thousand idle clients cost little more than their sockets.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;

/// Size of a lent buffer, and so of most reads. Large pages benefit: with 16 KiB they cost twice the CPU.
const READ_BYTES: usize = 256 << 10;
/// Maximum number of spare buffers per thread. Only one is in use at a time, unless a peer is slow to accept data.
const KEEP_BUFFERS_MAX: usize = 8;
/// Finds peers that vanished without closing.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

pub enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub enum Reader {
    Tcp(OwnedReadHalf),
    Tls(tokio::io::ReadHalf<Box<TlsStream<TcpStream>>>),
}

pub enum Writer {
    Tcp(OwnedWriteHalf),
    Tls(tokio::io::WriteHalf<Box<TlsStream<TcpStream>>>),
}

impl Stream {
    pub fn split(self) -> (Reader, Writer) {
        match self {
            Self::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                (Reader::Tcp(reader), Writer::Tcp(writer))
            }
            Self::Tls(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                (Reader::Tls(reader), Writer::Tls(writer))
            }
        }
    }
}

/// Sets the options of every socket: no delay for small frames, and keep-alive.
pub fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keep_alive = socket2::TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(KEEP_ALIVE / 4);
    socket2::SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

/// A listening socket whose address can be bound again at once after a restart.
pub fn listen(address: SocketAddr) -> io::Result<tokio::net::TcpListener> {
    const BACKLOG: i32 = 1024;
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        None,
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    tokio::net::TcpListener::from_std(socket.into())
}

impl Reader {
    /// Reads the bytes that have arrived, as far as the buffer has room. 0 means the end of the stream.
    pub async fn read(&mut self, buffer: &mut Buffer) -> io::Result<usize> {
        poll_fn(|context| match self {
            Self::Tcp(stream) => buffer.poll_fill(Pin::new(stream), context),
            Self::Tls(stream) => buffer.poll_fill(Pin::new(stream), context),
        })
        .await
    }
}

impl Writer {
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    pub async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
        }
    }
}

/// Bytes that were read but not consumed yet.
#[derive(Default)]
pub struct Buffer {
    /// A lent buffer while bytes arrive, otherwise only the unconsumed bytes.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

thread_local! {
    static LENT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl Buffer {
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    fn poll_fill(
        &mut self,
        stream: Pin<&mut impl AsyncRead>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        let polled = stream.poll_read(context, &mut room);
        let count = room.filled().len();
        if polled.is_pending() {
            self.rest();
        }
        ready!(polled)?;
        self.end += count;
        Poll::Ready(Ok(count))
    }

    fn make_room(&mut self) {
        if self.bytes.len() < READ_BYTES {
            let rest = std::mem::replace(&mut self.bytes, lend());
            self.bytes[..rest.len()].copy_from_slice(&rest);
        }
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
    }

    /// Gives the buffer back while there is nothing to read, and keeps only the unconsumed bytes: a peer that stops in
    /// the middle of a message should not hold much more memory than it sent.
    fn rest(&mut self) {
        if self.filled().len() < READ_BYTES / 2 {
            let rest = self.filled().to_vec();
            give_back(std::mem::replace(&mut self.bytes, rest));
            self.start = 0;
            self.end = self.bytes.len();
        }
    }
}

fn lend() -> Vec<u8> {
    LENT.with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| vec![0; READ_BYTES])
}

fn give_back(bytes: Vec<u8>) {
    // Buffers that grew for a large message are not kept.
    if bytes.len() == READ_BYTES {
        LENT.with_borrow_mut(|lent| {
            if lent.len() < KEEP_BUFFERS_MAX {
                lent.push(bytes);
            }
        });
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.bytes));
    }
}

/// Closes the connection so that the peer can still read what was written last. Closing it with unread input would make
/// the kernel reset it, and the peer could lose our last error frame.
pub async fn close_gently(mut reader: Reader, writer: &mut Writer) {
    const PATIENCE: Duration = Duration::from_secs(1);
    const DISCARD_BYTES_MAX: usize = 1 << 20;
    if writer.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let (mut buffer, mut discarded) = (Buffer::default(), 0);
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            buffer.consume(count);
            discarded += count;
            if discarded > DISCARD_BYTES_MAX {
                break;
            }
        }
    };
    // The timeout is expected for a peer that keeps sending.
    drop(tokio::time::timeout(PATIENCE, drain).await);
}
