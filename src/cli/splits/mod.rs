//! `narrows splits`: one file per command. These commands write only the control keyspace, never an original or a
//! bucket; `add --dry-run` and `scan` read originals. `stage` says how far a split is.

mod add;
mod dry_run;
mod list;
mod pause;
mod rollback;
mod scan;
mod show;
mod stage;
mod watch;

use clap::Subcommand;

use super::control::Control;

#[derive(Debug, Subcommand)]
pub enum SplitsCommand {
    List(list::List),
    Show(show::Show),
    Watch(watch::Watch),
    Rollback(rollback::Rollback),
    Add(add::Add),
    Scan(scan::Scan),
    /// Stop work on the splits of a table; splits in service stay in service
    #[command(after_help = pause::PAUSE_HELP)]
    Pause(pause::OneTable),
    /// Continue work on the splits of a paused table
    #[command(after_help = pause::RESUME_HELP)]
    Resume(pause::OneTable),
}

pub(super) async fn run(control: &Control<'_>, command: &SplitsCommand) -> anyhow::Result<String> {
    match command {
        SplitsCommand::List(list) => list::list(control, list).await,
        SplitsCommand::Show(show) => show::show(control, show).await,
        SplitsCommand::Watch(watch) => watch::watch(control, watch).await,
        SplitsCommand::Rollback(rollback) => rollback::rollback(control, rollback).await,
        SplitsCommand::Add(add) => add::add(control, add).await,
        SplitsCommand::Scan(scan) => scan::scan(control, scan).await,
        SplitsCommand::Pause(pause) => pause::pause(control, &pause.table).await,
        SplitsCommand::Resume(resume) => pause::resume(control, &resume.table).await,
    }
}

#[cfg(test)]
mod tests;
