//! What is split: the durable record of every split partition, and everything a proxy knows about it.
//!
//! The truth is the table `wide_row` of the control keyspace. `names` and `state` are its nouns and what may follow
//! what, both pure. This is where `proxy` and `pipeline` meet: neither imports the other.

pub mod clock;
pub mod freshness;
pub mod names;
pub mod state;
pub mod store;
pub mod view;
