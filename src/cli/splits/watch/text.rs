//! What is under way, in lines for people. Pure.

use super::track::{Counts, Tracked, Wait, What};
use crate::cli::explain::lines::{counted, size};
use crate::cli::splits::list::shortened;
use crate::cli::splits::moment;
use crate::cli::splits::stage::{self, Pace, Percent};
use crate::watched::WatchedTable;
use crate::wide_row::state::State;
use crate::wide_row::store::Split;

/// All columns of a line but the name and the bar, with the gaps between them.
const FIXED: usize = 2 + STATE + 2 + 1 + 4 + 2 + RATE + 2 + LEFT;
const STATE: usize = 9;
const RATE: usize = 12;
const LEFT: usize = 11;
const NAME_MIN: usize = 12;
const NAME_MAX: usize = 60;

/// One split that is shown.
pub(super) struct Shown<'a> {
    pub(super) name: String,
    pub(super) tracked: &'a Tracked,
    pub(super) wait: Option<Wait>,
}

/// One line for each that is shown, none wider than the terminal.
pub(super) fn live(shown: &[Shown<'_>], now: i64, width: usize) -> Vec<String> {
    let bar = if width < 100 { 10 } else { 24 };
    let left = width.saturating_sub(FIXED + bar).clamp(NAME_MIN, NAME_MAX);
    let longest = shown.iter().map(|one| one.name.chars().count()).max();
    let name_width = longest.unwrap_or(0).min(left);
    let line = |one: &Shown<'_>| {
        let name = shortened(&one.name, name_width);
        let state = one.tracked.state.as_str();
        let rest = match one.wait {
            Some(wait) => waits(wait, now),
            None => going(one.tracked, bar),
        };
        let line = format!("{name:name_width$}  {state:STATE$}  {rest}");
        shortened(line.trim_end(), width)
    };
    shown.iter().map(line).collect()
}

fn waits(wait: Wait, now: i64) -> String {
    match wait {
        Wait::Mode(mode) => format!("waits for mode serve, the table is in {}", mode.as_str()),
        Wait::Paused => "waits, the table is paused".to_owned(),
        Wait::Until(time) => {
            let span = moment::span(moment::since(now, time));
            format!("waits for {span}")
        }
    }
}

fn going(tracked: &Tracked, bar: usize) -> String {
    let Some(percent) = tracked.split.as_ref().and_then(stage::percent) else {
        return match tracked.state {
            State::Guarded => "until every proxy knows of it".to_owned(),
            _ => String::new(),
        };
    };
    let drawn = stage::bar(f64::from(percent.value) / 100.0, bar);
    let (rate, left) = pace(tracked.pace());
    format!("{drawn} {percent:>4}  {rate:>RATE$}  {left:>LEFT$}")
}

fn pace(pace: Option<Pace>) -> (String, String) {
    let Some(pace) = pace else {
        return (String::new(), String::new());
    };
    let rate = format!("{}/s", size(pace.bytes_per_second as u64));
    let left = pace.left.map(|left| format!("{} left", moment::span(left)));
    (rate, left.unwrap_or_default())
}

/// How far a split has come, for a pipe.
pub(super) fn step(tracked: &Tracked, percent: Percent) -> String {
    let (rate, left) = pace(tracked.pace());
    let parts = [percent.to_string(), rate, left];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{} {}", tracked.state.as_str(), parts.join(", "))
}

/// What happened to a split.
pub(super) fn event(name: &str, what: What, split: Option<&Split>) -> String {
    match what {
        What::At(state) => format!("{name}  {}", state.as_str()),
        What::OutOfService => format!("{name}  out of service with its whole table"),
        What::Ended(state) => {
            // Another generation may have begun since.
            let split = split.filter(|split| split.standing.state == state);
            let detail = split.and_then(|split| detail(split, state));
            let detail = detail.map(|detail| format!(": {detail}"));
            format!("{name}  {}{}", state.as_str(), detail.unwrap_or_default())
        }
    }
}

fn detail(split: &Split, state: State) -> Option<String> {
    let held = |rows: i64, bytes: i64| {
        let rows = counted(u64::try_from(rows).unwrap_or(0), "row");
        format!("{rows} ({})", size(u64::try_from(bytes).unwrap_or(0)))
    };
    match state {
        State::Completed => {
            let copy = split.post_split_data.as_ref()?;
            let held = held(copy.row_count, copy.byte_count);
            Some(format!("{held} in {}, in service", copy.split_table))
        }
        State::NotWide => {
            let original = split.pre_split_data.as_ref()?;
            Some(held(original.row_count, original.byte_count))
        }
        _ => {
            let reason = split.reason.as_deref()?;
            let plain = |c: char| if c.is_control() { ' ' } else { c };
            Some(reason.chars().map(plain).collect())
        }
    }
}

