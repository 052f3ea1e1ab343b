//! `mirror`: one listener per upstream node, there while the node is, gone while it is not.
//!
//! A driver that dials a dead node must be refused at once, so the listener of a node that does not answer is closed.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::worker::{Target, Workers};
use super::{Presented, Proxy, listener};
use crate::transport;
use crate::upstream::cluster::Cluster;

struct Mirror {
    proxy: Arc<Proxy>,
    workers: Arc<Workers>,
    /// By mirrored address: the real one, and the task that accepts for it.
    listeners: HashMap<SocketAddr, (SocketAddr, AbortHandle)>,
}

/// Follows the cluster for ever.
pub async fn follow(
    proxy: Arc<Proxy>,
    workers: Arc<Workers>,
    mut clusters: watch::Receiver<Option<Arc<Cluster>>>,
) {
    let mut mirror = Mirror {
        proxy,
        workers,
        listeners: HashMap::new(),
    };
    loop {
        let cluster = clusters.borrow_and_update().clone();
        if let Some(cluster) = cluster {
            mirror.adjust(&cluster);
        }
        if clusters.changed().await.is_err() {
            return;
        }
    }
}

impl Mirror {
    fn adjust(&mut self, cluster: &Cluster) {
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
            .map(|node| (presented.address_of(node.address.ip()), node.address))
            .collect();
        self.listeners.retain(|mirrored, (real, task)| {
            let keep = wanted.contains(&(*mirrored, *real));
            if !keep {
                task.abort();
                tracing::info!(node = %real, at = %mirrored, "node is gone, its listener closes");
            }
            keep
        });
        for (mirrored, real) in wanted {
            self.listen(mirrored, real);
        }
        let bound: HashSet<SocketAddr> = self.listeners.keys().copied().collect();
        self.proxy.mirrored.send_replace(bound);
    }

    fn listen(&mut self, mirrored: SocketAddr, real: SocketAddr) {
        if let Some((other, _)) = self.listeners.get(&mirrored) {
            if *other != real {
                tracing::error!(
                    node = %real, %other, at = %mirrored,
                    "two nodes have the same mirrored address; give topology.network a shorter prefix"
                );
            }
            return;
        }
        match transport::listen(mirrored) {
            Ok(socket) => {
                let target = Target::Node(real);
                let accept =
                    listener::accept(socket, target, self.proxy.clone(), self.workers.clone());
                let task = tokio::spawn(accept).abort_handle();
                self.listeners.insert(mirrored, (real, task));
                tracing::info!(node = %real, at = %mirrored, "node is mirrored");
            }
            Err(error) => {
                tracing::error!(node = %real, at = %mirrored, %error, "cannot listen for a node");
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
