//! Requests that concern watched tables.
//!
//! Writes are forwarded only while the knowledge of what is split is fresh enough: a stale proxy asks for one refresh that
//! all share, waits shortly, and otherwise refuses with 0x1001 before anything was forwarded. Reads are checked against
//! the filter; what might be split is looked up beside the request, which goes to the original as it came.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::pending::{Held, Taken};
use super::session::Session;
use crate::filter::Target;
use crate::protocol::Envelope;
use crate::protocol::header::opcode;
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::splitter::{Verdict, View};
use crate::protocol::types::Value;
use crate::statement::Touches;
use crate::statement::touches::Name;
use crate::wide_row::freshness::Age;
use crate::wide_row::known::{Known, Watched};
use crate::wide_row::names::PartitionKey;
use crate::wide_row::service::WideRow;

/// How long a write waits for a refresh; drivers give up after seconds.
const REFRESH_PATIENCE: Duration = Duration::from_millis(500);
/// Look-ups beside requests at a time; more are left out, as nobody waits for them.
const LOOKUPS_MAX: usize = 64;

/// What must be known better before a write may go on.
pub(super) enum Stale {
    /// Which tables are watched at all.
    Catalog,
    /// What is split of these tables.
    Tables(Vec<Arc<Watched>>),
}

/// The tables of a statement, once it is known which keyspace its unqualified names are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Concern {
    Nothing,
    Reads { keyspace: String, table: String },
    Writes(Vec<(String, String)>),
    WritesKeyspace(String),
    WritesAnything,
}

impl Concern {
    pub(super) fn new(touches: Touches, keyspace: Option<&str>) -> Self {
        let full = |name: Name| {
            let keyspace = name.keyspace.or_else(|| keyspace.map(str::to_owned));
            keyspace.map(|keyspace| (keyspace, name.table))
        };
        match touches {
            Touches::Nothing => Self::Nothing,
            Touches::Reads(name) => full(name).map_or(Self::Nothing, |(keyspace, table)| {
                Self::Reads { keyspace, table }
            }),
            Touches::Writes(names) => {
                let names: Option<Vec<_>> = names.into_iter().map(full).collect();
                match names {
                    // A USE under way decides which keyspace it is.
                    None => Self::WritesAnything,
                    Some(names) if names.iter().all(|(keyspace, _)| is_systems_own(keyspace)) => {
                        Self::Nothing
                    }
                    Some(names) => Self::Writes(names),
                }
            }
            Touches::WritesKeyspace(keyspace) => Self::WritesKeyspace(keyspace),
            Touches::WritesAnything => Self::WritesAnything,
        }
    }

    /// What is not known well enough for this to be forwarded.
    pub(super) fn stale(&self, known: &Known) -> Option<Stale> {
        let tables = match self {
            Self::Nothing | Self::Reads { .. } => return None,
            _ if known.catalog.age() != Age::Fresh => return Some(Stale::Catalog),
            Self::Writes(names) => names
                .iter()
                .filter_map(|(keyspace, table)| known.table(keyspace, table))
                .collect(),
            Self::WritesKeyspace(keyspace) => {
                let mut tables = known.tables();
                tables.retain(|watched| watched.name().keyspace == *keyspace);
                tables
            }
            Self::WritesAnything => known.tables(),
        };
        let is_stale = |watched: &Arc<Watched>| watched.freshness.age() != Age::Fresh;
        let stale: Vec<_> = tables.into_iter().filter(is_stale).collect();
        (!stale.is_empty()).then_some(Stale::Tables(stale))
    }
}

/// Cassandra's own keyspaces are never watched, and logins must go on whatever else is unknown.
fn is_systems_own(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

impl Stale {
    /// Waits for a refresh that all who wait share.
    async fn wait(&self, known: &Known) -> Age {
        let deadline = Instant::now() + REFRESH_PATIENCE;
        let rest = || deadline.saturating_duration_since(Instant::now());
        let mut age = known.catalog.wait(rest()).await;
        if let Self::Tables(tables) = self {
            for watched in tables {
                if age == Age::Fresh {
                    age = watched.freshness.wait(rest()).await;
                }
            }
        }
        age
    }
}

impl Session {
    /// Waits beside the session's other requests, then forwards or refuses.
    pub(super) fn hold_write(
        self: &Rc<Self>,
        wide_row: WideRow,
        stale: Stale,
        request: Envelope,
        held: Held,
    ) {
        let session = self.clone();
        tokio::task::spawn_local(async move {
            let _held = held;
            let age = stale.wait(&wide_row.known).await;
            if age == Age::Fresh && session.forward_held(&request).await {
                session.proxy.metrics.held_writes_released.increment(1);
                return;
            }
            session.proxy.metrics.held_writes_refused.increment(1);
            let body = error::encode(ErrorCode::Overloaded, refusal(age));
            // A client that has gone needs no reply.
            drop(
                session
                    .reply(request.header.stream, 0, opcode::ERROR, body)
                    .await,
            );
        });
    }

    /// Whether the request could go on; one that has to wait again is not tried twice.
    async fn forward_held(&self, request: &Envelope) -> bool {
        let view = View {
            header: request.header,
            body: &request.body,
            complete: true,
        };
        if self.closed.get() {
            return true;
        }
        match self.judge_request(view) {
            Verdict::Forward => {
                self.proxy.metrics.forwarded.increment(1);
                // If upstream is gone, the session ends by that.
                drop(self.send_upstream(request).await);
                true
            }
            _ => match self.taken.borrow_mut().pop_back() {
                Some(Taken::Refused(_) | Taken::PrepareFirst(_) | Taken::HoldWrite(..)) | None => {
                    false
                }
            },
        }
    }

    /// Looks a partition up beside the request that reads it.
    pub(super) fn consider_read(
        &self,
        wide_row: &WideRow,
        watched: Arc<Watched>,
        key: PartitionKey,
    ) {
        if !watched.might_be_split(&Target::key(key.bytes())) {
            return;
        }
        let Some(held) = Held::begin(&self.lookups, LOOKUPS_MAX) else {
            return;
        };
        let lookup = wide_row.lookup.clone();
        tokio::task::spawn_local(async move {
            let _held = held;
            lookup.find(&watched, &key).await;
        });
    }
}

fn refusal(age: Age) -> &'static str {
    match age {
        Age::Unknown => {
            "narrows: what is split is not known yet, so this write cannot be made safely; it was not forwarded, try again"
        }
        Age::Stale | Age::Fresh => {
            "narrows: the control keyspace could not be read lately, so this write cannot be made safely; it was not \
             forwarded, try again"
        }
    }
}

/// The partition key, if all of its columns are bound.
pub(super) fn bound_key(
    indices: &[u16],
    values: &[(Option<&str>, Value<'_>)],
) -> Option<PartitionKey> {
    let component = |index: &u16| match values.get(usize::from(*index)) {
        // Named values may come in any order.
        Some((None, Value::Bytes(bytes))) => Some(*bytes),
        _ => None,
    };
    let components: Option<Vec<&[u8]>> = indices.iter().map(component).collect();
    PartitionKey::from_components(&components?)
}
