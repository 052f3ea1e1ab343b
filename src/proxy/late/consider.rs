//! Decides whether a write might touch a guarded or split partition: by its keys and the filter. This runs for every
//! write, so the common case (it does not) ends after a hash and a look into the filter.

use std::borrow::Cow;
use std::sync::Arc;

use super::checker::WriteChecker;
use super::gather::{Gathered, Touching};
use super::in_flight::InFlight;
use super::late_write::{Kind, LateWrite};
use super::named::Named;
use super::touched::Keys;
use crate::known::{Known, ListVersion, Owner, Watched};
use crate::protocol::ProtocolError;
use crate::protocol::header::Header;
use crate::protocol::request::batch;
use crate::protocol::request::parameters::Parameters;
use crate::protocol::response::error::ErrorCode;
use crate::protocol::types::Cursor;
use crate::proxy::agreement;
use crate::proxy::concern::{Concern, Stale};
use crate::proxy::decision::{Decision, Taken};
use crate::proxy::held::Held;
use crate::proxy::pending::Pending;
use crate::proxy::prepared::Statement;
use crate::proxy::source::{Asking, Source};
use crate::proxy::wire::{Stage, Wire};
use crate::schema::names::{PartitionKey, TableName};
use crate::statement::{Shape, touches};

/// Maximum number of writes per connection that wait until splits are retired.
const LATE_MAX: usize = 4096;
/// The keys of a write in flight may take this much memory before they count against the budget.
const KEYS_FREE_BYTES: usize = 64 << 10;

type Result<T> = std::result::Result<T, ProtocolError>;

