//! Opens one connection to one node: TCP within a time limit, then TLS if it is configured.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::UpstreamError;
use crate::transport::{self, Stream};

/// How nodes are dialled; the same for clients' connections and for our own.
#[derive(Clone)]
pub struct Dialer {
    connect_timeout: Duration,
    /// Shared by all clones, so that reloaded certificates reach every one.
    tls: Arc<RwLock<Option<Arc<rustls::ClientConfig>>>>,
}

impl Dialer {
    pub fn new(connect_timeout: Duration, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        Self {
            connect_timeout,
            tls: Arc::new(RwLock::new(tls)),
        }
    }

    pub fn set_tls(&self, tls: Option<Arc<rustls::ClientConfig>>) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    fn tls(&self) -> Option<Arc<rustls::ClientConfig>> {
        self.tls
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub async fn dial(&self, address: SocketAddr) -> Result<Stream, UpstreamError> {
        let within = self.connect_timeout;
        let stream = match timeout(within, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(UpstreamError::Connect { address, source }),
            Err(_) => return Err(UpstreamError::ConnectTimeout { address, within }),
        };
        transport::configure(&stream)
            .map_err(|source| UpstreamError::Connect { address, source })?;
        let Some(tls) = self.tls() else {
            return Ok(Stream::Tcp(stream));
        };
        let connector = tokio_rustls::TlsConnector::from(tls);
        let name = ServerName::IpAddress(address.ip().into());
        match timeout(within, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream.into()))),
            Ok(Err(source)) => Err(UpstreamError::Tls { address, source }),
            Err(_) => Err(UpstreamError::ConnectTimeout { address, within }),
        }
    }

    /// Whether something accepts connections there. No TLS, no CQL: it only tells a dead node from a live one.
    pub async fn answers(&self, address: SocketAddr) -> bool {
        matches!(
            timeout(self.connect_timeout, TcpStream::connect(address)).await,
            Ok(Ok(_))
        )
    }
}
