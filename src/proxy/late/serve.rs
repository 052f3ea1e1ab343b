//! A write to partitions that might be split, until its reply. First the client proves that it may write; then the
//! proxy retires the splits that the write touches; then it forwards the write. If a step takes too long, the proxy
//! refuses the write, and nothing was forwarded.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::checker::WriteChecker;
use super::in_flight::{InFlight, Replied};
use super::late_write::{Kind, LateWrite};
use super::touched::{Keys, TouchedTable};
use crate::known::retire::{Released, RetireError};
use crate::protocol::header::{Envelope, opcode};
use crate::protocol::request::query;
use crate::protocol::response::error::{self, ErrorCode};
use crate::proxy::concern::NOT_LATELY;
use crate::proxy::decision::KEYSPACE_CHANGED;
use crate::proxy::metrics::Close;
use crate::proxy::pending::Pending;
use crate::proxy::rights::proof::{self, Right};
use crate::proxy::rights::record::Deed;
use crate::statement::touches::Change;
use crate::watched::LateWrites;

/// If a write cannot even begin to be sent within this time, upstream has stopped reading, and the session ends.
const UPSTREAM_PATIENCE: Duration = Duration::from_secs(30);

/// An ERROR for the client. Upstream does not get the write.
struct Refusal {
    flags: u8,
    body: Vec<u8>,
}

impl Refusal {
    fn new(code: ErrorCode, text: &str) -> Self {
        Self {
            flags: 0,
            body: error::encode(code, text),
        }
    }
}

impl WriteChecker {
    /// Starts a task beside the session's other requests.
    pub(in crate::proxy) fn begin(self: &Rc<Self>, request: Envelope, late: LateWrite) {
        self.wire.count_request();
        let checker = self.clone();
        self.wire
            .begin_beside(async move { checker.serve(request, late).await });
    }

    async fn serve(self: &Rc<Self>, request: Envelope, late: LateWrite) {
        let forwarded = match self.make_way(&late).await {
            Ok(()) => self.forward(&request, late).await,
            Err(refusal) => Err(refusal),
        };
        match forwarded {
            Ok(Some(replied)) => self.check_reply(replied),
            Ok(None) => {}
            Err(Refusal { flags, body }) => {
                self.wire
                    .answer(&request, (flags, opcode::ERROR), &[&body])
                    .await;
            }
        }
    }

    async fn make_way(self: &Rc<Self>, late: &LateWrite) -> Result<(), Refusal> {
        let is_write = late.kind != Kind::SerialRead;
        for table in &late.touched.tables {
            match self.right_to(late, table).await {
                Right::Proven if is_write => self.rights.note_written(table.watched.name()),
                Right::Proven => {}
                // Upstream will refuse the request, or the right cannot be proven in advance. If a write succeeds after
                // all, the check at its reply retires the splits.
                Right::Denied => continue,
                Right::Unknown => return Err(refused(table, NOT_PROVEN)),
            }
            if is_write && table.is_past_accept_limit() {
                return Err(rejected(table, "is closed for writes (accept_limit)"));
            }
            self.release(late, table).await?;
        }
        Ok(())
    }

    /// Whether the client may do what the request does. A right that no harmless statement proves counts as denied; the
    /// reply then says what happened.
    async fn right_to(self: &Rc<Self>, late: &LateWrite, table: &TouchedTable) -> Right {
        if self.rights.has_no_roles() {
            return Right::Proven;
        }
        let deed = match (late.kind, &table.keys) {
            (Kind::SerialRead, _) => Deed::Read,
            (_, Keys::Whole(Change::Drop)) => return Right::Denied,
            (_, Keys::Whole(Change::Alter)) => Deed::Alter,
            _ => Deed::Write,
        };
        match (table.watched.key_schema(), &table.keys) {
            (Some(schema), _) => proof::prove(&self.wire, &self.rights, deed, &schema).await,
            // Without a schema nothing can be proven, so the reply decides, as for DROP.
            (None, Keys::Whole(_)) => Right::Denied,
            (None, _) => Right::Unknown,
        }
    }

