//! The proxy's own connections for split reads: protocol v5, one per node and thread, many requests at a time.
//!
//! A [`Pool`] belongs to one thread and lives on its `LocalSet`. It asks a replica where it can. A request that was sent
//! is repeated only by [`Pool::read`] and [`Pool::prepared`], which ask another node if the first is late or fails.

mod hedge;
mod link;
mod metrics;
mod node;
mod pace;
mod reply;
mod route;
mod silence;
mod statements;
mod streams;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub use self::reply::SubReply;
pub use self::statements::Prepared;
pub use crate::protocol::request::execute::SubRead;

use self::link::Link;
use self::metrics::Metrics;
use self::node::Node;
use self::pace::Allowance;
use self::route::Known;
use self::statements::Statements;
use super::balance::Balance;
use super::dial::Dialer;
use crate::budget::Budget;
use crate::config::Credentials;
use crate::protocol::header::Version;
use crate::protocol::request::query;
use crate::protocol::response::error::{ErrorCode, ReadFailure, read_failure};
use crate::protocol::{Envelope, ProtocolError, opcode};

/// Maximum number of statements that one thread remembers.
const STATEMENTS_MAX: usize = 1000;
/// Maximum number of times that one request is tried.
const ATTEMPTS_MAX: usize = 3;

/// Maximum number of times that a statement is prepared for one request: a node whose cache is full prefers statements
/// that were used before, and may drop a new one before it is executed.
const PREPARATIONS_MAX: usize = 5;

/// Longer waits are shortened to this.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// What the pools of all threads share.
pub struct PoolConfig {
    dialer: Dialer,
    credentials: Option<Credentials>,
    balance: Arc<Balance>,
    /// Tells the control connection to check the nodes.
    suspicion: Arc<Notify>,
    /// For replies, from when they begin to arrive until nobody holds them any more.
    memory: Arc<Budget>,
    metrics: Metrics,
}

impl PoolConfig {
    pub fn new(
        dialer: Dialer,
        credentials: Option<Credentials>,
        balance: Arc<Balance>,
        suspicion: Arc<Notify>,
    ) -> Self {
        Self {
            dialer,
            credentials,
            balance,
            suspicion,
            memory: Budget::new(usize::MAX),
            metrics: Metrics::register(),
        }
    }

    /// Replies that do not fit into this budget are not taken.
    pub fn within(self, memory: Arc<Budget>) -> Self {
        Self { memory, ..self }
    }

    /// A node has failed: it is left alone for a while, and the control connection checks it.
    fn left_alone(&self, address: SocketAddr) {
        self.balance.failed(address, std::time::Instant::now());
        self.suspicion.notify_one();
    }
}

/// Why a sub-read has no answer. Server texts may quote values, so no message contains them.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error("no node could be reached in time")]
    Unreachable,
    #[error("connection to {0} ended before the request was sent")]
    Unsent(SocketAddr),
    #[error("{0} gave no answer in time")]
    Timeout(SocketAddr),
    #[error("connection to {0} broke")]
    Broken(SocketAddr),
    #[error("{address} answered 0x{code:04x}")]
    Refused {
        address: SocketAddr,
        code: i32,
        text: String,
    },
    #[error("the statement's columns have changed since it was prepared")]
    Changed,
    #[error("there is no room for the reply")]
    NoRoom,
    #[error("{address} broke the CQL protocol: {source}")]
    Protocol {
        address: SocketAddr,
        source: ProtocolError,
    },
    #[error("request cannot be encoded: {0}")]
    Encode(ProtocolError),
}

impl PoolError {
    /// Whether a read met more tombstones or more data than a node allows: a smaller read may succeed, the same never
    /// will.
    pub fn is_too_much(&self) -> bool {
        const READ_FAILURE: i32 = 0x1300;
        matches!(self, Self::Refused { code: READ_FAILURE, text, .. } if read_failure(text) != ReadFailure::Other)
    }

