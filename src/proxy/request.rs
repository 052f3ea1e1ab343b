//! The judge of requests: forward one, remember why its reply matters, or take it out of the stream.
//!
//! It runs for every request, so the common case (EXECUTE of a known statement on an unwatched table) only reads an id
//! and looks it up in a map.

use std::sync::Arc;

use super::agreement;
use super::concern::Concern;
use super::decision::{Decision, Refusal, Taken};
use super::held::Held;
use super::names::Names;
use super::pending::{BoundValue, Pending, TopologyRead};
use super::prepared::Statement;
use super::session::Session;
use super::short_names::ComingUse;
use super::source::{Asking, Source};
use super::wire::Stage;
use crate::protocol::ProtocolError;
use crate::protocol::deframer::{Framing, Verdict, View};
use crate::protocol::header::{Header, Version, flag, opcode};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::request::{self, batch, execute, query, startup};
use crate::protocol::response::error::ErrorCode;
use crate::protocol::types::{Cursor, Value};
use crate::statement::{Shape, TopologySelect, Touches, classify, touches};

type Result<T> = std::result::Result<T, ProtocolError>;

impl Session {
    /// The deframer shows each request to this function.
    pub(super) fn judge_request(&self, view: View<'_>) -> Verdict<Taken> {
        let limit = self.wire.proxy.config.limits.request_bytes;
        if view.header.length as usize > limit {
            return Verdict::Discard(too_big(view.header.length, limit));
        }
        // Parsing a text or a batch again with every byte that arrives would take quadratic time.
        if !view.complete && is_needed_whole(view.header) {
            return Verdict::More;
        }
        let decision = match self.decide(uncompressed(view), view.body) {
            Ok(Decision::Take(_)) | Err(_) if !view.complete => return Verdict::More,
            Ok(decision) => decision,
            // Where writes must be noticed, do not forward what upstream might interpret differently.
            Err(error) if self.watching.is_some() && may_write(view.header) => {
                Decision::refuse(ErrorCode::Protocol, &format!("narrows: {error}"))
            }
            // Upstream reports the error in its own words.
            Err(_) => Decision::Forward,
        };
        let verdict = match decision {
            Decision::Forward => Verdict::Forward,
            Decision::Watch(pending) => {
                let mut all = self.wire.pending.borrow_mut();
                all.insert(view.header.stream, pending);
                Verdict::Forward
            }
            Decision::Startup(version, compression) => {
                self.wire.version.set(version);
                self.wire.compression.set(compression);
                self.wire.framing.set(Framing::Bare(compression));
                Verdict::ForwardThen(Framing::Bare(compression))
            }
            Decision::Take(taken) => return Verdict::Take(taken),
        };
        self.wire.count_request();
        verdict
    }

    fn decide(&self, header: Header, body: &[u8]) -> Result<Decision> {
        let stream = header.stream;
        if stream < 0 {
            let text = format!("narrows: stream ids must not be negative, but {stream} is");
            return Ok(Decision::refuse(ErrorCode::Protocol, &text));
        }
        let awaited = self
            .wire
            .pending
            .borrow()
            .get(&stream)
            .map(Pending::is_awaited);
        if awaited == Some(true) {
            let text = format!("narrows: stream id {stream} already has a request in flight");
            return Ok(Decision::refuse(ErrorCode::Protocol, &text));
        }
        let message = || request::message(header, body);
        match header.opcode {
            opcode::EXECUTE => self.decide_execute(header, body, message()?),
            opcode::QUERY => self.decide_query(header, body, message()?),
            opcode::BATCH => self.decide_batch(header, message()?),
            opcode::PREPARE => self.decide_prepare(message()?),
            opcode::OPTIONS => Ok(Decision::Watch(Pending::Options)),
            // Once upstream has accepted a STARTUP, another one changes nothing.
            opcode::STARTUP if self.wire.stage.get() == Stage::Opening => {
                let version = Version::from_byte(header.version);
                let version = version.unwrap_or(self.wire.version.get());
                Ok(Decision::Startup(
                    version,
                    startup::compression(message()?)?,
                ))
            }
            _ => Ok(Decision::Forward),
        }
    }

