//! Opens a client connection: TLS, the protocol version of the first frame, and the choice of an upstream node.
//!
//! A connection that cannot be served gets an ERROR to its first frame, never a bare close: drivers wait for seconds
//! after a bare close.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::arrival::{Arrival, Target};
use super::metrics::Close;
use super::session::Session;
use super::sessions::Sessions;
use super::shared::{Admission, Proxy};
use super::topology::Presented;
use super::wire::Wire;
use crate::config::TopologyMode;
use crate::protocol::ProtocolError;
use crate::protocol::header::{Envelope, Header, RESPONSE_BIT, Version, opcode};
use crate::protocol::response::error::{self, ErrorCode};
use crate::transport::{self, Buffer, Reader, Stream, Writer, close_gently};
use crate::upstream::UpstreamError;
use crate::upstream::balance::Lease;

enum First {
    Frame(Version, Header),
    /// A protocol version that the proxy does not speak.
    Foreign(u8),
    Broken(ProtocolError),
}

/// Serves one client from the first byte to the last.
pub(super) async fn serve(arrival: Arrival, sessions: Rc<Sessions>) {
    let Arrival {
        proxy,
        stream,
        peer,
        target,
        admission,
    } = arrival;
    let close = match open(&proxy, &sessions, stream, target, &admission).await {
        Ok(Some(opened)) => {
            tracing::debug!(%peer, upstream = %opened.session.wire.upstream_address, "session begins");
            let _carried = sessions.add(&opened.session);
            let close = opened
                .session
                .run(opened.client, opened.buffer, opened.upstream)
                .await;
            drop(opened.lease);
            close
        }
        Ok(None) => Close::Handshake,
        Err(error) => {
            tracing::debug!(%peer, %error, "handshake failed");
            Close::Handshake
        }
    };
    proxy.metrics.closed(close);
    tracing::debug!(%peer, reason = close.label(), "session ended");
    drop(admission);
}

struct Opened {
    session: Rc<Session>,
    client: Reader,
    buffer: Buffer,
    upstream: Reader,
    lease: Lease,
}

async fn open(
    proxy: &std::sync::Arc<Proxy>,
    sessions: &Sessions,
    stream: std::net::TcpStream,
    target: Target,
    admission: &Admission,
) -> io::Result<Option<Opened>> {
    let (mut reader, writer, local) = accept(proxy, stream).await?;
    let mut buffer = Buffer::default();
    let patience = proxy.config.limits.handshake_timeout;
    let first = match timeout(patience, first_frame(&mut reader, &mut buffer)).await {
        Ok(first) => first?,
        Err(_) => return Ok(None),
    };
    let (version, header) = match first {
        First::Frame(version, header) => (version, header),
        // On stream 0, like Cassandra 4.1. 5.0.9 uses the request's stream, and gocql v2 then fails to downgrade.
        First::Foreign(version) => {
            let body = error::unsupported_version(version & !RESPONSE_BIT);
            return turn_away(reader, writer, Version::HIGHEST, 0, body).await;
        }
        First::Broken(error) => {
            let body = error::encode(ErrorCode::Protocol, &format!("narrows: {error}"));
            return turn_away(reader, writer, Version::HIGHEST, 0, body).await;
        }
    };
    if let Admission::TurnedAway { limit, .. } = admission {
        let text = format!(
            "narrows: {limit} clients are connected, which is the limit (limits.connections); try again later"
        );
        let body = error::encode(ErrorCode::Overloaded, &text);
        return turn_away(reader, writer, version, header.stream, body).await;
    }
    let dialled = timeout(patience, dial(proxy, target)).await;
    let dialled = dialled.unwrap_or_else(|_| {
        Err(UpstreamError::NoneReachable(
            "nodes until limits.handshake_timeout was over".to_owned(),
        ))
    });
    let (address, upstream, lease) = match dialled {
        Ok(dialled) => dialled,
        Err(reason) => {
            // The control connection has the same problem and logs it once. Clients must not learn addresses from us.
            tracing::debug!(error = %reason, "a client is turned away");
            let text = "narrows: no upstream node answers; the proxy's log and its /readyz say why";
            let body = error::encode(ErrorCode::Overloaded, text);
            return turn_away(reader, writer, version, header.stream, body).await;
        }
    };
    let (upstream, upstream_writer) = upstream.split();
    let presented = presented(proxy, local);
    let upstream_writer = (address, upstream_writer);
    let wire = Wire::new(proxy.clone(), presented, version, writer, upstream_writer);
    let session = Session::new(wire, header.stream, sessions.pool(proxy));
    Ok(Some(Opened {
        session,
        client: reader,
        buffer,
        upstream,
        lease,
    }))
}

