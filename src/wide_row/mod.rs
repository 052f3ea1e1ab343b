//! The record of splits: the control keyspace in Cassandra, the only truth about what is split.
//!
//! - `names`, `split_name`, `state`, `layout`: its nouns and what follows from them, all pure.
//! - `schema` makes the control keyspace, `store` reads and changes it, `open` connects to it.
//! - `clock` gives the times that are written down.
//!
//! `proxy`, `detect` and `pipeline` meet here: none of them tells another anything that is not in the record.

pub mod clock;
pub mod layout;
pub mod names;
pub mod open;
pub mod schema;
pub mod split_name;
pub mod state;
pub mod store;
