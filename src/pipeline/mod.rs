//! The split pipeline: finds wide partitions, copies each into buckets, proves the copy equal, and puts it into service.
//!
//! All that a split has reached is in `wide_row`, so any worker may die at any line and another goes on. Nothing here ever
//! writes to an original. `proxy` and `pipeline` do not know each other: they meet in `wide_row`.

pub mod audit;
pub mod cells;
mod checksum;
pub mod cleanup;
mod closed;
pub mod copy;
pub mod detect;
mod fail_point;
pub mod finding;
pub mod lifetime;
pub mod metrics;
pub mod partition;
pub mod plan;
mod queue;
mod ranges;
pub mod report;
pub mod requests;
mod runner;
pub mod scan;
pub mod service;
pub mod settle;
mod stage;
pub mod strategy;
pub mod survey;
mod tally;
pub mod throttle;
pub mod verify;
pub mod work;
