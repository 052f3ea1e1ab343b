//! Requests that concern watched tables.
//!
//! Writes are forwarded only while the knowledge of what is split is fresh enough: a stale proxy asks for one refresh that
//! all share, waits shortly, and otherwise refuses with 0x1001 before anything was forwarded. Reads are in
//! `split`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Close;
use super::pending::{Held, Taken};
use super::session::Session;
use crate::protocol::Envelope;
use crate::protocol::header::opcode;
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::splitter::{Verdict, View};
use crate::statement::Touches;
use crate::statement::touches::Name;
use crate::wide_row::freshness::Age;
use crate::wide_row::known::{Known, Watched};

/// How long a write waits for a refresh; drivers give up after seconds.
const REFRESH_PATIENCE: Duration = Duration::from_millis(500);
/// A held write that cannot even begin to go out in this time ends its session: upstream takes nothing any more.
const HELD_PATIENCE: Duration = Duration::from_secs(30);

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
    const OWN: [&str; 7] = [
        "system",
        "system_schema",
        "system_auth",
        "system_distributed",
        "system_traces",
        "system_views",
        "system_virtual_schema",
    ];
    OWN.contains(&keyspace)
}

impl Stale {
    /// Waits for the refreshes that it needs, which all who wait share.
    async fn wait(&self, known: &Known, deadline: Instant) {
        let rest = || deadline.saturating_duration_since(Instant::now());
        match self {
            Self::Catalog => {
                known.catalog.wait(rest()).await;
            }
            Self::Tables(tables) => {
                for watched in tables {
                    watched.freshness.wait(rest()).await;
                }
            }
        }
    }
}

impl Session {
    /// Waits beside the session's other requests, then forwards or refuses. Gives the stream back if no more may be held.
    pub(super) fn hold_write(
        self: &Rc<Self>,
        stale: Stale,
        request: Envelope,
        held: Held,
    ) -> Result<(), i16> {
        let bytes = self.proxy.held_writes.reserve(request.body.len());
        let Some(bytes) = bytes else {
            return Err(request.header.stream);
        };
        let session = self.clone();
        tokio::task::spawn_local(async move {
            let _bytes = bytes;
            session.release_or_refuse(stale, request, held).await;
        });
        Ok(())
    }

    pub(super) fn too_many_held(&self) -> Vec<u8> {
        self.proxy.metrics.held_writes_refused.increment(1);
        error::encode(ErrorCode::Overloaded, TOO_MUCH)
    }

    /// Judges again after every wait: what it waits for may have been replaced, and more than one thing may be stale.
    async fn release_or_refuse(&self, mut stale: Stale, request: Envelope, held: Held) {
        let Some(wide_row) = &self.proxy.wide_row else {
            return;
        };
        let mut held = Some(held);
        let stream = request.header.stream;
        let deadline = Instant::now() + REFRESH_PATIENCE;
        loop {
            stale.wait(&wide_row.known, deadline).await;
            // Being judged again it must not stand in its own way.
            match self.judge_held(&request, &mut held).await {
                Judged::Forwarded => {
                    self.proxy.metrics.held_writes_released.increment(1);
                    return;
                }
                Judged::Ended => return,
                Judged::Taken(Taken::HoldWrite(still, place)) => {
                    if Instant::now() >= deadline {
                        drop(request);
                        self.proxy.metrics.held_writes_refused.increment(1);
                        let text = still.refusal(&wide_row.known);
                        let body = error::encode(ErrorCode::Overloaded, text);
                        return self.answer_held(stream, body).await;
                    }
                    stale = still;
                    held = Some(place);
                }
                Judged::Taken(Taken::PrepareFirst(statements)) => {
                    let prepared = timeout(HELD_PATIENCE, self.prepare_upstream(statements));
                    match prepared.await {
                        Ok(Ok(())) => {}
                        Ok(Err(id)) => {
                            return self.answer_held(stream, error::unprepared(&id)).await;
                        }
                        Err(_) => return self.close(Close::Upstream),
                    }
                }
                // A write is no read; whatever it is now, nobody would answer it.
                Judged::Taken(Taken::SplitRead(_)) => return self.close(Close::Panic),
                Judged::Taken(Taken::Refused(body)) => {
                    drop(request);
                    return self.answer_held(stream, body).await;
                }
            }
        }
    }

    /// Forwards the request if nothing stands against it, and says what does. The writer is locked before: freshness is
    /// judged when the request goes out, not when it begins to wait for those before it. Only the wait has a limit: a
    /// message that was begun must not be broken off.
    async fn judge_held(&self, request: &Envelope, held: &mut Option<Held>) -> Judged {
        let Ok(mut upstream) = timeout(HELD_PATIENCE, self.lock_upstream()).await else {
            self.close(Close::Upstream);
            return Judged::Ended;
        };
        if self.closed.get() {
            return Judged::Ended;
        }
        let view = View {
            header: request.header,
            body: &request.body,
            complete: true,
        };
        *held = None;
        if self.judge_request(view) != Verdict::Forward {
            // What was just left word of; requests behind this one may wait in front.
            let taken = self.taken.borrow_mut().pop_back();
            return taken.map_or(Judged::Ended, Judged::Taken);
        }
        self.proxy.metrics.forwarded.increment(1);
        // If upstream is gone, the session ends by that.
        drop(upstream.write_all(&self.framing.get().frame(request)).await);
        Judged::Forwarded
    }

    /// A client that has gone needs no reply.
    async fn answer_held(&self, stream: i16, body: Vec<u8>) {
        drop(self.reply(stream, 0, opcode::ERROR, body).await);
    }
}

/// What became of a held write when it was judged again.
enum Judged {
    Forwarded,
    Taken(Taken),
    /// The session is over.
    Ended,
}

impl Stale {
    fn refusal(&self, known: &Known) -> &'static str {
        let age = match self {
            Self::Catalog => known.catalog.age(),
            Self::Tables(tables) => tables
                .first()
                .map_or(Age::Stale, |table| table.freshness.age()),
        };
        match age {
            Age::Unknown => NOT_KNOWN,
            Age::Stale | Age::Fresh => NOT_LATELY,
        }
    }
}

const NOT_KNOWN: &str = "narrows: what is split is not known yet, so this write cannot be made safely; it was not forwarded, try again";
const NOT_LATELY: &str = "narrows: the control keyspace could not be read lately, so this write cannot be made safely; \
    it was not forwarded, try again";
const TOO_MUCH: &str =
    "narrows: too many writes wait for the control keyspace; this one was not forwarded, try again";
