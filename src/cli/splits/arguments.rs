//! The arguments of `narrows splits` and `narrows mode`, with help that shows how they are used.

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::ConfigFile;
use crate::watched::Mode;
use crate::wide_row::state::State;

const KEYS_HELP: &str = "\
A key is given as CQL constants, one for each column of the partition key: a text has quotes
of its own within those of the shell, 0x… stands for the bytes of a value.";

#[derive(Debug, Subcommand)]
pub enum SplitsCommand {
    /// List splits with their state and how far they are, the latest change first
    #[command(after_help = "\
Examples:
  narrows splits list
  narrows splits list plant.reading --state failed
  narrows splits list --json --limit 1000 | jq -r 'select(.in_service) | .key | join(\",\")'

SIZE is that of the original; until it is measured, of the scan that found it. A state in
brackets went out of service with its whole table.")]
    List(List),
    /// Show all that is known of one split, what it means and what to do next
    #[command(after_help = format!("\
Examples:
  narrows splits show plant.reading \"'s1'\" 7
  narrows splits show plant.reading --keys hex 0x000273310000040000000700

{KEYS_HELP}"))]
    Show(Show),
    /// Follow what is under way: stage, percent, pace and time left
    #[command(after_help = "\
Examples:
  narrows splits watch                            until Ctrl-C, redrawn in place
  narrows splits watch plant.reading --until-done
  narrows splits watch | tee splits.log           a line for each change

Under way is what is between DETECTED and VERIFYING and does not wait: for a time that must
come first, for `narrows splits resume`, or for mode serve.")]
    Watch(Watch),
    /// Take a split, or all of a table, out of service at once
    #[command(after_help = format!("\
Examples:
  narrows splits rollback plant.reading \"'s1'\" 7
  narrows splits rollback --all plant.reading --yes

From then on the original answers; it has every row and was never changed. Buckets are removed
after a day. {KEYS_HELP}"))]
    Rollback(Rollback),
    /// Nominate a partition by hand, also one whose last attempt failed
    #[command(after_help = format!("\
Examples:
  narrows splits add plant.reading \"'s1'\" 7
  narrows splits add plant.reading \"'s1'\" 7 --dry-run
  narrows splits add plant.reading \"'s1'\" 7 --dry-run --json | jq '.buckets | length'

It is measured first: a partition that is not wide, or cannot be copied exactly, is left as
it is, and `narrows splits show` says why. With --dry-run it is measured here and now, by
reading all of it at consistency ALL, and nothing is written. {KEYS_HELP}"))]
    Add(Add),
    /// Look through a whole table for wide partitions
    #[command(after_help = "\
Examples:
  narrows splits scan plant.reading                   those that are wide, and what is known of them
  narrows splits scan plant.reading --nominate        nominates each when it is found
  narrows splits scan plant.reading --json | jq -r '.key | join(\",\")'

Wide partitions are found when they are read through a proxy; this finds the others, and it costs
what it says: it reads every partition once at consistency ONE, of a wide one the first wide_bytes,
with the pauses of pipeline.throttle and no faster than pipeline.bytes_per_second. Ctrl-C ends it
with what was found so far.")]
    Scan(Scan),
    /// Begin no further stage of any split of a table; reads go on
    #[command(after_help = "\
Examples:
  narrows splits pause plant.reading

What is split stays in service, and writes are checked as before. Stages under way stop at
their next checkpoint or end. `narrows splits resume` lets them go on where they were.")]
    Pause(OneTable),
    /// Let the splits of a paused table go on
    Resume(OneTable),
}

impl SplitsCommand {
    pub fn file(&self) -> &ConfigFile {
        match self {
            Self::List(list) => &list.file,
            Self::Show(show) => &show.file,
            Self::Watch(watch) => &watch.file,
            Self::Rollback(rollback) => &rollback.file,
            Self::Add(add) => &add.file,
            Self::Scan(scan) => &scan.file,
            Self::Pause(table) | Self::Resume(table) => &table.file,
        }
    }
}

