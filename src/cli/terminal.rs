//! The terminal: its width, and a progress line for commands that read for a long time.

use std::cell::Cell;
use std::io::{IsTerminal, stderr, stdout};
use std::time::{Duration, Instant};

const REDRAW_EVERY: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(30);

/// The width of the terminal at stdout, in columns. `None`: stdout is a file or a pipe, which gets whole lines.
pub(super) fn width() -> Option<usize> {
    let out = stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    // Some emulated terminals report 0.
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// One line of progress, on stderr because stdout is for results: redrawn in place on a terminal, printed now and then
/// on a pipe.
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

    /// Shows the line if the last one is old enough.
    pub(super) fn show(&self, line: impl FnOnce() -> String) {
        let every = match self.is_terminal {
            true => REDRAW_EVERY,
            false => TELL_EVERY,
        };
        if self.told.get().elapsed() >= every {
            self.told.set(Instant::now());
            self.is_drawn.set(true);
            super::print_error(&drawn(&line(), self.is_terminal));
        }
    }

    /// Removes the line, to make room for results.
    pub(super) fn clear(&self) {
        if self.is_terminal && self.is_drawn.replace(false) {
            super::print_error("\r\x1b[K");
        }
    }
}

/// CSI ?7l turns wrapping off, so that the terminal cuts a long line instead of starting a second one.
fn drawn(line: &str, is_terminal: bool) -> String {
    match is_terminal {
        true => format!("\r\x1b[?7l{line}\x1b[K\x1b[?7h"),
        false => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_drawn_in_place_and_a_pipe_gets_lines() {
        assert_eq!(drawn("37%", true), "\r\x1b[?7l37%\x1b[K\x1b[?7h");
        assert_eq!(drawn("37%", false), "37%\n");
    }
}
