//! The arguments of `narrows splits`, `narrows verify` and `narrows mode`.

use clap::Parser;

use super::stage::ShownState;
use super::*;
use crate::cli::key::KeyForm;
use crate::cli::mode::ModeArguments;
use crate::cli::{Cli, Command, Tool};
use crate::watched::Mode;
use crate::wide_row::state::State;

fn parse(words: &[&str]) -> Result<SplitsCommand, String> {
    let words = ["narrows", "splits"].iter().chain(words);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Tool(Tool::Splits(command))) => Ok(command),
        Ok(other) => panic!("another command: {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn keys_may_be_negative_and_options_stand_anywhere() {
    let words = ["show", "p.t", "'s'", "-7", "-c", "x.toml"];
    let Ok(SplitsCommand::Show(show)) = parse(&words) else {
        panic!("right");
    };
    assert_eq!(
        (show.table.as_str(), show.key),
        ("p.t", vec!["'s'".to_owned(), "-7".to_owned()])
    );
    assert_eq!(show.keys, KeyForm::Cql);
}

#[test]
fn lists_are_narrowed_down() {
    let Ok(SplitsCommand::List(list)) = parse(&["list"]) else {
        panic!("right");
    };
    assert_eq!(
        (list.table, list.state, list.limit, list.json),
        (None, None, 20, false)
    );
    let words = [
        "list", "p.t", "--state", "not-wide", "-l", "7", "--json", "--keys", "hex",
    ];
    let Ok(SplitsCommand::List(list)) = parse(&words) else {
        panic!("right");
    };
    assert_eq!((list.json, list.keys), (true, KeyForm::Hex));
    assert_eq!(
        (list.state, list.limit),
        (Some(ShownState::At(State::NotWide)), 7)
    );
    let Ok(SplitsCommand::List(list)) = parse(&["list", "--state", "waiting"]) else {
        panic!("right");
    };
    assert_eq!(list.state, Some(ShownState::Waiting));
    let error = parse(&["list", "--state", "done"]).expect_err("no state");
    assert!(
        error.contains("the states are DETECTED, PLANNED"),
        "{error}"
    );
}

#[test]
fn a_dry_run_and_a_scan_take_their_options() {
    let Ok(SplitsCommand::Add(add)) = parse(&["add", "p.t", "-1", "--dry-run", "--json"]) else {
        panic!("right");
    };
    assert!(add.dry_run && add.json);
    let error = parse(&["add", "p.t", "1", "--json"]).expect_err("of a plan only");
    assert!(error.contains("--dry-run"), "{error}");
    let Ok(SplitsCommand::Scan(scan)) = parse(&["scan", "p.t"]) else {
        panic!("right");
    };
    assert_eq!((scan.limit, scan.nominate, scan.json), (100, false, false));
    let words = ["scan", "p.t", "--nominate", "-l", "3", "--json"];
    let Ok(SplitsCommand::Scan(scan)) = parse(&words) else {
        panic!("right");
    };
    assert_eq!((scan.limit, scan.nominate, scan.json), (3, true, true));
    assert!(parse(&["scan"]).is_err());
}

#[test]
fn a_rollback_is_of_one_key_or_of_all() {
    for words in [
        &["rollback", "p.t", "1"][..],
        &["rollback", "--all", "p.t"],
        &["rollback", "p.t", "--all", "--yes"],
    ] {
        assert!(
            matches!(parse(words), Ok(SplitsCommand::Rollback(_))),
            "{words:?}"
        );
    }
    for words in [
        &["rollback", "p.t"][..],
        &["rollback", "p.t", "1", "--all"],
        &["rollback"],
        &["add", "p.t"],
        &["show", "p.t"],
        &["list", "--limit", "0"],
        &["pause"],
    ] {
        assert!(parse(words).is_err(), "{words:?}");
    }
}

#[test]
fn a_comparison_is_of_all_of_a_table_or_of_one() {
    let parse = |words: &str| Cli::try_parse_from(words.split(' ')).map(|cli| cli.command);
    for (words, table, keys, dry_run) in [
        ("narrows verify", None, 0, false),
        ("narrows verify p.t --dry-run", Some("p.t"), 0, true),
        (
            "narrows verify p.t 's' -7 --report-only --json",
            Some("p.t"),
            2,
            true,
        ),
    ] {
        let Ok(Command::Tool(Tool::Verify(verify))) = parse(words) else {
            panic!("{words}");
        };
        let found = (verify.table.as_deref(), verify.key.len(), verify.dry_run);
        assert_eq!(found, (table, keys, dry_run), "{words}");
    }
}

#[test]
fn modes_are_named() {
    let parse = |words: &str| Cli::try_parse_from(words.split(' ')).map(|cli| cli.command);
    for (words, expected) in [
        ("narrows mode p.t", None),
        ("narrows mode p.t detect", Some(Mode::Detect)),
    ] {
        assert!(
            matches!(parse(words), Ok(Command::Tool(Tool::Mode(ModeArguments { mode, .. }))) if mode == expected),
            "{words}"
        );
    }
    let error = parse("narrows mode p.t shadow")
        .expect_err("not yet")
        .to_string();
    assert!(
        error.contains("the modes are off, detect, serve"),
        "{error}"
    );
}
