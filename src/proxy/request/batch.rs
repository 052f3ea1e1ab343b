//! BATCH: it writes what any of its statements does.

use std::sync::Arc;

use super::{Decision, Refusal, Result, anywhere, decided_write};
use crate::protocol::header::Header;
use crate::protocol::request::batch;
use crate::protocol::response::error;
use crate::protocol::types::Cursor;
use crate::proxy::late::Named;
use crate::proxy::session::{Session, Stage};
use crate::proxy::watching::Concern;
use crate::statement::{Shape, touches};

impl Session {
    pub(super) fn decide_batch(&self, header: Header, message: Cursor<'_>) -> Result<Decision> {
        let mut missing = Vec::new();
        let unknown =
            batch::first_unknown_id(message.clone(), |id| match self.proxy.prepared.get(id) {
                Some(statement) if !statement.is_on(self.node) => {
                    missing.push(statement);
                    true
                }
                found => found.is_some(),
            })?;
        Ok(match unknown {
            Some(id) => Decision::Refuse(error::unprepared(id), Refusal::Unprepared),
            None if missing.is_empty() || self.stage.get() != Stage::Established => {
                return self.decide_known_batch(header, message);
            }
            None => Decision::PrepareFirst(missing),
        })
    }

    /// A batch writes what any of its statements does.
    fn decide_known_batch(&self, header: Header, message: Cursor<'_>) -> Result<Decision> {
        let Some(wide_row) = &self.proxy.wide_row else {
            return Ok(Decision::Forward);
        };
        let (mut prepared, mut texts) = (Vec::new(), Vec::new());
        let rest = batch::each(message.clone(), |statement, _| match statement {
            batch::Statement::Prepared(id) => prepared.push(self.proxy.prepared.get(id)),
            batch::Statement::Text(text) => texts.push(touches(&text)),
        })?;
        let keyspace = batch::parameters(self.version.get(), rest)?.keyspace;
        let texts = texts.into_iter().map(|touched| {
            let anywhere = anywhere(&touched, keyspace);
            (Arc::new(self.concern(touched, keyspace)), anywhere)
        });
        // One that was evicted a moment ago may write anything.
        let prepared = prepared.iter().map(|known| match known {
            Some(statement) => (statement.concern.clone(), None),
            None => (Arc::new(Concern::WritesAnything), None),
        });
        let (mut is_watched, mut is_short) = (false, false);
        let (mut all, mut all_anywhere) = (Concern::Nothing, Concern::Nothing);
        let list = wide_row.known.list();
        for (concern, anywhere) in prepared.chain(texts) {
            let tables = concern.written(&wide_row.known);
            if let Some(decision) = self.hold_if_stale(wide_row, &concern, &tables) {
                return Ok(decision);
            }
            is_watched |= !tables.is_empty();
            is_short |= anywhere.is_some();
            all_anywhere.join(anywhere.as_ref().unwrap_or(&concern));
            all.join(&concern);
        }
        if !all.is_write() {
            // It is to Cassandra's own tables.
            return Ok(Decision::Forward);
        }
        let named =
            Named::new(Arc::new(all), list).or_anywhere(is_short.then(|| Arc::new(all_anywhere)));
        if !is_watched {
            return Ok(self.unwatched(wide_row, named, &Shape::Other));
        }
        let write = self.consider_written_batch(wide_row, named, header, &message)?;
        Ok(decided_write(write))
    }
}
