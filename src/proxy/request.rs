//! Decides about what a client says: forward, remember why the reply matters, or refuse.
//!
//! Runs for every request, so the common case (EXECUTE of a known statement that nobody watches) reads an id and a map.

mod batch;
mod reads;

use std::sync::Arc;

use super::late::{self, InFlight, LateWrite, Named, Source};
use super::pending::{BoundValue, Held, Pending, Taken, TopologyRead};
use super::prepared::Statement;
use super::session::{Session, Stage};
use super::split::{Considering, SplitRead};
use super::watching::{Concern, Stale};
use crate::config::TopologyMode;
use crate::known::Watched;
use crate::known::service::WideRow;
use crate::protocol::header::{Header, Version, flag, opcode};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::request::{self, execute, query, startup};
use crate::protocol::response::error::{self, ErrorCode};
use crate::protocol::splitter::{Framing, Verdict, View};
use crate::protocol::types::{Cursor, Value};
use crate::protocol::{Compression, ProtocolError};
use crate::statement::{Shape, TopologySelect, Touches, classify, touches};

/// Replies that take work of ours, at a time on one connection; drivers have one or two.
const HELD_MAX: usize = 256;

type Result<T> = std::result::Result<T, ProtocolError>;

/// What a request asks of the session.
enum Decision {
    Forward,
    /// Forward, and look at the reply.
    Watch(Pending),
    /// Forward, now that the client's version and compression are known.
    Startup(Version, Option<Compression>),
    /// Answer with this ERROR body.
    Refuse(Vec<u8>, Refusal),
    /// Prepare these upstream, then decide again.
    PrepareFirst(Vec<Arc<Statement>>),
    /// Find out what is split, then decide again.
    HoldWrite(Stale, Held),
    /// Take what it touches out of its split, then forward it.
    LateWrite(Box<LateWrite>),
    /// Answer it from a split, or send it on.
    SplitRead(Box<SplitRead>),
}

/// Where the unqualified names of a request are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    InSystem,
    Elsewhere,
    /// A USE before it has no reply yet.
    Unsettled,
}

#[derive(Clone, Copy)]
enum Refusal {
    Unprepared,
    Rejected,
}

impl Session {
    /// The inspector of the request direction.
    pub(super) fn judge_request(&self, view: View<'_>) -> Verdict {
        let limit = self.proxy.config.limits.request_bytes;
        if view.header.length as usize > limit {
            // Cassandra's own words for its own limit; it keeps the connection, too.
            let length = view.header.length;
            let text = format!(
                "Request is too big: length {length} exceeds maximum allowed length {limit}."
            );
            self.leave_refusal(error::encode(ErrorCode::Invalid, &text), Refusal::Rejected);
            return Verdict::Discard;
        }
        // Taking a text or a batch apart anew with every byte that arrives would cost its square.
        if !view.complete && is_needed_whole(view.header) {
            return Verdict::More;
        }
        let decision = match self.decide(view.header, view.body) {
            Ok(
                Decision::Refuse(..)
                | Decision::PrepareFirst(_)
                | Decision::HoldWrite(..)
                | Decision::LateWrite(_)
                | Decision::SplitRead(_),
            ) if !view.complete => {
                return Verdict::More;
            }
            Ok(decision) => decision,
            // Not enough has arrived, or it is malformed; then upstream says so in its own words. Where writes must be noticed,
            // what upstream might understand otherwise does not go there.
            Err(_) if !view.complete => return Verdict::More,
            Err(error) if self.proxy.wide_row.is_some() && may_write(view.header) => {
                let body = error::encode(ErrorCode::Protocol, &format!("narrows: {error}"));
                Decision::Refuse(body, Refusal::Rejected)
            }
            Err(_) => Decision::Forward,
        };
        match decision {
            Decision::Forward => {}
            Decision::Watch(pending) => {
                self.pending
                    .borrow_mut()
                    .insert(view.header.stream, pending);
            }
            Decision::Startup(version, compression) => {
                self.version.set(version);
                self.compression.set(compression);
                self.framing.set(Framing::Bare(compression));
                self.requests.set(self.requests.get() + 1);
                return Verdict::ForwardThen(Framing::Bare(compression));
            }
            Decision::Refuse(body, refusal) => {
                self.leave_refusal(body, refusal);
                return Verdict::Take;
            }
            Decision::PrepareFirst(statements) => {
                self.taken
                    .borrow_mut()
                    .push_back(Taken::PrepareFirst(statements));
                return Verdict::Take;
            }
            Decision::HoldWrite(stale, held) => {
                let mut taken = self.taken.borrow_mut();
                taken.push_back(Taken::HoldWrite(stale, held));
                return Verdict::Take;
            }
            Decision::LateWrite(late) => {
                self.taken.borrow_mut().push_back(Taken::LateWrite(late));
                return Verdict::Take;
            }
            Decision::SplitRead(read) => {
                self.taken.borrow_mut().push_back(Taken::SplitRead(read));
                return Verdict::Take;
            }
        }
        self.requests.set(self.requests.get() + 1);
        Verdict::Forward
    }

