//! The command line: arguments, help, and one file or folder per command, named after the command.
//!
//! [`Tool`]s do one thing and end; `narrows run` and `narrows worker` are in [`crate::app`] and [`crate::worker`]. Keys
//! are printed for the operator who asks and are never logged.

pub mod check;
mod confirm;
mod constant;
mod control;
pub mod exit;
mod explain;
mod format;
mod key;
mod mode;
mod moment;
mod schema;
mod splits;
mod terminal;
mod unwatch;
mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tokio::task::LocalSet;

use crate::config::Config;
use control::Control;

const EXAMPLES: &str = "\
Examples:
  narrows run                                   with all defaults
  narrows run --config /etc/narrows.toml
  narrows check --config /etc/narrows.toml      list every mistake; start nothing
  narrows schema print                          the CQL of the control keyspace, for a DBA
  narrows explain \"SELECT …\"                    where the answer would come from, and why
  narrows splits list                           list splits with their state and progress
  narrows verify plant.reading                  compare splits with their originals now
  narrows mode plant.reading detect             report wide partitions, but split and serve none
  NARROWS__UPSTREAM__CONTACT_POINTS=10.0.0.1,10.0.0.2 narrows run

Defaults:
  drivers connect to 127.0.0.1:9142, Cassandra is at 127.0.0.1:9042,
  /metrics, /livez and /readyz are on 127.0.0.1:9180

Settings come from the file, and environment variables override them: NARROWS__SECTION__KEY sets
`key` in `[section]`. Separate the items of a list with commas. [[table]] entries can only be in the
file. docker/narrows.toml in the source tree shows every setting with its default.

Exit codes:
  0   stopped as asked, or the command succeeded
  64  wrong configuration or command line, or the command refused; nothing was started
  65  `verify` found a split that is not equal to its original
  69  Cassandra is unavailable, or its version is not supported
  70  internal error, please report it
  71  cannot listen on an address: it is in use, or does not belong to this host
  78  the control keyspace is missing or incompatible, or Narrows' role may not create it";

/// A sidecar for Apache Cassandra that splits wide partitions and answers reads from the splits
#[derive(Debug, Parser)]
#[command(name = "narrows", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// The TOML file with the settings; without it, defaults and NARROWS__SECTION__KEY variables apply
    #[arg(short, long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve drivers until SIGTERM
    #[command(after_help = "\
Example:
  narrows run --config /etc/narrows.toml

On SIGTERM or SIGINT, the proxy stops accepting connections, answers the requests in flight within
limits.drain_timeout, and exits 0. On SIGHUP, it reads the configuration again: log.level, the TLS
files, limits.connections, limits.idle_timeout and limits.drain_timeout change at once, and the log
names the changed settings that need a restart.

Changes: with a [[table]], the proxy writes to the control keyspace: the watched tables, the wide
partitions that it finds, and the splits that it takes out of service. With pipeline.enabled, it
also splits wide partitions. Only clients write to the watched tables themselves.")]
    Run,
    /// Split wide partitions in the background, without serving drivers
    #[command(after_help = "\
Example:
  narrows worker --config /etc/narrows.toml

Any number of workers share the work. The control keyspace holds the progress of each split, so if a
worker dies, another one continues from the last checkpoint. SIGTERM saves a checkpoint of the
splits in progress and exits 0. A worker ignores pipeline.enabled, which is a setting for `narrows
run`. On the host of a proxy it needs an admin.listen of its own.

Changes: writes the control keyspace, and split tables in the keyspaces of the watched tables. It
only reads the originals.")]
    Worker,
    #[command(flatten)]
    Tool(Tool),
}

/// Commands that do one thing and end.
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// Check the configuration and the cluster
    #[command(after_help = "\
Example:
  narrows check --config /etc/narrows.toml

Prints every mistake, one per line with the name of the setting, and exits 64. Without mistakes, it
shows what would run, connects to the cluster, lists its nodes and exits 0; it exits 69 if the
cluster is unavailable or too old. It warns of watched tables that do not exist, and of keyspaces
with so few replicas that the loss of one node matters. Whether a partition can be split is for
`narrows splits add --dry-run` to say.

Changes: nothing; it binds no port.")]
    Check,
    /// Print or create the control keyspace, which records what is watched and split
    #[command(subcommand, arg_required_else_help = true)]
    Schema(schema::SchemaCommand),
    Explain(explain::Explain),
    /// List, show, follow, add, find, roll back, pause or resume splits
    #[command(subcommand, arg_required_else_help = true)]
    Splits(splits::SplitsCommand),
    Verify(verify::Verify),
    Mode(mode::ModeArguments),
    Unwatch(unwatch::UnwatchArguments),
}

/// Runs a command and returns its output.
pub async fn run(config: &Config, tool: &Tool) -> anyhow::Result<String> {
    let run = async {
        match tool {
            Tool::Check => check::check(config).await,
            Tool::Schema(command) => schema::run(config, command).await,
            Tool::Explain(command) => explain::explain(config, command).await,
            Tool::Splits(command) => splits::run(&Control::open(config).await?, command).await,
            Tool::Verify(command) => verify::verify(&Control::open(config).await?, command).await,
            Tool::Mode(command) => mode::mode(&Control::open(config).await?, command).await,
            Tool::Unwatch(command) => {
                unwatch::unwatch(&Control::open(config).await?, command).await
            }
        }
    };
    // Connections that read originals live on one thread.
    LocalSet::new().run_until(run).await
}

/// Reads the arguments, the program's name first. `Err` is the exit code if nothing is left to do: clap printed help or
/// the version, or explained a mistake.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, u8> {
    Cli::try_parse_from(arguments).map_err(|error| {
        let text = error.render().to_string();
        if error.use_stderr() {
            print_error(&text);
            exit::CONFIGURATION
        } else {
            print(&text);
            exit::OK
        }
    })
}

/// Writes to stdout. Ignores errors, because the reader may have gone away, as in `narrows check | head -1`.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to stderr, which is for errors and progress; results go to stdout.
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
    fn the_file_stands_before_or_behind_the_command() {
        assert_eq!(parse_words("narrows run").expect("right").config, None);
        for line in [
            "narrows check --config x.toml",
            "narrows -c x.toml check",
            "narrows schema apply -c x.toml",
            "narrows splits show p.t 's' -7 -c x.toml",
        ] {
            let path = parse_words(line).expect("right").config;
            assert!(path.is_some_and(|path| path.ends_with("x.toml")), "{line}");
        }
    }

    #[test]
    fn a_statement_has_values_in_their_order() {
        let words = "narrows explain -v 's' --value=-5 -v k=-1 SELECT -k plant";
        let Ok(Command::Tool(Tool::Explain(explain))) = parse_words(words).map(|cli| cli.command)
        else {
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
