//! Requests that concern watched tables.
//!
//! Writes are forwarded only while the knowledge of what is split is fresh enough: a stale proxy asks for one refresh that
//! all share, waits shortly, and otherwise refuses with 0x1001 before anything was forwarded. Reads are in
//! `split`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Close;
use super::pending::{Held, Taken};
use super::session::Session;
use crate::known::freshness::Age;
use crate::known::{Known, Watched};
use crate::protocol::Envelope;
use crate::protocol::header::opcode;
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::splitter::{Verdict, View};
use crate::statement::Touches;
use crate::statement::touches::{Change, Name};

/// How long a write waits for a refresh; drivers give up after seconds.
const REFRESH_PATIENCE: Duration = Duration::from_millis(500);
const SCHEMA_POLL: Duration = Duration::from_millis(20);
/// A held write that cannot even begin to go out in this time ends its session: upstream takes nothing any more.
const HELD_PATIENCE: Duration = Duration::from_secs(30);

/// What must be known better before a write may go on.
pub(super) enum Stale {
    /// Which tables are watched at all.
    Catalog,
    /// What is split of these tables.
    Tables(Vec<Arc<Watched>>),
    /// What the partition key of a table is that has splits, or closes its partitions.
    Schema,
}

/// The tables of a statement, with the keyspace of its unqualified names where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Concern {
    Nothing,
    Reads {
        keyspace: String,
        table: String,
    },
    /// Without a keyspace a name may be of any: a USE under way decides, or upstream refuses it.
    Writes(Vec<Name>),
    Changes(Change, Name),
    DropsKeyspace(String),
    WritesAnything,
}

impl Concern {
    pub(super) fn new(touches: Touches, keyspace: Option<&str>) -> Self {
        let full = |name: Name| Name {
            keyspace: name.keyspace.or_else(|| keyspace.map(str::to_owned)),
            ..name
        };
        match touches {
            Touches::Nothing => Self::Nothing,
            Touches::Reads(name) => match full(name) {
                Name {
                    keyspace: Some(keyspace),
                    table,
                } => Self::Reads { keyspace, table },
                _ => Self::Nothing,
            },
            Touches::Writes(names) => {
                let names: Vec<Name> = names.into_iter().map(full).collect();
                match names.iter().all(is_systems_own) {
                    true => Self::Nothing,
                    false => Self::Writes(names),
                }
            }
            Touches::Changes(how, name) => Self::Changes(how, full(name)),
            Touches::DropsKeyspace(keyspace) => Self::DropsKeyspace(keyspace),
            Touches::WritesAnything => Self::WritesAnything,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Reads { .. })
    }

    /// What the statements of one batch write together.
    pub(super) fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (_, Self::Nothing) => {}
            (Self::Nothing, other) => *self = other.clone(),
            (Self::Writes(names), Self::Writes(more)) => {
                // Most batches stay in one table.
                let is_news = |name: &&Name| names.last() != Some(name);
                let news: Vec<Name> = more.iter().filter(is_news).cloned().collect();
                names.extend(news);
            }
            (_, _) => *self = Self::WritesAnything,
        }
    }

    /// The watched tables that it writes, as far as is known.
    pub(super) fn written(&self, known: &Known) -> Vec<Arc<Watched>> {
        match self {
            Self::Nothing | Self::Reads { .. } => Vec::new(),
            Self::Writes(names) => match names.as_slice() {
                [name] => named(name, known),
                names => names.iter().flat_map(|name| named(name, known)).collect(),
            },
            Self::Changes(_, name) => named(name, known),
            Self::DropsKeyspace(keyspace) => {
                let mut tables = known.tables();
                tables.retain(|watched| watched.name().keyspace == *keyspace);
                tables
            }
            Self::WritesAnything => known.tables(),
        }
    }

    /// What is not known well enough for this to be forwarded.
    pub(super) fn stale(&self, known: &Known, tables: &[Arc<Watched>]) -> Option<Stale> {
        if !self.is_write() {
            return None;
        }
        if known.catalog.age() != Age::Fresh {
            return Some(Stale::Catalog);
        }
        let is_stale = |watched: &&Arc<Watched>| watched.freshness.age() != Age::Fresh;
        let stale: Vec<_> = tables.iter().filter(is_stale).cloned().collect();
        if !stale.is_empty() {
            return Some(Stale::Tables(stale));
        }
        let is_undescribed = |watched: &Arc<Watched>| {
            let asks_for_keys = !watched.has_no_splits() || watched.settings().closes();
            !watched.is_described() && asks_for_keys
        };
        let wants_keys = matches!(self, Self::Writes(_));
        (wants_keys && tables.iter().any(is_undescribed)).then_some(Stale::Schema)
    }
}

fn named(name: &Name, known: &Known) -> Vec<Arc<Watched>> {
    match &name.keyspace {
        Some(keyspace) => known.table(keyspace, &name.table).into_iter().collect(),
        None => {
            let mut tables = known.tables();
            tables.retain(|watched| watched.name().table == name.table);
            tables
        }
    }
}

/// Cassandra's own keyspaces are never watched, and logins must go on whatever else is unknown.
fn is_systems_own(name: &Name) -> bool {
    const OWN: [&str; 7] = [
        "system",
        "system_schema",
        "system_auth",
        "system_distributed",
        "system_traces",
        "system_views",
        "system_virtual_schema",
    ];
    let keyspace = name.keyspace.as_deref();
    keyspace.is_some_and(|keyspace| OWN.contains(&keyspace))
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
            // Nobody tells when it is there.
            Self::Schema => sleep(SCHEMA_POLL.min(rest())).await,
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
        self.begin_beside(async move {
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
    async fn release_or_refuse(self: &Rc<Self>, mut stale: Stale, request: Envelope, held: Held) {
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
                Judged::Taken(Taken::LateWrite(late)) => {
                    return self.begin_late_write(request, *late);
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
            Self::Schema => Age::Unknown,
        };
        match age {
            Age::Unknown => NOT_KNOWN,
            Age::Stale | Age::Fresh => NOT_LATELY,
        }
    }
}

const NOT_KNOWN: &str = "narrows: what is split is not known yet, so this write cannot be made safely; it was not forwarded, try again";
pub(super) const NOT_LATELY: &str = "narrows: the control keyspace could not be read lately, so this write cannot be made safely; \
    it was not forwarded, try again";
const TOO_MUCH: &str =
    "narrows: too many writes wait for the control keyspace; this one was not forwarded, try again";