    /// Whether the server refuses the request itself or the role that sent it: syntax, permissions, unknown names.
    pub fn is_refused_for_good(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: 0x2000..=0x22FF,
                ..
            }
        )
    }

    /// Whether another node may well answer: this one was lost, or is in trouble, or sees others in trouble. What has too
    /// many tombstones here has them everywhere.
    fn may_differ_elsewhere(&self) -> bool {
        match self {
            Self::Unreachable | Self::Unsent(_) | Self::Timeout(_) | Self::Broken(_) => true,
            // A server error, unavailable, overloaded, bootstrapping, a timeout or failure of a read.
            Self::Refused { code, .. } => {
                matches!(code, 0x0000 | 0x1000..=0x1002 | 0x1200 | 0x1300) && !self.is_too_much()
            }
            // Another node's reply would find no room either.
            Self::NoRoom => false,
            Self::Changed | Self::Protocol { .. } | Self::Encode(_) => false,
        }
    }
}

/// A request ready to be sent: flags and opcode of its header, and its body.
struct Request {
    kind: (u8, u8),
    body: Vec<u8>,
}

impl Request {
    fn execute(prepared: &Prepared, request: &SubRead<'_>) -> Result<Self, PoolError> {
        let body = request.encode(&prepared.id, &prepared.result_metadata_id);
        Ok(Self {
            kind: (request.header_flags(), opcode::EXECUTE),
            body: body.map_err(PoolError::Encode)?,
        })
    }
}

/// The connections of one thread.
pub struct Pool {
    config: Arc<PoolConfig>,
    nodes: RefCell<HashMap<SocketAddr, Rc<Node>>>,
    statements: RefCell<Statements>,
    known: RefCell<Known>,
    /// Moves on with every request, so that replicas take turns.
    turn: Cell<usize>,
    /// Limits how many late reads are repeated.
    allowance: RefCell<Allowance>,
}

impl Pool {
    pub fn new(config: Arc<PoolConfig>) -> Self {
        Self {
            config,
            nodes: RefCell::default(),
            statements: RefCell::new(Statements::new(STATEMENTS_MAX)),
            known: RefCell::default(),
            turn: Cell::new(0),
            allowance: RefCell::default(),
        }
    }