/// The line below all others.
pub(super) fn summary(tables: &[WatchedTable], counts: Counts, shown: usize) -> String {
    let of = match tables {
        [one] => format!("{}: ", one.name),
        _ => String::new(),
    };
    of + &counted_up(counts, shown)
}

fn counted_up(counts: Counts, shown: usize) -> String {
    let Counts { active, waiting } = counts;
    let hidden = match (active + waiting).saturating_sub(shown) {
        0 => String::new(),
        hidden => format!(", {hidden} of them not shown"),
    };
    match (active, waiting) {
        (0, 0) => "nothing is under way".to_owned(),
        (active, 0) => format!("{active} under way{hidden}"),
        (active, waiting) => format!("{active} under way, {} waiting{hidden}", waiting),
    }
}

/// What `--until-done` ends with.
pub(super) fn done(counts: Counts) -> String {
    match counts.waiting {
        0 => "nothing is under way\n".to_owned(),
        waiting => {
            let splits = counted(waiting, "split");
            let verb = if waiting == 1 { "waits" } else { "wait" };
            format!("nothing is under way; {splits} {verb}: narrows splits list\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::track::tests::tracked;
    use super::*;
    use crate::cli::splits::stage::tests::{progressing, split};
    use crate::schema::names::TableName;
    use crate::wide_row::state::PostSplitData;

    const NOW: i64 = 1_700_000_100_000;

    fn copying() -> Tracked {
        let split = progressing(State::Copying, 260_000, 500_000);
        tracked(State::Copying, Some(split))
    }

    #[test]
    fn lines_fit_on_a_terminal() {
        let (copying, guarded) = (copying(), tracked(State::Guarded, None));
        let planned = tracked(State::Planned, None);
        let until = Wait::Until(NOW + 7_200_000);
        let shown: Vec<Shown<'_>> = [
            ("plant.reading 's1', 7", &copying, None),
            ("plant.reading 's2', 7", &guarded, None),
            ("plant.reading 's3', 7", &planned, Some(until)),
        ]
        .map(|(name, tracked, wait)| Shown {
            name: name.to_owned(),
            tracked,
            wait,
        })
        .into();
        assert_eq!(
            live(&shown, NOW, 80),
            [
                "plant.reading 's1', 7  COPYING    █████░░░░░  52%    24.8 MiB/s     9 s left",
                "plant.reading 's2', 7  GUARDED    until every proxy knows of it",
                "plant.reading 's3', 7  PLANNED    waits for 2 h",
            ]
        );
        for width in [40, 60, 80, 100, 200] {
            for line in live(&shown, NOW, width) {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
    }

    #[test]
    fn events_say_what_came_of_a_split() {
        let mut completed = split(State::Completed);
        completed.post_split_data = Some(PostSplitData {
            split_table: "wide_reading_1".to_owned(),
            row_count: 500,
            byte_count: 1 << 20,
            ..PostSplitData::default()
        });
        let mut failed = split(State::Failed);
        failed.reason = Some("bucket 3 differs".to_owned());
        for (what, split, text) in [
            (What::At(State::Copying), None, "p.t 1  COPYING"),
            (
                What::Ended(State::Completed),
                Some(&completed),
                "p.t 1  COMPLETED: 500 rows (1.0 MiB) in wide_reading_1, in service",
            ),
            (
                What::Ended(State::Failed),
                Some(&failed),
                "p.t 1  FAILED: bucket 3 differs",
            ),
            (
                What::Ended(State::Failed),
                Some(&completed),
                "p.t 1  FAILED",
            ),
            (
                What::OutOfService,
                None,
                "p.t 1  out of service with its whole table",
            ),
        ] {
            assert_eq!(event("p.t 1", what, split), text);
        }
        let copying = copying();
        let percent = copying.split.as_ref().and_then(stage::percent);
        assert_eq!(
            step(&copying, percent.expect("known")),
            "COPYING 52%, 24.8 MiB/s, 9 s left"
        );
    }

    #[test]
    fn the_last_line_counts() {
        let counts = |active, waiting| Counts { active, waiting };
        for (counts, shown, text) in [
            (counts(0, 0), 0, "nothing is under way"),
            (counts(2, 0), 2, "2 under way"),
            (
                counts(9, 20),
                15,
                "9 under way, 20 waiting, 14 of them not shown",
            ),
        ] {
            assert_eq!(summary(&[], counts, shown), text);
        }
        let one = [WatchedTable::new(TableName::new("p", "t"))];
        assert_eq!(summary(&one, counts(1, 0), 1), "p.t: 1 under way");
        assert_eq!(done(counts(0, 0)), "nothing is under way\n");
        assert_eq!(
            done(counts(0, 1)),
            "nothing is under way; 1 split waits: narrows splits list\n"
        );
    }
}
