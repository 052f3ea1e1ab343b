//! A write that was forwarded. When its reply arrives, the proxy checks its partitions again before the client sees the
//! reply, and retires a split that was guarded meanwhile. If that fails, the client hears that the outcome is unknown,
//! which is true: other clients may read the split without the write.
//!
//! A write that ends without a reply has an unknown outcome, however it ends. Its `drop` reports that.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::late_write::Kind;
use super::named::Named;
use super::touched::{Keys, Touched, TouchedTable};
use crate::budget::Reserved;
use crate::known::freshness::{Age, Parts};
use crate::known::retire::{Doubted, RetireError, Retirer};
use crate::known::{Known, Watched};
use crate::protocol::header::{Envelope, Header, opcode};
use crate::protocol::response::result::Rows;
use crate::protocol::response::{self, error};
use crate::proxy::held::Held;
use crate::proxy::rights::record::Rights;
use crate::watched::LateWrites;

/// How long a reply waits for a refresh; drivers time out after seconds.
const REFRESH_PATIENCE: Duration = Duration::from_millis(500);
/// The same for a table that has just begun to be watched, whose splits are loaded first.
const LOAD_PATIENCE: Duration = Duration::from_secs(5);
const CONSISTENCY_ANY: u16 = 0x0000;
const CONSISTENCY_ONE: u16 = 0x0001;

/// A write in flight.
pub(in crate::proxy) struct InFlight {
    /// Empty once the outcome is settled.
    touched: Touched,
    named: Named,
    kind: Kind,
    retirer: Arc<Retirer>,
    /// The client's rights, if there are roles. An unknown outcome retires nothing that the client may not write.
    rights: Option<Rc<Rights>>,
    /// Memory that is reserved for a late write, or for unusually many keys.
    _room: Option<Reserved>,
    /// It was treated as a late write, and its partitions are unknown. As long as its outcome is unknown as well, a hint
    /// may deliver it anywhere.
    is_anywhere: bool,
}

/// A write whose reply has arrived, but has not been sent to the client yet.
pub(in crate::proxy) struct Replied {
    pub(in crate::proxy) in_flight: Box<InFlight>,
    pub(in crate::proxy) reply: Envelope,
    /// A draining session waits until this is dropped.
    pub(in crate::proxy) held: Held,
}

/// What a reply says about its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing was written, and nothing will be.
    Nothing,
    Done,
    /// Some replicas may have the write, and a hint may still deliver it to others.
    Unknown,
}

/// Why a successful write cannot be acknowledged.
enum Unchecked {
    Stale,
    Guards(RetireError),
}

impl From<RetireError> for Unchecked {
    fn from(error: RetireError) -> Self {
        Self::Guards(error)
    }
}

impl InFlight {
    pub(super) fn new(
        touched: Touched,
        named: Named,
        kind: Kind,
        retirer: Arc<Retirer>,
        rights: Option<Rc<Rights>>,
    ) -> Self {
        Self {
            touched,
            named,
            kind,
            retirer,
            rights,
            _room: None,
            is_anywhere: false,
        }
    }

    /// Splits were taken out of service for it.
    pub(super) fn late(mut self) -> Self {
        let is_unknown = |table: &TouchedTable| table.keys == Keys::Unknown;
        self.is_anywhere = self.touched.tables.iter().any(is_unknown);
        self
    }

    /// Keeps the reservation while the write is in flight.
    pub(super) fn keeping(mut self, room: Option<Reserved>) -> Self {
        self._room = room;
        self
    }

    /// A USE was sent behind the write, so upstream may have run the write in another keyspace.
    pub(in crate::proxy) fn unsettle(&mut self) {
        self.named.unsettle();
    }

    /// A write to tables that are not watched.
    pub(super) fn unwatched(
        named: Named,
        changes_schema: bool,
        retirer: Arc<Retirer>,
        rights: Option<Rc<Rights>>,
    ) -> Self {
        let kind = Kind::Unwatched { changes_schema };
        Self::new(Touched::default(), named, kind, retirer, rights)
    }

