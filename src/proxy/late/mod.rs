//! Writes to watched tables. In the order a request meets the files: `consider` has the partitions gathered that it touches
//! (`gather`, `touched`, `named`) and holds them against the filter when it is about to be forwarded; where one might be
//! split, the request becomes a `late_write`; `serve` retires those splits, forwards the write and waits for its reply;
//! `after` checks once more (`in_flight`) before the client sees it.
//!
//! The second check closes what the first cannot: a partition that was guarded while the write was under way, however
//! long that took. A generation is copied only when every write that did not see its guard is over or was checked again.
//! Writes to tables that nobody watches are remembered, too, by the names that they have: somebody may by then.

mod after;
pub(super) mod checker;
mod consider;
mod gather;
pub(super) mod in_flight;
pub(super) mod late_write;
mod named;
mod serve;
mod touched;
