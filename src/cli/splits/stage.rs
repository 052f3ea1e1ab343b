//! The state of a split as people see it, and how far it is in its current stage: percent, pace, time left, and a bar.
//! Pure.
//!
//! Counts rows if their number is known, because each stage counts bytes in its own way.

use std::fmt;
use std::time::Duration;

use crate::wide_row::state::{Progress, State};
use crate::wide_row::store::Split;

/// A state as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownState {
    /// DETECTED, and left alone until a time: the partition may still be written to.
    Waiting,
    At(State),
}

impl ShownState {
    const WAITING: &'static str = "WAITING";

    pub(super) fn of(split: &Split, now: i64) -> Self {
        match waits_until(split, now) {
            Some(_) => Self::Waiting,
            None => Self::At(split.standing.state),
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => Self::WAITING,
            Self::At(state) => state.as_str(),
        }
    }

    /// `Err` has the names of all states.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == Self::WAITING {
            return Ok(Self::Waiting);
        }
        let names = State::ALL.map(State::as_str).join(", ");
        let unknown = || format!("the states are {names} and {}", Self::WAITING);
        State::parse(text).map(Self::At).ok_or_else(unknown)
    }
}

/// Until when a split that was only detected is left alone.
pub(super) fn waits_until(split: &Split, now: i64) -> Option<i64> {
    let is_detected = split.standing.state == State::Detected && !is_past(split);
    split.not_before.filter(|time| is_detected && *time > now)
}

/// How much of the current stage is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Percent {
    pub(super) value: u8,
    /// The total is only the size of the scan that found the partition.
    pub(super) is_estimate: bool,
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_estimate { "~" } else { "" };
        out.pad(&format!("{about}{}%", self.value))
    }
}

/// How much of its work a stage has done, in rows or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    done: i64,
    of: i64,
    is_estimate: bool,
}

/// The progress of the current stage; ignores progress that an earlier stage wrote.
pub(super) fn progress(split: &Split) -> Option<&Progress> {
    let progress = split.progress.as_ref()?;
    let is_current = progress.state == split.standing.state && !is_past(split);
    is_current.then_some(progress)
}

/// Whether its whole table went out of service after the split was made, whatever its state says.
pub(super) fn is_past(split: &Split) -> bool {
    split.standing.row_epoch != split.standing.epoch
}

pub(super) fn is_under_way(state: State) -> bool {
    !state.is_end() && state != State::Completed
}

/// The worker that holds a lease, without the suffix that makes each lease unique.
pub(super) fn worker(lease: &str) -> &str {
    lease.rsplit_once('/').map_or(lease, |(worker, _)| worker)
}

pub(super) fn percent(split: &Split) -> Option<Percent> {
    let part = part(split, progress(split)?)?;
    let value = (i128::from(part.done.max(0)) * 100 / i128::from(part.of)).min(100);
    // An estimate never shows 100%.
    let most = if part.is_estimate { 99 } else { 100 };
    Some(Percent {
        value: u8::try_from(value).unwrap_or(100).min(most),
        is_estimate: part.is_estimate,
    })
}

fn part(split: &Split, progress: &Progress) -> Option<Part> {
    let whole = |done: i64, of: i64, is_estimate: bool| {
        (of > 0).then_some(Part {
            done,
            of,
            is_estimate,
        })
    };
    match (&split.pre_split_data, progress.state) {
        (_, State::Detected) | (None, _) => whole(progress.byte_count, split.seen_bytes?, true),
        (Some(original), _) => whole(progress.row_count, original.row_count, false)
            .or_else(|| whole(progress.byte_count, original.byte_count, false)),
    }
}

/// Progress at some time, from which to compute the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    at: i64,
    rows: i64,
    bytes: i64,
}

impl Seen {
    pub(super) fn of(progress: &Progress) -> Self {
        Self {
            at: progress.changed_at,
            rows: progress.row_count,
            bytes: progress.byte_count,
        }
    }

    /// The time when the stage first began, even if another worker continued it.
    pub(super) fn beginning(progress: &Progress) -> Self {
        Self {
            at: progress.began_at,
            rows: 0,
            bytes: 0,
        }
    }

    pub(super) fn at(&self) -> i64 {
        self.at
    }

    pub(super) fn is_ahead_of(&self, other: &Self) -> bool {
        self.rows > other.rows
    }
}

/// How fast a stage progresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    pub(super) bytes_per_second: f64,
    /// `None`: the total is not known.
    pub(super) left: Option<Duration>,
}

