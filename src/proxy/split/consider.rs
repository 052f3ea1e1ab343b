//! Decides whether a split might answer a SELECT: by its form, its keys and the filter. This runs for every read of a
//! watched table, so the common case (not split) ends after a hash and a look into the filter.

use std::sync::Arc;

use super::answer::resumed;
use super::read::{Asked, RequestRoom, SplitRead, Wanted};
use super::reader::SplitReader;
use crate::known::Watched;
use crate::protocol::ProtocolError;
use crate::protocol::header::{Header, flag};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::response::error::ErrorCode;
use crate::proxy::decision::{Decision, Taken};
use crate::proxy::held::Held;
use crate::proxy::pending::Pending;
use crate::proxy::short_names::ShortRead;
use crate::proxy::sight::Sight;
use crate::proxy::source::{Asking, Source};
use crate::proxy::wire::Stage;
use crate::rewrite::Reason;
use crate::rewrite::bind::{Bound, Key};
use crate::rewrite::state::{PagingState, StateError};
use crate::schema::names::{PartitionKey, TableName};
use crate::watched::Mode;

/// Maximum number of split reads in progress per connection. The original answers further ones.
const READS_MAX: usize = 256;
/// The original answers larger requests. Every sub-read has a copy of the bound values, which is not counted, so these
/// must be small beside the rows.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// While a connection has this many pending replies, replies to further reads pass unseen.
const SIGHTS_MAX: usize = 1024;

impl SplitReader {
    /// `None`: the original answers, and the session does not look at its reply.
    pub(in crate::proxy) fn consider(
        &self,
        asking: &Asking<'_>,
        table: &TableName,
        watched: Option<&Arc<Watched>>,
        parameters: &Parameters<'_>,
    ) -> Result<Option<Decision>, ProtocolError> {
        if self.wire.stage.get() != Stage::Established {
            return Ok(None);
        }
        let bytes = parameters.paging_state;
        let state = bytes.and_then(|bytes| PagingState::decode(bytes).transpose());
        let standing = match watched {
            // The scan began on the original, and ends there.
            _ if bytes.is_some() && state.is_none() => Standing::NotServed,
            Some(watched) => judge(watched, &asking.source, asking.header, parameters),
            None => Standing::NotServed,
        };
        if let (Standing::Form(reason), None) = (&standing, &state) {
            self.wire.proxy.metrics.split.count_form(*reason);
        }
        let sight = watched.and_then(|watched| {
            let partition = || standing.partition(watched, &asking.source, parameters);
            let has_room = self.wire.pending.borrow().len() < SIGHTS_MAX;
            has_room.then(|| Sight::begin(watched, parameters, partition))?
        });
        let cut = watched.and_then(|_| self.cut(asking, parameters));
        let wanted = match standing {
            Standing::MaybeSplit(wanted) => Some(*wanted),
            Standing::NotServed | Standing::Form(_) | Standing::NotSplit { .. } => None,
        };
        if wanted.is_none() && state.is_none() && cut.is_none() {
            return Ok(sight.map(|sight| Decision::Watch(Pending::Sight(sight))));
        }
        let asked = || Asked::new(self.wire.version.get(), asking, table, parameters);
        let Some(_room) = self.room(asking.header, wanted.is_some()) else {
            return Ok(match state {
                None => sight.map(|sight| Decision::Watch(Pending::Sight(sight))),
                Some(state) => Some(without_room(&state, &asked()?)),
            });
        };
        let is_short = asking.anywhere.is_some();
        Ok(Some(Decision::Take(Taken::SplitRead(Box::new(
            SplitRead {
                asked: asked()?,
                wanted,
                short: is_short.then(|| ShortRead::begin(&self.wire.short_names)),
                state,
                cut,
                sight,
                _room,
            },
        )))))
    }

    /// `None`: the request is too large, or too many are being answered.
    fn room(&self, header: Header, is_wanted: bool) -> Option<RequestRoom> {
        let length = header.length as usize;
        if length > REQUEST_BYTES_MAX {
            return None;
        }
        // `Wanted` has a copy of the values.
        let bytes = if is_wanted { 2 * length } else { length };
        Some(RequestRoom {
            _held: Held::begin(&self.reading, READS_MAX)?,
            _taken: self.share.take_for_request(bytes)?,
            _bytes: self.wire.proxy.split_reads.reserve(bytes)?,
        })
    }
}