impl WriteChecker {
    /// A QUERY or an EXECUTE that writes.
    pub(in crate::proxy) fn consider<'a>(
        &self,
        asking: &Asking<'a>,
        parameters: impl FnOnce() -> Result<Parameters<'a>>,
    ) -> Result<Decision> {
        let known = &self.wide_row.known;
        let (list, tables) = (known.list(), asking.concern.written(known));
        let refused = self.hold_if_stale(&asking.concern, &tables);
        if let Some(decision) = refused.or_else(|| self.protect(&asking.concern)) {
            return Ok(decision);
        }
        let named = self
            .named(asking.concern.clone(), list)
            .or_anywhere(asking.anywhere.clone());
        let changes_schema =
            *asking.shape == Shape::SchemaChange && agreement::is_ours(&self.wire.proxy);
        if tables.is_empty() {
            return Ok(self.watch_unwatched(named, changes_schema));
        }
        let parameters = parameters()?;
        let mut gathered = Gathered {
            is_simple: true,
            ..Gathered::default()
        };
        gathered.add(
            &tables,
            &Touching {
                source: &asking.source,
                concern: &asking.concern,
                values: &parameters.values,
            },
        );
        let kind = Kind::Write {
            consistency: parameters.consistency,
            is_simple: gathered.is_simple,
            changes_schema,
        };
        let keyspace = self.keyspace_if(asking.source.is_text() && parameters.keyspace.is_none());
        Ok(self.decide(gathered, named, kind, keyspace, asking.header))
    }

    /// A BATCH whose statements are all known. It touches what any of them touches.
    pub(in crate::proxy) fn consider_batch(
        &self,
        header: Header,
        message: &Cursor<'_>,
    ) -> Result<Decision> {
        let known = &self.wide_row.known;
        let list = known.list();
        let batch = Batch::read(&self.wire, message)?;
        let (mut is_watched, mut is_short) = (false, false);
        let (mut all, mut all_anywhere) = (Concern::Nothing, Concern::Nothing);
        for statement in &batch.statements {
            let BatchStatement {
                concern, anywhere, ..
            } = statement;
            // Not kept, because the list of a statement that may write anything is long. `gather` makes it again.
            let tables = concern.written(known);
            let refused = self.hold_if_stale(concern, &tables);
            if let Some(decision) = refused.or_else(|| self.protect(concern)) {
                return Ok(decision);
            }
            is_watched |= !tables.is_empty();
            is_short |= anywhere.is_some();
            all_anywhere.join(anywhere.as_ref().unwrap_or(concern));
            all.join(concern);
        }
        if !all.is_write() {
            // It writes only Cassandra's own tables.
            return Ok(Decision::Forward);
        }
        let anywhere = is_short.then(|| Arc::new(all_anywhere));
        let named = self.named(Arc::new(all), list).or_anywhere(anywhere);
        if !is_watched {
            return Ok(self.watch_unwatched(named, false));
        }
        let keyspace = self.wire.keyspace_of_names(batch.parameters.keyspace);
        let Some(gathered) = batch.gather(known, keyspace.as_deref())? else {
            return Ok(too_many());
        };
        let kind = Kind::Write {
            consistency: batch.parameters.consistency,
            is_simple: false,
            changes_schema: false,
        };
        let has_texts = batch
            .statements
            .iter()
            .any(|statement| statement.said.is_text());
        let keyspace = self.keyspace_if(has_texts && batch.parameters.keyspace.is_none());
        Ok(self.decide(gathered, named, kind, keyspace, header))
    }

    /// A serial read of one partition may finish an earlier conditional write on the original, so the partition's split
    /// is retired first. `None`: the partition is not split.
    pub(in crate::proxy) fn consider_serial_read(
        &self,
        watched: &Arc<Watched>,
        key: PartitionKey,
        header: Header,
    ) -> Option<Decision> {
        let mut gathered = Gathered::default();
        let keys = Keys::Known(vec![key]);
        gathered.touched.add(watched, watched.table_id(), keys);
        if gathered.touched.is_clear() {
            return None;
        }
        let list = self.wide_row.known.list();
        let named = self.named(Arc::new(Concern::Nothing), list);
        Some(self.decide(gathered, named, Kind::SerialRead, None, header))
    }

    /// A statement that changes how a table is kept. `None`: the table is no split table.
    pub(in crate::proxy) fn consider_configuring(&self, concern: &Concern) -> Option<Decision> {
        self.refuse_if_early().or_else(|| self.protect(concern))
    }

    /// Upstream may accept the client before we see its reply. Until then we can ask nothing on this connection, and tell
    /// nobody which tables are split tables.
    fn refuse_if_early(&self) -> Option<Decision> {
        let is_early = self.wire.stage.get() != Stage::Established;
        is_early.then(|| Decision::refuse(ErrorCode::Protocol, TOO_EARLY))
    }

    fn named(&self, concern: Arc<Concern>, list: ListVersion) -> Named {
        Named::new(concern, list, self.listed.clone())
    }

    /// A write waits until the proxy can tell what it touches.
    fn hold_if_stale(&self, concern: &Concern, tables: &[Arc<Watched>]) -> Option<Decision> {
        if concern.is_write()
            && let Some(refused) = self.refuse_if_early()
        {
            return Some(refused);
        }
        let stale = concern.stale(&self.wide_row.known, tables, &self.listed)?;
        Some(self.hold(stale))
    }

    fn hold(&self, stale: Stale) -> Decision {
        match self.wire.begin_held() {
            Some(held) => Decision::Take(Taken::HoldWrite(stale, held)),
            None => Decision::overloaded("writes that wait for the control keyspace"),
        }
    }

    /// Refuses a change of a split table: reads would be answered from it, and the audit finds the change only much
    /// later. The code is that of `late_writes = reject`. Unauthorized would send people to look for a missing grant.
    fn protect(&self, concern: &Concern) -> Option<Decision> {
        let (name, owner) = concern.split_table(&self.wide_row.known)?;
        Some(match owner {
            Owner::Unknown => self.hold(Stale::Schema(Vec::new())),
            // It may as well be a client's own table in another keyspace, so the refusal must not be final.
            Owner::Original(original) if name.keyspace.is_none() => {
                let text = format!(
                    "narrows: {} may be a table that holds splits of {original}; a USE that has no reply yet decides. This \
                     statement was not forwarded; try again, or name the keyspace in it",
                    name.table
                );
                Decision::refuse(ErrorCode::Overloaded, &text)
            }
            Owner::Original(original) => {
                let split_table = TableName::new(&original.keyspace, &name.table);
                let text = format!(
                    "narrows: {split_table} holds splits of {original}, and only Narrows changes it; change {original} \
                     instead, or retire its splits: narrows splits rollback --all {original}. This statement was not \
                     forwarded"
                );
                Decision::refuse(ErrorCode::Invalid, &text)
            }
        })
    }

    /// A write to tables that are not watched yet.
    fn watch_unwatched(&self, named: Named, changes_schema: bool) -> Decision {
        let (retirer, rights) = (self.wide_row.retirer.clone(), self.rights.to_have());
        let in_flight = InFlight::unwatched(named, changes_schema, retirer, rights);
        Decision::Watch(Pending::Write(Box::new(in_flight)))
    }

    /// The connection's keyspace, if a statement needs one.
    fn keyspace_if(&self, is_needed: bool) -> Option<String> {
        is_needed
            .then(|| self.wire.keyspace.borrow().clone())
            .flatten()
    }

    fn decide(
        &self,
        gathered: Gathered,
        named: Named,
        kind: Kind,
        keyspace: Option<String>,
        header: Header,
    ) -> Decision {
        let Gathered {
            touched,
            not_understood,
            ..
        } = gathered;
        let stale = match kind {
            Kind::Write { .. } => touched.stale(),
            Kind::SerialRead | Kind::Unwatched { .. } => None,
        };
        // Nothing of its tables is split, whatever the filter says.
        let is_listed = stale.is_some() && named.has_no_splits(&self.wide_row.known);
        if let Some(stale) = stale.filter(|_| !is_listed) {
            return self.hold(stale);
        }
        let (key_bytes, retirer) = (touched.key_bytes(), self.wide_row.retirer.clone());
        let held_writes = &self.wire.proxy.held_writes;
        if (is_listed || touched.is_clear()) && !touched.is_past_accept_limit() {
            let room = match key_bytes > KEYS_FREE_BYTES {
                false => None,
                true => match held_writes.reserve(key_bytes) {
                    None => return too_many(),
                    room => room,
                },
            };
            let in_flight = InFlight::new(touched, named, kind, retirer, self.rights.to_have());
            return Decision::Watch(Pending::Write(Box::new(in_flight.keeping(room))));
        }
        let held = Held::begin(&self.writing, LATE_MAX);
        let room = held_writes.reserve(header.length as usize + key_bytes);
        let (Some(held), Some(room)) = (held, room) else {
            return too_many();
        };
        Decision::Take(Taken::LateWrite(Box::new(LateWrite {
            touched,
            named,
            retirer,
            kind,
            not_understood,
            keyspace,
            room,
            held,
        })))
    }
}

