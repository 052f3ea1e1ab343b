//! The states of a split and the legal transitions between them, which only this module knows. Pure.
//!
//! A worker moves a split forward only by a [`Transition`], and a [`Transition`] can only be made here, so an illegal
//! one cannot be written. It names the state it starts from; the store turns that into the condition of one LWT.
//!
//! Two changes need no transition, because it is always safe to take a split out of service. A rollback, or a copy that
//! differs, invalidates it from any of [`INVALIDATED_FROM`]; a late write ends its generation from any state.
//!
//! A partition that may still be written to stays DETECTED, with a `not_before`: people see it as WAITING.
//!
//! ```text
//!     DETECTED ─▶ PLANNED ─▶ GUARDED ─▶ COPYING ─▶ VERIFYING ─▶ COMPLETED
//!        │           │          └──────────┴───┬───────┴─────────────┘
//!        ▼           ▼                         ▼
//!     NOT_WIDE    REFUSED              FAILED, INVALIDATED        every end ─▶ DETECTED, next generation
//! ```

use super::names::Generation;

/// Where a split is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Detected,
    Planned,
    NotWide,
    Refused,
    Guarded,
    Copying,
    Verifying,
    Completed,
    Invalidated,
    Failed,
}

impl State {
    pub const ALL: [Self; 10] = [
        Self::Detected,
        Self::Planned,
        Self::NotWide,
        Self::Refused,
        Self::Guarded,
        Self::Copying,
        Self::Verifying,
        Self::Completed,
        Self::Invalidated,
        Self::Failed,
    ];

    /// As the column `state` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Detected => "DETECTED",
            Self::Planned => "PLANNED",
            Self::NotWide => "NOT_WIDE",
            Self::Refused => "REFUSED",
            Self::Guarded => "GUARDED",
            Self::Copying => "COPYING",
            Self::Verifying => "VERIFYING",
            Self::Completed => "COMPLETED",
            Self::Invalidated => "INVALIDATED",
            Self::Failed => "FAILED",
        }
    }

    /// `None` for a state that a later version may have written.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Writes to the partition must be noticed: its copy is being made, or is read.
    pub fn is_guarded(self) -> bool {
        matches!(
            self,
            Self::Guarded | Self::Copying | Self::Verifying | Self::Completed
        )
    }

    /// This attempt is over, and only the next generation can follow.
    pub fn is_end(self) -> bool {
        matches!(
            self,
            Self::NotWide | Self::Refused | Self::Invalidated | Self::Failed
        )
    }
}

/// What a stage of the pipeline writes about its split, with the data that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Plan(PreSplitData),
    FindNotWide(PreSplitData),
    Refuse(String),
    /// It stays DETECTED. What was read of it is forgotten, because it may be written to.
    Wait(String),
    /// Also legal from GUARDED: a worker that takes over publishes the guard again, because only an applied LWT of its
    /// own tells it from which moment every proxy can know of the guard.
    Guard,
    Copy,
    Verify,
    Complete {
        /// As the comparison found it: the plan's numbers are from before the guard.
        original: PreSplitData,
        copy: PostSplitData,
    },
    Fail {
        reason: String,
        /// Failed attempts since the last completed one, including this one.
        failures: i32,
    },
}

impl Step {
    fn target(&self) -> State {
        match self {
            Self::Plan(_) => State::Planned,
            Self::FindNotWide(_) => State::NotWide,
            Self::Refuse(_) => State::Refused,
            Self::Wait(_) => State::Detected,
            Self::Guard => State::Guarded,
            Self::Copy => State::Copying,
            Self::Verify => State::Verifying,
            Self::Complete { .. } => State::Completed,
            Self::Fail { .. } => State::Failed,
        }
    }

    fn is_legal_from(&self, from: State) -> bool {
        use State::{Copying, Detected, Guarded, Planned, Verifying};
        match self {
            Self::Plan(_) | Self::FindNotWide(_) | Self::Wait(_) => from == Detected,
            Self::Refuse(_) => matches!(from, Detected | Planned),
            Self::Guard => matches!(from, Planned | Guarded),
            Self::Copy => from == Guarded,
            Self::Verify => from == Copying,
            Self::Complete { .. } => from == Verifying,
            Self::Fail { .. } => matches!(from, Detected | Planned | Guarded | Copying | Verifying),
        }
    }
}

/// Facts about the original: what planning found, and from COMPLETED on what the comparison found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreSplitData {
    pub row_count: i64,
    /// As planned: clustering values and cells with their write times and TTLs.
    pub byte_count: i64,
    /// Empty until COMPLETED, and then equal to the copy's. Earlier versions wrote another one when they planned, which
    /// cannot be compared with the copy's.
    pub checksum: Vec<u8>,
    pub newest_write_micros: Option<i64>,
}

/// How far a stage has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub state: State,
    pub row_count: i64,
    pub byte_count: i64,
    /// Where another worker resumes; only the stage itself reads it.
    pub checkpoint: Option<Vec<u8>>,
    /// Milliseconds since 1970, like `changed_at`.
    pub began_at: i64,
    pub changed_at: i64,
}