    /// Executes a statement on the best node of `route`, or on any other node of our data centre. It is sent once.
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        request: &SubRead<'_>,
        route: &[SocketAddr],
        within: Duration,
    ) -> Result<SubReply, PoolError> {
        let request = Request::execute(prepared, request)?;
        let statements = std::slice::from_ref(prepared);
        self.sent(statements, &request, route, after(within)).await
    }

    /// Sends a BATCH of these statements, by the same rules.
    pub async fn batch(
        &self,
        statements: &[Arc<Prepared>],
        body: &[u8],
        route: &[SocketAddr],
        within: Duration,
    ) -> Result<SubReply, PoolError> {
        let request = Request {
            kind: (0, opcode::BATCH),
            body: body.to_vec(),
        };
        self.sent(statements, &request, route, after(within)).await
    }

    async fn sent(
        &self,
        statements: &[Arc<Prepared>],
        request: &Request,
        route: &[SocketAddr],
        deadline: Instant,
    ) -> Result<SubReply, PoolError> {
        let mut result = Err(PoolError::Unreachable);
        for _ in 0..ATTEMPTS_MAX {
            result = match self.link(route, deadline).await {
                Ok(link) => self.asked(&link, statements, request, deadline).await,
                Err(error) => Err(error),
            };
            if !matches!(result, Err(PoolError::Unsent(_))) {
                break;
            }
        }
        self.ended(statements, &result);
        result
    }

    /// Takes note of how an EXECUTE or BATCH ended.
    fn ended(&self, statements: &[Arc<Prepared>], result: &Result<SubReply, PoolError>) {
        if matches!(result, Err(PoolError::Changed)) {
            let mut known = self.statements.borrow_mut();
            statements.iter().for_each(|stale| known.forget(stale));
        }
        self.config.metrics.ended(result);
    }

    /// Asks on this connection, and prepares there what the node does not know.
    async fn asked(
        &self,
        link: &Link,
        statements: &[Arc<Prepared>],
        request: &Request,
        deadline: Instant,
    ) -> Result<SubReply, PoolError> {
        let mut answer = self.ask_on(link, statements, request, deadline).await;
        for _ in 1..PREPARATIONS_MAX {
            match &answer {
                // A statement was evicted, the table altered or the node restarted. Nothing has been executed, so
                // prepare again and retry.
                Err(PoolError::Refused { code, .. }) if *code == ErrorCode::Unprepared as i32 => {
                    answer = self.ask_on(link, statements, request, deadline).await;
                }
                _ => break,
            }
        }
        answer
    }

    async fn ask_on(
        &self,
        link: &Link,
        statements: &[Arc<Prepared>],
        request: &Request,
        deadline: Instant,
    ) -> Result<SubReply, PoolError> {
        let mut since = Vec::with_capacity(statements.len());
        for prepared in statements {
            since.push(self.made_known(link, prepared, deadline).await?);
        }
        self.count_execute(link.address());
        let began = Instant::now();
        let reply = link
            .ask(request.kind, request.body.clone(), deadline)
            .await?;
        if let [prepared] = statements {
            let mut known = self.statements.borrow_mut();
            known.took(&prepared.text, began.elapsed());
        }
        let answer = reply::answered(link.address(), reply);
        if let Err(PoolError::Refused { code, .. }) = &answer
            && *code == ErrorCode::Unprepared as i32
        {
            for (prepared, since) in statements.iter().zip(since) {
                link.forget(&prepared.id, since);
            }
        }
        answer
    }

    /// Prepares a statement on a node that does not have it. Returns the number of its preparation there.
    async fn made_known(
        &self,
        link: &Link,
        prepared: &Arc<Prepared>,
        deadline: Instant,
    ) -> Result<u64, PoolError> {
        if let Some(since) = link.knows(&prepared.id) {
            return Ok(since);
        }
        let found = self.prepare_on(link, &prepared.text, deadline).await?;
        // The caller's copy describes other columns than the node would return.
        if found.id != prepared.id || found.result_metadata_id != prepared.result_metadata_id {
            return Err(PoolError::Changed);
        }
        link.knows(&prepared.id).ok_or(PoolError::Changed)
    }

    async fn prepare_on(
        &self,
        link: &Link,
        text: &str,
        deadline: Instant,
    ) -> Result<Arc<Prepared>, PoolError> {
        let address = link.address();
        let known = self.statements.borrow_mut().get(text);
        if let Some(known) = known
            && link.knows(&known.id).is_some()
        {
            return Ok(known);
        }
        self.config.metrics.prepares.increment(1);
        let body = query::encode_prepare(Version::V5, text, None);
        let reply = link.ask((0, opcode::PREPARE), body, deadline).await?;
        let message = reply::answered(address, reply)?.body;
        let prepared = reply::prepared(&message, text)
            .map_err(|source| PoolError::Protocol { address, source })?;
        link.learn(&prepared.id);
        Ok(self.statements.borrow_mut().remember(prepared))
    }

    /// Prepares a client's statement on one node. Returns the node's reply, whatever it is.
    pub async fn prepare_in(
        &self,
        address: SocketAddr,
        text: &str,
        keyspace: &str,
        within: Duration,
    ) -> Result<Envelope, PoolError> {
        let (node, deadline) = (self.node(address), after(within));
        let link = match node.link() {
            None if node.is_resting() => None,
            _ => node.opened(&self.config, deadline).await,
        };
        let link = link.ok_or(PoolError::Unreachable)?;
        self.config.metrics.prepares.increment(1);
        let body = query::encode_prepare(Version::V5, text, Some(keyspace));
        let (reply, _) = link.ask((0, opcode::PREPARE), body, deadline).await?;
        Ok(reply)
    }

    fn count_execute(&self, address: SocketAddr) {
        if let Some(node) = self.nodes.borrow().get(&address) {
            node.executes.set(node.executes.get() + 1);
        }
    }

    /// How many EXECUTE and BATCH requests this thread has sent to each node.
    pub fn executes(&self) -> HashMap<SocketAddr, u64> {
        let nodes = self.nodes.borrow();
        let counts = nodes.iter().map(|(at, node)| (*at, node.executes.get()));
        counts.collect()
    }
}

/// The deadline after `within`, which is capped because an endless wait would overflow.
fn after(within: Duration) -> Instant {
    Instant::now() + within.min(WAIT_MAX)
}