    fn leave_refusal(&self, body: Vec<u8>, refusal: Refusal) {
        self.taken.borrow_mut().push_back(Taken::Refused(body));
        match refusal {
            Refusal::Unprepared => self.proxy.metrics.unprepared.increment(1),
            Refusal::Rejected => self.proxy.metrics.rejected.increment(1),
        }
    }

    fn decide(&self, header: Header, body: &[u8]) -> Result<Decision> {
        if header.stream < 0 {
            let text = format!("narrows: stream ids are not negative, {} is", header.stream);
            return Ok(Decision::Refuse(
                error::encode(ErrorCode::Protocol, &text),
                Refusal::Rejected,
            ));
        }
        if self.is_awaited(header.stream) {
            let text = format!(
                "narrows: stream id {} has a request under way",
                header.stream
            );
            return Ok(Decision::Refuse(
                error::encode(ErrorCode::Protocol, &text),
                Refusal::Rejected,
            ));
        }
        match header.opcode {
            opcode::EXECUTE => self.decide_execute(header, request::message(header, body)?),
            opcode::QUERY => self.decide_query(header, request::message(header, body)?),
            opcode::BATCH => self.decide_batch(header, request::message(header, body)?),
            opcode::PREPARE => self.decide_prepare(request::message(header, body)?),
            opcode::OPTIONS => Ok(Decision::Watch(Pending::Options)),
            // Once upstream has answered it, another one changes nothing.
            opcode::STARTUP if self.stage.get() == Stage::Opening => {
                let version = Version::from_byte(header.version).unwrap_or(self.version.get());
                let compression = startup::compression(request::message(header, body)?)?;
                Ok(Decision::Startup(version, compression))
            }
            _ => Ok(Decision::Forward),
        }
    }

    fn decide_execute(&self, header: Header, mut message: Cursor<'_>) -> Result<Decision> {
        let id = execute::id(&mut message)?;
        let Some(statement) = self.proxy.prepared.get(id) else {
            return Ok(Decision::Refuse(error::unprepared(id), Refusal::Unprepared));
        };
        self.forget_if_altered(&statement);
        if !statement.is_on(self.node) && self.stage.get() == Stage::Established {
            return Ok(Decision::PrepareFirst(vec![statement]));
        }
        if let Some(wide_row) = &self.proxy.wide_row {
            let (list, concern) = (wide_row.known.list(), &statement.concern);
            let tables = concern.written(&wide_row.known);
            if let Some(decision) = self.hold_if_stale(wide_row, concern, &tables) {
                return Ok(decision);
            }
            let named = || Named::new(concern.clone(), list);
            if !tables.is_empty() {
                let parameters = execute::parameters(self.version.get(), message)?;
                let source = (&Source::Prepared(&statement), &Shape::Other);
                let named = (named(), tables.as_slice());
                let write = self.consider_written(wide_row, source, named, header, &parameters);
                return Ok(decided_write(write));
            }
            if concern.is_write() {
                return Ok(self.unwatched(wide_row, named(), &statement.shape));
            }
            let considering = self.consider_execute(wide_row, &statement, header, &message)?;
            if let Some(decision) = decided(considering) {
                return Ok(decision);
            }
        }
        match &statement.shape {
            Shape::Other => Ok(Decision::Forward),
            shape => {
                let parameters = || execute::parameters(self.version.get(), message);
                self.decide_shape(shape.clone(), parameters)
            }
        }
    }

    /// A write waits while what is split is not known well enough.
    fn hold_if_stale(
        &self,
        wide_row: &WideRow,
        concern: &Concern,
        tables: &[Arc<Watched>],
    ) -> Option<Decision> {
        // Upstream may let the client in before we see that it has, and nothing can be asked on this connection meanwhile.
        if self.stage.get() != Stage::Established && concern.is_write() {
            return Some(too_early());
        }
        let stale = concern.stale(&wide_row.known, tables)?;
        Some(match Held::begin(&self.held, HELD_MAX) {
            Some(held) => Decision::HoldWrite(stale, held),
            None => overloaded("writes that wait for the control keyspace"),
        })
    }

    /// The tables of a text in a request that names this keyspace or none.
    pub(super) fn concern_of(&self, text: &str, named: Option<&str>) -> Concern {
        self.concern(touches(text), named)
    }

