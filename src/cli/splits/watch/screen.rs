//! Lines that are drawn again in their place on a terminal; on a pipe only what happened, one line each.

use std::io::{self, Write};

pub(super) struct Screen<W> {
    out: W,
    is_terminal: bool,
    /// Lines that the next drawing replaces.
    drawn: usize,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, is_terminal: bool) -> Self {
        Self {
            out,
            is_terminal,
            drawn: 0,
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// `above` stays; `live` is replaced the next time.
    pub(super) fn put(&mut self, above: &[String], live: &[String]) -> io::Result<()> {
        let mut text = String::new();
        if !self.is_terminal {
            for line in above {
                text.push_str(line);
                text.push('\n');
            }
            self.out.write_all(text.as_bytes())?;
            return self.out.flush();
        }
        // CSI A: up; CSI K and J: what is right of here, and below.
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        for line in above {
            text.push_str(&format!("{line}\x1b[K\n"));
        }
        // A line that is broken in two would make the count of them wrong, so for these the terminal cuts what is too long.
        text.push_str("\x1b[?7l");
        for line in live {
            text.push_str(&format!("{line}\x1b[K\n"));
        }
        text.push_str("\x1b[?7h\x1b[J");
        self.drawn = live.len();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_terminal_draws_over_the_last_lines() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, true);
        screen
            .put(&[], &lines(&["a 1%", "1 under way"]))
            .expect("written");
        screen
            .put(&lines(&["a done"]), &lines(&["nothing"]))
            .expect("written");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "\x1b[?7la 1%\x1b[K\n1 under way\x1b[K\n\x1b[?7h\x1b[J\
             \x1b[2A\ra done\x1b[K\n\x1b[?7lnothing\x1b[K\n\x1b[?7h\x1b[J"
        );
    }

    #[test]
    fn a_pipe_gets_what_happened() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, false);
        screen
            .put(&lines(&["a done"]), &lines(&["nothing"]))
            .expect("written");
        screen.put(&[], &lines(&["nothing"])).expect("written");
        assert_eq!(out, b"a done\n");
    }

    #[test]
    fn a_reader_that_went_away_is_noticed() {
        let mut nowhere: &mut [u8] = &mut [];
        let mut screen = Screen::new(&mut nowhere, false);
        assert!(screen.put(&lines(&["a"]), &[]).is_err());
    }
}
