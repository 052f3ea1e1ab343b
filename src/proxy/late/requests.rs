//! What QUERY, EXECUTE and BATCH touch of watched tables.

use std::sync::Arc;

use super::consider::{Considered, Considering, Statements};
use super::touched::{Keys, Touched};
use super::{Kind, Named, NotUnderstood};
use crate::known::Watched;
use crate::known::service::WideRow;
use crate::protocol::ProtocolError;
use crate::protocol::header::Header;
use crate::protocol::request::batch;
use crate::protocol::request::parameters::Parameters;
use crate::protocol::types::{Cursor, Value};
use crate::proxy::prepared::Statement;
use crate::proxy::session::Session;
use crate::proxy::watching::Concern;
use crate::rewrite::written::Written;
use crate::schema::names::PartitionKey;
use crate::statement::Shape;
use crate::statement::anonymous::without_constants;
use crate::statement::touches::Change;

/// A statement of a request, prepared or not.
pub(in crate::proxy) enum Source<'a> {
    Prepared(&'a Arc<Statement>),
    Text {
        text: &'a str,
        /// Where its unqualified names are.
        keyspace: Option<&'a str>,
    },
}

/// One statement with its values.
struct Bound<'a> {
    source: &'a Source<'a>,
    concern: &'a Concern,
    values: &'a [(Option<&'a str>, Value<'a>)],
}

/// What the statements of one request touch together.
#[derive(Default)]
struct Gathered {
    touched: Touched,
    not_understood: Vec<NotUnderstood>,
    /// All of them so far are.
    is_simple: bool,
}

impl Gathered {
    fn add(&mut self, tables: &[Arc<Watched>], bound: &Bound<'_>) {
        let mut is_understood = true;
        for watched in tables {
            let statements = bound.touches(watched);
            self.is_simple &= statements.is_simple;
            is_understood &= statements.keys != Keys::Unknown;
            self.touched
                .add(watched, statements.table_id, statements.keys);
        }
        if !is_understood {
            self.not_understood.push(bound.source.not_understood());
        }
    }
}

impl Bound<'_> {
    fn touches(&self, watched: &Watched) -> Statements {
        let whole = |how: Change| Statements {
            table_id: watched.table_id(),
            keys: Keys::Whole(how),
            is_simple: false,
        };
        match self.concern {
            Concern::Changes(how, _) => whole(*how),
            Concern::DropsKeyspace(_) => whole(Change::Drop),
            concern => {
                // A batch without statements, or with too many to list their tables, may be for none of them.
                let is_any = *concern == Concern::WritesAnything;
                let is_clear = |written: &Arc<Written>| is_any || written.names_table();
                let written = |schema: &_| match self.source {
                    Source::Prepared(statement) => statement.written(schema),
                    Source::Text { text, keyspace } => {
                        Written::parse(text, *keyspace, schema).map(Arc::new)
                    }
                };
                let written = |schema: &_| written(schema).filter(is_clear);
                Statements::new(watched, written, self.values)
            }
        }
    }
}

impl Source<'_> {
    fn not_understood(&self) -> NotUnderstood {
        let (text, keyspace) = match self {
            Self::Prepared(statement) => (statement.text.as_str(), None),
            Self::Text { text, keyspace } => (*text, *keyspace),
        };
        NotUnderstood {
            text: text.to_owned(),
            is_prepared: matches!(self, Self::Prepared(_)),
            keyspace: keyspace.map(str::to_owned),
            shape: without_constants(text),
        }
    }

    fn shape_changes_schema(&self, shape: &Shape) -> bool {
        match self {
            Self::Prepared(statement) => statement.shape == Shape::SchemaChange,
            Self::Text { .. } => *shape == Shape::SchemaChange,
        }
    }
}

