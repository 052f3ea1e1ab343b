//! The judge of replies. It relays a reply unseen unless its request left a `Pending`.

use std::io;
use std::rc::Rc;

use super::held::Held;
use super::late::in_flight::{InFlight, Replied};
use super::pending::Pending;
use super::prepared::Statement;
use super::session::Session;
use super::watching::Watching;
use super::wire::{Stage, Wire};
use super::{agreement, events, system_tables};
use crate::protocol::deframer::{Framing, Verdict, View};
use crate::protocol::header::{Envelope, Version, opcode};
use crate::protocol::response::{self, event, result, supported};
use crate::protocol::segment::Format;
use crate::protocol::types::Cursor;
use crate::protocol::{Compression, Header, ProtocolError};

/// Why a reply was taken out of the stream.
pub(super) enum TakenReply {
    Event,
    Pending(Pending),
}

impl Session {
    /// The deframer shows each reply to this function.
    pub(super) fn judge_reply(&self, view: View<'_>) -> Verdict<TakenReply> {
        let verdict = match view.header.opcode {
            opcode::EVENT => return self.judge_event(view),
            opcode::READY => self.judge_accepted(Stage::Established),
            opcode::AUTHENTICATE => {
                self.rights.note_login();
                self.judge_accepted(Stage::Authenticating)
            }
            opcode::AUTH_SUCCESS => {
                self.rights.forget();
                self.wire.stage.set(Stage::Established);
                Verdict::Forward
            }
            _ if self.wire.pending.borrow().is_empty() => Verdict::Forward,
            _ => self.judge_watched(view),
        };
        match verdict {
            Verdict::More | Verdict::Head | Verdict::Collect => {}
            _ => self.wire.count_reply(),
        }
        verdict
    }

    /// Upstream accepted the STARTUP: v5 uses segments from here on, both ways (native_protocol_v5 §2.3.1). READY also
    /// answers REGISTER; the framing then stays as it is.
    fn judge_accepted(&self, stage: Stage) -> Verdict<TakenReply> {
        self.wire.stage.set(stage);
        if self.wire.version.get() < Version::V5 {
            return Verdict::Forward;
        }
        let format = match self.wire.compression.get() {
            Some(Compression::Lz4) => Format::Lz4,
            Some(Compression::Snappy) | None => Format::Plain,
        };
        let framing = Framing::Segments(format);
        self.wire.framing.set(framing);
        Verdict::ForwardThen(framing)
    }

    fn judge_watched(&self, view: View<'_>) -> Verdict<TakenReply> {
        let mut all = self.wire.pending.borrow_mut();
        let Some(pending) = all.get_mut(&view.header.stream) else {
            return Verdict::Forward;
        };
        if let Pending::Sight(sight) = pending {
            let watching = self.watching.as_ref();
            let look = |watching: &Watching| sight.look(view, &watching.wide_row.sightings);
            if !watching.is_none_or(look) {
                return Verdict::Head;
            }
        } else if let Pending::Own(own) = pending {
            let has_room = own.make_room(view);
            if has_room && !view.complete {
                return Verdict::Collect;
            }
            if !has_room && let Some(own) = all.remove(&view.header.stream) {
                return Verdict::Discard(TakenReply::Pending(own));
            }
        } else if !view.complete {
            return Verdict::More;
        }
        drop(all);
        self.judge_whole(view)
    }

    /// Judges a reply that is all there, or of which enough was seen.
    fn judge_whole(&self, view: View<'_>) -> Verdict<TakenReply> {
        let mut pending = self.wire.pending.borrow_mut().remove(&view.header.stream);
        let passes = pending
            .as_mut()
            .is_none_or(|pending| self.passes(pending, view));
        match pending {
            Some(pending) if !passes => Verdict::Take(TakenReply::Pending(pending)),
            Some(Pending::Prepare(statement, _)) => {
                self.learn_prepared(view, *statement);
                Verdict::Forward
            }
            Some(Pending::Use) => {
                self.learn_keyspace(view);
                Verdict::Forward
            }
            _ => Verdict::Forward,
        }
    }

