//! Commands that take all splits of a table out of service ask first. They go on only with `--yes`, or if `yes` or `y`
//! is typed at a terminal.

use std::io::{IsTerminal, stdin, stdout};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NotConfirmed {
    #[error("not confirmed; nothing was changed")]
    No,
    #[error(
        "nothing was changed: this command takes splits out of service, and there is no terminal to ask on; \
         add --yes to confirm"
    )]
    NoTerminal,
}

/// Asks whether to go on, unless `yes` was given. `consequences` says what happens and how to undo it.
pub(super) fn confirm(yes: bool, consequences: &str) -> anyhow::Result<()> {
    // The question goes to stdout.
    let is_terminal = stdin().is_terminal() && stdout().is_terminal();
    let ask = || {
        super::print(&format!("{consequences}Type yes to go on: "));
        let mut answer = String::new();
        // An answer that cannot be read is not a yes.
        let _ = stdin().read_line(&mut answer);
        answer
    };
    Ok(decide(yes, is_terminal, ask)?)
}

fn decide(yes: bool, is_terminal: bool, ask: impl FnOnce() -> String) -> Result<(), NotConfirmed> {
    if yes {
        return Ok(());
    }
    if !is_terminal {
        return Err(NotConfirmed::NoTerminal);
    }
    match ask().trim().to_lowercase().as_str() {
        "yes" | "y" => Ok(()),
        _ => Err(NotConfirmed::No),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> String {
        panic!("nobody may be asked")
    }

    #[test]
    fn with_yes_nobody_is_asked() {
        assert_eq!(decide(true, true, never), Ok(()));
        assert_eq!(decide(true, false, never), Ok(()));
    }

    #[test]
    fn without_a_terminal_only_the_option_counts() {
        let refused = decide(false, false, never).expect_err("refused");
        assert_eq!(refused, NotConfirmed::NoTerminal);
        assert!(refused.to_string().contains("add --yes"), "{refused}");
    }

    #[test]
    fn at_a_terminal_the_default_is_no() {
        for (answer, expected) in [
            ("yes\n", Ok(())),
            (" Y \n", Ok(())),
            ("", Err(NotConfirmed::No)),
            ("\n", Err(NotConfirmed::No)),
            ("n\n", Err(NotConfirmed::No)),
            ("no\n", Err(NotConfirmed::No)),
            ("yes please\n", Err(NotConfirmed::No)),
        ] {
            assert_eq!(
                decide(false, true, || answer.to_owned()),
                expected,
                "{answer:?}"
            );
        }
    }
}