    /// The tables of a text, with the keyspace that the request or the connection names.
    fn concern(&self, touched: Touches, named: Option<&str>) -> Concern {
        match self.unqualified_names(named) {
            Names::Unsettled => Concern::new(touched, None),
            Names::InSystem | Names::Elsewhere => {
                let keyspace = self.keyspace.borrow();
                Concern::new(touched, named.or(keyspace.as_deref()))
            }
        }
    }

    fn decide_query(&self, header: Header, mut message: Cursor<'_>) -> Result<Decision> {
        let text = query::text(&mut message)?;
        let parameters = || Parameters::read(self.version.get(), &mut message.clone());
        // The keyspace that the request names itself comes first; without all of the request it cannot be told.
        let mut names = Ok(Names::Elsewhere);
        let shape = classify(&text, || {
            names = parameters().map(|parameters| self.unqualified_names(parameters.keyspace));
            names == Ok(Names::InSystem)
        });
        if names? == Names::Unsettled {
            return Ok(unsettled());
        }
        if let Some(wide_row) = &self.proxy.wide_row {
            let touched = touches(&text);
            if touched != Touches::Nothing {
                let parameters = parameters()?;
                let list = wide_row.known.list();
                let anywhere = anywhere(&touched, parameters.keyspace);
                let concern = Arc::new(self.concern(touched, parameters.keyspace));
                let tables = concern.written(&wide_row.known);
                if let Some(decision) = self.hold_if_stale(wide_row, &concern, &tables) {
                    return Ok(decision);
                }
                let named = || Named::new(concern.clone(), list).or_anywhere(anywhere);
                if !tables.is_empty() {
                    let keyspace = self.keyspace_of_names(parameters.keyspace);
                    let text = Source::Text {
                        text: &text,
                        keyspace: keyspace.as_deref(),
                    };
                    let named = (named(), tables.as_slice());
                    let write = (&text, &shape);
                    let write = self.consider_written(wide_row, write, named, header, &parameters);
                    return Ok(decided_write(write));
                }
                if concern.is_write() {
                    return Ok(self.unwatched(wide_row, named(), &shape));
                }
                let considering =
                    self.consider_query(wide_row, &concern, &text, header, &parameters);
                if let Some(decision) = decided(considering) {
                    return Ok(decision);
                }
            }
        }
        self.decide_shape(shape, parameters)
    }

    /// A write to tables that nobody watches, yet.
    fn unwatched(&self, wide_row: &WideRow, named: Named, shape: &Shape) -> Decision {
        let changes_schema = self.waits_for_agreement() && *shape == Shape::SchemaChange;
        let (guards, rights) = (wide_row.retirer.clone(), self.rights_to_have());
        let in_flight = InFlight::unwatched(named, changes_schema, guards, rights);
        Decision::Watch(Pending::Write(Box::new(in_flight)))
    }

    /// Drivers that see all nodes wait for agreement themselves.
    pub(super) fn waits_for_agreement(&self) -> bool {
        self.proxy.config.topology.mode == TopologyMode::Single
    }

    /// The keyspace of unqualified names, where that is settled.
    pub(super) fn keyspace_of_names(&self, named: Option<&str>) -> Option<String> {
        match self.unqualified_names(named) {
            Names::Unsettled => None,
            Names::InSystem | Names::Elsewhere => {
                let named = named.map(str::to_owned);
                named.or_else(|| self.keyspace.borrow().clone())
            }
        }
    }

    /// Where unqualified names are, for a request that names this keyspace or none.
    fn unqualified_names(&self, named: Option<&str>) -> Names {
        let is_use = |pending: &Pending| matches!(pending, Pending::Use);
        if named.is_none() && self.pending.borrow().values().any(is_use) {
            return Names::Unsettled;
        }
        match named.or(self.keyspace.borrow().as_deref()) {
            Some("system") => Names::InSystem,
            _ => Names::Elsewhere,
        }
    }

