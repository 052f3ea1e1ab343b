//! The binary: reads the arguments and the configuration, then runs the command. No port is bound before the
//! configuration is valid.

use std::path::PathBuf;
use std::process::ExitCode;

use narrows::app;
use narrows::cli::{self, Cli, Command, Tool, check, exit};
use narrows::config::{self, Config};
use narrows::process::AppError;
use narrows::telemetry::{logs, metrics};
use narrows::worker;

fn main() -> ExitCode {
    let code = match cli::parse(std::env::args_os()) {
        Ok(cli) => act(cli),
        Err(code) => code,
    };
    ExitCode::from(code)
}

/// Runs a command, and returns its exit code.
fn act(cli: Cli) -> u8 {
    let config = match check::configuration(cli.config.as_deref(), config::environment()) {
        Ok(config) => config,
        Err(mistakes) => {
            cli::print_error(&mistakes);
            return exit::CONFIGURATION;
        }
    };
    match cli.command {
        Command::Run => run(config, cli.config),
        Command::Worker => work(config),
        Command::Tool(tool) => once(&config, &tool),
    }
}

fn run(config: Config, file: Option<PathBuf>) -> u8 {
    let logs = logs::init(&config.log);
    let metrics = metrics::install();
    ended(block_on(app::run(config, file, logs, metrics)))
}

fn work(config: Config) -> u8 {
    logs::init(&config.log);
    let metrics = metrics::install();
    ended(block_on(worker::run(config, metrics)))
}

fn ended(result: Result<(), AppError>) -> u8 {
    match result {
        Ok(()) => exit::OK,
        Err(error) => {
            tracing::error!("{error}");
            match error {
                AppError::Listen { .. } => exit::CANNOT_LISTEN,
                AppError::Tls(_) => exit::CONFIGURATION,
                AppError::Io(_) => exit::INTERNAL,
            }
        }
    }
}

/// Prints what a command found or did, or its error.
fn once(config: &Config, tool: &Tool) -> u8 {
    match block_on(async { Ok(cli::run(config, tool).await) }) {
        Ok(Ok(report)) => {
            cli::print(&report);
            exit::OK
        }
        Ok(Err(error)) => {
            cli::print_error(&exit::describe(&error));
            exit::code(&error)
        }
        Err(error) => {
            cli::print_error(&exit::describe(&error.into()));
            exit::INTERNAL
        }
    }
}

fn block_on<T>(future: impl Future<Output = Result<T, AppError>>) -> Result<T, AppError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(future)
}
