//! Whether a SELECT might be answered from a split: its form, its key, the filter. Runs for every read of a watched table,
//! so the common case (not split) ends after a hash and a look into the filter.

use std::sync::Arc;

use super::SplitRead;
use super::cut::Cut;
use crate::filter::Target;
use crate::known::Watched;
use crate::protocol::header::{Header, flag};
use crate::protocol::request::parameters::Parameters;
use crate::proxy::late;
use crate::proxy::pending::Held;
use crate::proxy::prepared::Statement;
use crate::proxy::session::{Session, Stage};
use crate::proxy::sight::Sight;
use crate::rewrite::bind::{Bound, Key};
use crate::rewrite::state::State;
use crate::rewrite::{Readable, Reason};
use crate::schema::TableSchema;
use crate::schema::names::TableName;
use crate::watched::Mode;

/// Reads at a time on one connection; further ones are answered by the original.
const READS_MAX: usize = 256;

/// A SELECT, as a session knows it.
pub(in crate::proxy) struct Considered<'a> {
    pub(in crate::proxy) header: Header,
    pub(in crate::proxy) parameters: &'a Parameters<'a>,
    pub(in crate::proxy) text: &'a str,
    pub(in crate::proxy) table: TableName,
    pub(in crate::proxy) watched: Option<Arc<Watched>>,
    /// What `text` needs to mean the same: the connection's keyspace, or nothing.
    pub(in crate::proxy) keyspace: Option<String>,
    pub(in crate::proxy) cut: Option<Cut>,
    /// What the reply of the original is looked at for.
    pub(in crate::proxy) sight: Option<Sight>,
}

/// What becomes of it.
pub(in crate::proxy) enum Considering {
    /// The original answers, as if there were no splits.
    Forward(Option<Sight>),
    Take(Box<SplitRead>),
    /// A serial read: it may finish a conditional write of before on the original, so what is split of it ends first.
    Serial(late::Considering),
    /// It goes on with a scan of ours, and there is no room for it.
    TooMany,
}

impl Session {
    pub(in crate::proxy) fn consider_select(
        &self,
        considered: Considered<'_>,
        parse: impl FnOnce(&Arc<TableSchema>) -> Result<Arc<Readable>, Reason>,
    ) -> Considering {
        if self.stage.get() != Stage::Established {
            return Considering::Forward(None);
        }
        let bytes = considered.parameters.paging_state;
        let state = bytes.and_then(|bytes| State::decode(bytes).transpose());
        let judged = match &considered.watched {
            // The scan began on the original, and ends there.
            _ if bytes.is_some() && state.is_none() => Judged::Forward,
            Some(watched) => judge(watched, parse, considered.header, considered.parameters),
            None => Judged::Forward,
        };
        if let (Judged::Form(reason), None) = (&judged, &state) {
            self.proxy.metrics.split.count_form(*reason);
        }
        let readable = match (judged, considered.watched) {
            (Judged::Read(readable), Some(watched)) => Some((readable, watched)),
            _ => None,
        };
        if readable.is_none() && state.is_none() && considered.cut.is_none() {
            return Considering::Forward(considered.sight);
        }
        // Sent to the original as it is, a state of ours would be an error.
        let no_room = match state {
            Some(_) => Considering::TooMany,
            None => Considering::Forward(None),
        };
        let Some(held) = Held::begin(&self.reading, READS_MAX) else {
            return no_room;
        };
        let request_bytes = considered.header.length as usize;
        let Some(bytes) = self.proxy.split_reads.reserve(request_bytes) else {
            return no_room;
        };
        Considering::Take(Box::new(SplitRead {
            table: considered.table,
            readable,
            text: considered.text.into(),
            keyspace: considered.keyspace,
            state,
            cut: considered.cut,
            sight: considered.sight,
            _bytes: bytes,
            _held: held,
        }))
    }
}

/// Whether a read of a watched table goes further than the filter, decided as a session decides about an EXECUTE. Public so
/// that its cost can be measured: everybody who reads a watched table pays it.
pub fn might_be_answered(
    watched: &Watched,
    statement: &Statement,
    header: Header,
    parameters: &Parameters<'_>,
) -> bool {
    let parse = |schema: &_| statement.readable(schema);
    matches!(judge(watched, parse, header, parameters), Judged::Read(_))
}

enum Judged {
    /// Nothing is split, or may be served.
    Forward,
    /// It cannot be answered from a split.
    Form(Reason),
    Read(Arc<Readable>),
}

fn judge(
    watched: &Watched,
    parse: impl FnOnce(&Arc<TableSchema>) -> Result<Arc<Readable>, Reason>,
    header: Header,
    parameters: &Parameters<'_>,
) -> Judged {
    // Before the full load a filter lets everything through, or is as old as its file.
    if !watched.freshness.is_loaded() || watched.mode() != Mode::Serve {
        return Judged::Forward;
    }
    let Some(schema) = watched.schema() else {
        return Judged::Forward;
    };
    let keys = || {
        if header.has(flag::TRACING) {
            return Err(Reason::Tracing);
        }
        if parameters.is_serial() {
            return Err(Reason::Serial);
        }
        if parameters.page_size == Some(0) {
            return Err(Reason::Paging);
        }
        let readable = parse(&schema)?;
        let bound = Bound::new(&readable.select.markers, &parameters.values)?;
        let keys = readable.keys(&bound)?;
        Ok((readable, keys))
    };
    match keys() {
        Err(reason) => Judged::Form(reason),
        Ok((readable, keys)) => {
            let continues = parameters.paging_state.is_some();
            let might = |key: &Key| watched.might_be_split(&Target::key(key.key.bytes()));
            if continues || keys.iter().any(might) {
                Judged::Read(readable)
            } else {
                Judged::Forward
            }
        }
    }
}