    fn decide_shape<'a>(
        &self,
        shape: Shape,
        parameters: impl FnOnce() -> Result<Parameters<'a>>,
    ) -> Result<Decision> {
        Ok(match shape {
            Shape::Other => Decision::Forward,
            Shape::Use => {
                self.unsettle_writes();
                Decision::Watch(Pending::Use)
            }
            Shape::SchemaChange if self.waits_for_agreement() => {
                self.watch_held(Pending::SchemaChange)
            }
            Shape::SchemaChange => Decision::Forward,
            Shape::Topology(select) if select.query.is_none() => not_understood(&select),
            Shape::Topology(select) => {
                let values = parameters()?.values.into_iter().map(bound_value).collect();
                self.proxy.metrics.topology.increment(1);
                self.watch_held(|held| Pending::Topology(TopologyRead { select, values }, held))
            }
        })
    }

    /// Upstream may run a USE before writes that were sent in front of it.
    fn unsettle_writes(&self) {
        for pending in self.pending.borrow_mut().values_mut() {
            if let Pending::Write(in_flight) = pending {
                in_flight.unsettle();
            }
        }
    }

    /// Watches for a reply that will take work of ours, unless too many do.
    fn watch_held(&self, pending: impl FnOnce(Held) -> Pending) -> Decision {
        match Held::begin(&self.held, HELD_MAX) {
            Some(held) => Decision::Watch(pending(held)),
            None => overloaded("schema changes and reads of system tables"),
        }
    }

    fn decide_prepare(&self, mut message: Cursor<'_>) -> Result<Decision> {
        let text = query::text(&mut message)?;
        let named = query::prepare_keyspace(self.version.get(), message)?;
        let mut names = Names::Elsewhere;
        let shape = classify(&text, || {
            names = self.unqualified_names(named);
            names == Names::InSystem
        });
        if names == Names::Unsettled {
            return Ok(unsettled());
        }
        let keyspace = self.keyspace.borrow();
        let mut statement = Statement::new(shape, &text, named.or(keyspace.as_deref()));
        if self.proxy.wide_row.is_some() {
            statement.concern = Arc::new(self.concern(touches(&text), named));
            statement.names_in = self.keyspace_of_names(named);
        }
        let pending = Pending::Prepare(Box::new(statement), named.is_some());
        Ok(Decision::Watch(pending))
    }
}

/// The tables of a text, should it not be run in the connection's keyspace. `None`: that makes no difference.
fn anywhere(touched: &Touches, named: Option<&str>) -> Option<Arc<Concern>> {
    let depends = named.is_none() && touched.has_short_names();
    depends.then(|| Arc::new(Concern::new(touched.clone(), None)))
}

fn decided_write(considering: late::Considering) -> Decision {
    match considering {
        late::Considering::Watch(in_flight) => Decision::Watch(Pending::Write(in_flight)),
        late::Considering::Take(late) => Decision::LateWrite(late),
        late::Considering::TooMany => overloaded("writes to split partitions"),
    }
}

/// `None`: nothing is decided yet.
fn decided(considering: Considering) -> Option<Decision> {
    match considering {
        Considering::Forward(sight) => sight.map(|sight| Decision::Watch(Pending::Sight(sight))),
        Considering::Take(read) => Some(Decision::SplitRead(read)),
        Considering::Serial(write) => Some(decided_write(write)),
        Considering::TooMany => Some(overloaded("reads of split partitions")),
    }
}

fn may_write(header: Header) -> bool {
    matches!(
        header.opcode,
        opcode::QUERY | opcode::EXECUTE | opcode::BATCH
    )
}

/// Whether a decision needs more than the beginning. Of an EXECUTE, the id is enough.
fn is_needed_whole(header: Header) -> bool {
    match header.opcode {
        opcode::QUERY | opcode::PREPARE | opcode::BATCH | opcode::STARTUP => true,
        opcode::EXECUTE => header.has(flag::CUSTOM_PAYLOAD),
        _ => false,
    }
}

fn overloaded(what: &str) -> Decision {
    let text = format!("narrows: too many {what} at once on this connection");
    Decision::Refuse(
        error::encode(ErrorCode::Overloaded, &text),
        Refusal::Rejected,
    )
}

fn too_early() -> Decision {
    let text =
        "narrows: a write before the connection is established; wait for READY or AUTH_SUCCESS";
    Decision::Refuse(error::encode(ErrorCode::Protocol, text), Refusal::Rejected)
}

/// Only for names of topology tables: what else they could mean must not be answered with real addresses.
fn unsettled() -> Decision {
    let text = "narrows: a USE on this connection has no reply yet, so it is not clear which table this reads; wait for it";
    Decision::Refuse(error::encode(ErrorCode::Invalid, text), Refusal::Rejected)
}

fn not_understood(select: &TopologySelect) -> Decision {
    let text = format!(
        "narrows: this form of SELECT on system.{} cannot be answered without showing real addresses; use columns, \
         functions, JSON or count(*) with WHERE column = value and LIMIT",
        select.table.name()
    );
    Decision::Refuse(error::encode(ErrorCode::Invalid, &text), Refusal::Rejected)
}

fn bound_value((name, value): (Option<&str>, Value<'_>)) -> BoundValue {
    let bytes = match value {
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        Value::Null | Value::Unset => None,
    };
    BoundValue {
        name: name.map(str::to_owned),
        bytes,
    }
}
