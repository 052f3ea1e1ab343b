//! Answers a SELECT of one partition from its buckets, as if from the original. Pure: no sockets, no clock.
//!
//! In the order a SELECT meets the files: `readable` says whether it can be answered at all, `bind` which partitions it
//! reads and how many rows, `bounds` which buckets can have them, `render` what each bucket is asked, `aggregate` joins
//! what COUNT, MIN and MAX found. What cannot be answered exactly has a [`Reason`], and goes to the original.
//! On the way back `rows` and `metadata` put the client's reply together, and `state` says where its scan stands; `native`
//! says the same in Cassandra's words. Of writes, `written` says which partitions they are to.

pub mod aggregate;
pub mod bind;
pub mod bounds;
mod functions;
pub mod keyed;
pub mod metadata;
pub mod native;
pub mod pageable;
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