/// How keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyForm {
    /// CQL constants
    Cql,
    /// The serialized key as Cassandra hashes it
    Hex,
}

#[derive(Debug, Args)]
pub struct List {
    /// keyspace.table, as Cassandra spells them; without it, all watched tables
    pub table: Option<String>,
    /// Only those in this state, such as COPYING or FAILED
    #[arg(short, long, value_parser = state)]
    pub state: Option<State>,
    /// At most so many
    #[arg(short, long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// How keys are written
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Show {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    /// The partition's key
    #[arg(required = true, allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// How the key is written
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Watch {
    /// keyspace.table, as Cassandra spells them; without it, all watched tables
    pub table: Option<String>,
    /// Exit 0 once nothing is under way
    #[arg(long)]
    pub until_done: bool,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Rollback {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    /// The partition's key
    #[arg(
        required_unless_present = "all",
        conflicts_with = "all",
        allow_negative_numbers = true
    )]
    pub key: Vec<String>,
    /// All splits of the table
    #[arg(long)]
    pub all: bool,
    /// With --all: do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// How the key is written
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Add {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    /// The partition's key
    #[arg(required = true, allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// Only plan it: read it, tell what would be done, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: the plan as one JSON object
    #[arg(long, requires = "dry_run")]
    pub json: bool,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Scan {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    /// Nominate those that are found
    #[arg(long)]
    pub nominate: bool,
    /// Stop after so many
    #[arg(short, long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// keyspace.table, as Cassandra spells them; without it, all watched tables
    pub table: Option<String>,
    /// One partition's key; without it, all splits of the table that are in service
    #[arg(allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// Only report: what differs stays in service
    #[arg(long, visible_alias = "report-only")]
    pub dry_run: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// How the key is written
    #[arg(long, value_enum, default_value_t = KeyForm::Cql, value_name = "FORM")]
    pub keys: KeyForm,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct OneTable {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct ModeArguments {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    /// off, detect or serve; without it, the mode is shown
    #[arg(value_parser = mode)]
    pub mode: Option<Mode>,
    #[command(flatten)]
    pub file: ConfigFile,
}

fn state(text: &str) -> Result<State, String> {
    let name = text.to_uppercase().replace('-', "_");
    let names = State::ALL.map(State::as_str).join(", ");
    State::parse(&name).ok_or_else(|| format!("there are {names}"))
}

fn mode(text: &str) -> Result<Mode, String> {
    let names = Mode::ALL.map(Mode::as_str).join(", ");
    Mode::parse(text).ok_or_else(|| format!("there are {names}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(words: &[&str]) -> Result<SplitsCommand, String> {
        let words = ["narrows", "splits"].iter().chain(words);
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Splits(command)) => Ok(command),
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
        assert!(
            show.file
                .config
                .is_some_and(|file| file.ends_with("x.toml"))
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
        assert_eq!((list.state, list.limit), (Some(State::NotWide), 7));
        assert_eq!((list.json, list.keys), (true, KeyForm::Hex));
        let error = parse(&["list", "--state", "done"]).expect_err("no state");
        assert!(error.contains("there are DETECTED, PLANNED"), "{error}");
    }

    #[test]
    fn a_dry_run_and_a_scan_take_their_options() {
        let Ok(SplitsCommand::Add(add)) = parse(&["add", "p.t", "-1", "--dry-run", "--json"])
        else {
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
            let Ok(Command::Verify(verify)) = parse(words) else {
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
                matches!(parse(words), Ok(Command::Mode(ModeArguments { mode, .. })) if mode == expected),
                "{words}"
            );
        }
        let error = parse("narrows mode p.t shadow")
            .expect_err("not yet")
            .to_string();
        assert!(error.contains("there are off, detect, serve"), "{error}");
    }
}
