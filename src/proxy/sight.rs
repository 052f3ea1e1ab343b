//! Looks at how the original answers reads of single partitions of watched tables, for those who detect wide ones.
//!
//! A reply passes byte for byte and is never held: its head (flags, warnings, paging state, number of rows) is read as it
//! goes by, also out of a compressed body, of which only the head is decompressed. Most replies say nothing: a narrow
//! partition is one page without a warning, in time. What is worth telling goes into `sighting`, which never waits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use twox_hash::XxHash3_64;

use super::pending::Pending;
use super::prepared::Statement;
use super::session::Session;
use crate::known::Watched;
use crate::protocol::ProtocolError;
use crate::protocol::header::{Header, opcode};
use crate::protocol::request::parameters::Parameters;
use crate::protocol::response::error::ReadFailure;
use crate::protocol::response::result::{self, kind, metadata_flag};
use crate::protocol::response::{self, error};
use crate::protocol::splitter::{Verdict, View};
use crate::protocol::types::Cursor;
use crate::rewrite::keyed::Keyed;
use crate::rewrite::state::State;
use crate::schema::TableSchema;
use crate::schema::names::PartitionKey;
use crate::sighting::{Failure, SLOW, Seen, SeenPage, Sighting, Warning};
use crate::watched::Mode;

/// Replies of one connection that are waited for; further ones pass unseen.
const SIGHTS_MAX: usize = 1024;
/// A head that is longer is not waited for.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A read under way whose reply is looked at.
pub(super) struct Sight {
    watched: Arc<Watched>,
    key: PartitionKey,
    goes_on_from: Option<u64>,
    began: Instant,
}

impl Session {
    /// `None`: nobody wants to know, or it is not of one partition.
    pub(super) fn sight(
        &self,
        watched: Option<&Arc<Watched>>,
        parameters: &Parameters<'_>,
        keyed: impl FnOnce(&Arc<TableSchema>) -> Option<Arc<Keyed>>,
    ) -> Option<Sight> {
        let watched = watched?;
        if self.pending.borrow().len() >= SIGHTS_MAX {
            return None;
        }
        Sight::begin(watched, parameters, keyed)
    }

    /// Whether a reply on this stream is waited for, so that no other request may use it. One that is only looked at may
    /// be mistaken for another.
    pub(super) fn is_awaited(&self, stream: i16) -> bool {
        match self.pending.borrow().get(&stream) {
            None | Some(Pending::Sight(_)) => false,
            Some(_) => true,
        }
    }

    /// For a request that was taken out of the stream and is forwarded now.
    pub(super) fn look_out(&self, stream: i16, sight: Option<Sight>) {
        if let Some(sight) = sight {
            let pending = Pending::Sight(sight);
            self.pending.borrow_mut().insert(stream, pending);
        }
    }

    /// Forwards as soon as the head was seen.
    pub(super) fn judge_sighted(&self, view: View<'_>) -> Verdict {
        let stream = view.header.stream;
        let told = match self.pending.borrow().get(&stream) {
            Some(Pending::Sight(sight)) => sight.read(view),
            _ => return Verdict::Forward,
        };
        if told.is_err() && is_growing(view) {
            return Verdict::Head;
        }
        if let Some(Pending::Sight(sight)) = self.pending.borrow_mut().remove(&stream) {
            // Longer than anybody waits for, or malformed: either way it is the client's.
            self.report(&sight, told.unwrap_or(Told::Nothing));
        }
        Verdict::Forward
    }

    /// For a reply that was put together here, of pieces of the original.
    pub(super) fn report_answer(
        &self,
        sight: Option<Sight>,
        (flags, opcode): (u8, u8),
        body: &[u8],
    ) {
        let header = Header {
            version: self.version.get().byte(),
            flags,
            stream: 0,
            opcode,
            length: u32::try_from(body.len()).unwrap_or(u32::MAX),
        };
        let view = View {
            header,
            body,
            complete: true,
        };
        if let Some(sight) = sight {
            self.report(&sight, sight.read(view).unwrap_or(Told::Nothing));
        }
    }

    fn report(&self, sight: &Sight, told: Told) {
        let Some(wide_row) = &self.proxy.wide_row else {
            return;
        };
        for what in sight.worth_telling(told, sight.began.elapsed()) {
            wide_row.sightings.send(Sighting {
                table: sight.watched.name().clone(),
                key: sight.key.clone(),
                what,
            });
        }
    }
}

/// Replies that are waited for. Public so that the cost of looking at one can be measured: everybody who reads a watched
/// table pays it.
#[derive(Default)]
pub struct SightedReads(RefCell<HashMap<i16, Pending>>);

impl SightedReads {
    /// What a session does with one EXECUTE and its reply, and how much of it is told. `None`: nobody looks at it.
    pub fn look(
        &self,
        watched: &Arc<Watched>,
        statement: &Statement,
        parameters: &Parameters<'_>,
        reply: View<'_>,
    ) -> Option<usize> {
        let sight = Sight::begin(watched, parameters, |schema| statement.keyed(schema))?;
        let stream = reply.header.stream;
        let pending = Pending::Sight(sight);
        self.0.borrow_mut().insert(stream, pending);
        let told = match self.0.borrow().get(&stream) {
            Some(Pending::Sight(sight)) => sight.read(reply).ok()?,
            _ => return None,
        };
        match self.0.borrow_mut().remove(&stream) {
            Some(Pending::Sight(sight)) => {
                Some(sight.worth_telling(told, sight.began.elapsed()).count())
            }
            _ => None,
        }
    }
}

