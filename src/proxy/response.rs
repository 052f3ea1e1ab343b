//! Decides about what upstream answers: relay unseen unless the request said that the reply matters.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::late::InFlight;
use super::pending::{Held, Pending};
use super::prepared::Statement;
use super::session::{Session, Stage};
use super::watching::Concern;
use super::{agreement, events, system_tables};
use crate::protocol::header::{BODY_BYTES_MAX, Envelope, HEADER_BYTES, Version, opcode};
use crate::protocol::response::{self, event, result, supported};
use crate::protocol::segment::Format;
use crate::protocol::splitter::{Framing, Verdict, View};
use crate::protocol::types::Cursor;
use crate::protocol::{Compression, Header, ProtocolError};
use crate::statement::touches;

/// Replies that are looked at whole are small (SUPPORTED, PREPARED, schema changes, topology rows), or pages that we asked
/// for ourselves and that have as many rows as we said.
pub(super) const REPLY_BYTES_HELD_MAX: usize = BODY_BYTES_MAX + HEADER_BYTES;

impl Session {
    /// The inspector of the reply direction.
    pub(super) fn judge_reply(&self, view: View<'_>) -> Verdict {
        let verdict = match view.header.opcode {
            opcode::EVENT => return self.judge_event(view),
            opcode::READY => self.judge_accepted(Stage::Established),
            opcode::AUTHENTICATE => {
                self.logged_in.set(true);
                self.judge_accepted(Stage::Authenticating)
            }
            opcode::AUTH_SUCCESS => {
                self.rights.forget();
                self.stage.set(Stage::Established);
                Verdict::Forward
            }
            _ if self.pending.borrow().is_empty() => Verdict::Forward,
            _ => self.judge_watched(view),
        };
        if matches!(verdict, Verdict::Forward | Verdict::ForwardThen(_))
            || verdict == Verdict::Take && view.complete
        {
            self.replies.set(self.replies.get() + 1);
        }
        verdict
    }

    /// The STARTUP was accepted: v5 speaks in segments from here on, both ways (native_protocol_v5 §2.3.1). READY also
    /// answers REGISTER, when the framing is what it was.
    fn judge_accepted(&self, stage: Stage) -> Verdict {
        self.stage.set(stage);
        if self.version.get() < Version::V5 {
            return Verdict::Forward;
        }
        let format = match self.compression.get() {
            Some(Compression::Lz4) => Format::Lz4,
            Some(Compression::Snappy) | None => Format::Plain,
        };
        let framing = Framing::Segments(format);
        self.framing.set(framing);
        Verdict::ForwardThen(framing)
    }

    fn judge_watched(&self, view: View<'_>) -> Verdict {
        let stream = view.header.stream;
        let mut pending = self.pending.borrow_mut();
        let Some(entry) = pending.get_mut(&stream) else {
            return Verdict::Forward;
        };
        if let Pending::Sight(_) = entry {
            drop(pending);
            return self.judge_sighted(view);
        }
        if !view.complete {
            return Verdict::More;
        }
        let verdict = match entry {
            Pending::Own(_) => Verdict::Take,
            Pending::Write(in_flight) => match &self.proxy.wide_row {
                Some(wide_row) if !in_flight.passes(&wide_row.known, view.header, view.body) => {
                    Verdict::Take
                }
                _ => Verdict::Forward,
            },
            // Upstream's errors pass as they are.
            _ if view.header.opcode == opcode::ERROR => Verdict::Forward,
            Pending::Options | Pending::Topology(..) => Verdict::Take,
            Pending::SchemaChange(_)
                if kind(view.header, view.body) == Ok(result::kind::SCHEMA_CHANGE) =>
            {
                Verdict::Take
            }
            Pending::SchemaChange(_) | Pending::Prepare(..) | Pending::Use | Pending::Sight(_) => {
                Verdict::Forward
            }
        };
        if verdict == Verdict::Forward {
            match pending.remove(&stream) {
                Some(Pending::Prepare(statement, is_named)) => {
                    drop(pending);
                    self.learn_prepared(view, *statement, is_named);
                }
                Some(Pending::Use) => self.learn_keyspace(view),
                _ => {}
            }
        }
        verdict
    }

