//! The binary: arguments, configuration, logs, then [`narrows::app`]. Nothing is bound before the configuration is right.

use std::fmt::Display;
use std::process::ExitCode;

use narrows::app;
use narrows::cli::{
    self, Command, ConfigFile, SchemaCommand, check, exit, explain, mode, probe, schema, splits,
};
use narrows::config::{self, Config};
use narrows::process::AppError;
use narrows::telemetry::{logs, metrics};
use narrows::worker;

fn main() -> ExitCode {
    let code = match cli::parse(std::env::args_os()) {
        Ok(cli) => act(cli.command).unwrap_or_else(|code| code),
        Err(code) => code,
    };
    ExitCode::from(code)
}

/// `Err` where the configuration is wrong; a code either way.
fn act(command: Command) -> Result<u8, u8> {
    Ok(match command {
        Command::Run(file) => run(load(&file)?, file),
        Command::Worker(file) => work(load(&file)?),
        Command::Check(file) => check(&load(&file)?),
        Command::Schema(SchemaCommand::Print(file)) => print_schema(&load(&file)?),
        Command::Schema(SchemaCommand::Apply(file)) => {
            let config = load(&file)?;
            report(schema::apply(&config), schema::ApplyError::exit_code)
        }
        Command::Schema(SchemaCommand::Reshard(to)) => {
            let config = load(&to.file)?;
            let reshard = schema::reshard(&config, &to.table, to.shards);
            report(reshard, schema::ApplyError::exit_code)
        }
        Command::Explain(command) => {
            let config = load(&command.file)?;
            let explained = explain::explain(&config, &command);
            report(explained, explain::ExplainError::exit_code)
        }
        Command::Splits(command) => {
            let config = load(command.file())?;
            let done = splits::run(&config, &command);
            report(done, splits::SplitsError::exit_code)
        }
        Command::Verify(command) => {
            let config = load(&command.file)?;
            let done = splits::verify(&config, &command);
            report(done, splits::SplitsError::exit_code)
        }
        Command::Mode(command) => {
            let config = load(&command.file)?;
            let done = mode::mode(&config, &command);
            report(done, splits::SplitsError::exit_code)
        }
    })
}

fn load(file: &ConfigFile) -> Result<Config, u8> {
    check::configuration(file.config.as_deref(), config::environment()).map_err(|mistakes| {
        cli::print_error(&mistakes);
        exit::CONFIGURATION
    })
}

fn run(config: Config, file: ConfigFile) -> u8 {
    let logs = logs::init(&config.log);
    let metrics = metrics::install();
    ended(block_on(app::run(config, file.config, logs, metrics)))
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

fn check(config: &Config) -> u8 {
    cli::print(&check::summary(config));
    report(probe::probe(config), |_| exit::UPSTREAM_UNAVAILABLE)
}

fn print_schema(config: &Config) -> u8 {
    cli::print(&schema::print(config));
    exit::OK
}

/// Prints what a command did or found out, or its error, which says the exit code.
fn report<E: Display>(
    command: impl Future<Output = Result<String, E>>,
    exit_code: fn(&E) -> u8,
) -> u8 {
    match block_on(async { Ok(command.await) }) {
        Ok(Ok(report)) => {
            cli::print(&report);
            exit::OK
        }
        Ok(Err(error)) => {
            cli::print_error(&format!("{error}\n"));
            exit_code(&error)
        }
        Err(error) => {
            cli::print_error(&format!("{error}\n"));
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
