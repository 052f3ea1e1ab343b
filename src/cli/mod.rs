//! The command line: `narrows run`, `check`, `schema`, `explain`, `splits`, `verify` and `mode`, and help that answers the first questions.

pub mod check;
pub mod exit;
pub mod explain;
pub mod mode;
pub mod probe;
pub mod schema;
pub mod splits;
mod terminal;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::watched::SHARDS_MAX;
use splits::arguments::{ModeArguments, SplitsCommand, Verify};

const EXAMPLES: &str = "\
Examples:
  narrows run                                   everything at its default
  narrows run --config /etc/narrows.toml
  narrows check --config /etc/narrows.toml      every mistake at once, nothing is started
  narrows schema print                          the control keyspace, for a DBA to read and run
  narrows explain \"SELECT …\"                  from where it would be answered, and why
  narrows splits list                           what is split, and what is on its way
  narrows verify plant.reading                  compare what is split with the originals now
  narrows mode plant.reading detect             find wide partitions, split and serve none
  NARROWS__UPSTREAM__CONTACT_POINTS=10.0.0.1,10.0.0.2 narrows run

Defaults:
  drivers connect to 127.0.0.1:9142, Cassandra is at 127.0.0.1:9042,
  /metrics, /livez and /readyz are on 127.0.0.1:9180

Settings come from the file, and over it from the environment: NARROWS__SECTION__KEY
is `key` below `[section]`; lists are separated by commas, and [[table]] entries come
from the file only. docker/narrows.toml in the source tree shows every setting with its
default.

Exit codes:
  0   stopped as asked, or the check found nothing wrong
  64  wrong configuration or command line; nothing was started
  65  `verify` found a split that is not equal to its original
  69  upstream unavailable, or of a version that is not supported
  70  internal error, please report it
  71  an address to listen on is taken or not ours
  78  the control keyspace is not as it must be, or may not be made by our role";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  narrows explain \"SELECT * FROM plant.reading WHERE sensor = 's1' AND day = 7 AND ts > 500\"
  narrows explain --keyspace plant --value \"'s1'\" --value 7 --value 500 \\
      \"SELECT * FROM reading WHERE sensor = ? AND day = ? AND ts > ?\"

Values are CQL constants: a text has quotes of its own within those of the shell, a list for
IN ? is \"(1, 2)\". Without values it says whether the statement could be answered from buckets,
whatever they are. Reads the control keyspace as of now, and no rows; changes nothing.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  narrows verify                                 all splits in service of all watched tables
  narrows verify plant.reading
  narrows verify plant.reading \"'s1'\" 7 --dry-run
  narrows verify --json | jq -r 'select(.result != \"equal\") | .key | join(\",\")'

Both sides are read whole at consistency ALL and compared cell by cell, as a worker does before a
split is read and every pipeline.audit_every after, with the pauses of pipeline.throttle. What
differs is read again for half a minute. If it still does, somebody wrote around the proxies: the
split goes out of service and the table to mode detect, unless --dry-run. Ctrl-C ends it with what
was found. Exit code 65: a difference; 69: something could not be compared, such as with a node
down.";

const MODE_EXAMPLES: &str = "\
Examples:
  narrows mode plant.reading             which it is, and what that means
  narrows mode plant.reading serve

  off     nothing is found or split; the originals answer all reads
  detect  wide partitions are found and reported; the originals answer all reads
  serve   wide partitions are split, and their reads answered from the splits

Splits stay as they are in every mode, and writes to them are checked in every mode: a table
can go back to serve at once. Proxies follow within a poll.";

/// A CQL sidecar in front of an unmodified Cassandra cluster
#[derive(Debug, Parser)]
#[command(name = "narrows", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve drivers until SIGTERM; SIGHUP reloads what can be reloaded
    #[command(
        after_help = "SIGTERM answers the requests in flight, within limits.drain_timeout, and exits 0.\n\
        SIGHUP reads the configuration again: log.level, the TLS files, limits.connections,\n\
        limits.idle_timeout and limits.drain_timeout change at once, the log names the rest."
    )]
    Run(ConfigFile),
    /// Split wide partitions in the background, without serving drivers
    #[command(
        after_help = "Any number of workers share the work, and any of them may die: what a split has reached is in the\n\
        control keyspace. SIGTERM lets what is under way leave its checkpoint and exits 0. pipeline.enabled is\n\
        for proxies; a worker works in any case."
    )]
    Worker(ConfigFile),
    /// Check the configuration and the cluster; bind nothing
    #[command(
        after_help = "Prints every mistake, one per line with the setting's name, and exits 64;\n\
        or shows what would run, and exits 0."
    )]
    Check(ConfigFile),
    /// Show or make the control keyspace, which says what is watched and split
    #[command(subcommand, arg_required_else_help = true)]
    Schema(SchemaCommand),
    /// Say what would happen to a SELECT, and why: forwarded, or answered from which buckets
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// See what is split and how far it is, add, roll back, pause
    #[command(subcommand, arg_required_else_help = true)]
    Splits(SplitsCommand),
    /// Compare what is split with the originals now; what differs goes out of service
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Verify),
    /// Show or change how far Narrows goes with a table: off, detect or serve
    #[command(after_help = MODE_EXAMPLES)]
    Mode(ModeArguments),
}