impl Session {
    /// A QUERY or an EXECUTE that writes these watched tables.
    pub(in crate::proxy) fn consider_written(
        &self,
        wide_row: &WideRow,
        (source, shape): (&Source<'_>, &Shape),
        (named, tables): (Named, &[Arc<Watched>]),
        header: Header,
        parameters: &Parameters<'_>,
    ) -> Considering {
        let mut gathered = Gathered {
            is_simple: true,
            ..Gathered::default()
        };
        let bound = Bound {
            source,
            concern: &named.concern,
            values: &parameters.values,
        };
        gathered.add(tables, &bound);
        let kind = Kind::Write {
            consistency: parameters.consistency,
            is_simple: gathered.is_simple,
            changes_schema: self.waits_for_agreement() && source.shape_changes_schema(shape),
        };
        let is_text = matches!(source, Source::Text { .. });
        let keyspace = self.keyspace_of(is_text && parameters.keyspace.is_none());
        self.consider_gathered(wide_row, (gathered, named), kind, keyspace, header)
    }

    /// A BATCH; its statements were looked at before, so that all prepared ones are known.
    pub(in crate::proxy) fn consider_written_batch(
        &self,
        wide_row: &WideRow,
        named: Named,
        header: Header,
        message: &Cursor<'_>,
    ) -> Result<Considering, ProtocolError> {
        let version = self.version.get();
        let rest = batch::each(message.clone(), |_, _| {})?;
        let parameters = batch::parameters(version, rest)?;
        let keyspace = self.keyspace_of_names(parameters.keyspace);
        let keyspace = keyspace.as_deref();
        let (mut gathered, mut malformed) = (Gathered::default(), Ok(()));
        let (mut has_texts, mut is_evicted) = (false, false);
        batch::each(message.clone(), |statement, values| {
            let values = match values.read() {
                Ok(values) => values,
                Err(error) => return malformed = Err(error),
            };
            let prepared = match &statement {
                batch::Statement::Prepared(id) => self.proxy.prepared.get(id),
                batch::Statement::Text(_) => None,
            };
            let of_text;
            let (source, concern) = match (&prepared, &statement) {
                (Some(statement), _) => (Source::Prepared(statement), &statement.concern),
                (None, batch::Statement::Text(text)) => {
                    has_texts = true;
                    of_text = Arc::new(self.concern_of(text, parameters.keyspace));
                    (Source::Text { text, keyspace }, &of_text)
                }
                // Evicted a moment ago: what it writes is not known any more.
                (None, batch::Statement::Prepared(_)) => return is_evicted = true,
            };
            let tables = concern.written(&wide_row.known);
            let bound = Bound {
                source: &source,
                concern,
                values: &values,
            };
            gathered.add(&tables, &bound);
        })?;
        malformed?;
        if is_evicted {
            return Ok(Considering::TooMany);
        }
        let kind = Kind::Write {
            consistency: parameters.consistency,
            is_simple: false,
            changes_schema: false,
        };
        let keyspace = self.keyspace_of(has_texts && parameters.keyspace.is_none());
        Ok(self.consider_gathered(wide_row, (gathered, named), kind, keyspace, header))
    }

    fn keyspace_of(&self, is_needed: bool) -> Option<String> {
        is_needed.then(|| self.keyspace.borrow().clone()).flatten()
    }

    fn consider_gathered(
        &self,
        wide_row: &WideRow,
        (gathered, named): (Gathered, Named),
        kind: Kind,
        keyspace: Option<String>,
        header: Header,
    ) -> Considering {
        let considered = Considered {
            touched: gathered.touched,
            named,
            kind,
            not_understood: gathered.not_understood,
            keyspace,
            request_bytes: header.length as usize,
        };
        self.consider_write(wide_row, considered)
    }

    /// A serial read of one partition of a watched table. `None`: it concerns nothing that is split.
    pub(in crate::proxy) fn consider_serial_read(
        &self,
        wide_row: &WideRow,
        watched: &Arc<Watched>,
        key: Option<PartitionKey>,
        header: Header,
    ) -> Option<Considering> {
        let mut touched = Touched::default();
        touched.add(watched, watched.table_id(), Keys::Known(vec![key?]));
        if touched.is_clear() {
            return None;
        }
        let considered = Considered {
            touched,
            named: Named::new(Arc::new(Concern::Nothing), wide_row.known.list()),
            kind: Kind::SerialRead,
            not_understood: Vec::new(),
            keyspace: None,
            request_bytes: header.length as usize,
        };
        Some(self.consider_write(wide_row, considered))
    }
}
