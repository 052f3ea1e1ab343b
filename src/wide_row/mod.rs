//! What is split: the durable record of every split partition, and everything a proxy knows about it.
//!
//! The truth is the table `wide_row` of the control keyspace. `names`, `state`, `layout`, `view` and `watched` are its nouns and
//! what follows from them, all pure. `schema` makes the keyspace, `store` speaks with it. This is where `proxy` and
//! `pipeline` meet: neither imports the other.

pub mod breaker;
pub mod cache;
pub mod clock;
pub mod freshness;
pub mod layout;
pub mod names;
pub mod schema;
pub mod shared_cache;
pub mod state;
pub mod store;
pub mod validate;
pub mod view;
pub mod watched;