    /// Whether the reply may pass unchanged. If so, the outcome is settled.
    pub(in crate::proxy) fn passes(&mut self, known: &Known, header: Header, body: &[u8]) -> bool {
        // The order matters: the list that is used below must be at least as new as the one that is found fresh here.
        let is_fresh = known.catalog.age() == Age::Fresh;
        self.named.add_newcomers(known, &mut self.touched);
        self.learn_right(header, body);
        let passes = match self.outcome(header, body) {
            Outcome::Nothing => true,
            Outcome::Done => {
                let is_plain = !self.is_at_any() && !self.changes_schema();
                let is_clear = is_fresh && self.touched.is_surely_clear(known);
                is_plain && (is_clear || self.is_listed_clear(known, is_fresh))
            }
            Outcome::Unknown => {
                self.touched.is_empty() && (is_fresh || self.named.has_no_splits(known))
            }
        };
        if passes {
            self.touched = Touched::default();
        }
        passes
    }

    /// Whether knowledge that is too old is made up for by what the session's node has listed.
    fn is_listed_clear(&self, known: &Known, is_fresh: bool) -> bool {
        let is_stale = !is_fresh || self.touched.stale().is_some();
        is_stale && self.named.has_no_splits(known)
    }

    /// Upstream checks rights before it writes, so some replies prove a right. They prove it only for tables that the
    /// write surely touched: an empty write needs no right, and a write in another keyspace proves nothing for this
    /// one.
    fn learn_right(&self, header: Header, body: &[u8]) {
        let Some(rights) = &self.rights else {
            return;
        };
        let was_let = match header.opcode {
            opcode::RESULT => true,
            _ => code(header, body).is_some_and(|code| TRIED.contains(&code)),
        };
        if !was_let || !self.named.is_settled() {
            return;
        }
        for table in self
            .touched
            .tables
            .iter()
            .filter(|table| table.is_surely_written())
        {
            rights.note_written(table.watched.name());
        }
    }

    /// Whether the client may write the table, as far as its connection has seen. If it may not, it changed nothing,
    /// and nothing is retired.
    fn may_have_written(&self, table: &TouchedTable) -> bool {
        let name = table.watched.name();
        self.rights
            .as_ref()
            .is_none_or(|rights| rights.has_written(name))
    }

    /// Whether the reply waits until the nodes agree on the schema.
    pub(super) fn changes_schema(&self) -> bool {
        matches!(
            self.kind,
            Kind::Write {
                changes_schema: true,
                ..
            } | Kind::Unwatched {
                changes_schema: true
            }
        )
    }

    /// The knowledge may have become too old while the write was in flight. The node's split tables may still settle it.
    pub(super) async fn list_if_stale(
        &self,
        known: &Known,
        ask: impl AsyncFn(&str) -> Option<Rows>,
    ) {
        if known.catalog.age() != Age::Fresh || self.touched.stale().is_some() {
            self.named.list(known, ask).await;
        }
    }

    /// Settles the outcome, then returns the reply for the client.
    pub(super) async fn finish(mut self, known: &Known, reply: Envelope) -> Envelope {
        if self.passes(known, reply.header, &reply.body) {
            return reply;
        }
        let outcome = self.outcome(reply.header, &reply.body);
        self.look_up(known);
        let checked = match outcome {
            Outcome::Nothing => Ok(()),
            Outcome::Done => {
                self.rule_out_hints();
                self.check(known).await
            }
            Outcome::Unknown => {
                self.end_what_is_guarded().await;
                // `drop` reports the rest.
                return reply;
            }
        };
        match checked {
            Ok(()) => {
                self.touched = Touched::default();
                reply
            }
            Err(why) => self.not_acknowledged(&reply, &why),
        }
    }

    /// The write was made. Unless it was at ANY, replicas have it by now, and it is enough to retire the splits.
    fn rule_out_hints(&mut self) {
        self.is_anywhere &= self.is_at_any();
    }

    /// Retires the splits that the write touched. Every read that begins afterwards sees the write.
    async fn check(&mut self, known: &Known) -> Result<(), Unchecked> {
        if known.catalog.wait(&Parts::All, REFRESH_PATIENCE).await != Age::Fresh {
            return self.settle_by_listing(known);
        }
        self.look_up(known);
        for table in &self.touched.tables {
            let patience = match table.age() {
                Age::Unknown => LOAD_PATIENCE,
                Age::Fresh | Age::Stale => REFRESH_PATIENCE,
            };
            let (freshness, parts) = (&table.watched.freshness, table.parts(&table.watched));
            if freshness.wait(&parts, patience).await != Age::Fresh {
                return self.settle_by_listing(known);
            }
        }
        for table in &self.touched.tables {
            self.check_table(table).await?;
        }
        Ok(())
    }