#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Print the CQL that makes it; needs no cluster
    #[command(
        after_help = "The keyspace name and its replication come from [control]; without control.replication,\n\
        the CQL has a default with a comment. Every statement is IF NOT EXISTS:\n\n  \
        narrows schema print --config narrows.toml > control.cql\n  \
        cqlsh -f control.cql"
    )]
    Print(ConfigFile),
    /// Make what is missing, leave what exists, and compare it with what Narrows needs
    #[command(
        after_help = "Uses the role in upstream.username, which needs CREATE only for what is missing. Without\n\
        control.replication a new keyspace is replicated like that of the first [[table]].\n\
        Nothing is altered or dropped: what differs is named, and ends with exit code 78."
    )]
    Apply(ConfigFile),
    /// Move a watched table to more shards, once it has very many splits
    #[command(
        after_help = "SHARDS is a power of two that the table never had; 16 are right up to about a million splits,\n\
        256 for ten million. All splits of the table go out of service first, and are made anew in time."
    )]
    Reshard(Reshard),
}

#[derive(Debug, Args)]
pub struct Reshard {
    /// keyspace.table, as Cassandra spells them
    pub table: String,
    /// A power of two, up to 4096
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: u32,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The statement, in quotes
    pub statement: String,
    /// The keyspace of tables that are named without one, as Cassandra spells it
    #[arg(short, long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// A bind marker's value, once for each in their order, or by their names
    #[arg(
        short,
        long = "value",
        value_name = "[NAME=]CONSTANT",
        allow_hyphen_values = true
    )]
    pub values: Vec<String>,
    #[command(flatten)]
    pub file: ConfigFile,
}

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// The TOML file; without it, defaults and NARROWS__SECTION__KEY variables apply
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Reads the arguments, the program's name first. `Err` is the exit code when there is nothing left to do: help or
/// version was printed, or the mistake was explained.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, u8> {
    Cli::try_parse_from(arguments).map_err(|error| {
        let wrong = error.use_stderr();
        let text = error.render().to_string();
        if wrong {
            print_error(&text);
            exit::CONFIGURATION
        } else {
            print(&text);
            exit::OK
        }
    })
}

/// Writes to stdout. A reader that went away, as in `narrows check | head -1`, is no reason to fail.
pub fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Writes to stderr, for what must be said before there is a log.
pub fn print_error(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse_words(line: &str) -> Result<Cli, u8> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn takes_a_file_or_none() {
        let run = parse_words("narrows run").expect("right");
        assert!(matches!(
            run.command,
            Command::Run(ConfigFile { config: None })
        ));
        let check = parse_words("narrows check --config x.toml").expect("right");
        assert!(
            matches!(check.command, Command::Check(ConfigFile { config: Some(path) }) if path.ends_with("x.toml"))
        );
    }

    #[test]
    fn schema_is_printed_or_applied() {
        let print = parse_words("narrows schema print").expect("right");
        assert!(matches!(
            print.command,
            Command::Schema(SchemaCommand::Print(ConfigFile { config: None }))
        ));
        let apply = parse_words("narrows schema apply -c x.toml").expect("right");
        assert!(matches!(
            apply.command,
            Command::Schema(SchemaCommand::Apply(ConfigFile { config: Some(path) })) if path.ends_with("x.toml")
        ));
    }

    #[test]
    fn a_statement_has_values_in_their_order() {
        let words = "narrows explain -v 's' --value=-5 -v k=-1 SELECT -k plant";
        let Ok(Command::Explain(explain)) = parse_words(words).map(|cli| cli.command) else {
            panic!("right");
        };
        assert_eq!(explain.values, ["'s'", "-5", "k=-1"]);
        assert_eq!(explain.statement, "SELECT");
        assert_eq!(explain.keyspace.as_deref(), Some("plant"));
    }

    #[test]
    fn help_ends_well_and_mistakes_end_with_64() {
        for line in [
            "narrows --version",
            "narrows --help",
            "narrows run --help",
            "narrows schema apply --help",
            "narrows explain --help",
            "narrows splits --help",
            "narrows splits rollback --help",
            "narrows verify --help",
            "narrows mode --help",
        ] {
            assert_eq!(parse_words(line).expect_err("printed"), exit::OK, "{line}");
        }
        for line in [
            "narrows",
            "narrows rnu",
            "narrows run --confg x",
            "narrows run x",
            "narrows schema",
            "narrows schema drop",
            "narrows explain",
            "narrows splits",
            "narrows splits drop",
            "narrows mode",
        ] {
            assert_eq!(
                parse_words(line).expect_err("explained"),
                exit::CONFIGURATION,
                "{line}"
            );
        }
    }
}
