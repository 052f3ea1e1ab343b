//! The split pipeline: copies wide partitions into buckets, proves each copy equal, and puts it into service.
//!
//! A folder or file per stage, in the order in which a split meets them: `plan`, `settle`, `copy`, `verify`, `audit`, `cleanup`.
//! `run` takes splits through them; start reading at `run/stage.rs`. `original` is how all of them read an original.
//! `detect`, which finds wide partitions, is a room of its own: a proxy detects without a pipeline, too.
//!
//! All that a split has reached is in `wide_row`, so any worker may die at any line and another goes on. Nothing here ever
//! writes to an original. `proxy` and `pipeline` do not know each other: they meet in `wide_row`.

pub mod run;

pub mod audit;
pub mod cleanup;
pub mod copy;
pub mod plan;
pub mod settle;
pub mod verify;

pub mod original;

mod fail_point;
