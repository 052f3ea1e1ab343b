//! One node as a pool knows it: its connection, or the attempt to open one.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::PoolConfig;
use super::link::Link;
use crate::upstream::UpstreamError;
use crate::upstream::balance::backoff;

pub(super) struct Node {
    pub(super) address: SocketAddr,
    link: RefCell<Option<Rc<Link>>>,
    /// Closes when the attempt to open a connection ends.
    opening: RefCell<Option<watch::Receiver<()>>>,
    /// Number of attempts that failed in a row; `retry_at` is when the next may begin.
    failures: Cell<u32>,
    retry_at: Cell<Option<Instant>>,
    /// EXECUTE and BATCH requests sent to this node.
    pub(super) executes: Cell<u64>,
}

impl Node {
    pub(super) fn new(address: SocketAddr) -> Rc<Self> {
        Rc::new(Self {
            address,
            link: RefCell::default(),
            opening: RefCell::default(),
            failures: Cell::new(0),
            retry_at: Cell::new(None),
            executes: Cell::new(0),
        })
    }

    /// The connection, if one is open.
    pub(super) fn link(&self) -> Option<Rc<Link>> {
        let mut link = self.link.borrow_mut();
        if link.as_ref().is_some_and(|link| !link.is_open()) {
            *link = None;
        }
        link.clone()
    }

    /// Begins to open a connection, unless an attempt is in progress. The attempt goes on whether or not anybody waits
    /// for it, so that a node that does not answer is noticed once, and not by every request anew.
    pub(super) fn open(self: &Rc<Self>, config: &Arc<PoolConfig>) -> watch::Receiver<()> {
        let under_way = self.opening.borrow().clone();
        if let Some(opening) = under_way
            && opening.has_changed().is_ok()
        {
            return opening;
        }
        let (ended, opening) = watch::channel(());
        *self.opening.borrow_mut() = Some(opening.clone());
        let (node, config) = (self.clone(), config.clone());
        tokio::task::spawn_local(async move {
            // Dropped last, once the outcome can be seen.
            let _ended = ended;
            node.attempt(config).await;
        });
        opening
    }

    async fn attempt(&self, config: Arc<PoolConfig>) {
        match Link::open(config.clone(), self.address).await {
            Ok(link) => {
                self.failures.set(0);
                self.retry_at.set(None);
                *self.link.borrow_mut() = Some(Rc::new(link));
            }
            Err(error) => self.failed(&config, &error),
        }
    }

    fn failed(&self, config: &PoolConfig, error: &UpstreamError) {
        let (node, failures) = (self.address, self.failures.get());
        config.metrics.open_failures.increment(1);
        // Only the first failure in a row is worth an info line.
        if failures == 0 {
            tracing::info!(%node, %error, "no connection for split reads");
        } else {
            tracing::debug!(%node, %error, "no connection for split reads");
        }
        self.failures.set(failures.saturating_add(1));
        self.retry_at.set(Some(Instant::now() + backoff(failures)));
        if is_of_the_network(error) {
            config.left_alone(node);
        }
    }

    /// Whether it failed too recently to be tried again. That holds even if there is no other node to try: every
    /// attempt may be a login.
    pub(super) fn is_resting(&self) -> bool {
        self.retry_at.get().is_some_and(|at| at > Instant::now())
    }

    /// Waits for a connection. `None` if it could not be opened in time.
    pub(super) async fn opened(
        self: &Rc<Self>,
        config: &Arc<PoolConfig>,
        deadline: Instant,
    ) -> Option<Rc<Link>> {
        if let Some(link) = self.link() {
            return Some(link);
        }
        let mut opening = self.open(config);
        // Nothing is ever sent on the channel: the wait ends with the attempt, or at the deadline.
        drop(timeout_at(deadline, opening.changed()).await);
        self.link()
    }
}

/// Whether clients' connections would fail as well. A node that refuses our own login still serves clients.
fn is_of_the_network(error: &UpstreamError) -> bool {
    match error {
        UpstreamError::Connect { .. }
        | UpstreamError::ConnectTimeout { .. }
        | UpstreamError::Tls { .. }
        | UpstreamError::Closed(_)
        | UpstreamError::Silent(_)
        | UpstreamError::Broken { .. } => true,
        UpstreamError::Resolve { .. }
        | UpstreamError::Protocol { .. }
        | UpstreamError::Refused { .. }
        | UpstreamError::LoginRequired(_)
        | UpstreamError::Unexpected { .. }
        | UpstreamError::NoneReachable(_) => false,
    }
}