/// The pace since earlier progress of the same stage. `None` if no time has passed.
pub(super) fn pace(split: &Split, earlier: Seen) -> Option<Pace> {
    let progress = progress(split)?;
    let millis = progress.changed_at.checked_sub(earlier.at)?;
    if millis <= 0 {
        return None;
    }
    let seconds = millis as f64 / 1000.0;
    let rows = progress.row_count.saturating_sub(earlier.rows).max(0);
    let bytes = progress.byte_count.saturating_sub(earlier.bytes).max(0);
    let left = part(split, progress).and_then(|part| {
        let done = if part.of_rows(split) { rows } else { bytes };
        let rest = part.of.saturating_sub(part.done).max(0);
        let seconds = rest as f64 * seconds / done as f64;
        // No progress since then, or longer than a century: no estimate.
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|left| left.as_secs() < 1 << 32)
    });
    Some(Pace {
        bytes_per_second: bytes as f64 / seconds,
        left,
    })
}

impl Part {
    fn of_rows(&self, split: &Split) -> bool {
        let original = split.pre_split_data.as_ref();
        !self.is_estimate && original.is_some_and(|original| original.row_count > 0)
    }
}

/// Full blocks for the part that is done, light ones for the rest.
pub(super) fn bar(part: f64, width: usize) -> String {
    let full = (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    let full = full.min(width);
    "█".repeat(full) + &"░".repeat(width - full)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wide_row::names::{Generation, Version};
    use crate::wide_row::state::{PreSplitData, Standing};

    pub(in crate::cli::splits) fn split(state: State) -> Split {
        Split {
            version: Version(1),
            standing: Standing {
                state,
                generation: Generation(216_345_678),
                row_epoch: 0,
                epoch: 0,
            },
            lease: None,
            pre_split_data: None,
            post_split_data: None,
            progress: None,
            reason: None,
            not_before: None,
            detected_at: None,
            changed_at: None,
            failures: 0,
            seen_bytes: None,
            oldest_generation: None,
            found_by: None,
        }
    }

    pub(in crate::cli::splits) fn progressing(state: State, rows: i64, of: i64) -> Split {
        Split {
            pre_split_data: Some(PreSplitData {
                row_count: of,
                byte_count: of * 1000,
                ..PreSplitData::default()
            }),
            progress: Some(Progress {
                state,
                row_count: rows,
                byte_count: rows * 1000,
                checkpoint: None,
                began_at: 1_700_000_000_000,
                changed_at: 1_700_000_010_000,
            }),
            ..split(state)
        }
    }

    #[test]
    fn percents_are_of_the_stage_that_it_is_in() {
        let shown = |split: &Split| percent(split).map(|percent| percent.to_string());
        let copying = progressing(State::Copying, 210, 500);
        assert_eq!(shown(&copying).as_deref(), Some("42%"));
        let more = progressing(State::Verifying, 900, 500);
        assert_eq!(shown(&more).as_deref(), Some("100%"));
        let mut planning = progressing(State::Detected, 500, 0);
        planning.pre_split_data = None;
        assert_eq!(shown(&planning), None);
        planning.seen_bytes = Some(1_000_000);
        assert_eq!(shown(&planning).as_deref(), Some("~50%"));
        planning.seen_bytes = Some(1);
        assert_eq!(shown(&planning).as_deref(), Some("~99%"));
        let mut guarded = copying.clone();
        guarded.standing.state = State::Guarded;
        assert_eq!(shown(&guarded), None);
        let mut past = copying;
        past.standing.epoch = 1;
        assert_eq!(shown(&past), None);
    }

    #[test]
    fn pace_and_time_left_are_those_since_the_earlier_sight() {
        let split = progressing(State::Copying, 200, 500);
        let progress = split.progress.clone().expect("has it");
        let pace_of = |earlier| pace(&split, earlier);
        assert_eq!(
            pace_of(Seen::beginning(&progress)),
            Some(Pace {
                bytes_per_second: 20_000.0,
                left: Some(Duration::from_secs(15)),
            })
        );
        let earlier = Seen {
            at: progress.changed_at - 1000,
            rows: 100,
            bytes: 100_000,
        };
        assert_eq!(
            pace_of(earlier).and_then(|pace| pace.left),
            Some(Duration::from_secs(3))
        );
        assert_eq!(pace_of(Seen::of(&progress)), None);
        let stuck = Seen {
            at: 0,
            ..Seen::of(&progress)
        };
        let stuck = pace_of(stuck).expect("time has passed");
        assert_eq!((stuck.bytes_per_second, stuck.left), (0.0, None));
        let odd = Seen {
            at: i64::MIN,
            rows: i64::MIN,
            bytes: i64::MAX,
        };
        assert_eq!(pace_of(odd), None);
    }

    #[test]
    fn bars_are_as_wide_as_they_should_be() {
        assert_eq!(bar(0.5, 4), "██░░");
        assert_eq!(bar(7.0, 2), "██");
        assert_eq!(bar(-1.0, 2), "░░");
        assert_eq!(bar(f64::NAN, 2), "░░");
    }
}
