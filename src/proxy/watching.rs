//! The part of a session that exists where tables are watched: a reader of splits and a checker of writes. It decides
//! which of them gets a request.

use std::rc::Rc;
use std::sync::Arc;

use super::concern::Concern;
use super::decision::Decision;
use super::late::checker::WriteChecker;
use super::prepared::Statement;
use super::rights::record::Rights;
use super::source::Asking;
use super::split::reader::SplitReader;
use super::wire::Wire;
use crate::known::Watched;
use crate::known::service::WideRow;
use crate::protocol::ProtocolError;
use crate::protocol::request::parameters::Parameters;
use crate::rewrite::state::PagingState;
use crate::schema::names::TableName;
use crate::upstream::pool::Pool;

type Result<T> = std::result::Result<T, ProtocolError>;

pub(super) struct Watching {
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
        let (wire, rights) = (wire.clone(), rights.clone());
        Self {
            reads: SplitReader::new(wire.clone(), rights.clone(), wide_row.clone(), pool),
            writes: WriteChecker::new(wire, rights, wide_row.clone()),
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
        match &*asking.concern {
            Concern::Nothing => Ok(None),
            Concern::Reads { keyspace, table } => {
                let watched = self.wide_row.known.table(keyspace, table);
                // A scan that began on a split goes on even if its table is no longer watched.
                if watched.is_none() && !PagingState::might_be_in(asking.rest.rest()) {
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
