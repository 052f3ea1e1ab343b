//! Writes to watched tables. In the order a request meets the files: `consider` gathers the partitions that the write
//! touches (`gather`, `touched`, `named`) and asks the filter about them; if one might be split, the request becomes a
//! `late_write`; `serve` retires the splits, forwards the write and waits for its reply; `after` has the write checked
//! once more (`in_flight`) before the client sees the reply. The `checker` holds what they share.
//!
//! The second check finds what the first cannot: a partition that was guarded while the write was in flight, however
//! long that took. A worker copies a generation only when every write that missed its guard is over or was checked
//! again. The proxy also remembers writes to unwatched tables by name, because such a table may begin to be watched
//! before the reply.

mod after;
pub(super) mod checker;
mod consider;
mod gather;
pub(super) mod in_flight;
pub(super) mod late_write;
mod named;
mod serve;
mod touched;
