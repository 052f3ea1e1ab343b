//! A client connection on its way from the listener to the thread that runs its session.

use std::net::SocketAddr;
use std::sync::Arc;

use super::shared::{Admission, Proxy};

pub struct Arrival {
    pub(super) proxy: Arc<Proxy>,
    pub(super) stream: std::net::TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) target: Target,
    pub(super) admission: Admission,
}

/// Which upstream node a listener stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Any,
    Node(SocketAddr),
}
