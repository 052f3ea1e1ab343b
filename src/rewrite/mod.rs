//! Answers a SELECT of one partition from its buckets, as if from the original. Pure: no sockets, no clock.
//!
//! A SELECT meets the files in this order: `readable` decides whether it can be answered at all, `bind` finds the
//! partitions and limits, `bounds` chooses the buckets that can hold its rows, `render` writes the statement for a
//! bucket, and `aggregate` joins the results of COUNT, MIN and MAX. A SELECT that cannot be answered exactly gets a
//! [`Reason`] and goes to the original. On the way back, `rows` and `metadata` compose the client's reply, and `state`
//! is our paging state, the position of the scan; `native` is the same in Cassandra's format. `written` finds the
//! partitions of writes.

pub mod aggregate;
pub mod bind;
pub mod bounds;
mod functions;
pub mod keyed;
pub mod metadata;
pub mod native;
pub mod pageable;
pub mod queried;
pub mod readable;
mod reason;
pub mod render;
pub mod rows;
mod selection;
pub mod state;
mod vint;
pub mod warnings;
pub mod written;

#[cfg(test)]
mod tests;

pub use readable::Readable;
pub use reason::Reason;