/// Where to read the copy, and the strategy that made it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PostSplitData {
    pub split_table: String,
    pub strategy: String,
    pub start_event_bucket: i32,
    pub target_event_buckets: i32,
    pub row_count: i64,
    pub byte_count: i64,
    pub checksum: Vec<u8>,
}

/// The part of a split that decides what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub state: State,
    pub generation: Generation,
    /// The epoch of the shard that the split was made in.
    pub row_epoch: i32,
    /// The shard's epoch now.
    pub epoch: i32,
}

impl Standing {
    /// Writes to the partition must be noticed.
    pub fn is_guarded(self) -> bool {
        self.state.is_guarded() && self.row_epoch == self.epoch
    }

    /// Reads may be answered from the copy.
    pub fn is_in_service(self) -> bool {
        self.state == State::Completed && self.row_epoch == self.epoch
    }
}

/// A legal change of one split, to be written by one LWT.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    from: State,
    to: State,
    generation: Generation,
    next_generation: Generation,
    epoch: i32,
    step: Option<Step>,
    reason: Option<String>,
    not_before: Option<i64>,
}

/// The epoch of a retired shard, which takes no new splits; every epoch below zero counts as retired.
pub const RETIRED: i32 = -1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error("{to} cannot follow {from}", to = to.as_str(), from = from.as_str())]
    Order { from: State, to: State },
    #[error("the split was taken out of service with its whole table (epoch {row}, now {now})")]
    Epoch { row: i32, now: i32 },
    #[error("generation {0} is the highest possible, so no other can follow")]
    Exhausted(i32),
}

impl Transition {
    /// A step of the worker that holds the lease.
    pub fn step(at: Standing, step: Step) -> Result<Self, Illegal> {
        let (from, to) = (at.state, step.target());
        if at.row_epoch != at.epoch {
            return Err(Illegal::Epoch {
                row: at.row_epoch,
                now: at.epoch,
            });
        }
        if !step.is_legal_from(from) {
            return Err(Illegal::Order { from, to });
        }
        let reason = match &step {
            Step::Refuse(reason) | Step::Wait(reason) | Step::Fail { reason, .. } => {
                Some(reason.clone())
            }
            _ => None,
        };
        Ok(Self {
            from,
            to,
            generation: at.generation,
            next_generation: at.generation,
            epoch: at.epoch,
            step: Some(step),
            reason,
            not_before: None,
        })
    }

    /// A new attempt. The last one must have ended, by itself or with its whole table.
    pub fn again(at: Standing) -> Result<Self, Illegal> {
        if !at.state.is_end() && at.row_epoch == at.epoch {
            return Err(Illegal::Order {
                from: at.state,
                to: State::Detected,
            });
        }
        Self::begin(at)
    }

    /// A new attempt that a person asks for. One that is only detected begins anew, to be judged by that.
    pub fn again_by_hand(at: Standing) -> Result<Self, Illegal> {
        match at.state {
            State::Detected => Self::begin(at),
            _ => Self::again(at),
        }
    }

    fn begin(at: Standing) -> Result<Self, Illegal> {
        if at.epoch <= RETIRED {
            return Err(Illegal::Epoch {
                row: at.row_epoch,
                now: at.epoch,
            });
        }
        let next = at.generation.0.checked_add(1);
        Ok(Self {
            from: at.state,
            to: State::Detected,
            generation: at.generation,
            next_generation: Generation(next.ok_or(Illegal::Exhausted(at.generation.0))?),
            epoch: at.epoch,
            step: None,
            reason: None,
            not_before: None,
        })
    }

    /// The next attempt or comparison must not begin before this time, in milliseconds since 1970.
    pub fn not_before(mut self, millis: i64) -> Self {
        self.not_before = Some(millis);
        self
    }

    pub fn from(&self) -> State {
        self.from
    }

    pub fn to(&self) -> State {
        self.to
    }

    /// The generation it starts from.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    pub fn next_generation(&self) -> Generation {
        self.next_generation
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub fn earliest(&self) -> Option<i64> {
        self.not_before
    }

    /// Number of attempts that failed in a row; `None` leaves the stored number unchanged.
    pub fn failures(&self) -> Option<i32> {
        match &self.step {
            Some(Step::Fail { failures, .. }) => Some(*failures),
            Some(Step::Complete { .. }) => Some(0),
            _ => None,
        }
    }

    /// Whether the progress of the stage so far is worth nothing.
    pub fn forgets_progress(&self) -> bool {
        matches!(self.step, Some(Step::Wait(_)))
    }

    pub fn pre_split_data(&self) -> Option<&PreSplitData> {
        match &self.step {
            Some(Step::Plan(data) | Step::FindNotWide(data)) => Some(data),
            Some(Step::Complete { original, .. }) => Some(original),
            _ => None,
        }
    }

    pub fn post_split_data(&self) -> Option<&PostSplitData> {
        match &self.step {
            Some(Step::Complete { copy, .. }) => Some(copy),
            _ => None,
        }
    }
}

/// States from which anyone may invalidate. INVALIDATED is among them because another process's LWT may have reached
/// one replica only: the state is written again rather than believed.
pub const INVALIDATED_FROM: [State; 5] = [
    State::Guarded,
    State::Copying,
    State::Verifying,
    State::Completed,
    State::Invalidated,
];

#[cfg(test)]
mod tests;
