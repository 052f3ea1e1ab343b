//! When a read counts as late, and how many late reads may be asked of another node, too. Pure.

use std::time::Duration;

/// A read is not late before this, however quick its statement is: a busy machine needs as much to get to a reply.
const DELAY_MIN: Duration = Duration::from_millis(10);
/// A read is late after this, however slow its statement is. Nodes that do not answer at all are found sooner.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// For a statement that was not executed yet, and for PREPARE.
pub(super) const DELAY_FIRST: Duration = Duration::from_millis(100);

/// How long the reads of one statement take: a smoothed mean and deviation, as TCP keeps them of its round trips. Few
/// reads take longer than the mean and four deviations, whatever the statement costs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// In seconds.
    seen: Option<(f64, f64)>,
}

impl Pace {
    pub(super) fn took(&mut self, time: Duration) {
        let time = time.as_secs_f64();
        self.seen = Some(match self.seen {
            None => (time, time / 2.0),
            Some((mean, deviation)) => (
                mean + (time - mean) / 8.0,
                deviation + ((time - mean).abs() - deviation) / 4.0,
            ),
        });
    }

    /// The time after which a read is late.
    pub(super) fn delay(&self) -> Duration {
        let Some((mean, deviation)) = self.seen else {
            return DELAY_FIRST;
        };
        let late = (mean + 4.0 * deviation).min(DELAY_MAX.as_secs_f64());
        Duration::from_secs_f64(late).max(DELAY_MIN)
    }
}

/// Late reads that may be asked of another node: one for every ten reads, and some more at a time. A cluster that is
/// slow as a whole thus gets a tenth more to do, and not twice as much.
#[derive(Debug)]
pub(super) struct Allowance {
    /// In parts of one late read.
    parts: u32,
}

const PARTS: u32 = 10;
/// The most that may be saved up: as many as a node may hold up when it stops answering.
const SAVED_MAX: u32 = 32;

impl Default for Allowance {
    fn default() -> Self {
        Self {
            parts: SAVED_MAX * PARTS,
        }
    }
}

impl Allowance {
    /// A read has begun.
    pub(super) fn earn(&mut self) {
        self.parts = (self.parts + 1).min(SAVED_MAX * PARTS);
    }

    /// Whether one late read may be asked of another node.
    pub(super) fn spend(&mut self) -> bool {
        match self.parts.checked_sub(PARTS) {
            Some(rest) => {
                self.parts = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(times: impl IntoIterator<Item = u64>) -> Duration {
        let mut pace = Pace::default();
        for time in times {
            pace.took(Duration::from_millis(time));
        }
        pace.delay()
    }

    #[test]
    fn a_read_is_late_after_what_few_reads_of_its_statement_take() {
        assert_eq!(paced([]), DELAY_FIRST);
        assert_eq!(paced([1; 50]), DELAY_MIN);
        // Half of them take 20 ms, half 40 ms.
        let mixed = paced([20, 40].repeat(50));
        assert!((50..=90).contains(&mixed.as_millis()), "{mixed:?}");
        // All take about as long as the first, so none is late.
        let steady = paced([300; 50]);
        assert!((300..310).contains(&steady.as_millis()), "{steady:?}");
        assert_eq!(paced([5000; 50]), DELAY_MAX);
        assert_eq!(paced([u64::MAX]), DELAY_MAX);
    }

    #[test]
    fn it_follows_a_statement_that_becomes_slower_or_quicker() {
        let slower = paced(std::iter::repeat_n(2, 50).chain([200; 20]));
        assert!(slower > Duration::from_millis(200), "{slower:?}");
        let quicker = paced(std::iter::repeat_n(200, 50).chain([2; 80]));
        assert_eq!(quicker, DELAY_MIN);
    }

    #[test]
    fn one_read_in_ten_may_be_repeated_after_the_saved_ones() {
        let mut allowance = Allowance::default();
        let saved = (0..1000).filter(|_| allowance.spend()).count();
        assert_eq!(saved, SAVED_MAX as usize);
        let repeated = (0..1000).filter(|_| {
            allowance.earn();
            allowance.spend()
        });
        assert_eq!(repeated.count(), 100);
        for _ in 0..10_000 {
            allowance.earn();
        }
        let saved = (0..1000).filter(|_| allowance.spend()).count();
        assert_eq!(saved, SAVED_MAX as usize, "no more is ever saved");
    }
}