impl Sight {
    fn begin(
        watched: &Arc<Watched>,
        parameters: &Parameters<'_>,
        keyed: impl FnOnce(&Arc<TableSchema>) -> Option<Arc<Keyed>>,
    ) -> Option<Self> {
        if watched.mode() == Mode::Off {
            return None;
        }
        // A scan that began on a split says nothing of the original.
        if parameters.paging_state.is_some_and(State::might_be_in) {
            return None;
        }
        let key = keyed(&watched.schema()?)?.key(&parameters.values)?;
        Some(Self {
            watched: watched.clone(),
            key,
            goes_on_from: parameters.paging_state.map(XxHash3_64::oneshot),
            began: Instant::now(),
        })
    }

    fn worth_telling(&self, told: Told, latency: Duration) -> impl Iterator<Item = Seen> {
        let (mut page, mut trouble) = (None, None);
        match told {
            Told::Nothing => {}
            Told::Failure(failure) => trouble = Some(Seen::Failure(failure)),
            Told::Page(head) => {
                let seen = SeenPage {
                    goes_on_from: self.goes_on_from,
                    ends_at: head.ends_at,
                    bytes: head.bytes,
                    rows: head.rows,
                    latency,
                };
                if head.warning.is_none() && latency < SLOW {
                    self.watched.answers.count();
                }
                let is_told = latency >= SLOW || self.is_large(head.ends_at, head.bytes);
                page = is_told.then_some(Seen::Page(seen));
                trouble = head.warning.map(Seen::Warning);
            }
        }
        page.into_iter().chain(trouble)
    }

    /// Whether a page of this size belongs to a scan of several, or is wide by itself.
    fn is_large(&self, ends_at: Option<u64>, bytes: u64) -> bool {
        let is_part = self.goes_on_from.is_some() || ends_at.is_some();
        is_part || bytes >= self.watched.settings().wide_bytes
    }

    /// `Err` where more is needed.
    fn read(&self, view: View<'_>) -> Result<Told, ProtocolError> {
        read(view, |ends_at, bytes| self.is_large(ends_at, bytes))
    }
}

/// What a reply says.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Page(Head),
    Failure(Failure),
    /// Another kind of result, or an error that is not about the partition.
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    ends_at: Option<u64>,
    bytes: u64,
    rows: u64,
    warning: Option<Warning>,
}

fn is_growing(view: View<'_>) -> bool {
    !view.complete && view.body.len() < HEAD_BYTES_MAX
}

/// Rows are counted only where `counts` says so: their number stands behind the names of all columns.
fn read(view: View<'_>, counts: impl Fn(Option<u64>, u64) -> bool) -> Result<Told, ProtocolError> {
    if !matches!(view.header.opcode, opcode::RESULT | opcode::ERROR) {
        return Ok(Told::Nothing);
    }
    let (warnings, mut message) = response::warnings_and_message(view.header, view.body)?;
    if view.header.opcode == opcode::ERROR {
        let (code, text) = error::read(message)?;
        return Ok(failure(code, text).map_or(Told::Nothing, Told::Failure));
    }
    if message.int()? != kind::ROWS {
        return Ok(Told::Nothing);
    }
    let flags = message.int()?;
    let columns = message.count("column count")?;
    let mut ends_at = None;
    if flags & metadata_flag::HAS_MORE_PAGES != 0 {
        ends_at = message.bytes()?.map(XxHash3_64::oneshot);
    }
    let bytes = u64::from(view.header.length);
    let rows = match counts(ends_at, bytes) {
        true => rows(message, flags, columns),
        false => Ok(0),
    };
    Ok(Told::Page(Head {
        ends_at,
        bytes,
        rows: match rows {
            Err(error) if is_growing(view) => return Err(error),
            rows => rows.unwrap_or_default(),
        },
        warning: warnings.into_iter().find_map(warning),
    }))
}

fn rows(mut message: Cursor<'_>, flags: i32, columns: usize) -> Result<u64, ProtocolError> {
    result::read_columns(&mut message, flags, columns)?;
    Ok(message.count("row count")? as u64)
}

/// Warnings quote the statement, so only what stands around it says which one it is.
fn warning(text: &str) -> Option<Warning> {
    const ENDINGS: [(&str, Warning); 4] = [
        ("(see local_read_size_warn_threshold)", Warning::ReadSize),
        ("(see row_index_size_warn_threshold)", Warning::RowIndex),
        (
            "(see row_index_read_size_warn_threshold)",
            Warning::RowIndex,
        ),
        ("(see tombstone_warn_threshold)", Warning::Tombstones),
    ];
    let ending = ENDINGS.iter().find(|(ending, _)| text.ends_with(ending));
    if let Some((_, warning)) = ending {
        return Some(*warning);
    }
    let coordinator = text.strip_prefix("Read on table ")?;
    let exceeded = coordinator.contains("has exceeded the size warning threshold of");
    exceeded.then_some(Warning::ReadSize)
}

/// The codes of native_protocol_v5 §9.
fn failure(code: i32, text: &str) -> Option<Failure> {
    const READ_TIMEOUT: i32 = 0x1200;
    const READ_FAILURE: i32 = 0x1300;
    match code {
        READ_TIMEOUT => Some(Failure::Timeout),
        READ_FAILURE => Some(match error::read_failure(text) {
            ReadFailure::Tombstones => Failure::TombstoneOverload,
            ReadFailure::Size => Failure::TooLarge,
            ReadFailure::Other => Failure::ReadFailure,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
