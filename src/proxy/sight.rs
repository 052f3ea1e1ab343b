//! Looks at the original's replies to reads of single partitions of watched tables, so that wide ones are detected.
//!
//! A reply passes byte for byte and is never held. The session reads its head (flags, warnings, paging state, number of
//! rows) as it goes by; it decompresses only the head of a compressed body. Most replies are not worth reporting: a
//! narrow partition is one fast page without a warning. What an aggregate or a filter has read shows only in its time. The others go to `sighting`, which never waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use twox_hash::XxHash3_64;

use crate::known::Watched;
use crate::protocol::ProtocolError;
use crate::protocol::deframer::View;
use crate::protocol::header::opcode;
use crate::protocol::request::parameters::Parameters;
use crate::protocol::response::error::ReadFailure;
use crate::protocol::response::result::{self, kind, metadata_flag};
use crate::protocol::response::{self, error};
use crate::protocol::types::Cursor;
use crate::rewrite::state::PagingState;
use crate::schema::names::PartitionKey;
use crate::sighting::{Failure, LONG, SLOW, Seen, SeenPage, Sighting, Sightings, Warning};
use crate::watched::Mode;

/// The longest head that the session waits for.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A read in flight whose reply the session looks at.
pub(super) struct Sight {
    watched: Arc<Watched>,
    key: PartitionKey,
    goes_on_from: Option<u64>,
    /// The read may return far less than it reads.
    condenses: bool,
    began: Instant,
}

impl Sight {
    /// `None`: the reply says nothing about the original, or detection is off.
    pub(super) fn begin(
        watched: &Arc<Watched>,
        parameters: &Parameters<'_>,
        partition: impl FnOnce() -> Option<(PartitionKey, bool)>,
    ) -> Option<Self> {
        if watched.mode() == Mode::Off {
            return None;
        }
        // A scan that began on a split says nothing about the original.
        if parameters
            .paging_state
            .is_some_and(PagingState::might_be_in)
        {
            return None;
        }
        let (key, condenses) = partition()?;
        Some(Self {
            watched: watched.clone(),
            key,
            condenses,
            goes_on_from: parameters.paging_state.map(XxHash3_64::oneshot),
            began: Instant::now(),
        })
    }

    /// Looks at the part of a reply that has arrived, and sends sightings. `false`: the head is not complete yet.
    pub(super) fn look(&self, view: View<'_>, sightings: &Sightings) -> bool {
        let told = self.read(view);
        if told.is_err() && is_growing(view) {
            return false;
        }
        // A malformed head, or one longer than `HEAD_BYTES_MAX`, says nothing.
        let told = told.unwrap_or(Told::Nothing);
        for what in self.worth_telling(told, self.began.elapsed()) {
            sightings.send(Sighting {
                table: self.watched.name().clone(),
                key: self.key.clone(),
                what,
            });
        }
        true
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
                    condenses: self.condenses,
                };
                if head.warning.is_none() && latency < SLOW {
                    self.watched.answers.count();
                }
                let is_long = self.condenses && latency >= LONG;
                let is_told = is_long || latency >= SLOW || self.is_large(head.ends_at, head.bytes);
                page = is_told.then_some(Seen::Page(seen));
                trouble = head.warning.map(Seen::Warning);
            }
        }
        page.into_iter().chain(trouble)
    }

    /// Whether this page belongs to a scan of several pages, or is wide by itself.
    fn is_large(&self, ends_at: Option<u64>, bytes: u64) -> bool {
        let is_part = self.goes_on_from.is_some() || ends_at.is_some();
        is_part || bytes >= self.watched.settings().wide_bytes
    }

    /// `Err`: more bytes are needed.
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

/// Reads the number of rows only if `counts` says so, because it comes after the names of all columns.
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

/// Warnings quote the statement, so only the words around the quote tell them apart.
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

/// The error codes are from native_protocol_v5 §9.
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
