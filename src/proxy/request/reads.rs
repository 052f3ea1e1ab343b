//! SELECTs of watched tables: whether the original's answer is looked at, a split answers, or a split ends first.

use std::sync::Arc;

use super::Result;
use crate::known::Watched;
use crate::known::service::WideRow;
use crate::protocol::header::Header;
use crate::protocol::request::execute;
use crate::protocol::request::parameters::Parameters;
use crate::protocol::types::Cursor;
use crate::proxy::prepared::Statement;
use crate::proxy::session::Session;
use crate::proxy::split::{Considered, Considering};
use crate::proxy::watching::Concern;
use crate::rewrite::Readable;
use crate::rewrite::keyed::Keyed;
use crate::rewrite::pageable::Pageable;
use crate::rewrite::state::State;
use crate::schema::TableSchema;
use crate::schema::names::TableName;

impl Session {
    /// Cassandra forgets a statement when its table is altered, and the client must learn of the new columns from it.
    pub(super) fn forget_if_altered(&self, statement: &Statement) {
        let Concern::Reads { keyspace, table } = &*statement.concern else {
            return;
        };
        let known = self.proxy.wide_row.as_ref().map(|wide_row| &wide_row.known);
        let watched = known.and_then(|known| known.table(keyspace, table));
        if let Some(schema) = watched.and_then(|watched| watched.schema()) {
            statement.forget_if_altered(&schema);
        }
    }

    /// A read of a watched table might be of a split partition.
    pub(super) fn consider_execute(
        &self,
        wide_row: &WideRow,
        statement: &Statement,
        header: Header,
        message: &Cursor<'_>,
    ) -> Result<Considering> {
        let Concern::Reads { keyspace, table } = &*statement.concern else {
            return Ok(Considering::Forward(None));
        };
        let watched = wide_row.known.table(keyspace, table);
        if watched.is_none() && !State::might_be_in(message.rest()) {
            return Ok(Considering::Forward(None));
        }
        let parameters = execute::parameters(self.version.get(), message.clone())?;
        let keyed = |schema: &_| statement.keyed(schema);
        if let Some(write) =
            self.serial_read(wide_row, watched.as_ref(), keyed, header, &parameters)
        {
            return Ok(write);
        }
        let considered = Considered {
            header,
            parameters: &parameters,
            text: &statement.text,
            table: TableName::new(keyspace, table),
            cut: watched
                .as_ref()
                .and_then(|_| self.cut(header, &parameters, || statement.pageable())),
            sight: self.sight(watched.as_ref(), &parameters, |schema| {
                statement.keyed(schema)
            }),
            watched,
            keyspace: None,
        };
        Ok(self.consider_select(considered, |schema| statement.readable(schema)))
    }

    pub(super) fn consider_query(
        &self,
        wide_row: &WideRow,
        concern: &Concern,
        text: &str,
        header: Header,
        parameters: &Parameters<'_>,
    ) -> Considering {
        let Concern::Reads { keyspace, table } = concern else {
            return Considering::Forward(None);
        };
        let watched = wide_row.known.table(keyspace, table);
        if watched.is_none() && !parameters.paging_state.is_some_and(State::might_be_in) {
            return Considering::Forward(None);
        }
        let keyed = |schema: &_| Keyed::parse(text, schema).map(Arc::new);
        if let Some(write) = self.serial_read(wide_row, watched.as_ref(), keyed, header, parameters)
        {
            return write;
        }
        let pageable = || Pageable::parse(text).map(Arc::new);
        let considered = Considered {
            header,
            parameters,
            text,
            table: TableName::new(keyspace, table),
            cut: watched
                .as_ref()
                .and_then(|_| self.cut(header, parameters, pageable)),
            sight: self.sight(watched.as_ref(), parameters, |schema| {
                Keyed::parse(text, schema).map(Arc::new)
            }),
            watched,
            keyspace: match parameters.keyspace {
                Some(_) => None,
                None => self.keyspace.borrow().clone(),
            },
        };
        self.consider_select(considered, |schema| {
            Readable::parse(text, schema).map(Arc::new)
        })
    }

    /// `None`: it is not serial, or reads nothing that might be split.
    fn serial_read(
        &self,
        wide_row: &WideRow,
        watched: Option<&Arc<Watched>>,
        keyed: impl FnOnce(&Arc<TableSchema>) -> Option<Arc<Keyed>>,
        header: Header,
        parameters: &Parameters<'_>,
    ) -> Option<Considering> {
        let watched = watched.filter(|_| parameters.is_serial())?;
        let key = keyed(&watched.key_schema()?)?.key(&parameters.values);
        let write = self.consider_serial_read(wide_row, watched, key, header)?;
        Some(Considering::Serial(write))
    }
}
