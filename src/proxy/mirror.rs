//! `mirror`: one listener per upstream node, open while the node is up.
//!
//! A driver that dials a dead node must be refused at once, so the proxy closes the listener of a node that does not
//! answer.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::arrival::Target;
use super::listener;
use super::shared::Proxy;
use super::threads::Threads;
use super::topology::Presented;
use crate::transport;
use crate::upstream::cluster::Cluster;

struct Mirror {
    proxy: Arc<Proxy>,
    threads: Arc<Threads>,
    /// By mirrored address: the real address, and the task that accepts for it.
    listeners: HashMap<SocketAddr, (SocketAddr, AbortHandle)>,
    /// Addresses whose failure was already logged.
    failed: HashSet<SocketAddr>,
}

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Opens and closes listeners as nodes come and go, for ever.
pub async fn follow(
    proxy: Arc<Proxy>,
    threads: Arc<Threads>,
    mut clusters: watch::Receiver<Option<Arc<Cluster>>>,
) {
    let mut mirror = Mirror {
        proxy,
        threads,
        listeners: HashMap::new(),
        failed: HashSet::new(),
    };
    loop {
        let cluster = clusters.borrow_and_update().clone();
        let complete = cluster.is_none_or(|cluster| mirror.adjust(&cluster));
        // An address that could not be bound may be free by then.
        let retry = async {
            match complete {
                true => std::future::pending().await,
                false => sleep(RETRY_AFTER).await,
            }
        };
        tokio::select! {
            () = retry => {}
            changed = clusters.changed() => if changed.is_err() { return },
        }
    }
}

impl Mirror {
    /// Listens for exactly the nodes that are up. `false`: some listener could not be opened.
    fn adjust(&mut self, cluster: &Cluster) -> bool {
        let topology = &self.proxy.config.topology;
        let port = self.proxy.config.client.listen.port();
        let presented = Presented::Mirror {
            network: topology.network,
            port,
        };
        let wanted: Vec<(SocketAddr, SocketAddr)> = cluster
            .nodes
            .iter()
            .filter(|node| node.up)
            .map(|node| (presented.address_of(node.advertised), node.address))
            .collect();
        self.listeners.retain(|mirrored, (real, task)| {
            let keep = wanted.contains(&(*mirrored, *real));
            if !keep {
                task.abort();
                tracing::info!(node = %real, at = %mirrored, "node is gone, closing its listener");
            }
            keep
        });
        let mut complete = true;
        for (mirrored, real) in wanted {
            complete &= self.listen(mirrored, real);
        }
        let bound: HashSet<SocketAddr> = self.listeners.keys().copied().collect();
        if complete {
            self.failed.clear();
        }
        self.proxy.mirrored.send_replace(bound);
        complete
    }

    fn listen(&mut self, mirrored: SocketAddr, real: SocketAddr) -> bool {
        if let Some((other, _)) = self.listeners.get(&mirrored) {
            if *other != real && self.failed.insert(mirrored) {
                tracing::error!(
                    node = %real, %other, at = %mirrored,
                    "two nodes have the same mirrored address; give topology.network a shorter prefix"
                );
            }
            return *other == real;
        }
        match transport::listen(mirrored) {
            Ok(socket) => {
                let target = Target::Node(real);
                let accept =
                    listener::accept(socket, target, self.proxy.clone(), self.threads.clone());
                let task = tokio::spawn(accept).abort_handle();
                self.listeners.insert(mirrored, (real, task));
                tracing::info!(node = %real, at = %mirrored, "node is mirrored");
                true
            }
            Err(error) => {
                // It is tried again every second, so log it only once.
                if self.failed.insert(mirrored) {
                    tracing::error!(node = %real, at = %mirrored, %error, "cannot listen for a node, trying again");
                }
                false
            }
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        for (_, task) in self.listeners.values() {
            task.abort();
        }
    }
}
