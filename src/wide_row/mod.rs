//! What is split: the durable record of every split partition, and everything a proxy knows about it.
//!
//! The truth is the table `wide_row` of the control keyspace.
//! - `names`, `split_name`, `state`, `layout`, `view`, `watched`: its nouns and what follows from them, all pure.
//! - `schema` makes the keyspace, `store` speaks with it.
//! - `follow` keeps a proxy's knowledge (`known`) fresh; `freshness` and `clock` say how fresh; `snapshot` keeps filters over
//!   a restart.
//! - `lookup` answers whether a partition is split: `validate` asks for the shard's version, `cache` and `shared_cache`
//!   for the layout.
//! - `guards` takes what is written out of its split.
//! - `sighting` carries what sessions see of wide partitions to the pipeline.
//! - `service` runs all of it beside the proxy.
//!
//! This is where `proxy` and `pipeline` meet: neither imports the other.

pub mod breaker;
pub mod cache;
pub mod clock;
pub mod follow;
pub mod freshness;
pub mod guards;
pub mod known;
pub mod layout;
pub mod lookup;
pub mod metrics;
pub mod names;
pub mod schema;
pub mod service;
pub mod shared_cache;
pub mod sighting;
pub mod slot;
pub mod snapshot;
pub mod split_name;
pub mod state;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
pub mod validate;
pub mod view;
pub mod watched;