    fn decide_execute<'a>(
        &self,
        header: Header,
        body: &'a [u8],
        mut message: Cursor<'a>,
    ) -> Result<Decision> {
        let id = execute::id(&mut message)?;
        let Some(statement) = self.wire.proxy.prepared.get(id) else {
            return Ok(Decision::unprepared(id));
        };
        if let Some(watching) = &self.watching {
            watching.forget_if_altered(&statement);
        }
        if !statement.is_on(self.wire.node) && self.wire.stage.get() == Stage::Established {
            let is_use = statement.shape == Shape::Use;
            let coming = is_use.then(|| ComingUse::begin(&self.wire.short_names));
            return Ok(Decision::Take(Taken::PrepareFirst(vec![statement], coming)));
        }
        let parameters = || execute::parameters(self.wire.version.get(), message.clone());
        if let Some(watching) = &self.watching {
            let asking = Asking {
                header,
                body,
                rest: message.clone(),
                source: Source::Prepared(&statement),
                shape: &statement.shape,
                concern: statement.concern.clone(),
                anywhere: None,
            };
            if let Some(decision) = watching.decide(&asking, parameters)? {
                return Ok(decision);
            }
        }
        self.decide_shape(&statement.shape, parameters)
    }

    fn decide_query<'a>(
        &self,
        header: Header,
        body: &'a [u8],
        mut message: Cursor<'a>,
    ) -> Result<Decision> {
        let text = query::text(&mut message)?;
        let parameters = || Parameters::read(self.wire.version.get(), &mut message.clone());
        // A keyspace that the request itself names takes precedence, so the complete request is needed.
        let mut names = Ok(Names::Elsewhere);
        let shape = classify(&text, || {
            names = parameters().map(|parameters| self.wire.names(parameters.keyspace));
            names == Ok(Names::InSystem)
        });
        if names? == Names::Unsettled {
            return Ok(unsettled());
        }
        let Some(watching) = &self.watching else {
            return self.decide_shape(&shape, parameters);
        };
        let touched = touches(&text);
        if touched == Touches::Nothing {
            return self.decide_shape(&shape, parameters);
        }
        let read = parameters()?;
        let keyspace = self.wire.keyspace_of_names(read.keyspace);
        let asking = Asking {
            header,
            body,
            rest: message.clone(),
            source: Source::Text {
                text: &text,
                keyspace: keyspace.as_deref(),
            },
            shape: &shape,
            anywhere: Concern::anywhere(&touched, read.keyspace),
            concern: Arc::new(self.wire.concern(touched, read.keyspace)),
        };
        match watching.decide(&asking, move || Ok(read))? {
            Some(decision) => Ok(decision),
            None => self.decide_shape(&shape, parameters),
        }
    }

    fn decide_batch(&self, header: Header, message: Cursor<'_>) -> Result<Decision> {
        let mut missing = Vec::new();
        let known = |id: &[u8]| match self.wire.proxy.prepared.get(id) {
            Some(statement) if !statement.is_on(self.wire.node) => {
                missing.push(statement);
                true
            }
            found => found.is_some(),
        };
        if let Some(id) = batch::first_unknown_id(message.clone(), known)? {
            return Ok(Decision::unprepared(id));
        }
        if !missing.is_empty() && self.wire.stage.get() == Stage::Established {
            return Ok(Decision::Take(Taken::PrepareFirst(missing, None)));
        }
        match &self.watching {
            Some(watching) => watching.writes.consider_batch(header, &message),
            None => Ok(Decision::Forward),
        }
    }

    fn decide_shape<'a>(
        &self,
        shape: &Shape,
        parameters: impl FnOnce() -> Result<Parameters<'a>>,
    ) -> Result<Decision> {
        Ok(match shape {
            Shape::Other => Decision::Forward,
            Shape::Use if self.wire.short_names.hold_up_use() => Decision::Take(Taken::Use),
            Shape::Use => {
                self.unsettle();
                Decision::Watch(Pending::Use)
            }
            Shape::SchemaChange if agreement::is_ours(&self.wire.proxy) => {
                self.watch_held(Pending::SchemaChange)
            }
            Shape::SchemaChange => Decision::Forward,
            Shape::Topology(select) if select.query.is_none() => not_understood(select),
            Shape::Topology(select) => {
                let values = parameters()?.values.into_iter().map(bound_value).collect();
                let select = select.clone();
                self.wire.proxy.metrics.topology.increment(1);
                self.watch_held(|held| Pending::Topology(TopologyRead { select, values }, held))
            }
        })
    }

    /// Upstream may run a USE before requests that were sent ahead of it.
    fn unsettle(&self) {
        for pending in self.wire.pending.borrow_mut().values_mut() {
            match pending {
                Pending::Write(in_flight) | Pending::LateWrite(in_flight, _) => {
                    in_flight.unsettle();
                }
                Pending::Prepare(statement, false) => statement.unsettle(),
                _ => {}
            }
        }
    }

    /// Watches for a reply that the proxy must work on, unless there are too many.
    fn watch_held(&self, pending: impl FnOnce(Held) -> Pending) -> Decision {
        match self.wire.begin_held() {
            Some(held) => Decision::Watch(pending(held)),
            None => Decision::overloaded("schema changes and reads of system tables"),
        }
    }

    fn decide_prepare(&self, mut message: Cursor<'_>) -> Result<Decision> {
        let text = query::text(&mut message)?;
        let named = query::prepare_keyspace(self.wire.version.get(), message)?;
        let mut names = Names::Elsewhere;
        let shape = classify(&text, || {
            names = self.wire.names(named);
            names == Names::InSystem
        });
        if names == Names::Unsettled {
            return Ok(unsettled());
        }
        let keyspace = self.wire.keyspace_of_names(named);
        let mut statement = Statement::new(shape, &text, keyspace.as_deref());
        // Also in a relay: when it begins to follow a control keyspace, its drivers do not prepare anew.
        statement.concern = Arc::new(self.wire.concern(touches(&text), named));
        if let Some(watching) = &self.watching {
            watching.forget_if_altered(&statement);
        }
        let pending = Pending::Prepare(Box::new(statement), named.is_some());
        Ok(Decision::Watch(pending))
    }
}