/// A scan that began on a split and that no task of ours can continue. The original would reject its paging state, so it
/// gets one of its own, with the same position.
fn without_room(state: &Result<PagingState, StateError>, asked: &Asked) -> Decision {
    match resumed(state, asked) {
        Ok(resumed) => Decision::Take(Taken::GoOn(Box::new(resumed.state.clone()))),
        Err(text) => Decision::refuse(ErrorCode::Protocol, text),
    }
}

/// What the filter says about the partitions of a SELECT.
enum Standing {
    /// The table serves no splits, or the scan began on the original.
    NotServed,
    /// No split can answer this form.
    Form(Reason),
    /// None of these keys is split.
    NotSplit {
        keys: Vec<Key>,
        /// The SELECT may return far less than it reads.
        condenses: bool,
    },
    MaybeSplit(Box<Wanted>),
}

impl Standing {
    /// The partition that the SELECT reads, if it is one, and whether it may return far less than it reads.
    fn partition(
        &self,
        watched: &Watched,
        source: &Source<'_>,
        parameters: &Parameters<'_>,
    ) -> Option<(PartitionKey, bool)> {
        let (keys, condenses) = match self {
            Self::NotSplit { keys, condenses } => (keys, *condenses),
            Self::MaybeSplit(wanted) => (&wanted.keys, wanted.readable.condenses),
            Self::NotServed | Self::Form(_) => {
                let keyed = source.keyed(&watched.schema()?)?;
                return Some((keyed.key(&parameters.values)?, keyed.condenses));
            }
        };
        match keys.as_slice() {
            [one] => Some((one.key.clone(), condenses)),
            _ => None,
        }
    }
}

fn judge(
    watched: &Arc<Watched>,
    source: &Source<'_>,
    header: Header,
    parameters: &Parameters<'_>,
) -> Standing {
    // Before the full load a filter lets everything through, or is as old as its file.
    if !watched.freshness.is_loaded() || watched.mode() != Mode::Serve {
        return Standing::NotServed;
    }
    wanted(watched, source, header, parameters).unwrap_or_else(Standing::Form)
}

fn wanted(
    watched: &Arc<Watched>,
    source: &Source<'_>,
    header: Header,
    parameters: &Parameters<'_>,
) -> Result<Standing, Reason> {
    let Some(schema) = watched.schema() else {
        return Ok(Standing::NotServed);
    };
    if header.has(flag::TRACING) {
        return Err(Reason::Tracing);
    }
    if parameters.is_serial() {
        return Err(Reason::Serial);
    }
    if parameters.page_size == Some(0) {
        return Err(Reason::Paging);
    }
    let readable = source.readable(&schema)?;
    let bound = Bound::new(&readable.select.markers, &parameters.values)?;
    let keys = readable.keys(&bound)?;
    let continues = parameters.paging_state.is_some();
    let asked = keys.iter().map(|key| key.key.bytes());
    if !continues && !watched.might_any_be_split(asked) {
        let condenses = readable.condenses;
        return Ok(Standing::NotSplit { keys, condenses });
    }
    Ok(Standing::MaybeSplit(Box::new(Wanted {
        values: bound.keep(),
        limits: readable.limits(&bound)?,
        watched: watched.clone(),
        readable,
        keys,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u64 = 7;

    fn asked(fingerprint: u64) -> Asked {
        Asked {
            consistency: 1,
            serial_consistency: None,
            page_size: Some(10),
            skip_metadata: false,
            timestamp: None,
            now_in_seconds: None,
            result_metadata_id: None,
            custom_payload: None,
            fingerprint,
            table: TABLE,
        }
    }

    /// As with room.
    #[test]
    fn without_room_a_scan_goes_on_whatever_its_values_and_only_in_its_table() {
        for fingerprint in [1, 2] {
            let decision = without_room(&Ok(PagingState::of_table(TABLE)), &asked(fingerprint));
            assert!(matches!(decision, Decision::Take(Taken::GoOn(_))));
        }
        for refused in [
            Ok(PagingState::of_table(TABLE + 1)),
            Err(StateError::Damaged),
        ] {
            let decision = without_room(&refused, &asked(1));
            assert!(matches!(decision, Decision::Take(Taken::Refuse(_))));
        }
    }
}
