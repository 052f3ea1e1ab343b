//! What is split: the control keyspace and all that is known of it, against real Cassandra.

mod control;
mod knowing;

mod fleet;
mod follow;
mod list;
mod lookup;
mod orphans;
mod shared;
mod split_tables;
mod store;