/// The header with the length of the body as it is held. The header of a compressed bare message names the length on the
/// wire, and memory that is reserved by it would be too little.
fn uncompressed(view: View<'_>) -> Header {
    let held = u32::try_from(view.body.len()).unwrap_or(u32::MAX);
    Header {
        length: if view.complete {
            held
        } else {
            view.header.length
        },
        ..view.header
    }
}

fn may_write(header: Header) -> bool {
    matches!(
        header.opcode,
        opcode::QUERY | opcode::EXECUTE | opcode::BATCH
    )
}

/// Whether the judge needs the whole request. For an EXECUTE, the id is enough at first.
fn is_needed_whole(header: Header) -> bool {
    match header.opcode {
        opcode::QUERY | opcode::PREPARE | opcode::BATCH | opcode::STARTUP => true,
        opcode::EXECUTE => header.has(flag::CUSTOM_PAYLOAD),
        _ => false,
    }
}

/// Cassandra's own words for its own limit. Like Cassandra, the proxy keeps the connection.
fn too_big(length: u32, limit: usize) -> Taken {
    let text =
        format!("Request is too big: length {length} exceeds maximum allowed length {limit}.");
    Taken::Refuse(Refusal::new(ErrorCode::Invalid, &text))
}

/// Only for names of topology tables: the proxy must not forward a read that might return real addresses.
fn unsettled() -> Decision {
    let text = "narrows: a USE on this connection has no reply yet, so it is not clear which table this reads; wait for that reply";
    Decision::refuse(ErrorCode::Invalid, text)
}

fn not_understood(select: &TopologySelect) -> Decision {
    let text = format!(
        "narrows: this form of SELECT on system.{} cannot be answered without showing real addresses; use columns, \
         functions, JSON or count(*) with WHERE column = value and LIMIT",
        select.table.name()
    );
    Decision::refuse(ErrorCode::Invalid, &text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decompressed_request_counts_with_all_its_bytes() {
        let length = |body: &[u8], complete: bool| {
            let header = Header {
                version: Version::V4.byte(),
                flags: flag::COMPRESSED,
                stream: 1,
                opcode: opcode::EXECUTE,
                length: 20,
            };
            let view = View {
                header,
                body,
                complete,
            };
            uncompressed(view).length
        };
        assert_eq!(length(&[], false), 20);
        assert_eq!(length(&[0; 1000], true), 1000);
    }
}