    /// For want of fresh knowledge. A write at ANY may exist only as a hint, so it must be written down all the same.
    fn settle_by_listing(&self, known: &Known) -> Result<(), Unchecked> {
        match self.named.has_no_splits(known) && !self.is_at_any() {
            true => Ok(()),
            false => Err(Unchecked::Stale),
        }
    }

    /// Looks up again what the write touches, with current knowledge.
    fn look_up(&mut self, known: &Known) {
        self.touched = std::mem::take(&mut self.touched).refreshed(known);
        self.named.add_newcomers(known, &mut self.touched);
    }

    async fn check_table(&self, table: &TouchedTable) -> Result<(), RetireError> {
        let TouchedTable { watched, keys, .. } = table;
        match keys {
            Keys::Known(keys) => {
                let suspects = table.suspects();
                if !suspects.is_empty() {
                    let policy = LateWrites::Invalidate;
                    self.retirer.release(watched, suspects, policy).await?;
                }
                if self.is_at_any() {
                    // The write may exist only as a hint.
                    self.retirer.leave_alone(watched, keys.clone()).await?;
                }
                Ok(())
            }
            Keys::Unknown | Keys::NoSchema if self.is_at_any() => {
                // The write may exist only as a hint, and its partition is unknown: no partition may be split.
                tell_hinted_anywhere(watched);
                self.retirer.take_out(watched, true).await
            }
            Keys::Unknown | Keys::NoSchema if watched.has_no_splits() => Ok(()),
            Keys::Unknown | Keys::NoSchema | Keys::Whole(_) => {
                self.retirer.take_out(watched, false).await
            }
        }
    }

    /// Retires the splits that may lack the write before the client hears of the unknown outcome. If that takes too
    /// long, the proxy keeps trying after the reply.
    async fn end_what_is_guarded(&self) {
        for table in &self.touched.tables {
            let suspects = table.suspects();
            if !suspects.is_empty() && self.may_have_written(table) {
                drop(self.retirer.leave_alone(&table.watched, suspects).await);
            }
        }
    }

    fn not_acknowledged(&self, reply: &Envelope, why: &Unchecked) -> Envelope {
        if self.touched.is_empty() {
            tracing::warn!("a write is not acknowledged: the list of watched tables is stale");
        }
        for table in &self.touched.tables {
            table.watched.late_writes.unknown.increment(1);
            match why {
                Unchecked::Stale => {
                    tracing::warn!(table = %table.watched.name(), "a write is not acknowledged: the knowledge of splits is stale");
                }
                Unchecked::Guards(error) => {
                    tracing::warn!(table = %table.watched.name(), %error, "a write is not acknowledged");
                }
            }
        }
        let body = error::write_timeout(self.consistency(), NOT_ACKNOWLEDGED);
        let Header {
            version, stream, ..
        } = reply.header;
        Envelope::with_flags(version, 0, stream, opcode::ERROR, body)
    }

    fn consistency(&self) -> u16 {
        match self.kind {
            Kind::Write { consistency, .. } => consistency,
            Kind::Unwatched { .. } => CONSISTENCY_ONE,
            Kind::SerialRead => CONSISTENCY_ANY,
        }
    }

    fn is_at_any(&self) -> bool {
        self.consistency() == CONSISTENCY_ANY
    }

    fn outcome(&self, header: Header, body: &[u8]) -> Outcome {
        let is_simple = matches!(
            self.kind,
            Kind::Write {
                is_simple: true,
                ..
            }
        );
        match header.opcode {
            opcode::RESULT => Outcome::Done,
            opcode::ERROR => match code(header, body) {
                Some(code) if happened_nothing(code, is_simple) => Outcome::Nothing,
                _ => Outcome::Unknown,
            },
            _ => Outcome::Unknown,
        }
    }
}

/// Errors of a write that upstream had begun: unavailable, truncate error, write timeout, write failure, CAS unknown.
const TRIED: [i32; 5] = [0x1000, 0x1003, 0x1100, 0x1500, 0x1700];

/// The code of an ERROR.
fn code(header: Header, body: &[u8]) -> Option<i32> {
    if header.opcode != opcode::ERROR {
        return None;
    }
    let error = response::message(header, body).and_then(error::read);
    error.ok().map(|(code, _)| code)
}

