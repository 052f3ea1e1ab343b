//! The record of splits: the control keyspace in Cassandra, the only truth about what is split.
//!
//! - `names`, `split_name`, `found_by`, `state`, `layout`: its types and their rules, all pure.
//! - `schema` creates the control keyspace, `store` reads and changes it, `open` connects to it.
//! - `clock` gives the wall-clock times that are recorded.
//!
//! `proxy`, `detect` and `pipeline` meet here: they exchange nothing except through the record.

pub mod clock;
pub mod found_by;
pub mod layout;
pub mod names;
pub mod open;
pub mod schema;
pub mod split_name;
pub mod state;
pub mod store;