    /// Whether a reply passes to the client unchanged.
    fn passes(&self, pending: &mut Pending, view: View<'_>) -> bool {
        match pending {
            Pending::Own(_) => false,
            Pending::Write(in_flight) | Pending::LateWrite(in_flight, _) => {
                let watching = self.watching.as_ref();
                watching.is_none_or(|watching| {
                    in_flight.passes(&watching.wide_row.known, view.header, view.body)
                })
            }
            // Upstream's errors pass as they are.
            _ if view.header.opcode == opcode::ERROR => true,
            Pending::Options | Pending::Topology(..) => false,
            Pending::SchemaChange(_) => !agreement::is_schema_change(view.header, view.body),
            Pending::Prepare(..) | Pending::Use | Pending::Sight(_) => true,
        }
    }

    fn learn_prepared(&self, view: View<'_>, statement: Statement) {
        if let Ok(Some(prepared)) = result::prepared(view.header, view.body) {
            let Wire { proxy, node, .. } = &*self.wire;
            let version = self.wire.version.get();
            let known = proxy.prepared.insert(prepared, version, statement, *node);
            proxy.metrics.prepared.set(known as f64);
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
            *self.wire.keyspace.borrow_mut() = Some(name.to_owned());
        }
    }

    /// Acts on a reply that was taken out of the stream.
    pub(super) async fn take_reply(
        self: &Rc<Self>,
        reply: Envelope,
        taken: TakenReply,
    ) -> io::Result<()> {
        let pending = match taken {
            TakenReply::Event => return events::pass_on(&self.wire, reply).await,
            TakenReply::Pending(pending) => pending,
        };
        match pending {
            Pending::Own(own) => own.deliver(reply),
            Pending::LateWrite(in_flight, sender) => {
                drop(sender.send(self.replied(in_flight, reply)));
            }
            Pending::Write(in_flight) => {
                let replied = self.replied(in_flight, reply);
                self.watched(|watching| watching.writes.check_reply(replied));
            }
            Pending::Options => return self.pass_supported(reply).await,
            Pending::SchemaChange(held) => self.wire.hold_reply(held, reply, agreement::wait),
            Pending::Topology(read, held) => {
                self.wire
                    .hold_reply(held, reply, async move |wire: &Wire, reply| {
                        system_tables::answer(wire, read, reply).await
                    });
            }
            // These always pass.
            Pending::Prepare(..) | Pending::Use | Pending::Sight(_) => {}
        }
        Ok(())
    }

    fn replied(&self, in_flight: Box<InFlight>, reply: Envelope) -> Replied {
        Replied {
            in_flight,
            reply,
            held: Held::unlimited(&self.wire.held),
        }
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
        let body = body.unwrap_or(reply.body);
        self.wire.reply(stream, (flags, opcode), body).await
    }

    /// Schema events pass, except those of split tables, which clients do not know. Node events are taken, because they
    /// name real addresses.
    fn judge_event(&self, view: View<'_>) -> Verdict<TakenReply> {
        match event::read(Cursor::new(view.body)) {
            Ok(event::Event::Node { .. }) => Verdict::Take(TakenReply::Event),
            Ok(event::Event::Table { keyspace, table }) if self.hides(keyspace, table) => {
                Verdict::Take(TakenReply::Event)
            }
            Ok(_) => Verdict::Forward,
            Err(_) if !view.complete => Verdict::More,
            // An event that cannot be read might carry a real address.
            Err(_) => Verdict::Take(TakenReply::Event),
        }
    }

    fn hides(&self, keyspace: &str, table: &str) -> bool {
        let watching = self.watching.as_ref();
        watching.is_some_and(|watching| watching.wide_row.known.is_split_name(keyspace, table))
    }
}