    fn learn_prepared(&self, view: View<'_>, mut statement: Statement, is_named: bool) {
        // Upstream may have run a USE that was sent behind the PREPARE before it.
        let is_certain = is_named || self.keyspace_of_names(None) == statement.names_in;
        if self.proxy.wide_row.is_some() && !is_certain {
            statement.names_in = None;
            statement.concern = Arc::new(Concern::new(touches(&statement.text), None));
        }
        if let Ok(Some(prepared)) = result::prepared(view.header, view.body) {
            let known =
                self.proxy
                    .prepared
                    .insert(prepared, self.version.get(), statement, self.node);
            self.proxy.metrics.prepared.set(known as f64);
        }
    }

    fn learn_keyspace(&self, view: View<'_>) {
        let name = || {
            let mut message = response::message(view.header, view.body)?;
            match message.int()? {
                result::kind::SET_KEYSPACE => message.string().map(Some),
                _ => Ok(None),
            }
        };
        if let Ok::<_, ProtocolError>(Some(name)) = name() {
            *self.keyspace.borrow_mut() = Some(name.to_owned());
        }
    }

    /// Deals with a reply that was taken out of the stream.
    pub(super) async fn take_reply(self: &Rc<Self>, reply: Envelope) -> io::Result<()> {
        if reply.header.opcode == opcode::EVENT {
            return events::pass_on(self, reply).await;
        }
        let Some(pending) = self.pending.borrow_mut().remove(&reply.header.stream) else {
            return Ok(());
        };
        match pending {
            // The one who asked may have gone.
            Pending::Own(asker) => drop(asker.send(reply)),
            Pending::Options => return self.pass_supported(reply).await,
            Pending::SchemaChange(held) => self.hold(held, reply, agreement::wait),
            Pending::Topology(read, held) => {
                self.hold(held, reply, async move |session: &Session, reply| {
                    system_tables::answer(session, read, reply).await
                });
            }
            Pending::Write(in_flight) => self.hold_written(in_flight, reply),
            // These are forwarded, not taken.
            Pending::Prepare(..) | Pending::Use | Pending::Sight(_) => {}
        }
        Ok(())
    }

    /// The reply to a write waits until what it touched is out of service; that to a schema change also for the nodes.
    fn hold_written(self: &Rc<Self>, in_flight: Box<InFlight>, reply: Envelope) {
        let Some(wide_row) = &self.proxy.wide_row else {
            return;
        };
        let (known, changes_schema) = (wide_row.known.clone(), in_flight.changes_schema());
        // What is held was let in when it was a request.
        let Some(held) = Held::begin(&self.held, usize::MAX) else {
            return;
        };
        self.hold(held, reply, async move |session: &Session, reply| {
            let reply = in_flight.finish(&known, reply).await;
            let is_change = kind(reply.header, &reply.body) == Ok(result::kind::SCHEMA_CHANGE);
            match changes_schema && reply.header.opcode == opcode::RESULT && is_change {
                true => agreement::wait(session, reply).await,
                false => reply,
            }
        });
    }

    async fn pass_supported(&self, reply: Envelope) -> io::Result<()> {
        let Header {
            stream,
            flags,
            opcode,
            ..
        } = reply.header;
        let body = response::prefix_length(reply.header, &reply.body).and_then(|prefix| {
            let restricted = supported::restrict(Cursor::new(&reply.body[prefix..]))?;
            Ok([&reply.body[..prefix], &restricted].concat())
        });
        self.reply(stream, flags, opcode, body.unwrap_or(reply.body))
            .await
    }

    /// Schema events concern drivers whatever the topology, but for those of tables that nobody but us knows; node events
    /// are for us to present.
    fn judge_event(&self, view: View<'_>) -> Verdict {
        match event::read(Cursor::new(view.body)) {
            Ok(event::Event::Node { .. }) => Verdict::Take,
            Ok(event::Event::Table { keyspace, table }) if self.hides(keyspace, table) => {
                Verdict::Take
            }
            Ok(_) => Verdict::Forward,
            Err(_) if !view.complete => Verdict::More,
            // An event that cannot be read might carry a real address.
            Err(_) => Verdict::Take,
        }
    }

    fn hides(&self, keyspace: &str, table: &str) -> bool {
        let wide_row = self.proxy.wide_row.as_ref();
        wide_row.is_some_and(|wide_row| wide_row.known.is_split_table(keyspace, table))
    }
}

fn kind(header: Header, body: &[u8]) -> Result<i32, ProtocolError> {
    response::message(header, body)?.int()
}
