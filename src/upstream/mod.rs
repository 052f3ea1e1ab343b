//! Cassandra, as Narrows reaches it: dialling nodes, the control connection, and which node to take next.

pub mod balance;
pub mod cluster;
pub mod connection;
pub mod control;
pub mod dial;
pub mod pool;
pub mod ring;

use std::io;
use std::net::SocketAddr;

use crate::protocol::ProtocolError;

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("cannot connect to {address}: {source}")]
    Connect {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot connect to {address}: no answer within {within:?}")]
    ConnectTimeout {
        address: SocketAddr,
        within: std::time::Duration,
    },
    #[error("cannot resolve {host}: {source}")]
    Resolve { host: String, source: io::Error },
    #[error(
        "TLS with {address} failed: {source}; is upstream.tls right for this port, and upstream.tls_ca its certificate authority?"
    )]
    Tls {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("{0} closed the connection")]
    Closed(SocketAddr),
    #[error("{0} gave no answer in time")]
    Silent(SocketAddr),
    #[error("connection to {address} broke: {source}")]
    Broken {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("{address} broke the CQL protocol: {source}")]
    Protocol {
        address: SocketAddr,
        source: ProtocolError,
    },
    #[error("{address} answered 0x{code:04x}: {text}")]
    Refused {
        address: SocketAddr,
        code: i32,
        text: String,
    },
    #[error(
        "{0} asks for a login; set upstream.username and upstream.password_file to a role of Narrows' own (docs/security.md says which \
         rights it needs), or topology, schema agreement and the control keyspace stay unknown"
    )]
    LoginRequired(SocketAddr),
    #[error("{address} answered with unexpected opcode 0x{opcode:02x}")]
    Unexpected { address: SocketAddr, opcode: u8 },
    #[error("no upstream node can be reached; tried {0}")]
    NoneReachable(String),
}
