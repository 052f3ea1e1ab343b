//! Gathers the partitions of watched tables that the statements of a request touch.

use std::sync::Arc;

use uuid::Uuid;

use super::late_write::NotUnderstood;
use super::touched::{Keys, Touched};
use crate::known::Watched;
use crate::protocol::types::Value;
use crate::proxy::concern::Concern;
use crate::proxy::source::Source;
use crate::rewrite::written::Written;
use crate::schema::TableSchema;
use crate::statement::anonymous::without_constants;
use crate::statement::touches::Change;

/// One statement with its values.
pub(super) struct Touching<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) concern: &'a Concern,
    pub(super) values: &'a [(Option<&'a str>, Value<'a>)],
}

/// Everything that the statements of one request touch.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) touched: Touched,
    pub(super) not_understood: Vec<NotUnderstood>,
    /// Each statement so far writes one partition without a condition.
    pub(super) is_simple: bool,
}

impl Gathered {
    pub(super) fn add(&mut self, tables: &[Arc<Watched>], touching: &Touching<'_>) {
        let mut is_understood = true;
        for watched in tables {
            let statements = touching.touches(watched);
            self.is_simple &= statements.is_simple;
            is_understood &= statements.keys != Keys::Unknown;
            self.touched
                .add(watched, statements.table_id, statements.keys);
        }
        if !is_understood {
            self.not_understood.push(not_understood(touching.source));
        }
    }
}

impl Touching<'_> {
    fn touches(&self, watched: &Watched) -> StatementKeys {
        let whole = |how: Change| StatementKeys {
            table_id: watched.table_id(),
            keys: Keys::Whole(how),
            is_simple: false,
        };
        match self.concern {
            Concern::Changes(how, _) => whole(*how),
            Concern::DropsKeyspace(_) => whole(Change::Drop),
            concern => {
                // A batch without statements, or with too many to list its tables, concerns all watched tables here,
                // and may write none of them.
                let is_any = matches!(concern, Concern::WritesAnything | Concern::WritesMany(_));
                let is_clear = |written: &Arc<Written>| is_any || written.names_table();
                let written = |schema: &_| self.source.written(schema).filter(is_clear);
                StatementKeys::new(watched, written, self.values)
            }
        }
    }
}

/// Describes a statement whose partitions cannot be computed.
fn not_understood(source: &Source<'_>) -> NotUnderstood {
    let keyspace = match source {
        Source::Prepared(_) => None,
        Source::Text { keyspace, .. } => *keyspace,
    };
    NotUnderstood {
        text: source.text().to_owned(),
        is_prepared: !source.is_text(),
        keyspace: keyspace.map(str::to_owned),
        shape: without_constants(source.text()),
    }
}

/// The partitions of one table that one statement touches.
struct StatementKeys {
    table_id: Option<Uuid>,
    keys: Keys,
    is_simple: bool,
}

impl StatementKeys {
    /// `written`: the meaning of the statement for this schema.
    fn new(
        watched: &Watched,
        written: impl FnOnce(&Arc<TableSchema>) -> Option<Arc<Written>>,
        values: &[(Option<&str>, Value<'_>)],
    ) -> Self {
        let table_id = watched.table_id();
        let unclear = |keys: Keys| Self {
            table_id,
            keys,
            is_simple: false,
        };
        let Some(schema) = watched.key_schema() else {
            return unclear(Keys::NoSchema);
        };
        let Some(written) = written(&schema) else {
            return unclear(Keys::Unknown);
        };
        let Some(keys) = written.keys(values) else {
            return unclear(Keys::Unknown);
        };
        Self {
            is_simple: written.is_single() && !written.is_conditional() && keys.len() < 2,
            table_id,
            keys: Keys::Known(keys),
        }
    }
}