async fn accept(
    proxy: &Proxy,
    stream: std::net::TcpStream,
) -> io::Result<(Reader, Writer, SocketAddr)> {
    let stream = TcpStream::from_std(stream)?;
    transport::configure(&stream)?;
    let local = stream.local_addr()?;
    let stream = match proxy.client_tls() {
        None => Stream::Tcp(stream),
        Some(config) => {
            let handshake = tokio_rustls::TlsAcceptor::from(config).accept(stream);
            let patience = proxy.config.limits.handshake_timeout;
            let stream = timeout(patience, handshake)
                .await
                .map_err(|_| io::ErrorKind::TimedOut)??;
            Stream::Tls(Box::new(stream.into()))
        }
    };
    let (reader, writer) = stream.split();
    Ok((reader, writer, local))
}

/// Waits for the header of the first frame, or only for its version byte if the proxy must refuse the version.
async fn first_frame(reader: &mut Reader, buffer: &mut Buffer) -> io::Result<First> {
    loop {
        if let Some(byte) = buffer.filled().first().copied() {
            let version = Version::from_byte(byte).filter(|_| byte & RESPONSE_BIT == 0);
            let Some(version) = version else {
                return Ok(First::Foreign(byte));
            };
            match Header::peek(buffer.filled()) {
                Ok(Some(header)) => return Ok(First::Frame(version, header)),
                Ok(None) => {}
                Err(error) => return Ok(First::Broken(error)),
            }
        }
        if reader.read(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn turn_away(
    reader: Reader,
    mut writer: Writer,
    version: Version,
    stream: i16,
    body: Vec<u8>,
) -> io::Result<Option<Opened>> {
    let refusal = Envelope::new(version.byte() | RESPONSE_BIT, stream, opcode::ERROR, body);
    writer.write_all(&refusal.encode()).await?;
    close_gently(reader, &mut writer).await;
    Ok(None)
}

/// Connects to the given node, or to the best one that answers.
async fn dial(
    proxy: &std::sync::Arc<Proxy>,
    target: Target,
) -> Result<(SocketAddr, Stream, Lease), UpstreamError> {
    let candidates = match target {
        Target::Any => proxy.balance.candidates(Instant::now()),
        Target::Node(address) => vec![address],
    };
    let mut tried = Vec::new();
    for address in candidates {
        match proxy.dialer.dial(address).await {
            Ok(stream) => return Ok((address, stream, proxy.balance.connected(address))),
            Err(error) => {
                tracing::debug!(%error, "dialling failed");
                proxy.metrics.dial_failures.increment(1);
                proxy.balance.failed(address, Instant::now());
                proxy.suspicion.notify_one();
                // The node may come back without its prepared statements.
                proxy.prepared.forget_node(proxy.prepared.node_bit(address));
                tried.push(error.to_string());
            }
        }
    }
    Err(UpstreamError::NoneReachable(tried.join("; ")))
}

fn presented(proxy: &Proxy, local: SocketAddr) -> Presented {
    let topology = &proxy.config.topology;
    match topology.mode {
        TopologyMode::Single => Presented::Single {
            address: topology.advertise.unwrap_or(local),
        },
        TopologyMode::Mirror => Presented::Mirror {
            network: topology.network,
            port: local.port(),
        },
    }
}
