//! How long a connection has been silent although answers are due. Pure.
//!
//! It counts ticks, not time: a process that was stopped, or a thread that was busy, would otherwise blame its nodes
//! for replies that it has not read yet. A request that was given up still counts, because its reply is still due.

use std::cell::Cell;
use std::time::Duration;

/// How often a connection with requests in flight is looked at.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// After this many quiet ticks the node is asked whether it is alive. One that is answers at once, so a request that
/// takes long is never taken for a node that does not answer.
const ASK_AFTER: u32 = 2;
/// After this many quiet ticks other nodes are preferred.
const OVERDUE_AFTER: u32 = 4;
/// After this many, which is 5 s, the connection counts as dead.
const DEAD_AFTER: u32 = 100;

/// About how long a node has not answered when it counts as overdue.
pub(super) const OVERDUE: Duration = TICK.saturating_mul(OVERDUE_AFTER);

#[derive(Debug, Default)]
pub(super) struct Silence {
    unanswered: Cell<u32>,
    /// Ticks since anything was heard.
    quiet: Cell<u32>,
}

/// What to do at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tick {
    /// No answer is due: look again after the next request.
    Idle,
    Wait,
    /// Ask whether the node is alive.
    Ask,
    Dead,
}

impl Silence {
    pub(super) fn sent(&self) {
        // An idle connection was silent with good reason.
        if self.unanswered.get() == 0 {
            self.quiet.set(0);
        }
        self.unanswered.set(self.unanswered.get() + 1);
    }

    /// Bytes have arrived, of whatever reply.
    pub(super) fn heard(&self) {
        self.quiet.set(0);
    }

    pub(super) fn answered(&self) {
        self.unanswered.set(self.unanswered.get().saturating_sub(1));
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.unanswered.get() > 0 && self.quiet.get() >= OVERDUE_AFTER
    }

    pub(super) fn tick(&self) -> Tick {
        if self.unanswered.get() == 0 {
            return Tick::Idle;
        }
        let quiet = self.quiet.get().saturating_add(1);
        self.quiet.set(quiet);
        match quiet {
            ASK_AFTER => Tick::Ask,
            DEAD_AFTER.. => Tick::Dead,
            _ => Tick::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(silence: &Silence, count: u32) -> Vec<Tick> {
        (0..count).map(|_| silence.tick()).collect()
    }

    #[test]
    fn a_node_that_answers_nothing_is_asked_avoided_and_found_dead() {
        let silence = Silence::default();
        silence.sent();
        let first = ticks(&silence, OVERDUE_AFTER - 1);
        assert_eq!(first.iter().filter(|tick| **tick == Tick::Ask).count(), 1);
        assert!(!silence.is_overdue());
        assert_eq!(silence.tick(), Tick::Wait);
        assert!(silence.is_overdue());
        let rest = ticks(&silence, DEAD_AFTER - OVERDUE_AFTER - 1);
        assert!(rest.iter().all(|tick| *tick == Tick::Wait), "{rest:?}");
        assert_eq!(silence.tick(), Tick::Dead);
    }

    #[test]
    fn whatever_is_heard_ends_the_silence_even_if_the_request_goes_on() {
        let silence = Silence::default();
        silence.sent();
        for _ in 0..DEAD_AFTER {
            assert_eq!(silence.tick(), Tick::Wait);
            assert_eq!(silence.tick(), Tick::Ask);
            silence.sent();
            silence.heard();
            silence.answered();
            assert!(!silence.is_overdue());
        }
        silence.answered();
        assert_eq!(silence.tick(), Tick::Idle);
    }

    #[test]
    fn an_overdue_connection_is_used_again_once_it_says_something() {
        let silence = Silence::default();
        silence.sent();
        silence.sent();
        ticks(&silence, OVERDUE_AFTER);
        assert!(silence.is_overdue());
        silence.heard();
        assert!(!silence.is_overdue());
    }

    #[test]
    fn an_idle_connection_is_not_blamed_for_its_silence() {
        let silence = Silence::default();
        assert_eq!(ticks(&silence, 3 * DEAD_AFTER), vec![Tick::Idle; 300]);
        silence.sent();
        ticks(&silence, OVERDUE_AFTER);
        // The last reply, and the next request much later.
        silence.heard();
        silence.answered();
        silence.sent();
        assert!(!silence.is_overdue());
        assert_eq!(silence.tick(), Tick::Wait);
    }
}