/// A BATCH, parsed once.
struct Batch<'a> {
    statements: Vec<BatchStatement<'a>>,
    parameters: Parameters<'a>,
}

struct BatchStatement<'a> {
    said: Said<'a>,
    values: batch::Values<'a>,
    concern: Arc<Concern>,
    /// The tables of a text if upstream runs it in a keyspace other than the connection's.
    anywhere: Option<Arc<Concern>>,
}

enum Said<'a> {
    Prepared(Arc<Statement>),
    Text(Cow<'a, str>),
    /// Evicted a moment ago, so its tables are no longer known.
    Evicted,
}

impl Said<'_> {
    fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

impl<'a> Batch<'a> {
    fn read(wire: &Wire, message: &Cursor<'a>) -> Result<Self> {
        let mut parts = Vec::new();
        let rest = batch::each(message.clone(), |said, values| parts.push((said, values)))?;
        let parameters = batch::parameters(wire.version.get(), rest)?;
        let statement = |(said, values)| {
            let (said, concern, anywhere) = match said {
                batch::Statement::Prepared(id) => match wire.proxy.prepared.get(id) {
                    Some(statement) => {
                        let concern = statement.concern.clone();
                        (Said::Prepared(statement), concern, None)
                    }
                    None => (Said::Evicted, Arc::new(Concern::WritesAnything), None),
                },
                batch::Statement::Text(text) => {
                    let touched = touches(&text);
                    let anywhere = Concern::anywhere(&touched, parameters.keyspace);
                    let concern = wire.concern(touched, parameters.keyspace);
                    (Said::Text(text), Arc::new(concern), anywhere)
                }
            };
            BatchStatement {
                said,
                values,
                concern,
                anywhere,
            }
        };
        Ok(Self {
            statements: parts.into_iter().map(statement).collect(),
            parameters,
        })
    }

    /// `None`: one of its statements was evicted.
    fn gather(&self, known: &Known, keyspace: Option<&str>) -> Result<Option<Gathered>> {
        let mut gathered = Gathered::default();
        for statement in &self.statements {
            let source = match &statement.said {
                Said::Prepared(statement) => Source::Prepared(statement),
                Said::Text(text) => Source::Text { text, keyspace },
                Said::Evicted => return Ok(None),
            };
            let touching = Touching {
                source: &source,
                concern: &statement.concern,
                values: &statement.values.read()?,
            };
            gathered.add(&statement.concern.written(known), &touching);
        }
        Ok(Some(gathered))
    }
}

fn too_many() -> Decision {
    Decision::overloaded("writes to split partitions")
}

const TOO_EARLY: &str =
    "narrows: a change before the connection is established; wait for READY or AUTH_SUCCESS";
