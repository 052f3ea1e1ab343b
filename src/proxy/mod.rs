//! Client connections: from a client to upstream and back.
//!
//! In the order a request meets the files: `listener` accepts a client and hands it to one of the `threads`; `opening`
//! performs the handshake and dials an upstream node; `session` relays in two loops and is the file to read first.
//! `request` makes the `decision` about each request, `response` about each reply. Where tables are watched, `watching`
//! joins in: `split` answers SELECTs from splits, `late` checks writes against them, `sight` looks at replies that may
//! come from wide partitions. All of them write to the `wire`, the two connections of one session.
//!
//! The files import each other directly, without cycles (`tests/tidy` checks this).

mod agreement;
pub mod arrival;
mod beside;
mod concern;
mod decision;
mod events;
mod held;
mod hold;
mod late;
mod listed;
pub mod listener;
pub mod measure;
mod metrics;
pub mod mirror;
mod names;
mod opening;
mod outlet;
mod own;
mod pending;
mod prepared;
mod request;
mod response;
mod rights;
mod session;
mod sessions;
mod shared;
mod short_names;
mod sight;
mod source;
mod split;
mod system_tables;
pub mod threads;
mod topology;
mod watching;
mod wire;

pub use metrics::{Close, Metrics};
pub use prepared::{Registry, Statement};
pub use shared::Proxy;
pub(crate) use split::pages::SIDE_BY_SIDE;
pub use topology::Presented;