    async fn release(
        self: &Rc<Self>,
        late: &LateWrite,
        table: &TouchedTable,
    ) -> Result<(), Refusal> {
        let LateWrite { retirer, .. } = late;
        let watched = &table.watched;
        let cannot = |error: RetireError| {
            tracing::debug!(table = %watched.name(), %error, "a split could not be taken out of service for a write");
            refused(table, NOT_RELEASED)
        };
        match &table.keys {
            Keys::Known(_) => {
                let policy = match late.kind {
                    Kind::Write { .. } => watched.settings().late_writes,
                    // Reads are never rejected, and writes to unwatched tables do not get here.
                    Kind::SerialRead | Kind::Unwatched { .. } => LateWrites::Invalidate,
                };
                let released = retirer.release(watched, table.suspects(), policy);
                match released.await.map_err(cannot)? {
                    Released::Free => Ok(()),
                    Released::Rejected => Err(rejected(table, "is split, or is being split")),
                }
            }
            Keys::Unknown | Keys::NoSchema if watched.has_no_splits() => Ok(()),
            Keys::Unknown => {
                self.ask_whether_meant(late).await?;
                tell_not_understood(late, table);
                retirer.take_out(watched, false).await.map_err(cannot)
            }
            Keys::NoSchema | Keys::Whole(_) => {
                retirer.take_out(watched, false).await.map_err(cannot)
            }
        }
    }

    /// If upstream does not understand the statement either, it writes nothing, and the client gets upstream's error.
    async fn ask_whether_meant(self: &Rc<Self>, late: &LateWrite) -> Result<(), Refusal> {
        let version = self.wire.version.get();
        for statement in late.not_understood.iter().filter(|text| !text.is_prepared) {
            let keyspace = statement.keyspace.as_deref();
            let body = query::encode_prepare(version, &statement.text, keyspace);
            let reply = self.wire.ask_beside(opcode::PREPARE, body).await;
            if let Some(reply) = reply.filter(|reply| reply.header.opcode == opcode::ERROR) {
                return Err(Refusal {
                    flags: reply.header.flags,
                    body: reply.body,
                });
            }
        }
        Ok(())
    }

    /// Forwards the request and waits for the reply to a write. `None`: the reply passed, the request is no write, or
    /// the session is over. It locks the writer before the last check of freshness, because the wait for the lock may
    /// be long.
    async fn forward(
        &self,
        request: &Envelope,
        late: LateWrite,
    ) -> Result<Option<Replied>, Refusal> {
        let wire = &self.wire;
        let Ok(mut upstream) = timeout(UPSTREAM_PATIENCE, wire.lock_upstream()).await else {
            wire.close(Close::Upstream);
            return Ok(None);
        };
        if wire.is_closed() {
            return Ok(None);
        }
        if late.keyspace.is_some() && wire.keyspace_of_names(None) != late.keyspace {
            return Err(Refusal::new(ErrorCode::Overloaded, KEYSPACE_CHANGED));
        }
        if !late.touched.is_fresh(&self.wide_row.known) {
            return Err(Refusal::new(ErrorCode::Overloaded, NOT_LATELY));
        }
        let Kind::Write { .. } = late.kind else {
            wire.forward_locked(&mut upstream, request).await;
            return Ok(None);
        };
        let rights = self.rights.to_have();
        let in_flight = InFlight::new(late.touched, late.named, late.kind, late.retirer, rights);
        let in_flight = Box::new(in_flight.keeping(Some(late.room)).late());
        let (sender, reply) = oneshot::channel();
        let pending = Pending::LateWrite(in_flight, sender);
        wire.pending
            .borrow_mut()
            .insert(request.header.stream, pending);
        wire.forward_locked(&mut upstream, request).await;
        drop((upstream, late.held));
        Ok(reply.await.ok())
    }
}

/// Logs a warning: clients that go on sending such statements keep the table from having splits for long.
fn tell_not_understood(late: &LateWrite, table: &TouchedTable) {
    let shapes: Vec<&str> = late
        .not_understood
        .iter()
        .map(|statement| statement.shape.as_str())
        .collect();
    tracing::warn!(
        table = %table.watched.name(),
        statement = shapes.join("; "),
        "the partitions of a write are unknown: all splits of the table go out of service, and workers make them again \
         in time. Bind the partition key, or write it as constants, to keep the other splits"
    );
}

fn refused(table: &TouchedTable, why: &str) -> Refusal {
    table.watched.late_writes.refused.increment(1);
    let text = format!(
        "narrows: {why} of {}; this request was not forwarded, try again",
        table.watched.name()
    );
    Refusal::new(ErrorCode::Overloaded, &text)
}

fn rejected(table: &TouchedTable, why: &str) -> Refusal {
    table.watched.late_writes.rejected.increment(1);
    let text = format!(
        "narrows: the partition {why}, and late_writes = reject for {}; this write was not made",
        table.watched.name()
    );
    Refusal::new(ErrorCode::Invalid, &text)
}

const NOT_PROVEN: &str = "could not verify that your role may access a split partition";
const NOT_RELEASED: &str = "the control keyspace failed, or took too long, to retire a split";
