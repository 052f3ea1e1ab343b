//! How far a command is while it reads: one line on a terminal, drawn again in its place; on a pipe a line now and then. On
//! stderr, since stdout is for what was found.

use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use crate::cli;
use crate::cli::explain::lines::size;

const REDRAW_EVERY: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(30);

pub(super) struct Live {
    is_terminal: bool,
    began: Instant,
    told: Cell<Instant>,
    is_drawn: Cell<bool>,
}

impl Live {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            is_terminal: stderr().is_terminal(),
            began: now,
            told: Cell::new(now),
            is_drawn: Cell::new(false),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Shows the line if it is time to.
    pub(super) fn show(&self, line: impl FnOnce() -> String) {
        let every = match self.is_terminal {
            true => REDRAW_EVERY,
            false => TELL_EVERY,
        };
        if self.told.get().elapsed() < every {
            return;
        }
        self.told.set(Instant::now());
        self.is_drawn.set(true);
        cli::print_error(&drawn(&line(), self.is_terminal));
    }

    /// Makes room for what follows.
    pub(super) fn clear(&self) {
        if self.is_terminal && self.is_drawn.replace(false) {
            cli::print_error("\r\x1b[K");
        }
    }
}

/// CSI ?7l: a line that is too long is cut by the terminal, and not broken in two.
fn drawn(line: &str, is_terminal: bool) -> String {
    match is_terminal {
        true => format!("\r\x1b[?7l{line}\x1b[K\x1b[?7h"),
        false => format!("{line}\n"),
    }
}

/// `12.1 MiB/s`.
pub(super) fn rate(bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    format!("{}/s", size((bytes as f64 / seconds) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_drawn_in_place_and_a_pipe_gets_lines() {
        assert_eq!(drawn("37%", true), "\r\x1b[?7l37%\x1b[K\x1b[?7h");
        assert_eq!(drawn("37%", false), "37%\n");
    }

    #[test]
    fn rates_are_per_second() {
        assert_eq!(rate(30 << 20, Duration::from_secs(2)), "15.0 MiB/s");
        assert_eq!(rate(0, Duration::ZERO), "0 B/s");
    }
}
