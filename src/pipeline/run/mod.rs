//! Runs the stages: `service` is the thread, `runner` chooses splits from the `queue`, `work` takes one through its
//! stages under its lease, `stage` is one split at one stage, `report` saves its progress.

mod audits;
pub mod metrics;
mod queue;
pub mod report;
mod runner;
pub mod service;
mod stage;
mod tally;
pub mod work;
