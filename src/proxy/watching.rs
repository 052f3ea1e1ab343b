//! The part of a session that exists where tables are watched: a reader of splits and a checker of writes. It decides
//! which of them gets a request.

use std::rc::Rc;
use std::sync::Arc;

use super::concern::Concern;
use super::decision::Decision;
use super::late::checker::WriteChecker;
use super::prepared::Statement;
use super::rights::record::Rights;
use super::source::{Asking, Source};
use super::split::reader::SplitReader;
use super::wire::Wire;
use crate::known::Watched;
use crate::known::service::WideRow;
use crate::protocol::ProtocolError;
use crate::protocol::header::Version;
use crate::protocol::request::execute;
use crate::protocol::request::parameters::Parameters;
use crate::protocol::response::error::ErrorCode;
use crate::rewrite::state::PagingState;
use crate::schema::names::TableName;
use crate::upstream::pool::Pool;

type Result<T> = std::result::Result<T, ProtocolError>;

pub(super) struct Watching {
    wire: Rc<Wire>,
    pub(super) wide_row: WideRow,
    pub(super) reads: Rc<SplitReader>,
    pub(super) writes: Rc<WriteChecker>,
}

impl Watching {
    pub(super) fn new(
        wide_row: &WideRow,
        wire: &Rc<Wire>,
        rights: &Rc<Rights>,
        pool: Rc<Pool>,
    ) -> Self {
        let wide_row = wide_row.clone();
        let rights = rights.clone();
        Self {
            reads: SplitReader::new(wire.clone(), rights.clone(), wide_row.clone(), pool),
            writes: WriteChecker::new(wire.clone(), rights, wide_row.clone()),
            wire: wire.clone(),
            wide_row,
        }
    }

    /// Cassandra forgets a statement when its table is altered. The proxy must do the same, so that the client learns
    /// the new columns.
    pub(super) fn forget_if_altered(&self, statement: &Statement) {
        let Concern::Reads { keyspace, table } = &*statement.concern else {
            return;
        };
        let watched = self.wide_row.known.table(keyspace, table);
        if let Some(schema) = watched.and_then(|watched| watched.schema()) {
            statement.forget_if_altered(&schema);
        }
    }

    /// `None`: the request touches no watched table, or changes none of its rows.
    pub(super) fn decide<'a>(
        &self,
        asking: &Asking<'a>,
        parameters: impl FnOnce() -> Result<Parameters<'a>>,
    ) -> Result<Option<Decision>> {
        let might_continue = || might_continue(self.wire.version.get(), asking);
        match &*asking.concern {
            Concern::Nothing if !might_continue()? => Ok(None),
            Concern::Nothing => Ok(continued_nowhere(&parameters()?)),
            Concern::Reads { keyspace, table } => {
                let watched = self.wide_row.known.table(keyspace, table);
                // A scan that began on a split goes on even if its table is no longer watched.
                if watched.is_none() && !might_continue()? {
                    return Ok(None);
                }
                let table = TableName::new(keyspace, table);
                self.decide_read(asking, &table, watched.as_ref(), &parameters()?)
            }
            Concern::Configures(_) => Ok(self.writes.consider_configuring(&asking.concern)),
            _ => self.writes.consider(asking, parameters).map(Some),
        }
    }

    fn decide_read(
        &self,
        asking: &Asking<'_>,
        table: &TableName,
        watched: Option<&Arc<Watched>>,
        parameters: &Parameters<'_>,
    ) -> Result<Option<Decision>> {
        if let Some(watched) = watched.filter(|_| parameters.is_serial()) {
            let keyed = watched
                .key_schema()
                .and_then(|schema| asking.source.keyed(&schema));
            let key = keyed.and_then(|keyed| keyed.key(&parameters.values));
            let decision = key.and_then(|key| {
                self.writes
                    .consider_serial_read(watched, key, asking.header)
            });
            if decision.is_some() {
                return Ok(decision);
            }
        }
        self.reads.consider(asking, table, watched, parameters)
    }
}

/// Whether a request may continue a scan that began on a split. An EXECUTE that has arrived in part must not be forwarded
/// before that is certain. `Err`: more of it must arrive first.
fn might_continue(version: Version, asking: &Asking<'_>) -> Result<bool> {
    let is_execute = matches!(asking.source, Source::Prepared(_));
    if asking.is_whole() || !is_execute {
        return Ok(PagingState::might_be_in(asking.rest.rest()));
    }
    match execute::has_paging_state(version, asking.rest.clone())? {
        true => Err(ProtocolError::Truncated("paging state")),
        false => Ok(false),
    }
}

/// A request whose table is not known, in case it continues a scan of a split: neither the split nor the original can.
fn continued_nowhere(parameters: &Parameters<'_>) -> Option<Decision> {
    let state = PagingState::decode(parameters.paging_state?);
    let is_ours = !matches!(state, Ok(None));
    is_ours.then(|| Decision::refuse(ErrorCode::Invalid, NOWHERE))
}

const NOWHERE: &str = "narrows: it is not clear in which table this scan continues; name the keyspace in the statement, or \
    wait for the reply to USE";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::header::{Header, opcode};
    use crate::protocol::types::{Cursor, Write};
    use crate::proxy::decision::Taken;
    use crate::statement::Shape;

    fn state() -> Vec<u8> {
        PagingState::of_table(1).encode()
    }

    /// The parameters of an EXECUTE in v4, with a page size.
    fn parameters(state: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_short(1);
        out.put_byte(state.map_or(0x04, |_| 0x04 | 0x08));
        out.put_int(100);
        if state.is_some() {
            out.put_bytes(state);
        }
        out
    }

    #[test]
    fn an_execute_in_pieces_waits_if_it_has_a_paging_state() {
        let statement = Statement::new(Shape::Other, "SELECT * FROM ks.t", None);
        let judge = |parameters: &[u8], arrived: usize| {
            let header = Header {
                version: Version::V4.byte(),
                flags: 0,
                stream: 1,
                opcode: opcode::EXECUTE,
                length: u32::try_from(parameters.len()).expect("short"),
            };
            let body = &parameters[..arrived];
            let asking = Asking {
                header,
                body,
                rest: Cursor::new(body),
                source: Source::Prepared(&statement),
                shape: &statement.shape,
                concern: statement.concern.clone(),
                anywhere: None,
            };
            might_continue(Version::V4, &asking).ok()
        };
        let (ours, native) = (parameters(Some(&state())), parameters(Some(b"native")));
        for parameters in [&ours, &native] {
            for arrived in 0..parameters.len() {
                assert_eq!(judge(parameters, arrived), None, "{arrived}");
            }
        }
        assert_eq!(judge(&ours, ours.len()), Some(true));
        assert_eq!(judge(&native, native.len()), Some(false));
        let without = parameters(None);
        assert_eq!(judge(&without, 2), None);
        assert_eq!(judge(&without, 3), Some(false), "the flags are enough");
    }

    #[test]
    fn a_scan_of_a_split_does_not_continue_in_a_table_that_is_not_known() {
        let decide = |state: Option<&[u8]>| {
            let body = parameters(state);
            let read = Parameters::read(Version::V4, &mut Cursor::new(&body));
            continued_nowhere(&read.expect("valid"))
        };
        let refused = decide(Some(&state()));
        assert!(matches!(refused, Some(Decision::Take(Taken::Refuse(_)))));
        assert!(decide(Some(b"native")).is_none() && decide(None).is_none());
    }
}
