//! The split pipeline: copies wide partitions into buckets, proves each copy equal, and puts it into service.
//!
//! Each stage has a folder or file. In the order in which a split goes through them, they are `plan`, `settle`, `copy`,
//! `verify`, `audit` and `cleanup`. `run` takes splits through the stages; start reading at `run/stage.rs`. `original`
//! is how all of them read an original. `detect`, which finds wide partitions, is a room of its own, because a proxy
//! also detects without a pipeline.
//!
//! The progress of a split is recorded in `wide_row`, so a worker may die at any line and another continues. Nothing
//! here ever writes to an original. `proxy` and `pipeline` do not know each other: they meet in `wide_row`.

pub mod run;

pub mod audit;
pub mod cleanup;
pub mod copy;
pub mod plan;
pub mod settle;
pub mod verify;

pub mod original;

mod fail_point;
