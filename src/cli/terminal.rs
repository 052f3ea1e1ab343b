//! The terminal that stdout is, if it is one.

use std::io::{IsTerminal, stdout};

/// Its columns. `None`: stdout goes to a file or another program, which is given whole lines.
pub(super) fn width() -> Option<usize> {
    let out = stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    // Some that are emulated say 0.
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}
