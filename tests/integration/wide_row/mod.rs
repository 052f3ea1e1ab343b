//! What is split: the control keyspace and all that is known of it, against real Cassandra.

mod control;
mod knowing;

mod follow;
mod list;
mod lookup;
mod shared;
mod store;
