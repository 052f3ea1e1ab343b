//! Whether a write might touch what is guarded or split: its keys, the filter. Runs for every write to a watched table, so
//! the common case (it does not) ends after a hash and a look into the filter.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::touched::{Keys, Touched};
use super::{InFlight, Kind, LateWrite, Named, NotUnderstood};
use crate::known::retire::Retirer;
use crate::known::service::WideRow;
use crate::known::{Known, Watched};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::splitter::View;
use crate::protocol::types::Value;
use crate::proxy::pending::{Held, Pending};
use crate::proxy::prepared::Statement;
use crate::proxy::session::Session;
use crate::proxy::watching::Concern;
use crate::rewrite::written::Written;
use crate::schema::TableSchema;
use crate::statement::touches;

/// Writes at a time on one connection that wait for what is split of their partitions.
const LATE_MAX: usize = 4096;
/// Keys of a write that is on its way may take this much before they count as what is held.
const KEYS_FREE_BYTES: usize = 64 << 10;

/// A write, as a session knows it.
pub(super) struct Considered {
    pub(super) touched: Touched,
    pub(super) named: Named,
    pub(super) kind: Kind,
    /// Of the statements whose keys cannot be told.
    pub(super) not_understood: Vec<NotUnderstood>,
    /// The connection's keyspace, where a statement needs one.
    pub(super) keyspace: Option<String>,
    pub(super) request_bytes: usize,
}

/// What becomes of it.
pub(in crate::proxy) enum Considering {
    /// It is forwarded, and its reply is looked at.
    Watch(Box<InFlight>),
    Take(Box<LateWrite>),
    /// There is no room for it.
    TooMany,
}

/// What one statement touches of one table.
pub(super) struct Statements {
    pub(super) table_id: Option<Uuid>,
    pub(super) keys: Keys,
    pub(super) is_simple: bool,
}

impl Statements {
    /// `written`: what the statement means for this schema.
    pub(super) fn new(
        watched: &Watched,
        written: impl FnOnce(&Arc<TableSchema>) -> Option<Arc<Written>>,
        values: &[(Option<&str>, Value<'_>)],
    ) -> Self {
        let table_id = watched.table_id();
        let unclear = |keys: Keys| Self {
            table_id,
            keys,
            is_simple: false,
        };
        let Some(schema) = watched.key_schema() else {
            return unclear(Keys::NoSchema);
        };
        let Some(written) = written(&schema) else {
            return unclear(Keys::Unknown);
        };
        let Some(keys) = written.keys(values) else {
            return unclear(Keys::Unknown);
        };
        Self {
            is_simple: written.is_single() && !written.is_conditional() && keys.len() < 2,
            table_id,
            keys: Keys::Known(keys),
        }
    }
}

impl Session {
    pub(super) fn consider_write(&self, wide_row: &WideRow, considered: Considered) -> Considering {
        let Considered {
            touched,
            named,
            kind,
            not_understood,
            keyspace,
            request_bytes,
        } = considered;
        let key_bytes = touched.key_bytes();
        if touched.is_clear() && !touched.is_past_accept_limit() {
            let mut room = None;
            if key_bytes > KEYS_FREE_BYTES {
                room = self.proxy.held_writes.reserve(key_bytes);
                if room.is_none() {
                    return Considering::TooMany;
                }
            }
            let (guards, rights) = (wide_row.retirer.clone(), self.rights_to_have());
            let in_flight = InFlight::new(touched, named, kind, guards, rights);
            return Considering::Watch(Box::new(in_flight.keeping(room)));
        }
        let held = Held::begin(&self.writing, LATE_MAX);
        let bytes = self.proxy.held_writes.reserve(request_bytes + key_bytes);
        let (Some(held), Some(bytes)) = (held, bytes) else {
            return Considering::TooMany;
        };
        Considering::Take(Box::new(LateWrite {
            touched,
            named,
            guards: wide_row.retirer.clone(),
            kind,
            not_understood,
            keyspace,
            room: bytes,
            _held: held,
        }))
    }
}

/// Writes that touch nothing which is split, as a session passes them. Public so that their cost can be measured: everybody
/// who writes pays it.
pub struct WatchedWrites {
    guards: Arc<Retirer>,
    concern: Arc<Concern>,
    pending: RefCell<HashMap<i16, Pending>>,
}

impl WatchedWrites {
    /// `text`: the statement that is executed again and again.
    pub fn new(guards: Arc<Retirer>, text: &str) -> Self {
        Self {
            guards,
            concern: Arc::new(Concern::new(touches(text), None)),
            pending: RefCell::default(),
        }
    }

    /// An EXECUTE and its reply; `false` if either goes further than the filter.
    pub fn pass(
        &self,
        (known, watched): (&Known, &Arc<Watched>),
        statement: &Statement,
        parameters: &Parameters<'_>,
        reply: View<'_>,
    ) -> bool {
        let named = Named::new(self.concern.clone(), known.list());
        let written = |schema: &_| statement.written(schema);
        let statements = Statements::new(watched, written, &parameters.values);
        let kind = Kind::Write {
            consistency: parameters.consistency,
            is_simple: statements.is_simple,
            changes_schema: false,
        };
        let mut touched = Touched::default();
        touched.add(watched, statements.table_id, statements.keys);
        if !touched.is_clear() || touched.is_past_accept_limit() {
            return false;
        }
        let in_flight = InFlight::new(touched, named, kind, self.guards.clone(), None);
        self.reply(known, in_flight, reply)
    }

    /// The same of a table that nobody watches.
    pub fn pass_unwatched(&self, known: &Known, reply: View<'_>) -> bool {
        let named = Named::new(self.concern.clone(), known.list());
        let tables = self.concern.written(known);
        if !tables.is_empty() || self.concern.stale(known, &tables).is_some() {
            return false;
        }
        let in_flight = InFlight::unwatched(named, false, self.guards.clone(), None);
        self.reply(known, in_flight, reply)
    }

    fn reply(&self, known: &Known, in_flight: InFlight, reply: View<'_>) -> bool {
        let mut pending = self.pending.borrow_mut();
        pending.insert(reply.header.stream, Pending::Write(Box::new(in_flight)));
        match pending.remove(&reply.header.stream) {
            Some(Pending::Write(mut in_flight)) => {
                in_flight.passes(known, reply.header, reply.body)
            }
            _ => false,
        }
    }
}