/// Whether an error means that nothing was written. UNAVAILABLE and OVERLOADED prove it only for a simple write, which
/// upstream refuses before it sends anything to a replica: a batch or a conditional write may find too few replicas, or
/// too many hints, half-way.
fn happened_nothing(code: i32, is_simple: bool) -> bool {
    const UNAVAILABLE: i32 = 0x1000;
    const OVERLOADED: i32 = 0x1001;
    // Protocol, credentials, bootstrapping, syntax, unauthorized, invalid, configuration, exists, unprepared.
    const BEFORE: [i32; 9] = [
        0x000A, 0x0100, 0x1002, 0x2000, 0x2100, 0x2200, 0x2300, 0x2400, 0x2500,
    ];
    BEFORE.contains(&code) || is_simple && matches!(code, UNAVAILABLE | OVERLOADED)
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for table in touched.tables {
            if !self.may_have_written(&table) {
                table.watched.late_writes.forgotten.increment(1);
                continue;
            }
            let TouchedTable { watched, keys, .. } = table;
            match keys {
                Keys::Known(keys) if keys.is_empty() => {}
                Keys::Known(keys) => self.retirer.doubt(&watched, Doubted::Keys(keys)),
                // There may seem to be no splits now, and the next one could miss a hint.
                Keys::Unknown if self.is_anywhere => {
                    tell_hinted_anywhere(&watched);
                    self.retirer.doubt(&watched, Doubted::Anywhere);
                }
                Keys::Unknown | Keys::NoSchema | Keys::Whole(_) => {
                    self.retirer.doubt(&watched, Doubted::Table);
                }
            }
        }
    }
}

/// Logs an error, because no partition of the table is split until an operator acts.
fn tell_hinted_anywhere(watched: &Watched) {
    tracing::error!(
        table = %watched.name(),
        "the partitions of a write are unknown, and a hint may still deliver it: all splits of the table go out of \
         service, and its mode becomes detect. When the cluster's hint window (max_hint_window) has passed, run: narrows \
         mode {} serve",
        watched.name()
    );
}

const NOT_ACKNOWLEDGED: &str = "narrows: the write was forwarded, but the proxy could not make sure in time that no split of its partition is \
    in service; reads may or may not see the write";

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::known::slot::StoreSlot;
    use crate::known::testing;
    use crate::proxy::concern::Concern;
    use crate::schema::names::TableName;
    use crate::watched::WatchedTable;

    /// A late write whose partitions are unknown.
    fn late(consistency: u16) -> InFlight {
        let (known, store) = (testing::known(), Arc::new(StoreSlot::default()));
        let watched = testing::watched(WatchedTable::new(TableName::new("plant", "t")));
        let mut touched = Touched::default();
        touched.add(&watched, None, Keys::Unknown);
        let named = Named::new(
            Arc::new(Concern::WritesAnything),
            known.list(),
            Rc::default(),
        );
        let kind = Kind::Write {
            consistency,
            is_simple: true,
            changes_schema: false,
        };
        let retirer = Retirer::new(store, Handle::current());
        InFlight::new(touched, named, kind, retirer, None).late()
    }

    #[tokio::test]
    async fn a_write_that_was_made_arrives_nowhere_else_unless_it_was_at_any() {
        for (consistency, is_anywhere) in [(CONSISTENCY_ONE, false), (CONSISTENCY_ANY, true)] {
            let mut write = late(consistency);
            assert!(write.is_anywhere, "its outcome is not known yet");
            write.rule_out_hints();
            assert_eq!(write.is_anywhere, is_anywhere);
        }
    }

    #[test]
    fn only_errors_from_before_a_write_mean_that_nothing_happened() {
        for code in [0x2000, 0x2100, 0x2200, 0x2500, 0x1002] {
            assert!(happened_nothing(code, false), "{code:x}");
        }
        // Server error, truncate error, write timeout, write failure, CAS unknown.
        for code in [0x0000, 0x1003, 0x1100, 0x1500, 0x1700] {
            assert!(!happened_nothing(code, true), "{code:x}");
        }
        for code in [0x1000, 0x1001] {
            assert!(happened_nothing(code, true), "{code:x}");
            assert!(!happened_nothing(code, false), "{code:x}");
        }
    }
}
